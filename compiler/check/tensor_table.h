// A manifest's tensors against a checkpoint's own headers: names, dtypes and sizes. No payload is read.
#ifndef MESHSEAL_COMPILER_CHECK_TENSOR_TABLE_H_
#define MESHSEAL_COMPILER_CHECK_TENSOR_TABLE_H_

#include "compiler/manifest/manifest.h"
#include "compiler/text/diagnostic.h"
#include "schema/checkpoint_listing.h"

namespace meshseal::compiler {

// Reports every violation of the rules of stage `files` (rules.def). `model` must hold the rules of the check stage.
void CheckTensorTable(const Manifest& model, const CheckpointListing& files, Diagnostics& diagnostics);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_CHECK_TENSOR_TABLE_H_

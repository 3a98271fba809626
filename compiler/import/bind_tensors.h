// Facts about a model and its tensors -> the manifest's groups of layers, ignored patterns and what is not MoE.
#ifndef MESHSEAL_COMPILER_IMPORT_BIND_TENSORS_H_
#define MESHSEAL_COMPILER_IMPORT_BIND_TENSORS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "compiler/import/model_facts.h"
#include "compiler/import/quantization.h"
#include "schema/checkpoint_listing.h"
#include "schema/safetensors_index.h"

namespace meshseal::compiler {

// What is known of a checkpoint's tensors. At most one of the two is set.
struct TensorNames {
  std::string place;                           // the checkpoint, for messages
  const CheckpointListing* listing = nullptr;  // names, dtypes and shapes
  const SafetensorsIndex* index = nullptr;     // names alone
};

// Every tensor that is known must be read by a role, belong to an extra block, or be matched by an ignored pattern of
// the family, and every tensor that a role reads must be known. Dtypes are those of the files, or without a listing
// those that the family and `quantization` give; `other_weights` is the size of what no role reads, extra blocks left
// out, and 0 without a listing. `quantization` is absent for GGUF. Reason::kImport: a tensor that is missing, that
// nothing covers, or whose dtype does not fit its role.
absl::Status BindTensors(const TensorNames& names, const std::optional<Quantization>& quantization, ModelFacts& facts);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_IMPORT_BIND_TENSORS_H_

// A manifest's tensors in the words of a plan: what checks of files, digests and plans have in common.
#ifndef MESHSEAL_COMPILER_CHECK_TENSOR_CLASSES_H_
#define MESHSEAL_COMPILER_CHECK_TENSOR_CLASSES_H_

#include <vector>

#include "compiler/manifest/manifest.h"
#include "schema/plan.h"

namespace meshseal::compiler {

// Sides in the order of SidesOf.
TensorClass TensorClassOf(const TensorSpec& spec);

// The tensors that steps read, in the order of their roles, whatever the order in the manifest.
std::vector<TensorClass> TensorClassesOf(const MoeSpec& moe);

// What says how the group's tensors are stored: layers, sizes and tensors. The rest of the class is not there.
LayerClass StoredLayersOf(const LayerGroup& group);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_CHECK_TENSOR_CLASSES_H_

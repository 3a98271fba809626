#include "compiler/manifest/manifest.h"

namespace meshseal::compiler {

const TensorSpec* MoeSpec::FindTensor(TensorRole role) const {
  for (const TensorSpec& tensor : tensors) {
    if (tensor.role.value == role) return &tensor;
  }
  return nullptr;
}

uint64_t MeshSpec::SlotCount() const {
  uint64_t slots = 0;
  for (const NodeSpec& node : nodes) slots += node.slots.value;
  return slots;
}

const DeviceKindSpec* MeshSpec::FindKind(absl::string_view kind_name) const {
  for (const DeviceKindSpec& kind : device_kinds) {
    if (kind.name.value == kind_name) return &kind;
  }
  return nullptr;
}

}  // namespace meshseal::compiler

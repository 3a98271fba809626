// A tensor as a weights file's header lists it. Both readers return these, sorted by name.
#ifndef MESHSEAL_SCHEMA_TENSOR_ENTRY_H_
#define MESHSEAL_SCHEMA_TENSOR_ENTRY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/dtype.h"

namespace meshseal {

struct TensorEntry {
  std::string name;
  DType dtype = DType::kInvalid;
  // Slowest axis first (GGUF's `ne` reversed); empty for a scalar. Where a GGUF writer has dropped slowest axes of
  // extent 1, they stay dropped.
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // place in the file in bytes; safetensors promises no alignment
  uint64_t end = 0;    // exclusive; end - begin is the size of `shape` elements of `dtype`
};

// The entry of that name in `entries`, which are sorted by name; a refusal (kWeightsTensor) that names the nearest one
// otherwise. `file` names the file in it.
absl::StatusOr<const TensorEntry*> FindTensor(absl::string_view file, absl::Span<const TensorEntry> entries,
                                              absl::string_view name);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_TENSOR_ENTRY_H_

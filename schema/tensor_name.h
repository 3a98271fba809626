// Names and patterns of checkpoint tensors, as manifests write them.
#ifndef MESHSEAL_SCHEMA_TENSOR_NAME_H_
#define MESHSEAL_SCHEMA_TENSOR_NAME_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace meshseal {

// `pattern` with {layer} and {expert} replaced by decimal numbers.
std::string TensorName(absl::string_view pattern, uint32_t layer, uint32_t expert);

// Whether `name` is one of `pattern`'s: {layer} and {expert} stand for a decimal number without leading zeros, * for
// any run of characters, everything else for itself.
bool MatchesPattern(absl::string_view pattern, absl::string_view name);

// Whether some name is of both patterns.
bool PatternsOverlap(absl::string_view a, absl::string_view b);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_TENSOR_NAME_H_

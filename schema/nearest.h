// "did you mean": the known word that lies nearest to a mistyped one. For keys, flags and rule slugs.
#ifndef MESHSEAL_SCHEMA_NEAREST_H_
#define MESHSEAL_SCHEMA_NEAREST_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace meshseal {

// The candidate with the fewest edits from `word`: insert, delete or replace one byte, or swap two neighbours
// (the Damerau-Levenshtein distance with no byte edited twice). Nothing when that takes more than max(1,
// |word| / 3) edits; the first of equals. The result is a view of the candidate.
std::optional<absl::string_view> Nearest(absl::string_view word, absl::Span<const absl::string_view> candidates);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_NEAREST_H_

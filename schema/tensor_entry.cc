#include "schema/tensor_entry.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "schema/nearest.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"

namespace meshseal {

absl::StatusOr<const TensorEntry*> FindTensor(absl::string_view file, absl::Span<const TensorEntry> entries,
                                              absl::string_view name) {
  const auto at =
      std::lower_bound(entries.begin(), entries.end(), name,
                       [](const TensorEntry& entry, absl::string_view wanted) { return entry.name < wanted; });
  if (at != entries.end() && at->name == name) return &*at;
  std::vector<absl::string_view> names;
  names.reserve(entries.size());
  for (const TensorEntry& entry : entries) names.push_back(entry.name);
  const std::optional<absl::string_view> nearest = Nearest(name, names);
  return Refuse(Reason::kWeightsTensor,
                absl::StrCat(file, ": tensor ", QuotedName(name), ": not in the file",
                             nearest.has_value() ? absl::StrCat(", did you mean ", QuotedName(*nearest), "?") : ""));
}

}  // namespace meshseal

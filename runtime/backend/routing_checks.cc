#include "runtime/backend/routing_checks.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/reason.h"

namespace meshseal::runtime {

std::optional<std::string> FaultOfSelected(absl::Span<const int64_t> selected, uint32_t experts) {
  std::vector<bool> taken(experts, false);
  for (const int64_t expert : selected) {
    if (expert < 0 || expert >= int64_t{experts}) return absl::StrCat("expert ", expert, " of ", experts);
    const auto index = static_cast<size_t>(expert);
    if (taken[index]) return absl::StrCat("expert ", expert, " twice");
    taken[index] = true;
  }
  return std::nullopt;
}

absl::Status CheckTokenIds(absl::Span<const int32_t> ids, uint32_t vocabulary, uint64_t first_token) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < int64_t{vocabulary}) continue;
    return Refuse(Reason::kUsage,
                  absl::StrCat("token ", first_token + i, " has the id ", ids[i], ", the vocabulary has ", vocabulary));
  }
  return absl::OkStatus();
}

absl::Status CheckGivenRouting(const Routing& routing, uint32_t top_k, uint32_t experts, uint64_t first_token) {
  for (size_t slot = 0; slot < routing.experts.size(); slot += top_k) {
    const absl::Span<const int32_t> ids = routing.experts.subspan(slot, top_k);
    const std::vector<int64_t> selected(ids.begin(), ids.end());
    const std::string token = absl::StrCat("token ", first_token + slot / top_k, ": the given routing ");
    if (const std::optional<std::string> fault = FaultOfSelected(selected, experts)) {
      return Refuse(Reason::kUsage, absl::StrCat(token, "selects ", *fault));
    }
    for (size_t j = 0; j < top_k; ++j) {
      if (std::isfinite(routing.weights[slot + j])) continue;
      return Refuse(Reason::kUsage, absl::StrCat(token, "weighs expert ", ids[j], " with a number that is not finite"));
    }
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime

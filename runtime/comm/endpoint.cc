#include "runtime/comm/endpoint.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/reason.h"

namespace meshseal::runtime {

absl::Status OtherSize(uint32_t from, uint64_t found, uint64_t expected) {
  return Refuse(Reason::kBug, absl::StrCat("rank ", from, " sent a message of ", found, " bytes, expected ", expected));
}

absl::Status NobodyCame(std::chrono::milliseconds deadline, std::vector<uint32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return Refuse(Reason::kDeadline, absl::StrCat("waited ", deadline.count(), " ms for ",
                                                ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", ")));
}

}  // namespace meshseal::runtime

#include "runtime/comm/status_lane.h"

#include "absl/strings/str_cat.h"
#include "schema/reason.h"
#include "schema/sha256.h"

namespace meshseal::runtime {

StatusLane LaneOf(uint64_t computed_slots, absl::string_view routing) {
  const Sha256Digest digest = Sha256(routing);
  StatusLane lane;
  lane.computed_slots = static_cast<int64_t>(computed_slots);
  // 23 bits: the squares of 65536 ranks still sum inside an int64.
  lane.routing_digest = digest[0] | digest[1] << 8 | (digest[2] & 0x7f) << 16;
  lane.routing_digest_square = lane.routing_digest * lane.routing_digest;
  return lane;
}

void AddLane(const StatusLane& lane, StatusLane* sum) {
  sum->errors += lane.errors;
  sum->computed_slots += lane.computed_slots;
  sum->routing_digest += lane.routing_digest;
  sum->routing_digest_square += lane.routing_digest_square;
  sum->drain += lane.drain;
  for (size_t i = 0; i < lane.reserved.size(); ++i) sum->reserved[i] += lane.reserved[i];
}

absl::Status CheckLane(const StatusLane& sum, uint32_t ranks, uint64_t expected_slots) {
  if (sum.computed_slots != static_cast<int64_t>(expected_slots)) {
    return Refuse(Reason::kStatusLane,
                  absl::StrCat("the ranks computed ", sum.computed_slots, " slots, expected ", expected_slots));
  }
  const int64_t mean = sum.routing_digest / ranks;
  if (sum.routing_digest % ranks != 0 || sum.routing_digest_square != ranks * mean * mean) {
    return Refuse(Reason::kStatusLane, "the ranks routed differently");
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime

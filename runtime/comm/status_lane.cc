#include "runtime/comm/status_lane.h"

#include "absl/strings/str_cat.h"
#include "runtime/numerics/routing_digest.h"
#include "schema/reason.h"

namespace meshseal::runtime {

StatusLane LaneOf(uint64_t computed_slots, absl::Span<const int32_t> experts, absl::Span<const float> weights) {
  uint64_t digests = 0;
  for (size_t slot = 0; slot < experts.size(); ++slot) digests += DigestOfSlot(slot, experts[slot], weights[slot]);
  StatusLane lane;
  lane.computed_slots = static_cast<int64_t>(computed_slots);
  // 23 bits: the squares of 65536 ranks still sum inside an int64.
  static_assert(2 * kRoutingDigestBits + 16 < 63);
  lane.routing_digest = RoutingDigest(digests);
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

// The 64 bytes that travel with every collective and tell all ranks, in one sum, whether the step was valid.
#ifndef MESHSEAL_RUNTIME_COMM_STATUS_LANE_H_
#define MESHSEAL_RUNTIME_COMM_STATUS_LANE_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace meshseal::runtime {

// What one rank contributes, or the sum over the group. A rank that failed sends errors = 1 and zeros
// otherwise.
struct StatusLane {
  int64_t errors = 0;
  int64_t computed_slots = 0;  // slots this rank projected
  int64_t routing_digest = 0;  // of the expert ids and weights: below 2^23
  int64_t routing_digest_square = 0;
  int64_t drain = 0;                  // 1: this rank was asked to end
  std::array<int64_t, 3> reserved{};  // zero
};
static_assert(sizeof(StatusLane) == 64);

// The lane of a rank whose step was valid so far. `experts` and `weights`: the routing that it computed with, by slot.
StatusLane LaneOf(uint64_t computed_slots, absl::Span<const int32_t> experts, absl::Span<const float> weights);

// sum += lane, field by field.
void AddLane(const StatusLane& lane, StatusLane* sum);

// The verdict on a sum without errors over `ranks` ranks: each of the step's slots was computed
// `expected_slots` times in all, and every rank routed alike. It depends on nothing but the sum, so all ranks
// come to the same one: numbers are all equal exactly when n times the sum of their squares is the square of
// their sum. Reason kStatusLane.
absl::Status CheckLane(const StatusLane& sum, uint32_t ranks, uint64_t expected_slots);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_COMM_STATUS_LANE_H_

// How ranks make a status lane, and what its sum tells all of them: whether the step was valid.
#ifndef MESHSEAL_RUNTIME_COMM_STATUS_LANE_H_
#define MESHSEAL_RUNTIME_COMM_STATUS_LANE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/comm/lane_fields.h"

namespace meshseal::runtime {

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

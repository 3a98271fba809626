// The 64 bytes that travel with every collective and tell all ranks, in one sum, whether the step was valid. Device
// code reads and writes them.
#ifndef MESHSEAL_RUNTIME_COMM_LANE_FIELDS_H_
#define MESHSEAL_RUNTIME_COMM_LANE_FIELDS_H_

#include <array>
#include <cstdint>

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

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_COMM_LANE_FIELDS_H_

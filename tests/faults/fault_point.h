// Which calls of an operation fail.
#ifndef MESHSEAL_TESTS_FAULTS_FAULT_POINT_H_
#define MESHSEAL_TESTS_FAULTS_FAULT_POINT_H_

#include <cstdint>

namespace meshseal::faults {

enum class Mode : uint8_t { kOnce, kForEver };

struct FaultPoint {
  uint64_t index = UINT64_MAX;  // from 0; by default none
  Mode mode = Mode::kOnce;

  bool Hits(uint64_t call) const { return mode == Mode::kOnce ? call == index : call >= index; }
};

}  // namespace meshseal::faults

#endif  // MESHSEAL_TESTS_FAULTS_FAULT_POINT_H_

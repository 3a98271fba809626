// What this machine can do at most, measured: the reads of its memory and its arithmetic, as this build does them.
#ifndef MESHSEAL_TOOLS_RUN_MACHINE_LIMITS_H_
#define MESHSEAL_TOOLS_RUN_MACHINE_LIMITS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace meshseal::tools {

struct MachineLimits {
  double read_bytes_per_second = 0;  // of a buffer that no cache holds
  double operations_per_second = 0;  // float32 multiplications and additions, in vectors of four
  uint64_t buffer_bytes = 0;         // of that buffer
  uint32_t threads = 0;
};

// With `threads` threads, the best of a few passes. Reason kOutOfMemory.
absl::StatusOr<MachineLimits> MeasureMachine(uint32_t threads);

struct MachineFacts {
  std::string processor;     // as the kernel names it; empty where it does not
  uint32_t cores = 0;        // that this process sees
  uint64_t cache_bytes = 0;  // of the last level; 0 where the kernel does not say
};

MachineFacts FactsOfMachine();

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_RUN_MACHINE_LIMITS_H_

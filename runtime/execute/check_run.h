// Whether a program can run on what a caller brings.
#ifndef MESHSEAL_RUNTIME_EXECUTE_CHECK_RUN_H_
#define MESHSEAL_RUNTIME_EXECUTE_CHECK_RUN_H_

#include <cstdint>

#include "absl/status/status.h"
#include "runtime/execute/executor.h"
#include "runtime/program/rank_program.h"

namespace meshseal::runtime {

// In an arena of that size. Reasons: kLimit for more tokens than the program takes, kUsage for a span of another size.
absl::Status CheckRun(const RankProgram& program, uint64_t arena_bytes, const StepInput& input,
                      const StepOutput& output);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_EXECUTE_CHECK_RUN_H_

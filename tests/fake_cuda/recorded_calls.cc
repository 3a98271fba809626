#include "tests/fake_cuda/recorded_calls.h"

#include <algorithm>
#include <cstring>

namespace fake_cuda {

std::optional<int> RecordedCalls::Enter(const char* function) {
  log_.push_back(function);
  for (Planned& planned : actions_) {
    if (planned.left > 0 && planned.function == function && --planned.left == 0) planned.action();
  }
  std::optional<int> error;
  for (Armed& armed : faults_) {
    const bool fits =
        armed.fault.function.empty() ? std::strncmp(function, "cuda", 4) == 0 : armed.fault.function == function;
    if (!fits) continue;
    ++armed.seen;
    const bool due = armed.seen == armed.fault.nth || (armed.fault.forever && armed.seen > armed.fault.nth);
    if (due && !error) error = armed.fault.error;
  }
  return error;
}

uint64_t RecordedCalls::count(const std::string& function) const {
  return static_cast<uint64_t>(
      std::count_if(log_.begin(), log_.end(), [&](const char* called) { return function == called; }));
}

}  // namespace fake_cuda

#include "tests/fake_cuda/recorded_calls.h"

namespace fake_cuda {

std::optional<int> RecordedCalls::Enter(const std::string& function) {
  log_.push_back(function);
  ++counts_[function];
  std::optional<int> error;
  for (Armed& armed : faults_) {
    const bool fits = armed.fault.function.empty() ? function.rfind("cuda", 0) == 0 : armed.fault.function == function;
    if (!fits) continue;
    ++armed.seen;
    const bool due = armed.seen == armed.fault.nth || (armed.fault.forever && armed.seen > armed.fault.nth);
    if (due && !error) error = armed.fault.error;
  }
  return error;
}

uint64_t RecordedCalls::count(const std::string& function) const {
  const auto found = counts_.find(function);
  return found == counts_.end() ? 0 : found->second;
}

}  // namespace fake_cuda

// Every call of the stand-ins: the log, the counts, and the faults a test asked for. Not thread-safe.
#ifndef MESHSEAL_TESTS_FAKE_CUDA_RECORDED_CALLS_H_
#define MESHSEAL_TESTS_FAKE_CUDA_RECORDED_CALLS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/fake_cuda/fake_cuda.h"

namespace fake_cuda {

class RecordedCalls {
 public:
  // Notes a call; the error that it must return, if any. `function` is kept: a literal or __func__.
  std::optional<int> Enter(const char* function);

  void Add(const CallFault& fault) { faults_.push_back({fault, 0}); }
  void Add(const std::string& function, uint64_t nth, std::function<void()> action) {
    actions_.push_back({function, nth, std::move(action)});
  }

  std::vector<std::string> log() const { return {log_.begin(), log_.end()}; }
  uint64_t count(const std::string& function) const;

 private:
  struct Armed {
    CallFault fault;
    uint64_t seen = 0;  // fitting calls since the fault was added
  };

  struct Planned {
    std::string function;
    uint64_t left = 0;  // calls until then
    std::function<void()> action;
  };

  std::vector<const char*> log_;
  std::vector<Armed> faults_;
  std::vector<Planned> actions_;
};

}  // namespace fake_cuda

#endif  // MESHSEAL_TESTS_FAKE_CUDA_RECORDED_CALLS_H_

// What NCCL's functions share: handles, errors, groups, and calls that go on after they return. Used under the
// machine's lock (machine.h), but Call, which takes it.
#ifndef MESHSEAL_TESTS_FAKE_CUDA_NCCL_LIBRARY_H_
#define MESHSEAL_TESTS_FAKE_CUDA_NCCL_LIBRARY_H_

#include <nccl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/fake_cuda/machine.h"
#include "tests/fake_cuda/nccl_world.h"

namespace fake_nccl {

struct Window {
  std::shared_ptr<Communicator> communicator;
  uint64_t allocation = 0;  // its number
};

// Everything that has a handle.
struct Library {
  uint64_t unique_ids = 0;
  std::map<std::pair<int32_t, uint64_t>, std::shared_ptr<World>> worlds;  // by process and number of the unique id
  std::map<ncclComm_t, std::shared_ptr<Communicator>> communicators;
  std::map<ncclWindow_t, Window> windows;
  uint64_t next_handle = 1;
  std::string last_error;
};

Library& TheLibrary();

// Operations that one communicator does at once: a group's, or a single one.
struct Launch {
  std::shared_ptr<Communicator> communicator;
  fake_cuda::Stream* stream = nullptr;
  std::vector<Operation> operations;
};

// What a thread has begun with ncclGroupStart.
struct Group {
  int depth = 0;
  std::vector<Launch> launches;
  std::vector<std::pair<std::shared_ptr<Communicator>, Job>> jobs;  // of blocking communicators
  ncclResult_t error = ncclSuccess;
};

Group& ThisThreadsGroup();

// `result`, with a text for ncclGetLastError.
ncclResult_t Fail(ncclResult_t result, std::string text);

// Null: none, or destroyed.
std::shared_ptr<Communicator> Find(ncclComm_t handle);

// The communicator of a call that needs it ready.
ncclResult_t FindReady(const char* function, ncclComm_t handle, std::shared_ptr<Communicator>* communicator);

// Begins a job. A blocking communicator's is over when this returns, or in a group when that ends.
ncclResult_t Begin(fake_cuda::Machine& machine, fake_cuda::Lock& lock,
                   const std::shared_ptr<Communicator>& communicator, Job job, const char* function);

// A call of NCCL: `body(machine, lock)` gives its result.
template <class Body>
ncclResult_t Call(const char* function, const Body& body) {
  fake_cuda::Machine& machine = fake_cuda::TheMachine();
  fake_cuda::Lock lock(machine.mutex());
  const std::optional<int> fault = machine.calls().Enter(function);
  if (fault) {
    return Fail(static_cast<ncclResult_t>(*fault), absl::StrCat(function, ": a fault that the test asked for"));
  }
  if (fake_cuda::InHostFunction()) {
    machine.Violate(absl::StrCat(function, ": called from a host function of a stream"));
    return ncclInvalidUsage;
  }
  return body(machine, lock);
}

}  // namespace fake_nccl

#endif  // MESHSEAL_TESTS_FAKE_CUDA_NCCL_LIBRARY_H_

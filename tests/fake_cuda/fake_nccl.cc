#include "tests/fake_cuda/fake_nccl.h"

#include <algorithm>
#include <utility>

#include "tests/fake_cuda/nccl_library.h"

namespace fake_nccl {

using fake_cuda::Lock;
using fake_cuda::TheMachine;

void Reset(const Options& options) {
  const Lock lock(TheMachine().mutex());
  CurrentOptions() = options;
  TheLibrary() = Library();
  ThisThreadsGroup() = Group();
}

std::vector<ncclComm_t> Communicators() {
  const Lock lock(TheMachine().mutex());
  std::vector<ncclComm_t> handles;
  for (const auto& [handle, communicator] : TheLibrary().communicators) handles.push_back(handle);
  std::sort(handles.begin(), handles.end(), [](ncclComm_t a, ncclComm_t b) {
    const std::shared_ptr<Communicator> first = Find(a);
    const std::shared_ptr<Communicator> second = Find(b);
    return std::pair(first->world->number, first->rank) < std::pair(second->world->number, second->rank);
  });
  return handles;
}

void FailCommunicator(ncclComm_t communicator, ncclResult_t error) {
  const Lock lock(TheMachine().mutex());
  const std::shared_ptr<Communicator> found = Find(communicator);
  if (!found) return;
  found->state = error;
  found->job.reset();
}

void Kill(ncclComm_t communicator, bool noticed) {
  const Lock lock(TheMachine().mutex());
  const std::shared_ptr<Communicator> killed = Find(communicator);
  if (!killed) return;
  killed->dead = true;
  killed->world->Leave(killed->rank, noticed);
  for (const auto& [handle, other] : TheLibrary().communicators) {
    if (!noticed || other->world != killed->world || other == killed) continue;
    other->state = ncclRemoteError;
    other->job.reset();
  }
}

Alive LeakReport() {
  const Lock lock(TheMachine().mutex());
  return {TheLibrary().communicators.size(), TheLibrary().windows.size()};
}

}  // namespace fake_nccl

#include "tests/fake_cuda/nccl_library.h"

namespace fake_nccl {

Library& TheLibrary() {
  static Library* const library = new Library;
  return *library;
}

Group& ThisThreadsGroup() {
  thread_local Group group;
  return group;
}

ncclResult_t Fail(ncclResult_t result, std::string text) {
  TheLibrary().last_error = std::move(text);
  return result;
}

std::shared_ptr<Communicator> Find(ncclComm_t handle) {
  const auto found = TheLibrary().communicators.find(handle);
  return found == TheLibrary().communicators.end() ? nullptr : found->second;
}

ncclResult_t FindReady(const char* function, ncclComm_t handle, std::shared_ptr<Communicator>* communicator) {
  *communicator = Find(handle);
  if (!*communicator) return Fail(ncclInvalidArgument, absl::StrCat(function, " : comm argument is NULL or destroyed"));
  const ncclResult_t state = (*communicator)->state;
  if (state == ncclSuccess) return ncclSuccess;
  return Fail(state == ncclInProgress ? ncclInvalidArgument : state,
              "Attempt to use communicator before the previous operation returned ncclSuccess");
}

ncclResult_t Begin(fake_cuda::Machine& machine, fake_cuda::Lock& lock,
                   const std::shared_ptr<Communicator>& communicator, Job job, const char* function) {
  if (!communicator->blocking) {
    if (job.polls == 0 && job.ready()) return communicator->state = job.finish(lock);
    communicator->job = std::move(job);
    return communicator->state = ncclInProgress;
  }
  Group& group = ThisThreadsGroup();
  if (group.depth > 0) {
    group.jobs.emplace_back(communicator, std::move(job));
    return ncclSuccess;
  }
  if (!machine.RunUntil(lock, job.ready, function)) return Fail(ncclInternalError, absl::StrCat(function, ": hangs"));
  return communicator->state = job.finish(lock);
}

}  // namespace fake_nccl

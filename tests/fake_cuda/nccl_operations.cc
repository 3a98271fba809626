// Groups, and the operations in them.
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/fake_cuda/element_sums.h"
#include "tests/fake_cuda/nccl_library.h"

using fake_cuda::Lock;
using fake_cuda::Machine;

namespace fake_nccl {
namespace {

using fake_cuda::Stream;

ncclResult_t Put(Machine& machine, Lock& lock, Communicator* communicator, Stream* stream,
                 const std::vector<Operation>& operations) {
  auto work =
      std::make_shared<CollectiveWork>(communicator->shared_from_this(), operations, stream->capture != nullptr);
  const cudaError_t error = machine.Enqueue(lock, stream, std::move(work));
  if (error == cudaSuccess) return ncclSuccess;
  return Fail(ncclUnhandledCudaError,
              absl::StrCat("Cuda failure ", static_cast<int>(error), " '", cudaGetErrorString(error), "'"));
}

ncclResult_t BeginLaunch(Machine& machine, Lock& lock, const Launch& launch) {
  Job job{[] { return true; }, CurrentOptions().launch_polls,
          [&machine, communicator = launch.communicator.get(), stream = launch.stream, operations = launch.operations](
              Lock& held) { return Put(machine, held, communicator, stream, operations); }};
  return Begin(machine, lock, launch.communicator, std::move(job), "ncclGroupEnd");
}

ncclResult_t EndGroup(Machine& machine, Lock& lock) {
  Group& group = ThisThreadsGroup();
  if (group.depth == 0) return Fail(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--group.depth > 0) return ncclSuccess;
  Group ended;
  std::swap(ended, group);
  ncclResult_t result = ended.error;
  for (auto& [communicator, job] : ended.jobs) {
    if (result != ncclSuccess) break;
    result = machine.RunUntil(lock, job.ready, "ncclGroupEnd") ? job.finish(lock)
                                                               : Fail(ncclInternalError, "ncclGroupEnd: hangs");
    communicator->state = result;
  }
  bool in_progress = false;
  for (const Launch& launch : ended.launches) {
    if (result != ncclSuccess) break;
    const ncclResult_t one = BeginLaunch(machine, lock, launch);
    if (one == ncclInProgress) {
      in_progress = true;
    } else {
      result = one;
    }
  }
  return result == ncclSuccess && in_progress ? ncclInProgress : result;
}

ncclResult_t CheckOperation(Machine& machine, const char* function, const Communicator& communicator,
                            const Operation& operation) {
  if (ElementBytes(operation.type) == 0) {
    return Fail(ncclInvalidArgument, absl::StrCat(function, " : invalid type ", static_cast<int>(operation.type)));
  }
  const bool reduces = operation.kind == Kind::kAllReduce || operation.kind == Kind::kReduceScatter;
  if (reduces && !CanCombine(operation.type, operation.reduction)) {
    machine.Violate(absl::StrCat(function, ": the stand-in does not compute reduction ",
                                 static_cast<int>(operation.reduction), " of ", TypeName(operation.type)));
    return ncclInvalidArgument;
  }
  const auto ranks = static_cast<int>(communicator.world->size());
  if (operation.peer < 0 || operation.peer >= ranks) {
    return Fail(ncclInvalidArgument, absl::StrCat(function, " : invalid root ", operation.peer,
                                                  " (root should be in the 0..", ranks, " range)"));
  }
  return ncclSuccess;
}

ncclResult_t Add(Machine& machine, const char* function, ncclComm_t comm, cudaStream_t stream,
                 const Operation& operation, Launch* launch) {
  std::shared_ptr<Communicator> communicator;
  ncclResult_t result = FindReady(function, comm, &communicator);
  if (result == ncclSuccess) result = CheckOperation(machine, function, *communicator, operation);
  if (result != ncclSuccess) return result;
  Stream* on = nullptr;
  const cudaError_t error = machine.FindStream(function, stream, &on);
  if (error != cudaSuccess || on->device != communicator->device) {
    return Fail(ncclUnhandledCudaError,
                absl::StrCat(function, " : the stream is not one of the communicator's device"));
  }
  *launch = {communicator, on, {operation}};
  return ncclSuccess;
}

ncclResult_t Operate(const char* function, ncclComm_t comm, cudaStream_t stream, const Operation& operation) {
  return Call(function, [&](Machine& machine, Lock& lock) {
    Launch launch;
    Group& group = ThisThreadsGroup();
    ncclResult_t result = Add(machine, function, comm, stream, operation, &launch);
    if (result != ncclSuccess) {
      if (group.depth > 0) group.error = result;
      return result;
    }
    if (operation.count == 0 && !operation.is_point_to_point()) return ncclSuccess;
    if (group.depth == 0) return BeginLaunch(machine, lock, launch);
    for (Launch& begun : group.launches) {
      if (begun.communicator != launch.communicator) continue;
      if (begun.stream != launch.stream) {
        machine.Violate(absl::StrCat(function, ": the stand-in knows one stream for a communicator in a group"));
        return group.error = ncclInvalidUsage;
      }
      begun.operations.push_back(operation);
      return ncclSuccess;
    }
    group.launches.push_back(std::move(launch));
    return ncclSuccess;
  });
}

}  // namespace
}  // namespace fake_nccl

using fake_nccl::Call;
using fake_nccl::Kind;
using fake_nccl::Operate;

ncclResult_t ncclGroupStart() {
  return Call(__func__, [](Machine&, Lock&) {
    ++fake_nccl::ThisThreadsGroup().depth;
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupEnd() {
  return Call(__func__, [](Machine& machine, Lock& lock) { return fake_nccl::EndGroup(machine, lock); });
}

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return Operate(__func__, comm, stream, {Kind::kAllReduce, sendbuff, recvbuff, count, datatype, op, 0});
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  return Operate(__func__, comm, stream, {Kind::kAllGather, sendbuff, recvbuff, sendcount, datatype, ncclSum, 0});
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Operate(__func__, comm, stream, {Kind::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, 0});
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return Operate(__func__, comm, stream, {Kind::kBroadcast, sendbuff, recvbuff, count, datatype, ncclSum, root});
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Operate(__func__, comm, stream, {Kind::kSend, sendbuff, nullptr, count, datatype, ncclSum, peer});
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Operate(__func__, comm, stream, {Kind::kReceive, nullptr, recvbuff, count, datatype, ncclSum, peer});
}

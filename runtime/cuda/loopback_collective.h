// The collective of ranks that share one GPU: threads of a process, each with a stream and memory of its own.
//
// It stands in for NCCL, which takes one rank a GPU, so that a whole plan runs where there is one device: what it moves
// and adds is the same, how long it takes says nothing.
#ifndef MESHSEAL_RUNTIME_CUDA_LOOPBACK_COLLECTIVE_H_
#define MESHSEAL_RUNTIME_CUDA_LOOPBACK_COLLECTIVE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/comm/communicator.h"
#include "runtime/cuda/device_collective.h"

namespace meshseal::cuda {

// One member's end, on the current device. The members of `group`, which must live longer, are threads of this process
// and have the same current device. Reason kDevice.
absl::StatusOr<std::unique_ptr<DeviceCollective>> MakeLoopbackCollective(runtime::Communicator& group);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_LOOPBACK_COLLECTIVE_H_

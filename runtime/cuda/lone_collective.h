// The collective of a group of one rank: nothing moves.
#ifndef MESHSEAL_RUNTIME_CUDA_LONE_COLLECTIVE_H_
#define MESHSEAL_RUNTIME_CUDA_LONE_COLLECTIVE_H_

#include <memory>

#include "runtime/cuda/device_collective.h"

namespace meshseal::cuda {

std::unique_ptr<DeviceCollective> MakeLoneCollective();

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_LONE_COLLECTIVE_H_

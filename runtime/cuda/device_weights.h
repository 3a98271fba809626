// A rank's weights in device memory.
#ifndef MESHSEAL_RUNTIME_CUDA_DEVICE_WEIGHTS_H_
#define MESHSEAL_RUNTIME_CUDA_DEVICE_WEIGHTS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/weights/weight_memory.h"

namespace meshseal::cuda {

// A block on the device with that ordinal. Each placer has page-locked memory for the largest piece, from which it
// copies on a stream of its own. Reasons kOutOfMemory, kDevice.
absl::StatusOr<std::unique_ptr<runtime::WeightMemory>> ReserveDeviceWeights(int ordinal, uint64_t bytes, HungFlag hung);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_DEVICE_WEIGHTS_H_

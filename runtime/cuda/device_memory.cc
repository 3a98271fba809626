#include "runtime/cuda/device_memory.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "runtime/cuda/cuda_status.h"

namespace meshseal::cuda {

// What fails here has failed before, and was told then.
void DeviceMemory::Free::operator()(std::byte* data) const { static_cast<void>(cudaFree(data)); }
void PinnedMemory::Free::operator()(std::byte* data) const { static_cast<void>(cudaFreeHost(data)); }

absl::StatusOr<DeviceMemory> DeviceMemory::Reserve(uint64_t bytes, absl::string_view purpose) {
  DeviceMemory memory;
  if (bytes == 0) return memory;
  void* data = nullptr;
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaMalloc(&data, bytes), absl::StrCat(bytes, " bytes of device memory for ", purpose));
  memory.data_.reset(static_cast<std::byte*>(data));
  memory.size_ = bytes;
  return memory;
}

absl::StatusOr<PinnedMemory> PinnedMemory::Reserve(uint64_t bytes, absl::string_view purpose) {
  PinnedMemory memory;
  if (bytes == 0) return memory;
  void* data = nullptr;
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaMallocHost(&data, bytes),
                                absl::StrCat(bytes, " bytes of page-locked memory for ", purpose));
  memory.data_.reset(static_cast<std::byte*>(data));
  memory.size_ = bytes;
  return memory;
}

}  // namespace meshseal::cuda

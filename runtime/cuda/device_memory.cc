#include "runtime/cuda/device_memory.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "runtime/cuda/cuda_status.h"

namespace meshseal::cuda {

// What fails here has failed before, and was told then.
template <MemorySide side>
void ReservedMemory<side>::Free::operator()(std::byte* data) const {
  static_cast<void>(side == MemorySide::kDevice ? cudaFree(data) : cudaFreeHost(data));
}

template <MemorySide side>
absl::StatusOr<ReservedMemory<side>> ReservedMemory<side>::Reserve(uint64_t bytes, absl::string_view purpose) {
  constexpr bool kOnDevice = side == MemorySide::kDevice;
  ReservedMemory memory;
  if (bytes == 0) return memory;
  void* data = nullptr;
  MESHSEAL_RETURN_IF_CUDA_ERROR(
      kOnDevice ? cudaMalloc(&data, bytes) : cudaMallocHost(&data, bytes),
      absl::StrCat(bytes, " bytes of ", kOnDevice ? "device" : "page-locked", " memory for ", purpose));
  memory.data_.reset(static_cast<std::byte*>(data));
  memory.size_ = bytes;
  return memory;
}

template class ReservedMemory<MemorySide::kDevice>;
template class ReservedMemory<MemorySide::kPinned>;

}  // namespace meshseal::cuda

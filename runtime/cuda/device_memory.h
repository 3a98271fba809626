// Blocks of memory of a device, and of the host where devices reach it, reserved once.
#ifndef MESHSEAL_RUNTIME_CUDA_DEVICE_MEMORY_H_
#define MESHSEAL_RUNTIME_CUDA_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace meshseal::cuda {

// Memory of the device that was current when it was reserved; a multiple of 256 bytes is its first address. Its bytes
// may not be touched by the host. Move-only. 0 bytes are legal.
class DeviceMemory {
 public:
  DeviceMemory() = default;

  // Reasons: kOutOfMemory, kDevice; `purpose` is part of the message.
  static absl::StatusOr<DeviceMemory> Reserve(uint64_t bytes, absl::string_view purpose);

  absl::Span<std::byte> bytes() const { return absl::MakeSpan(data_.get(), size_); }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t size_ = 0;
};

// The same of the host, page-locked, so that copies to and from the device run beside its work.
class PinnedMemory {
 public:
  PinnedMemory() = default;

  static absl::StatusOr<PinnedMemory> Reserve(uint64_t bytes, absl::string_view purpose);

  absl::Span<std::byte> bytes() const { return absl::MakeSpan(data_.get(), size_); }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t size_ = 0;
};

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_DEVICE_MEMORY_H_

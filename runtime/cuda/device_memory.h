// Blocks of memory of a device, and of the host where devices reach it, reserved once.
#ifndef MESHSEAL_RUNTIME_CUDA_DEVICE_MEMORY_H_
#define MESHSEAL_RUNTIME_CUDA_DEVICE_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace meshseal::cuda {

// Set when a device has not come to rest after a failed run, or keeps a graph, for which the end of a communicator
// waits. Freeing would wait, maybe for ever, so what may still be used is left to the end of the process, which such a
// failure ends.
using HungFlag = std::shared_ptr<std::atomic<bool>>;

enum class MemorySide { kDevice, kPinned };

// Move-only. 0 bytes are legal.
template <MemorySide side>
class ReservedMemory {
 public:
  ReservedMemory() = default;

  // Reasons: kOutOfMemory, kDevice; `purpose` is part of the message.
  static absl::StatusOr<ReservedMemory> Reserve(uint64_t bytes, absl::string_view purpose);

  absl::Span<std::byte> bytes() const { return absl::MakeSpan(data_.get(), size_); }

  // It is never freed.
  void Leave() { static_cast<void>(data_.release()); }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t size_ = 0;
};

// Of the device that was current when it was reserved; its first address is a multiple of 256. Its bytes may not be
// touched by the host.
using DeviceMemory = ReservedMemory<MemorySide::kDevice>;

// Of the host, page-locked, so that copies to and from the device run beside its work.
using PinnedMemory = ReservedMemory<MemorySide::kPinned>;

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_DEVICE_MEMORY_H_

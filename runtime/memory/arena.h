// A fixed block of memory, reserved once: the work arena of a rank, its weights, its slice of a collective.
#ifndef MESHSEAL_RUNTIME_MEMORY_ARENA_H_
#define MESHSEAL_RUNTIME_MEMORY_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace meshseal::runtime {

// Starts at a multiple of 64 bytes and never grows. Move-only; its bytes are as thread-safe as any memory.
class Arena {
 public:
  Arena() = default;

  // Reason kOutOfMemory when `bytes` cannot be had; `purpose` is part of the message. 0 bytes are legal.
  static absl::StatusOr<Arena> Reserve(uint64_t bytes, absl::string_view purpose);

  absl::Span<std::byte> bytes() const { return absl::MakeSpan(data_.get(), size_); }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };

  std::unique_ptr<std::byte, Free> data_;
  size_t size_ = 0;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_MEMORY_ARENA_H_

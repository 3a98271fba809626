// Where a rank's weights lie: in memory of the host, or of a device.
#ifndef MESHSEAL_RUNTIME_WEIGHTS_WEIGHT_MEMORY_H_
#define MESHSEAL_RUNTIME_WEIGHTS_WEIGHT_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace meshseal::runtime {

// One loading thread's way to put bytes in their place. Used by one thread at a time.
class WeightPlacer {
 public:
  virtual ~WeightPlacer() = default;

  // Memory of the host for the `bytes` bytes that belong at `offset`, to be read into and verified there; at most
  // those that the placer was made for. It is the next Put's, or nobody's.
  virtual absl::Span<std::byte> Stage(uint64_t offset, uint64_t bytes) = 0;

  // Puts what was staged last into its place. Reason kDevice.
  virtual absl::Status Put() = 0;
};

// One block. Its own address space is the device's: who computes there reads it, and nobody else.
class WeightMemory {
 public:
  virtual ~WeightMemory() = default;

  // The block; where it lies on a device, its bytes are not the host's to touch.
  virtual absl::Span<std::byte> bytes() const = 0;

  // For pieces of at most `largest` bytes. May be called by several threads. Reasons kOutOfMemory, kDevice.
  virtual absl::StatusOr<std::unique_ptr<WeightPlacer>> MakePlacer(uint64_t largest) const = 0;
};

// On the host, where bytes are read into their place. Reason kOutOfMemory.
absl::StatusOr<std::unique_ptr<WeightMemory>> ReserveHostWeights(uint64_t bytes);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_WEIGHTS_WEIGHT_MEMORY_H_

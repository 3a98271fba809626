// What kernels look up, in device memory: which expert lies where, of every layer of a rank, and what its programs know
// of owners and segments.
#ifndef MESHSEAL_RUNTIME_CUDA_DEVICE_TABLES_H_
#define MESHSEAL_RUNTIME_CUDA_DEVICE_TABLES_H_

#include <cstdint>
#include <map>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/program/expert_place.h"
#include "runtime/program/rank_program.h"
#include "runtime/weights/rank_weights.h"

namespace meshseal::cuda {

// Immutable once made; keyed by where the host has the same, which must live longer.
class DeviceTables {
 public:
  // Of the current device. `weights` lie there. Copies and waits. Reasons kOutOfMemory, kDevice.
  static absl::StatusOr<DeviceTables> Make(absl::Span<const runtime::RankProgram* const> programs,
                                           absl::Span<const runtime::LayerWeights* const> layers);

  // The twin of what the host has there; null for what was not among the above, and for an empty table.
  const DeviceExpert* Of(absl::Span<const runtime::ExpertWeights> experts) const;
  const runtime::ExpertPlace* Of(absl::Span<const runtime::ExpertPlace> places) const;
  const uint32_t* Of(absl::Span<const uint32_t> segment_ends) const;

  uint64_t bytes() const { return memory_.bytes().size(); }

 private:
  const void* Find(const void* host) const;

  DeviceMemory memory_;
  std::map<const void*, uint64_t> offsets_;
};

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_DEVICE_TABLES_H_

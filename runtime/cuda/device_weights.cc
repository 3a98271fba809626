#include "runtime/cuda/device_weights.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/stream.h"
#include "schema/status_macros.h"

namespace meshseal::cuda {
namespace {

class DevicePlacer : public runtime::WeightPlacer {
 public:
  DevicePlacer(absl::Span<std::byte> block, PinnedMemory staging, Stream stream)
      : block_(block), staging_(std::move(staging)), stream_(std::move(stream)) {}

  absl::Span<std::byte> Stage(uint64_t offset, uint64_t bytes) override {
    place_ = block_.subspan(offset, bytes);
    return staging_.bytes().first(bytes);
  }

  absl::Status Put() override {
    MESHSEAL_RETURN_IF_ERROR(EnqueueCopy(place_.data(), staging_.bytes().data(), place_.size(), cudaMemcpyHostToDevice,
                                         stream_.get(), "a copy of weights to the device"));
    return FromCuda(cudaStreamSynchronize(stream_.get()), "a copy of weights to the device");
  }

 private:
  const absl::Span<std::byte> block_;
  const PinnedMemory staging_;
  const Stream stream_;
  absl::Span<std::byte> place_;  // of what was staged last
};

class DeviceWeights : public runtime::WeightMemory {
 public:
  DeviceWeights(int ordinal, DeviceMemory block, HungFlag hung)
      : ordinal_(ordinal), block_(std::move(block)), hung_(std::move(hung)) {}

  ~DeviceWeights() override {
    if (hung_->load()) block_.Leave();
  }

  absl::Span<std::byte> bytes() const override { return block_.bytes(); }

  absl::StatusOr<std::unique_ptr<runtime::WeightPlacer>> MakePlacer(uint64_t largest) const override {
    MESHSEAL_RETURN_IF_CUDA_ERROR(cudaSetDevice(ordinal_), absl::StrCat("device ", ordinal_));  // of this thread
    MESHSEAL_ASSIGN_OR_RETURN(PinnedMemory staging, PinnedMemory::Reserve(largest, "weights on their way"));
    MESHSEAL_ASSIGN_OR_RETURN(Stream stream, Stream::Make());
    return std::make_unique<DevicePlacer>(block_.bytes(), std::move(staging), std::move(stream));
  }

 private:
  const int ordinal_;
  DeviceMemory block_;
  const HungFlag hung_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<runtime::WeightMemory>> ReserveDeviceWeights(int ordinal, uint64_t bytes,
                                                                            HungFlag hung) {
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaSetDevice(ordinal), absl::StrCat("device ", ordinal));
  MESHSEAL_ASSIGN_OR_RETURN(DeviceMemory block, DeviceMemory::Reserve(bytes, "weights"));
  return std::make_unique<DeviceWeights>(ordinal, std::move(block), std::move(hung));
}

}  // namespace meshseal::cuda

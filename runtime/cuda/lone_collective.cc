#include "runtime/cuda/lone_collective.h"

#include "runtime/cuda/stream.h"

namespace meshseal::cuda {
namespace {

class LoneCollective : public DeviceCollective {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t size() const override { return 1; }
  bool capturable() const override { return true; }

  absl::Status AllGather(std::byte*, uint64_t, cudaStream_t) override { return absl::OkStatus(); }
  absl::Status Exchange(absl::Span<const absl::Span<const std::byte>> out, absl::Span<const absl::Span<std::byte>> in,
                        cudaStream_t stream) override {
    return EnqueueCopy(in[0].data(), out[0].data(), out[0].size(), cudaMemcpyDeviceToDevice, stream,
                       "a copy of a rank's own bytes");
  }
  absl::Status AllReduceSum(float*, uint64_t, cudaStream_t) override { return absl::OkStatus(); }
  absl::Status AllReduceSum(int64_t*, uint64_t, cudaStream_t) override { return absl::OkStatus(); }
  absl::Status ReduceScatterSum(float*, uint64_t, cudaStream_t) override { return absl::OkStatus(); }
  absl::Status ReduceScatterSum(int64_t*, uint64_t, cudaStream_t) override { return absl::OkStatus(); }
  absl::Status BeginGroup() override { return absl::OkStatus(); }
  absl::Status EndGroup() override { return absl::OkStatus(); }
  absl::Status Check() override { return absl::OkStatus(); }
  void Abort() override {}
};

}  // namespace

std::unique_ptr<DeviceCollective> MakeLoneCollective() { return std::make_unique<LoneCollective>(); }

}  // namespace meshseal::cuda

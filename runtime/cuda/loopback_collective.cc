#include "runtime/cuda/loopback_collective.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/kernels/add_into.h"
#include "runtime/cuda/stream.h"
#include "schema/status_macros.h"

namespace meshseal::cuda {
namespace {

// What a member tells the others of a call: where its bytes are, or a list of them, and after which event.
struct Post {
  const void* data = nullptr;
  cudaEvent_t ready = nullptr;
};
static_assert(std::is_trivially_copyable_v<Post>);

class LoopbackCollective : public DeviceCollective {
 public:
  LoopbackCollective(runtime::Communicator& group, Event ready, Event done)
      : group_(group), ready_(std::move(ready)), done_(std::move(done)), posts_(group.size()) {}

  uint32_t rank() const override { return group_.rank(); }
  uint32_t size() const override { return group_.size(); }
  bool capturable() const override { return false; }  // it meets the others on the host

  absl::Status AllGather(std::byte* all, uint64_t bytes, cudaStream_t stream) override {
    MESHSEAL_RETURN_IF_ERROR(Meet(ready_, all, stream));
    for (uint32_t member = 0; member < size(); ++member) {
      if (member == rank()) continue;
      MESHSEAL_RETURN_IF_ERROR(Copy(
          all + member * bytes, static_cast<const std::byte*>(posts_[member].data) + member * bytes, bytes, stream));
    }
    return Meet(done_, nullptr, stream);  // before any member writes where others read
  }

  absl::Status Exchange(absl::Span<const absl::Span<const std::byte>> out, absl::Span<const absl::Span<std::byte>> in,
                        cudaStream_t stream) override {
    MESHSEAL_RETURN_IF_ERROR(Meet(ready_, out.data(), stream));
    for (uint32_t member = 0; member < size(); ++member) {
      const auto* const theirs = static_cast<const absl::Span<const std::byte>*>(posts_[member].data);
      MESHSEAL_RETURN_IF_ERROR(Copy(in[member].data(), theirs[rank()].data(), in[member].size(), stream));
    }
    return Meet(done_, nullptr, stream);
  }

  absl::Status AllReduceSum(float* values, uint64_t count, cudaStream_t stream) override {
    return Reduce(values, count, stream);
  }
  absl::Status AllReduceSum(int64_t* values, uint64_t count, cudaStream_t stream) override {
    return Reduce(values, count, stream);
  }

  absl::Status ReduceScatterSum(float* values, uint64_t count, cudaStream_t stream) override {
    return ReduceParts(values, count, stream);
  }
  absl::Status ReduceScatterSum(int64_t* values, uint64_t count, cudaStream_t stream) override {
    return ReduceParts(values, count, stream);
  }

  absl::Status BeginGroup() override { return absl::OkStatus(); }
  absl::Status EndGroup() override { return absl::OkStatus(); }
  absl::Status Check() override { return absl::OkStatus(); }
  void Abort() override {}  // the group's own end ends it: every call meets the others there

 private:
  // Every member has come, and this stream goes on when all of them have.
  absl::Status Meet(const Event& event, const void* data, cudaStream_t stream) {
    MESHSEAL_RETURN_IF_CUDA_ERROR(cudaEventRecord(event.get(), stream), "loopback, an event");
    const Post own = {data, event.get()};
    MESHSEAL_RETURN_IF_ERROR(
        group_.AllGather({reinterpret_cast<const std::byte*>(&own), sizeof(own)},
                         absl::MakeSpan(reinterpret_cast<std::byte*>(posts_.data()), posts_.size() * sizeof(Post))));
    for (const Post& post : posts_) {
      MESHSEAL_RETURN_IF_CUDA_ERROR(cudaStreamWaitEvent(stream, post.ready, 0), "loopback, waiting for a rank");
    }
    return absl::OkStatus();
  }

  static absl::Status Copy(void* to, const void* from, uint64_t bytes, cudaStream_t stream) {
    return EnqueueCopy(to, from, bytes, cudaMemcpyDeviceToDevice, stream, "loopback, a copy");
  }

  // Each member adds up its own piece, from its own addend on. Nobody writes what another still reads: of a member's
  // values, piece p is read by member p alone.
  template <class T>
  absl::Status ReducePiece(T* values, const runtime::Piece& own, cudaStream_t stream) {
    MESHSEAL_RETURN_IF_ERROR(Meet(ready_, values, stream));
    for (uint32_t step = 1; step < size(); ++step) {
      const uint32_t member = (rank() + step) % size();
      const T* const theirs = static_cast<const T*>(posts_[member].data);
      MESHSEAL_RETURN_IF_CUDA_ERROR(LaunchAddInto(values + own.first, theirs + own.first, own.count, stream),
                                    "loopback, a sum");
    }
    return absl::OkStatus();
  }

  template <class T>
  absl::Status ReduceParts(T* values, uint64_t count, cudaStream_t stream) {
    MESHSEAL_RETURN_IF_ERROR(ReducePiece(values, {rank() * count, count}, stream));
    return Meet(done_, nullptr, stream);
  }

  // And then takes the others' pieces.
  template <class T>
  absl::Status Reduce(T* values, uint64_t count, cudaStream_t stream) {
    const auto piece_of = [&](uint32_t member) { return runtime::EvenPiece(count, size(), member); };
    MESHSEAL_RETURN_IF_ERROR(ReducePiece(values, piece_of(rank()), stream));
    const std::vector<Post> sums = posts_;
    MESHSEAL_RETURN_IF_ERROR(Meet(done_, nullptr, stream));
    for (uint32_t member = 0; member < size(); ++member) {
      if (member == rank()) continue;
      const runtime::Piece piece = piece_of(member);
      MESHSEAL_RETURN_IF_ERROR(Copy(values + piece.first, static_cast<const T*>(sums[member].data) + piece.first,
                                    piece.count * sizeof(T), stream));
    }
    return Meet(ready_, nullptr, stream);
  }

  runtime::Communicator& group_;
  const Event ready_;
  const Event done_;
  std::vector<Post> posts_;  // of the last meeting, by member
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceCollective>> MakeLoopbackCollective(runtime::Communicator& group) {
  MESHSEAL_ASSIGN_OR_RETURN(Event ready, Event::Make());
  MESHSEAL_ASSIGN_OR_RETURN(Event done, Event::Make());
  return std::make_unique<LoopbackCollective>(group, std::move(ready), std::move(done));
}

}  // namespace meshseal::cuda

#include "runtime/cuda/device_sum.h"

#include <type_traits>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/stream.h"
#include "schema/status_macros.h"

namespace meshseal::cuda {
namespace {

using runtime::StatusLane;

absl::Status Copy(void* to, const void* from, uint64_t bytes, cudaStream_t stream) {
  return EnqueueCopy(to, from, bytes, cudaMemcpyDeviceToDevice, stream, "a copy of addends");
}

template <class T>
absl::Status SumInPlace(DeviceCollective& collective, absl::Span<T> values, absl::Span<StatusLane> lanes,
                        cudaStream_t stream) {
  MESHSEAL_RETURN_IF_ERROR(collective.BeginGroup());
  MESHSEAL_RETURN_IF_ERROR(collective.AllReduceSum(values.data(), values.size(), stream));
  MESHSEAL_RETURN_IF_ERROR(SumLanes(collective, lanes, stream));
  return collective.EndGroup();
}

template <class T>
auto BytesOf(absl::Span<T> all, const runtime::Piece& piece) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return absl::Span<Byte>(reinterpret_cast<Byte*>(all.data() + piece.first), piece.count * sizeof(T));
}

}  // namespace

runtime::Piece SumPieceOf(ReduceAlgorithm algorithm, uint64_t count, uint32_t ranks, uint32_t rank) {
  return {0, algorithm == ReduceAlgorithm::kExchangeThenSum ? runtime::EvenPiece(count, ranks, rank).count : count};
}

absl::Status GatherLanes(DeviceCollective& collective, absl::Span<StatusLane> lanes, cudaStream_t stream) {
  return collective.AllGather(reinterpret_cast<std::byte*>(lanes.data()), sizeof(StatusLane), stream);
}

absl::Status AddGatheredLanes(DeviceCollective& collective, absl::Span<StatusLane> lanes, const runtime::Piece* piece,
                              cudaStream_t stream) {
  auto* const words = reinterpret_cast<int64_t*>(lanes.data());
  return FromCuda(LaunchRankOrderSum(stream, {piece, kLaneWords, collective.size(), kLaneWords, words, words}),
                  "a sum of status lanes");
}

absl::Status SumLanes(DeviceCollective& collective, absl::Span<StatusLane> lanes, cudaStream_t stream) {
  MESHSEAL_RETURN_IF_ERROR(Copy(&lanes[0], &lanes[collective.rank()], sizeof(StatusLane), stream));
  return collective.AllReduceSum(reinterpret_cast<int64_t*>(&lanes[0]), kLaneWords, stream);
}

absl::Status EnqueueOrderedSum(DeviceCollective& collective, ReduceAlgorithm algorithm, absl::Span<const float> addend,
                               absl::Span<std::byte> buffer, absl::Span<float> sum, absl::Span<StatusLane> lanes,
                               const SumPieces& pieces, cudaStream_t stream) {
  const uint32_t ranks = collective.size();
  const uint32_t rank = collective.rank();
  const uint64_t count = addend.size();
  if (ranks == 1) {
    MESHSEAL_RETURN_IF_ERROR(Copy(sum.data(), addend.data(), count * sizeof(float), stream));
    return SumLanes(collective, lanes, stream);
  }
  float* const kept = reinterpret_cast<float*>(buffer.data());
  if (algorithm == ReduceAlgorithm::kGatherThenSum) {
    MESHSEAL_RETURN_IF_ERROR(Copy(kept + rank * count, addend.data(), count * sizeof(float), stream));
    MESHSEAL_RETURN_IF_ERROR(collective.BeginGroup());
    MESHSEAL_RETURN_IF_ERROR(collective.AllGather(buffer.data(), count * sizeof(float), stream));
    MESHSEAL_RETURN_IF_ERROR(GatherLanes(collective, lanes, stream));
    MESHSEAL_RETURN_IF_ERROR(collective.EndGroup());
    MESHSEAL_RETURN_IF_CUDA_ERROR(LaunchRankOrderSum(stream, {pieces.sum, count, ranks, count, kept, sum.data()}),
                                  "a sum in rank order");
  } else {
    const auto piece_of = [&](uint32_t member) { return runtime::EvenPiece(count, ranks, member); };
    const uint64_t own = piece_of(rank).count;
    std::vector<absl::Span<const std::byte>> out;
    std::vector<absl::Span<std::byte>> in;
    for (uint32_t member = 0; member < ranks; ++member) {
      out.push_back(BytesOf(addend, piece_of(member)));
      in.push_back(BytesOf(absl::MakeSpan(kept, ranks * own), {member * own, own}));
    }
    MESHSEAL_RETURN_IF_ERROR(collective.BeginGroup());
    MESHSEAL_RETURN_IF_ERROR(collective.Exchange(out, in, stream));
    MESHSEAL_RETURN_IF_ERROR(GatherLanes(collective, lanes, stream));
    MESHSEAL_RETURN_IF_ERROR(collective.EndGroup());
    // The piece is summed where its addends are, so that what is sent on does not lie where it arrives.
    MESHSEAL_RETURN_IF_CUDA_ERROR(LaunchRankOrderSum(stream, {pieces.sum, own, ranks, own, kept, kept}),
                                  "a sum in rank order");
    for (uint32_t member = 0; member < ranks; ++member) {
      out[member] = BytesOf(absl::Span<const float>(kept, own), {0, own});
      in[member] = BytesOf(sum, piece_of(member));
    }
    MESHSEAL_RETURN_IF_ERROR(collective.Exchange(out, in, stream));
  }
  return AddGatheredLanes(collective, lanes, pieces.lane, stream);
}

absl::Status EnqueueSum(DeviceCollective& collective, absl::Span<float> values, absl::Span<StatusLane> lanes,
                        cudaStream_t stream) {
  return SumInPlace(collective, values, lanes, stream);
}
absl::Status EnqueueSum(DeviceCollective& collective, absl::Span<int64_t> values, absl::Span<StatusLane> lanes,
                        cudaStream_t stream) {
  return SumInPlace(collective, values, lanes, stream);
}

}  // namespace meshseal::cuda

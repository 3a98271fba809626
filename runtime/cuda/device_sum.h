// The one collective of a program in device memory: addends and status lanes of all ranks of a group become sums on all
// of them. The same sums as a host's communicator makes (runtime/comm/communicator.h), and of the ordered ones the same
// bits.
#ifndef MESHSEAL_RUNTIME_CUDA_DEVICE_SUM_H_
#define MESHSEAL_RUNTIME_CUDA_DEVICE_SUM_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/comm/status_lane.h"
#include "runtime/cuda/device_collective.h"
#include "runtime/cuda/kernels/rank_order_sum.h"
#include "schema/terms.h"

namespace meshseal::cuda {

// Elements of the sum that member `rank` makes, from where its addends lie on: all, or its own piece.
runtime::Piece SumPieceOf(ReduceAlgorithm algorithm, uint64_t count, uint32_t ranks, uint32_t rank);

// The words of a status lane.
inline constexpr uint64_t kLaneWords = sizeof(runtime::StatusLane) / sizeof(int64_t);

// In device memory.
struct SumPieces {
  const runtime::Piece* sum = nullptr;   // SumPieceOf
  const runtime::Piece* lane = nullptr;  // 0, kLaneWords
};

// The lanes of all members beside each other, and then their sum in lanes[0]. `piece` is SumPieces's.
absl::Status GatherLanes(DeviceCollective& collective, absl::Span<runtime::StatusLane> lanes, cudaStream_t stream);
absl::Status AddGatheredLanes(DeviceCollective& collective, absl::Span<runtime::StatusLane> lanes,
                              const runtime::Piece* piece, cudaStream_t stream);
// The same by the transport.
absl::Status SumLanes(DeviceCollective& collective, absl::Span<runtime::StatusLane> lanes, cudaStream_t stream);

// Enqueues sum[i] = the members' addends, in member order, and the sum of their lanes. `lanes` has one for each member,
// of which this one's is filled; afterwards lanes[0] is their sum. `buffer` is what the plan charges
// for the collective. `algorithm` is one of the ordered ones. Reasons kDevice, those of `collective`.
absl::Status EnqueueOrderedSum(DeviceCollective& collective, ReduceAlgorithm algorithm, absl::Span<const float> addend,
                               absl::Span<std::byte> buffer, absl::Span<float> sum,
                               absl::Span<runtime::StatusLane> lanes, const SumPieces& pieces, cudaStream_t stream);

// The same in the transport's order, in place.
absl::Status EnqueueSum(DeviceCollective& collective, absl::Span<float> values, absl::Span<runtime::StatusLane> lanes,
                        cudaStream_t stream);
absl::Status EnqueueSum(DeviceCollective& collective, absl::Span<int64_t> values, absl::Span<runtime::StatusLane> lanes,
                        cudaStream_t stream);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_DEVICE_SUM_H_

// Tokens of dense groups in device memory: each group brings its own, all ranks of the expert group compute all of
// them, and each gets its own rows of the sum. The same bits as a host's communicator gives, but of fast sums.
//
// What is exchanged has the size of the largest group of a step or of its bucket, so that a graph fits every step of
// it; how many rows each group has, kernels read from device memory.
#ifndef MESHSEAL_RUNTIME_CUDA_TOKEN_EXCHANGE_H_
#define MESHSEAL_RUNTIME_CUDA_TOKEN_EXCHANGE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/comm/piece.h"
#include "runtime/comm/status_lane.h"
#include "runtime/cuda/device_collective.h"
#include "runtime/cuda/device_sum.h"
#include "runtime/cuda/kernels/dense_rows.h"
#include "runtime/program/rank_program.h"

namespace meshseal::cuda {

// What the exchanges of a program take of the memory that the plan charges for the collective.
uint64_t ExchangeBytes(const runtime::RankProgram& program);

// Members of the collective are in the order of their dense groups.
class TokenExchange {
 public:
  // `rows` are those of each of `program`'s dense groups, in device memory, of a group at most `max_rows`. `buffer` has
  // ExchangeBytes. All of it must live longer.
  TokenExchange(DeviceCollective& collective, const runtime::RankProgram& program, const runtime::Piece* rows,
                uint32_t max_rows, absl::Span<std::byte> buffer, cudaStream_t stream);

  // Enqueues `all` [T, H] = the rows that the groups bring; `own` [max_rows, H] are this rank's.
  absl::Status Gather(absl::Span<const float> own, absl::Span<float> all);

  // Enqueues own[i] = the members' addends [T, H], in member order, of this rank's rows; and the sum of their lanes.
  // `pieces.sum` is 0 and the elements of its rows.
  absl::Status OrderedSum(absl::Span<const float> addend, absl::Span<float> own, absl::Span<runtime::StatusLane> lanes,
                          const SumPieces& pieces);

  // The same in the transport's order. Where this rank's rows of the sum lie in the buffer: the first of them.
  absl::StatusOr<float*> Sum(absl::Span<const float> addend, absl::Span<runtime::StatusLane> lanes);
  absl::StatusOr<int64_t*> Sum(absl::Span<const int64_t> addend, absl::Span<runtime::StatusLane> lanes);

 private:
  uint32_t GroupOf(uint32_t member) const { return member / ranks_per_group_; }
  uint64_t elements() const { return uint64_t{rows_.max_rows} * hidden_; }
  template <class T>
  DenseRowsStep StepFor(const T* from, T* to, uint64_t elements_per_group) const;
  template <class T>
  absl::StatusOr<T*> SumOf(absl::Span<const T> addend, absl::Span<runtime::StatusLane> lanes);

  DeviceCollective& collective_;
  const uint32_t ranks_per_group_;
  const uint32_t hidden_;
  DenseRowsStep rows_;  // without where from and to
  const absl::Span<std::byte> buffer_;
  const cudaStream_t stream_;
};

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_TOKEN_EXCHANGE_H_

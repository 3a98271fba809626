#include "runtime/cuda/token_exchange.h"

#include <algorithm>
#include <vector>

#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/kernels/rank_order_sum.h"
#include "schema/mesh_view.h"
#include "schema/status_macros.h"

namespace meshseal::cuda {
namespace {

using Sent = std::vector<absl::Span<const std::byte>>;  // by member
using Received = std::vector<absl::Span<std::byte>>;

template <class T>
absl::Span<const std::byte> BytesOf(const T* values, uint64_t count) {
  return {reinterpret_cast<const std::byte*>(values), count * sizeof(T)};
}
template <class T>
absl::Span<std::byte> BytesIn(T* values, uint64_t count) {
  return {reinterpret_cast<std::byte*>(values), count * sizeof(T)};
}

// Elements of a group's sum that each of its ranks makes.
uint64_t PartOf(uint64_t elements, uint32_t ranks_per_group) {
  return (elements + ranks_per_group - 1) / ranks_per_group;
}

}  // namespace

uint64_t ExchangeBytes(const runtime::RankProgram& program) {
  const Degrees& degrees = program.degrees();
  const uint64_t ranks = uint64_t{degrees.tp} * degrees.ep;
  const uint64_t groups = DenseGroups(degrees);
  const uint64_t elements = uint64_t{program.max_own_tokens()} * program.hidden();
  const uint64_t gathered = groups * elements * sizeof(float);
  // Addends in rank order arrive beside those that are sent; a transport's sum is made in their place.
  if (program.reduce_algorithm() != ReduceAlgorithm::kTransport) return gathered + ranks * elements * sizeof(float);
  const uint64_t element_bytes = program.fixed_point().has_value() ? sizeof(int64_t) : sizeof(float);
  return std::max(gathered, ranks * PartOf(elements, degrees.dense_tp) * element_bytes);
}

TokenExchange::TokenExchange(DeviceCollective& collective, const runtime::RankProgram& program,
                             const runtime::Piece* rows, uint32_t max_rows, absl::Span<std::byte> buffer,
                             cudaStream_t stream)
    : collective_(collective),
      ranks_per_group_(program.degrees().dense_tp),
      hidden_(program.hidden()),
      buffer_(buffer),
      stream_(stream) {
  rows_.rows = rows;
  rows_.groups = DenseGroups(program.degrees());
  rows_.max_rows = max_rows;
}

template <class T>
DenseRowsStep TokenExchange::StepFor(const T* from, T* to, uint64_t elements_per_group) const {
  constexpr uint64_t kWords = sizeof(T) / sizeof(uint32_t);
  DenseRowsStep step = rows_;
  step.words_per_row = hidden_ * kWords;
  step.words_per_group = elements_per_group * kWords;
  step.from = reinterpret_cast<const uint32_t*>(from);
  step.to = reinterpret_cast<uint32_t*>(to);
  return step;
}

absl::Status TokenExchange::Gather(absl::Span<const float> own, absl::Span<float> all) {
  auto* const spread = reinterpret_cast<float*>(buffer_.data());
  const uint32_t rank = collective_.rank();
  // Of ranks that bring the same rows, the first one sends them.
  const auto brings = [&](uint32_t member) { return member % ranks_per_group_ == 0; };
  Sent out(collective_.size());
  Received in(collective_.size());
  for (uint32_t member = 0; member < collective_.size(); ++member) {
    const bool is_own = member == rank;
    if (!is_own && GroupOf(member) == GroupOf(rank)) continue;
    if (is_own || brings(rank)) out[member] = BytesOf(own.data(), elements());
    if (is_own || brings(member)) in[member] = BytesIn(spread + GroupOf(member) * elements(), elements());
  }
  MESHSEAL_RETURN_IF_ERROR(collective_.Exchange(out, in, stream_));
  return FromCuda(LaunchPackRows(stream_, StepFor<float>(spread, all.data(), elements())), "gathered rows");
}

absl::Status TokenExchange::OrderedSum(absl::Span<const float> addend, absl::Span<float> own,
                                       absl::Span<runtime::StatusLane> lanes, const SumPieces& pieces) {
  auto* const spread = reinterpret_cast<float*>(buffer_.data());
  float* const kept = spread + rows_.groups * elements();
  MESHSEAL_RETURN_IF_CUDA_ERROR(LaunchSpreadRows(stream_, StepFor<float>(addend.data(), spread, elements())),
                                "the addends of dense groups");
  Sent out(collective_.size());
  Received in(collective_.size());
  for (uint32_t member = 0; member < collective_.size(); ++member) {
    out[member] = BytesOf(spread + GroupOf(member) * elements(), elements());
    in[member] = BytesIn(kept + member * elements(), elements());
  }
  MESHSEAL_RETURN_IF_ERROR(collective_.BeginGroup());
  MESHSEAL_RETURN_IF_ERROR(collective_.Exchange(out, in, stream_));
  MESHSEAL_RETURN_IF_ERROR(GatherLanes(collective_, lanes, stream_));
  MESHSEAL_RETURN_IF_ERROR(collective_.EndGroup());
  MESHSEAL_RETURN_IF_CUDA_ERROR(
      LaunchRankOrderSum(stream_, {pieces.sum, elements(), collective_.size(), elements(), kept, own.data()}),
      "a sum in rank order");
  return AddGatheredLanes(collective_, lanes, pieces.lane, stream_);
}

template <class T>
absl::StatusOr<T*> TokenExchange::SumOf(absl::Span<const T> addend, absl::Span<runtime::StatusLane> lanes) {
  auto* const spread = reinterpret_cast<T*>(buffer_.data());
  const uint32_t rank = collective_.rank();
  const uint64_t part = PartOf(elements(), ranks_per_group_);
  MESHSEAL_RETURN_IF_CUDA_ERROR(LaunchSpreadRows(stream_, StepFor<T>(addend.data(), spread, part * ranks_per_group_)),
                                "the addends of dense groups");
  MESHSEAL_RETURN_IF_ERROR(collective_.BeginGroup());
  MESHSEAL_RETURN_IF_ERROR(collective_.ReduceScatterSum(spread, part, stream_));
  MESHSEAL_RETURN_IF_ERROR(SumLanes(collective_, lanes, stream_));
  MESHSEAL_RETURN_IF_ERROR(collective_.EndGroup());
  T* const own = spread + GroupOf(rank) * part * ranks_per_group_;
  if (ranks_per_group_ == 1) return own;
  // Each rank of a group has made a part of its sum.
  Sent out(collective_.size());
  Received in(collective_.size());
  for (uint32_t member = 0; member < collective_.size(); ++member) {
    if (GroupOf(member) != GroupOf(rank)) continue;
    out[member] = BytesOf(spread + rank * part, part);
    in[member] = BytesIn(spread + member * part, part);
  }
  MESHSEAL_RETURN_IF_ERROR(collective_.Exchange(out, in, stream_));
  return own;
}

absl::StatusOr<float*> TokenExchange::Sum(absl::Span<const float> addend, absl::Span<runtime::StatusLane> lanes) {
  return SumOf(addend, lanes);
}
absl::StatusOr<int64_t*> TokenExchange::Sum(absl::Span<const int64_t> addend, absl::Span<runtime::StatusLane> lanes) {
  return SumOf(addend, lanes);
}

}  // namespace meshseal::cuda

// One run of a program: its places as typed views of an arena. The seal proved that every place holds its value for
// max_tokens tokens.
//
// The arena may lie in memory of a device: nothing here touches what the views show.
#ifndef MESHSEAL_RUNTIME_EXECUTE_STEP_FRAME_H_
#define MESHSEAL_RUNTIME_EXECUTE_STEP_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/step_args.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/executor.h"
#include "runtime/program/rank_program.h"
#include "runtime/weights/rank_weights.h"
#include "schema/mesh_view.h"

namespace meshseal::runtime {

class StepFrame {
 public:
  // All of them must live longer, but for `input`'s spans of rows, which are not kept.
  StepFrame(const RankProgram& program, const LayerWeights& weights, const StepInput& input,
            absl::Span<std::byte> arena, StepCounters* counters)
      : program_(program), weights_(weights), layer_(input.layer), arena_(arena), counters_(counters) {
    shape_.first_token = input.first_token;
    shape_.tokens = input.tokens;
    shape_.top_k = program.layer_class().top_k;
    shape_.hidden = program.hidden();
    shape_.columns = program.columns().size();
    shape_.gated = HasGate(program.layer_class().activation.kind);
    if (!program.gathers()) {
      own_ = {0, input.tokens};
      return;
    }
    uint64_t first = 0;
    for (const uint32_t tokens : input.group_tokens) {
      groups_.push_back({first, tokens});
      first += tokens;
    }
    own_ = groups_[DenseGroupOf(program.degrees(), program.at())];
  }

  const RankProgram& program() const { return program_; }
  const LayerWeights& weights() const { return weights_; }
  const StepShape& shape() const { return shape_; }
  StepShape own_shape() const {
    StepShape shape = shape_;
    shape.tokens = static_cast<uint32_t>(own_.count);
    return shape;
  }
  uint32_t layer() const { return layer_; }
  // The rows that this rank brings and gets back, of all T.
  const Piece& own() const { return own_; }
  // For each member of the expert group, the elements that are its own of T rows of `width`.
  std::vector<Piece> MemberPieces(uint64_t width) const {
    std::vector<Piece> pieces;
    for (const Piece& rows : groups_) {
      pieces.insert(pieces.end(), program_.degrees().dense_tp, {rows.first * width, rows.count * width});
    }
    return pieces;
  }
  StepCounters* counters() const { return counters_; }

  // Whether the routing weight is multiplied in at `point`.
  bool WeighsAt(WeightPoint point) const { return program_.layer_class().router.weight_applied == point; }

  absl::Span<float> Tokens(const Buffer& place) const { return Tokens(place, shape_.hidden); }
  absl::Span<float> Tokens(const Buffer& place, uint64_t width) const { return Rows(place, shape_.tokens, width); }
  absl::Span<float> OwnTokens(const Buffer& place) const { return Rows(place, own_.count, shape_.hidden); }
  absl::Span<int32_t> TokenIds(const Buffer& place) const { return At<int32_t>(place, 0, shape_.tokens); }
  absl::Span<float> Slots(const Buffer& place, uint64_t width) const { return Rows(place, shape_.slots(), width); }
  // The same of an exact sum.
  absl::Span<int64_t> FixedTokens(const Buffer& place) const {
    return At<int64_t>(place, 0, uint64_t{shape_.tokens} * shape_.hidden);
  }
  absl::Span<int64_t> FixedSlots(const Buffer& place) const {
    return At<int64_t>(place, 0, shape_.slots() * shape_.hidden);
  }
  absl::Span<float> Grouped(const Buffer& place, uint64_t width) const {
    return Rows(place, program_.grouped_rows(), width);
  }

  // A routing place: the ids of all slots, then their weights.
  absl::Span<int32_t> ExpertIds(const Buffer& place) const { return At<int32_t>(place, 0, shape_.slots()); }
  absl::Span<float> ExpertWeights(const Buffer& place) const {
    return At<float>(place, shape_.slots(), shape_.slots());
  }
  Routing RoutingAt(const Buffer& place) const { return {ExpertIds(place), ExpertWeights(place)}; }
  OwnedSlots Owned(const Buffer& place) const {
    return {RoutingAt(place), program_.expert_places(), shape_.first_token, shape_.top_k};
  }

  // A grouping place: slot of each row, row of each slot, first row of each local expert and the end.
  absl::Span<int32_t> SlotOfRow(const Buffer& place) const { return At<int32_t>(place, 0, program_.grouped_rows()); }
  absl::Span<int32_t> RowOfSlot(const Buffer& place) const {
    return At<int32_t>(place, program_.grouped_rows(), shape_.slots());
  }
  absl::Span<int32_t> FirstRow(const Buffer& place) const {
    return At<int32_t>(place, program_.grouped_rows() + shape_.slots(), uint64_t{program_.local_experts()} + 1);
  }
  Grouping GroupingAt(const Buffer& place) const { return {SlotOfRow(place), RowOfSlot(place), FirstRow(place)}; }

  // `failure` with the place it happened at in front.
  absl::Status Placed(uint32_t step_number, const absl::Status& failure) const;

  // Where route left its result.
  const Buffer& RoutingPlace() const { return program_.route().outputs.front(); }

 private:
  template <class T>
  absl::Span<T> At(const Buffer& place, uint64_t first, uint64_t count) const {
    static_assert(sizeof(T) == 4 || std::is_same_v<T, int64_t>);  // as values are charged
    return absl::MakeSpan(reinterpret_cast<T*>(arena_.data() + place.offset) + first, count);
  }
  absl::Span<float> Rows(const Buffer& place, uint64_t rows, uint64_t width) const {
    return At<float>(place, 0, rows * width);
  }

  const RankProgram& program_;
  const LayerWeights& weights_;
  StepShape shape_;
  std::vector<Piece> groups_;  // rows of each dense group, where they are gathered
  Piece own_;
  uint32_t layer_;
  absl::Span<std::byte> arena_;
  StepCounters* counters_;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_EXECUTE_STEP_FRAME_H_

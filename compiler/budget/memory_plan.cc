#include "compiler/budget/memory_plan.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/budget/arena.h"
#include "compiler/budget/memory_refusal.h"
#include "compiler/budget/stored_size.h"
#include "schema/byte_text.h"
#include "schema/checked_math.h"
#include "schema/mesh_view.h"

namespace meshseal::compiler {
namespace {

// Rows of a prefill tile: enough for a matrix unit's height, small enough to waste little on few tokens.
constexpr uint32_t kTileRows = 8;
constexpr uint64_t kElementBytes = 4;       // values are float32, indices int32
constexpr uint64_t kExactElementBytes = 8;  // addends of an exact sum are int64
constexpr uint64_t kHeadElementBytes = 2;   // K and V matrices are bf16
constexpr uint64_t kMostIndices32 = 0x7fffffff;
// An ordered sum exchanges slices where gathering all addends brings a rank at least so many bytes more. Below it, a
// further round of messages, for which every rank waits for every other, costs more than the bytes do.
constexpr uint64_t kBytesWorthARound = uint64_t{1} << 20;

// What a rank owns of a layer; every rank with the same shape needs the same bytes.
struct RankShape {
  uint32_t experts = 0;
  uint32_t columns = 0;
  uint32_t shared_columns = 0;
  friend bool operator<(const RankShape& a, const RankShape& b) {
    return std::tie(a.experts, a.columns, a.shared_columns) < std::tie(b.experts, b.columns, b.shared_columns);
  }
};

// What one layer of a class costs a rank.
struct ShapeCost {
  uint64_t weights = 0;
  uint64_t per_expert = 0;  // of them, one expert's
  uint64_t decode_work = 0;
  uint64_t prefill_work = 0;
};

class Budgeter {
 public:
  Budgeter(const CheckedModel& checked, const Placement& placement)
      : checked_(checked), placement_(placement), degrees_(placement.degrees()) {}

  std::vector<PhaseBudget> Phases(const ClassPlacement& owned) {
    std::map<RankShape, ShapeCost> costs;
    for (uint32_t tp = 0; tp < degrees_.tp; ++tp) {
      for (uint32_t ep = 0; ep < degrees_.ep; ++ep) costs[ShapeOf(owned, {0, 0, tp, ep})] = {};
    }
    std::vector<PhaseBudget> phases;
    phases.push_back(OnePhase(owned, costs, Phase::kDecode, 0));
    phases.push_back(OnePhase(owned, costs, Phase::kPrefill, kTileRows));
    const MoeSpec& moe = MoeOf(owned);
    size_t layout = 0;
    for (auto& [shape, cost] : costs) {
      const LayerBytes bytes = sizing_.Layer(checked_.model(), moe, shape.columns, shape.shared_columns);
      cost.per_expert = bytes.per_expert;
      cost.weights =
          sizing_.Add(sizing_.Add(bytes.replicated, bytes.shared), sizing_.Mul(shape.experts, bytes.per_expert));
      cost.decode_work = phases[0].layouts[layout].arena_bytes;
      cost.prefill_work = phases[1].layouts[layout].arena_bytes;
      ++layout;
    }
    costs_.push_back(std::move(costs));
    return phases;
  }

  // Needs the phases of all classes. Replicas are alike, but for their devices.
  std::vector<RankMemory> Ranks() {
    const uint32_t replica = degrees_.pp * degrees_.tp * degrees_.ep;
    std::vector<RankMemory> ranks;
    for (uint32_t rank = 0; rank < replica * degrees_.dp; ++rank) {
      ranks.push_back(rank < replica ? LinesOf(rank) : ranks[rank % replica]);
      CloseOnDevice(rank, ranks.back());
    }
    return ranks;
  }

  bool overflowed() const { return sizing_.overflowed(); }

 private:
  const MoeSpec& MoeOf(const ClassPlacement& owned) const { return checked_.model().groups[owned.group].moe; }

  static RankShape ShapeOf(const ClassPlacement& owned, const Coordinate& at) {
    return {owned.expert_counts[at.ep], owned.ColumnsOf(at.tp), owned.SharedColumnsOf(at.tp, at.ep)};
  }

  PhaseBudget OnePhase(const ClassPlacement& owned, const std::map<RankShape, ShapeCost>& shapes, Phase phase,
                       uint32_t tile_rows) {
    PhaseBudget budget;
    budget.phase = phase;
    budget.max_tokens = GroupTokens(checked_.deployment(), phase);
    budget.tile_rows = tile_rows;
    const SharedPlacement shared = owned.shared_split ? SharedPlacement::kSplit : SharedPlacement::kOwner;
    const Reduction reduction = checked_.deployment().reduction.value;
    budget.flow = DataflowOf(degrees_, MoeOf(owned), shared, reduction, phase);
    budget.reduce_algorithm =
        ReduceAlgorithmOf(reduction, degrees_, budget.max_tokens, checked_.model().hidden_size.value);
    budget.index_bits = 32;
    for (const auto& [shape, cost] : shapes) {
      budget.layouts.push_back(Layout(owned, budget, shape));
      const std::vector<Buffer>& buffers = budget.layouts.back().buffers;
      for (size_t value = 0; value < buffers.size(); ++value) {
        const uint64_t element = ElementBytes(budget.flow.values[value].type);
        if (buffers[value].bytes / element > kMostIndices32) budget.index_bits = 64;
      }
    }
    return budget;
  }

  WorkLayout Layout(const ClassPlacement& owned, const PhaseBudget& budget, const RankShape& shape) {
    WorkLayout layout;
    layout.experts = shape.experts;
    layout.columns = shape.columns;
    layout.shared_columns = shape.shared_columns;
    if (budget.tile_rows > 0) {
      layout.grouped_rows =
          GroupedRows(budget.max_tokens, MoeOf(owned).experts_per_token.value, shape.experts, budget.tile_rows);
    }
    std::vector<Demand> demands;
    uint64_t all = 0;
    for (const FlowValue& value : budget.flow.values) {
      demands.push_back({ValueBytes(owned, value.type, budget, layout), value.first, value.last});
      all = sizing_.Add(all, sizing_.Add(demands.back().bytes, kBufferAlignment));
    }
    if (sizing_.overflowed()) return layout;
    Arena arena = PlaceBuffers(demands);
    layout.buffers = std::move(arena.buffers);
    layout.arena_bytes = arena.bytes;
    return layout;
  }

  static uint64_t ElementBytes(const Value& value) { return value.fixed_point ? kExactElementBytes : kElementBytes; }

  uint64_t ValueBytes(const ClassPlacement& owned, const Value& value, const PhaseBudget& budget,
                      const WorkLayout& layout) {
    const uint64_t slots = sizing_.Mul(budget.max_tokens, MoeOf(owned).experts_per_token.value);
    switch (value.order) {
      case ValueOrder::kRouting:
        return sizing_.Mul(slots, 2 * kElementBytes);  // expert id and weight
      case ValueOrder::kGrouping: {
        // slot of each row, row of each slot, first row of each expert and the end
        const uint64_t entries = sizing_.Add(sizing_.Add(layout.grouped_rows, slots), uint64_t{layout.experts} + 1);
        return sizing_.Mul(entries, kElementBytes);
      }
      case ValueOrder::kTokenId:
        return sizing_.Mul(budget.max_tokens, kElementBytes);
      case ValueOrder::kSlot:
        return RowBytes(slots, value, layout);
      case ValueOrder::kRow:
        return RowBytes(layout.grouped_rows, value, layout);
      case ValueOrder::kToken:
      case ValueOrder::kShared:
      case ValueOrder::kInvalid:
        break;
    }
    const bool part = value.rows == RowSet::kPart;
    return RowBytes(part ? RankTokens(checked_.deployment(), budget.phase) : budget.max_tokens, value, layout);
  }

  uint64_t RowBytes(uint64_t rows, const Value& value, const WorkLayout& layout) {
    const ValueWidth width = value.width;
    uint64_t columns = checked_.model().hidden_size.value;
    if (width == ValueWidth::kColumns) columns = layout.columns;
    if (width == ValueWidth::kTwoColumns) columns = 2 * uint64_t{layout.columns};
    if (width == ValueWidth::kSharedColumns) columns = layout.shared_columns;
    if (width == ValueWidth::kTwoSharedColumns) columns = 2 * uint64_t{layout.shared_columns};
    return sizing_.Mul(sizing_.Mul(rows, columns), ElementBytes(value));
  }

  // Everything but what the rank's device decides.
  RankMemory LinesOf(uint32_t rank) {
    const Deployment& deployment = checked_.deployment();
    const Coordinate at = CoordinateOf(degrees_, rank);
    RankMemory memory;
    bool has_collective = false;
    for (size_t index = 0; index < placement_.classes().size(); ++index) {
      const ClassPlacement& owned = placement_.classes()[index];
      const uint64_t layers = placement_.LayersOf(owned.layers, at.pp);
      if (layers == 0) continue;
      has_collective = true;
      const RankShape shape = ShapeOf(owned, at);
      const ShapeCost& cost = costs_[index].at(shape);
      memory.weights = sizing_.Add(memory.weights, sizing_.Mul(cost.weights, layers));
      const uint64_t unit = deployment.repack.value == Repack::kByTensor ? shape.experts : 1;
      if (deployment.repack.value != Repack::kNone) {
        memory.staging = std::max(memory.staging, sizing_.Mul(cost.per_expert, unit));
      }
      memory.decode_work = std::max(memory.decode_work, cost.decode_work);
      memory.prefill_work = std::max(memory.prefill_work, cost.prefill_work);
    }
    if (has_collective) {
      memory.collective = std::max(CollectiveBytes(Phase::kDecode), CollectiveBytes(Phase::kPrefill));
    }
    memory.other = OtherBytes(at.pp);
    memory.repacked = deployment.repacked.value;
    memory.capture = deployment.capture.value;
    memory.sessions = sizing_.Mul(deployment.sessions.value, deployment.per_session.value);
    return memory;
  }

  // What is not MoE, cut over the dense ranks; whole KV heads where they are fewer than the ranks.
  uint64_t OtherBytes(uint32_t pp) {
    const Manifest& model = checked_.model();
    const uint64_t stage_layers = placement_.LayersOf({{0, placement_.stage_ends().back()}}, pp);
    const uint64_t all_layers = model.layers.value;
    uint64_t bytes =
        sizing_.Add(sizing_.Mul(model.other_weights.layers.value, stage_layers), all_layers - 1) / all_layers;
    if (pp == 0) bytes = sizing_.Add(bytes, model.other_weights.first.value);
    if (pp + 1 == degrees_.pp) bytes = sizing_.Add(bytes, model.other_weights.last.value);
    bytes = sizing_.Add(bytes, uint64_t{degrees_.dense_tp} - 1) / degrees_.dense_tp;
    if (checked_.deployment().kv_heads != KvHeads::kReplicate || !model.attention.has_value()) return bytes;
    const uint64_t kv_heads = model.attention->kv_heads.value;
    if (degrees_.dense_tp <= kv_heads) return bytes;
    const uint64_t head =
        sizing_.Mul(sizing_.Mul(model.attention->head_dim.value, model.hidden_size.value), 2 * kHeadElementBytes);
    const uint64_t whole = sizing_.Mul(head, stage_layers);
    return sizing_.Add(bytes, whole - sizing_.Mul(whole, kv_heads) / degrees_.dense_tp);
  }

  // The buffers of the collective and of the gather, of one step.
  uint64_t CollectiveBytes(Phase phase) {
    const Deployment& deployment = checked_.deployment();
    const bool gathers = Gathers(degrees_);
    const uint64_t group = uint64_t{degrees_.tp} * degrees_.ep;
    const bool exact = deployment.reduction.value == Reduction::kExact;
    const uint64_t hidden = checked_.model().hidden_size.value;
    const uint64_t tokens = gathers ? RankTokens(deployment, phase) : GroupTokens(deployment, phase);
    const uint64_t elements = sizing_.Mul(tokens, hidden);
    const uint64_t element_bytes = exact ? kExactElementBytes : kElementBytes;
    const uint64_t slice = sizing_.Add(sizing_.Mul(elements, element_bytes), kStatusLaneBytes);
    const ReduceAlgorithm algorithm =
        ReduceAlgorithmOf(deployment.reduction.value, degrees_, GroupTokens(deployment, phase), hidden);
    // What is added in rank order is kept of every rank: whole addends, or pieces of them beside what is sent. A sum
    // that is added up as it arrives needs room for what arrives next; where tokens are gathered, that is their memory.
    const uint64_t kept = algorithm == ReduceAlgorithm::kTransport ? 1 : group;
    if (gathers) {
      const uint64_t dense_groups = group / degrees_.dense_tp;
      const uint64_t reduced = sizing_.Mul(std::max(kept, dense_groups), slice);
      return sizing_.Add(reduced, sizing_.Mul(sizing_.Mul(elements, kElementBytes), dense_groups));
    }
    if (group == 1 || algorithm == ReduceAlgorithm::kGatherThenSum) return sizing_.Mul(kept, slice);
    const uint64_t piece = sizing_.Mul(sizing_.Add(elements, group - 1) / group, element_bytes);
    return sizing_.Add(slice, sizing_.Mul(kept, piece));
  }

  void CloseOnDevice(uint32_t rank, RankMemory& memory) {
    const DeviceKindSpec& device = checked_.mesh().KindOfNode(placement_.rank_slots()[rank].node);
    if (degrees_.tp * degrees_.ep > 1) memory.communicator = device.communicator_reserve.value;
    memory.total = std::max({memory.staging, memory.decode_work, memory.prefill_work});
    for (const uint64_t line : {memory.weights, memory.other, memory.repacked, memory.collective, memory.communicator,
                                memory.capture, memory.sessions}) {
      memory.total = sizing_.Add(memory.total, line);
    }
    const uint64_t headroom = checked_.deployment().headroom.value;
    memory.budget = device.memory.value > headroom ? device.memory.value - headroom : 0;
    memory.budget = std::min(memory.budget, device.usable.value);
  }

  const CheckedModel& checked_;
  const Placement& placement_;
  const Degrees& degrees_;
  std::vector<std::map<RankShape, ShapeCost>> costs_;  // per class
  StoredSize sizing_;
};

}  // namespace

uint64_t GroupedRows(uint64_t tokens, uint64_t top_k, uint64_t experts, uint64_t tile) {
  const uint64_t rows = tokens * std::min(top_k, experts);
  const uint64_t active = std::min(experts, rows);
  const uint64_t by_rows = tile * (active + (rows - active) / tile);
  const uint64_t by_tokens = experts * tile * ((tokens + tile - 1) / tile);
  return std::min(by_rows, by_tokens);
}

std::string LinesText(const RankMemory& memory) {
  std::string text;
  const auto add = [&text](const char* name, uint64_t bytes) {
    if (bytes > 0) absl::StrAppend(&text, text.empty() ? "" : ", ", name, " ", ByteText(bytes));
  };
  add("weights", memory.weights);
  add("not MoE", memory.other);
  add("repacked", memory.repacked);
  add("staging", memory.staging);
  add("decode work", memory.decode_work);
  add("prefill work", memory.prefill_work);
  add("collective", memory.collective);
  add("communicator", memory.communicator);
  add("capture", memory.capture);
  add("sessions", memory.sessions);
  return text;
}

uint32_t GroupTokens(const Deployment& deployment, Phase phase) {
  return static_cast<uint32_t>(phase == Phase::kDecode ? deployment.decode_tokens.value
                                                       : deployment.prefill_chunk.value);
}

uint32_t RankTokens(const Deployment& deployment, Phase phase) {
  if (!deployment.rank_tokens.has_value()) return GroupTokens(deployment, phase);
  const RankTokensSpec& rank = *deployment.rank_tokens;
  return static_cast<uint32_t>(phase == Phase::kDecode ? rank.decode.value : rank.prefill.value);
}

ReduceAlgorithm ReduceAlgorithmOf(Reduction reduction, const Degrees& degrees, uint32_t tokens, uint64_t hidden) {
  if (reduction != Reduction::kOrdered) return ReduceAlgorithm::kTransport;
  if (Gathers(degrees)) return ReduceAlgorithm::kExchangeThenSum;
  const uint64_t group = uint64_t{degrees.tp} * degrees.ep;
  if (group <= 2) return ReduceAlgorithm::kGatherThenSum;
  // Of N bytes a rank gathers (G - 1) N, and exchanges 2 (G - 1) N / G: (G - 1) (G - 2) N / G less.
  StoredSize sizes;
  const uint64_t bytes = sizes.Mul(sizes.Mul(tokens, hidden), kElementBytes);
  const uint64_t saved_of_group = sizes.Mul(sizes.Mul(bytes, group - 1), group - 2);
  // Tokens and hidden fit, so that only a group of thousands can be too much for 64 bits.
  const bool saves = sizes.overflowed() || saved_of_group >= sizes.Mul(kBytesWorthARound, group);
  return saves ? ReduceAlgorithm::kExchangeThenSum : ReduceAlgorithm::kGatherThenSum;
}

std::optional<MemoryPlan> Budget(const CheckedModel& checked, const Placement& placement, Diagnostics& diagnostics) {
  Budgeter budgeter(checked, placement);
  MemoryPlan plan;
  for (const ClassPlacement& owned : placement.classes()) plan.classes_.push_back(budgeter.Phases(owned));
  plan.ranks_ = budgeter.Ranks();
  if (budgeter.overflowed()) {
    diagnostics.Error("memory-fits", checked.deployment().decode_tokens.span,
                      "a rank needs more bytes than 64 bits count at these limits");
    return std::nullopt;
  }
  const size_t before = diagnostics.size();
  CheckMemoryFits(checked, placement, plan.ranks_, diagnostics);
  if (diagnostics.size() != before) return std::nullopt;
  return plan;
}

}  // namespace meshseal::compiler

#include "compiler/budget/memory_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/budget/arena.h"
#include "compiler/budget/stored_size.h"
#include "schema/byte_text.h"
#include "schema/checked_math.h"
#include "schema/mesh_view.h"

namespace meshseal::compiler {
namespace {

// Rows of a prefill tile: enough for a matrix unit's height, small enough to waste little on few tokens.
constexpr uint32_t kTileRows = 8;
constexpr uint64_t kStatusLaneBytes = 64;
constexpr uint64_t kElementBytes = 4;  // values are float32, indices int32

// What a rank owns of a layer; every rank with the same shape needs the same bytes.
struct RankShape {
  uint32_t experts = 0;
  uint32_t columns = 0;
  friend bool operator<(const RankShape& a, const RankShape& b) {
    return std::tie(a.experts, a.columns) < std::tie(b.experts, b.columns);
  }
};

class Budgeter {
 public:
  Budgeter(const CheckedModel& checked, const Placement& placement) : checked_(checked), placement_(placement) {}

  std::vector<PhaseBudget> Phases(size_t group) {
    const Deployment& deployment = checked_.deployment();
    std::vector<PhaseBudget> phases;
    phases.push_back(OnePhase(group, Phase::kDecode, deployment.decode_tokens.value, 0));
    phases.push_back(OnePhase(group, Phase::kPrefill, deployment.prefill_chunk.value, kTileRows));
    return phases;
  }

  std::vector<RankMemory> Ranks(const std::vector<std::vector<PhaseBudget>>& groups) {
    const uint32_t world = *WorldOf(placement_.degrees());
    std::vector<RankMemory> ranks;
    for (uint32_t rank = 0; rank < world; ++rank) ranks.push_back(OneRank(groups, rank));
    return ranks;
  }

  bool overflowed() const { return sizing_.overflowed(); }

 private:
  const MoeSpec& MoeOf(size_t group) const { return checked_.model().groups[group].moe; }

  RankShape ShapeOf(size_t group, const Coordinate& at) const {
    return {placement_.groups()[group].expert_counts[at.ep], placement_.groups()[group].ColumnsOf(at.tp)};
  }

  PhaseBudget OnePhase(size_t group, Phase phase, uint64_t max_tokens, uint32_t tile_rows) {
    PhaseBudget budget;
    budget.phase = phase;
    budget.max_tokens = static_cast<uint32_t>(max_tokens);
    budget.tile_rows = tile_rows;
    budget.flow = DataflowOf(placement_.degrees(), phase, MoeOf(group).residual.value);
    std::set<RankShape> shapes;
    for (uint32_t ep = 0; ep < placement_.degrees().ep; ++ep) {
      for (uint32_t tp = 0; tp < placement_.degrees().tp; ++tp) shapes.insert(ShapeOf(group, {0, 0, tp, ep}));
    }
    for (const RankShape& shape : shapes) budget.layouts.push_back(Layout(group, budget, shape));
    return budget;
  }

  WorkLayout Layout(size_t group, const PhaseBudget& budget, const RankShape& shape) {
    WorkLayout layout;
    layout.experts = shape.experts;
    layout.columns = shape.columns;
    if (budget.tile_rows > 0) {
      layout.grouped_rows =
          GroupedRows(budget.max_tokens, MoeOf(group).experts_per_token.value, shape.experts, budget.tile_rows);
    }
    std::vector<Demand> demands;
    uint64_t all = 0;
    for (const FlowValue& value : budget.flow.values) {
      demands.push_back({ValueBytes(group, value.type, budget, layout), value.first, value.last});
      all = sizing_.Add(all, sizing_.Add(demands.back().bytes, kBufferAlignment));
    }
    if (sizing_.overflowed()) return layout;
    Arena arena = PlaceBuffers(demands);
    layout.buffers = std::move(arena.buffers);
    layout.arena_bytes = arena.bytes;
    return layout;
  }

  uint64_t ValueBytes(size_t group, const Value& value, const PhaseBudget& budget, const WorkLayout& layout) {
    const uint64_t slots = sizing_.Mul(budget.max_tokens, MoeOf(group).experts_per_token.value);
    const uint64_t hidden = checked_.model().hidden_size.value;
    if (value.order == ValueOrder::kRouting) return sizing_.Mul(slots, 2 * kElementBytes);  // expert id and weight
    if (value.order == ValueOrder::kGrouping) {
      // slot of each row, row of each slot, first row of each expert and the end
      const uint64_t entries = sizing_.Add(sizing_.Add(layout.grouped_rows, slots), uint64_t{layout.experts} + 1);
      return sizing_.Mul(entries, kElementBytes);
    }
    const uint64_t rows = value.order == ValueOrder::kSlot  ? slots
                          : value.order == ValueOrder::kRow ? layout.grouped_rows
                                                            : uint64_t{budget.max_tokens};
    const uint64_t columns = value.width == ValueWidth::kHidden       ? hidden
                             : value.width == ValueWidth::kTwoColumns ? 2 * uint64_t{layout.columns}
                                                                      : uint64_t{layout.columns};
    return sizing_.Mul(sizing_.Mul(rows, columns), kElementBytes);
  }

  // Values of the shared expert's branch: gate and up, activation, down. They share no byte with the routed part.
  uint64_t SharedWork(uint64_t max_tokens, uint64_t shared_columns) {
    if (shared_columns == 0) return 0;
    const uint64_t columns = sizing_.Add(3 * shared_columns, checked_.model().hidden_size.value);
    return sizing_.Mul(sizing_.Mul(max_tokens, columns), kElementBytes);
  }

  RankMemory OneRank(const std::vector<std::vector<PhaseBudget>>& groups, uint32_t rank) {
    const Degrees& degrees = placement_.degrees();
    const Manifest& model = checked_.model();
    const Deployment& deployment = checked_.deployment();
    const Coordinate at = CoordinateOf(degrees, rank);

    RankMemory memory;
    for (size_t group = 0; group < groups.size(); ++group) {
      const uint64_t layers = placement_.LayersOf(model.groups[group].layers, at.pp);
      if (layers == 0) continue;
      const RankShape shape = ShapeOf(group, at);
      const uint32_t shared_columns = placement_.groups()[group].SharedColumnsOf(at.tp, at.ep);
      memory.weights = sizing_.Add(memory.weights, sizing_.Mul(LayerWeights(group, shape, shared_columns), layers));
      for (const PhaseBudget& phase : groups[group]) {
        const uint64_t shared = SharedWork(phase.max_tokens, shared_columns);
        for (const WorkLayout& layout : phase.layouts) {
          if (layout.experts == shape.experts && layout.columns == shape.columns) {
            memory.work = std::max(memory.work, sizing_.Add(layout.arena_bytes, shared));
          }
        }
        memory.collective = std::max(memory.collective, CollectiveBytes(phase.max_tokens));
      }
    }
    const DeviceKindSpec& device = DeviceOf(rank);
    if (degrees.tp * degrees.ep > 1) {
      memory.collective = sizing_.Add(memory.collective, device.communicator_reserve.value);
    }
    const uint64_t parts = uint64_t{degrees.dense_tp} * degrees.pp;
    memory.other = sizing_.Add(model.other_weights.value, parts - 1) / parts;
    memory.sessions = sizing_.Mul(deployment.sessions.value, deployment.per_session.value);
    for (const uint64_t line : {memory.weights, memory.other, memory.work, memory.collective, memory.sessions}) {
      memory.total = sizing_.Add(memory.total, line);
    }
    const uint64_t headroom = deployment.headroom.value;
    memory.budget = device.memory.value > headroom ? device.memory.value - headroom : 0;
    memory.budget = std::min(memory.budget, device.usable.value);
    return memory;
  }

  uint64_t LayerWeights(size_t group, const RankShape& shape, uint32_t shared_columns) {
    const LayerBytes bytes = sizing_.Layer(checked_.model(), MoeOf(group), shape.columns, shared_columns);
    return sizing_.Add(sizing_.Add(bytes.replicated, bytes.shared), sizing_.Mul(shape.experts, bytes.per_expert));
  }

  // all-gather + rank-order sum keeps one slice of every rank: the tokens' rows and a status lane.
  uint64_t CollectiveBytes(uint32_t max_tokens) {
    const uint64_t rows = sizing_.Mul(sizing_.Mul(max_tokens, checked_.model().hidden_size.value), kElementBytes);
    return sizing_.Mul(sizing_.Add(rows, kStatusLaneBytes),
                       uint64_t{placement_.degrees().tp} * placement_.degrees().ep);
  }

  const DeviceKindSpec& DeviceOf(uint32_t rank) const {
    return checked_.mesh().KindOfNode(placement_.rank_slots()[rank].node);
  }

  const CheckedModel& checked_;
  const Placement& placement_;
  StoredSize sizing_;
};

// The ranks of a device (of a host: of all its slots) together, against its budget.
void CheckDevices(const CheckedModel& checked, const Placement& placement, const std::vector<RankMemory>& ranks,
                  Diagnostics& diagnostics) {
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> sharing;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const RankSlot& slot = placement.rank_slots()[rank];
    const bool host = checked.mesh().KindOfNode(slot.node).memory_kind.value == MemoryKind::kHost;
    sharing[{slot.node, host ? 0 : slot.slot}].push_back(rank);
  }
  for (const auto& [place, members] : sharing) {
    uint64_t needed = 0;
    bool overflowed = false;
    uint32_t largest = members.front();
    for (const uint32_t rank : members) {
      const std::optional<uint64_t> sum = CheckedAdd(needed, ranks[rank].total);
      overflowed = overflowed || !sum.has_value();
      needed = sum.value_or(0);
      if (ranks[rank].total > ranks[largest].total) largest = rank;
    }
    const RankMemory& m = ranks[largest];
    if (!overflowed && needed <= m.budget) continue;
    const DeviceKindSpec& device = checked.mesh().KindOfNode(place.first);
    const std::string subject =
        members.size() == 1
            ? absl::StrCat("rank ", largest, " (", CoordinateText(CoordinateOf(placement.degrees(), largest)),
                           ") needs ")
            : absl::StrCat(members.size(), " ranks on node '", checked.mesh().nodes[place.first].name.value, "' need ");
    Diagnostic& error = diagnostics.Error(
        "memory-fits", device.memory.span,
        absl::StrCat(subject, ByteText(needed), ", ", ByteText(m.budget), " are there (", ByteText(device.memory.value),
                     " - ", ByteText(checked.deployment().headroom.value), " headroom)"));
    error.notes.push_back({checked.deployment().headroom.span,
                           absl::StrCat("the largest rank ", largest, ": weights ", ByteText(m.weights), ", not MoE ",
                                        ByteText(m.other), ", work ", ByteText(m.work), ", collective ",
                                        ByteText(m.collective), ", sessions ", ByteText(m.sessions))});
  }
}

}  // namespace

uint64_t GroupedRows(uint64_t tokens, uint64_t top_k, uint64_t experts, uint64_t tile) {
  const uint64_t rows = tokens * std::min(top_k, experts);
  const uint64_t active = std::min(experts, rows);
  const uint64_t by_rows = tile * (active + (rows - active) / tile);
  const uint64_t by_tokens = experts * tile * ((tokens + tile - 1) / tile);
  return std::min(by_rows, by_tokens);
}

std::optional<MemoryPlan> Budget(const CheckedModel& checked, const Placement& placement, Diagnostics& diagnostics) {
  Budgeter budgeter(checked, placement);
  MemoryPlan plan;
  for (size_t group = 0; group < checked.model().groups.size(); ++group) {
    plan.groups_.push_back(budgeter.Phases(group));
  }
  plan.ranks_ = budgeter.Ranks(plan.groups_);
  if (budgeter.overflowed()) {
    diagnostics.Error("memory-fits", checked.deployment().decode_tokens.span,
                      "a rank needs more bytes than 64 bits count at these limits");
    return std::nullopt;
  }
  const size_t before = diagnostics.size();
  CheckDevices(checked, placement, plan.ranks_, diagnostics);
  if (diagnostics.size() != before) return std::nullopt;
  return plan;
}

}  // namespace meshseal::compiler

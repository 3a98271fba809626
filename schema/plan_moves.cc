#include "schema/plan_moves.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/checked_math.h"
#include "schema/dtype.h"
#include "schema/meaning/rules.h"
#include "schema/mesh_view.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal {
namespace {

uint64_t Count(const Interval& interval) { return interval.last - interval.first; }

uint64_t Count(const Intervals& intervals) {
  uint64_t count = 0;
  for (const Interval& interval : intervals) count += Count(interval);
  return count;
}

// Appends to ascending intervals.
void Append(uint32_t first, uint32_t last, Intervals* intervals) {
  if (!intervals->empty() && intervals->back().last == first) {
    intervals->back().last = last;
  } else {
    intervals->push_back({first, last});
  }
}

// The rules of the meaning gate that a plan must keep for its owners to be compared.
absl::Status CheckOwners(const Plan& plan, const char* which) {
  struct Rule {
    const char* slug;
    meaning::Fault (*check)(const Plan&, const SealFacts&);
  };
  constexpr Rule kRules[] = {
      {"degrees-make-world", meaning::DegreesMakeWorld},
      {"ranks-have-slots", meaning::RanksHaveSlots},
      {"stages-cover-layers", meaning::StagesCoverLayers},
      {"layers-are-covered-once", meaning::LayersAreCoveredOnce},
      {"sizes-are-sane", meaning::SizesAreSane},
      {"tensors-are-complete", meaning::TensorsAreComplete},
      {"experts-are-owned-once", meaning::ExpertsAreOwnedOnce},
      {"columns-are-owned-once", meaning::ColumnsAreOwnedOnce},
  };
  for (const Rule& rule : kRules) {
    if (const meaning::Fault fault = rule.check(plan, SealFacts{})) {
      return Refuse(Reason::kMeaning, absl::StrCat("plan ", which, ": [", rule.slug, "] ", *fault));
    }
  }
  return absl::OkStatus();
}

// Bytes of one layer's weights: of each (expert, column) and of what every rank of the stage holds.
struct LayerBytes {
  uint64_t column = 0;
  uint64_t router = 0;
};

// One layer class of one plan: who holds which part.
struct ClassView {
  const LayerClass* layer_class = nullptr;
  std::vector<Intervals> experts;  // per ep coordinate
  std::vector<Interval> columns;   // per tp coordinate
  LayerBytes bytes;
};

// Whether every sum below stays inside 64 bits: all ranks with all layers, each as large as one of `c`.
bool Fits(const LayerClass& c, const LayerBytes& bytes, uint64_t layers, uint64_t ranks) {
  const auto experts = CheckedMul(uint64_t{c.experts} * c.intermediate, bytes.column);
  const auto layer = experts.has_value() ? CheckedAdd(*experts, bytes.router) : std::nullopt;
  const auto replica = layer.has_value() ? CheckedMul(*layer, layers) : std::nullopt;
  return replica.has_value() && CheckedMul(*replica, ranks).has_value();
}

bool IsReplicated(const TensorClass& tensor) { return tensor.role == TensorRole::kRouter; }

absl::Status TooLarge(const char* which, const LayerClass& c) {
  return Refuse(Reason::kMeaning, absl::StrCat("plan ", which, ": the weights of layer ", c.layers.front().first,
                                               " are no whole bytes, or more than 64 bits hold"));
}

std::optional<uint64_t> BytesOfTensor(const Plan& plan, const LayerClass& c, const TensorClass& tensor) {
  return BytesOf(tensor.dtype, IsReplicated(tensor) ? uint64_t{c.experts} * plan.hidden : plan.hidden);
}

absl::StatusOr<ClassView> ViewOf(const Plan& plan, const LayerClass& c, const char* which) {
  ClassView view;
  view.layer_class = &c;
  view.experts.resize(plan.degrees.ep);
  for (uint32_t expert = 0; expert < c.experts; ++expert) {
    Append(expert, expert + 1, &view.experts[c.expert_shards[expert].owner]);
  }
  uint32_t begin = 0;
  for (const uint32_t segment_end : c.tp_segment_ends) {
    const uint32_t end = c.segment_ends[segment_end - 1];
    view.columns.push_back({begin, end});
    begin = end;
  }
  for (const TensorClass& tensor : c.tensors) {
    const std::optional<uint64_t> bytes = BytesOfTensor(plan, c, tensor);
    if (!bytes.has_value()) return TooLarge(which, c);
    (IsReplicated(tensor) ? view.bytes.router : view.bytes.column) += *bytes;
  }
  if (!Fits(c, view.bytes, plan.layers, *WorldOf(plan.degrees))) return TooLarge(which, c);
  return view;
}

struct PlanView {
  const Plan* plan = nullptr;
  std::vector<ClassView> classes;
  std::vector<std::optional<size_t>> class_of;  // per layer
  std::vector<uint32_t> stage_of;               // per layer

  std::optional<size_t> ClassAt(uint32_t layer) const {
    return layer < class_of.size() ? class_of[layer] : std::nullopt;
  }
};

absl::StatusOr<PlanView> ViewOf(const Plan& plan, const char* which) {
  MESHSEAL_RETURN_IF_ERROR(CheckOwners(plan, which));
  PlanView view;
  view.plan = &plan;
  view.class_of.resize(plan.layers);
  for (size_t i = 0; i < plan.layer_classes.size(); ++i) {
    MESHSEAL_ASSIGN_OR_RETURN(ClassView of_class, ViewOf(plan, plan.layer_classes[i], which));
    view.classes.push_back(std::move(of_class));
    for (const LayerRange& range : plan.layer_classes[i].layers) {
      for (uint32_t layer = range.first; layer < range.last; ++layer) view.class_of[layer] = i;
    }
  }
  for (uint32_t pp = 0; pp < plan.degrees.pp; ++pp) view.stage_of.resize(plan.stage_ends[pp], pp);
  return view;
}

// Layers that are alike in both plans: one class, or none, and one stage each.
struct LayerGroup {
  std::optional<size_t> class_index;
  uint32_t stage = 0;
  friend bool operator<(const LayerGroup& x, const LayerGroup& y) {
    return std::tie(x.class_index, x.stage) < std::tie(y.class_index, y.stage);
  }
};

// Bytes of the tensors that are the same in both layer classes.
LayerBytes SharedBytes(const Plan& plan_a, const ClassView& a, const Plan& plan_b, const ClassView& b) {
  LayerBytes shared;
  const LayerClass& ca = *a.layer_class;
  const LayerClass& cb = *b.layer_class;
  if (plan_a.hidden != plan_b.hidden) return shared;
  std::map<std::string, const TensorClass*> by_name;  // names are unique: tensors-are-complete
  for (const TensorClass& tensor : ca.tensors) by_name.emplace(tensor.name, &tensor);
  for (const TensorClass& tensor : cb.tensors) {
    const auto found = by_name.find(tensor.name);
    if (found == by_name.end()) continue;
    const TensorClass& other = *found->second;
    if (other.dtype != tensor.dtype || other.shape != tensor.shape) continue;
    if (IsReplicated(tensor) ? ca.experts != cb.experts : ca.intermediate != cb.intermediate) continue;
    (IsReplicated(tensor) ? shared.router : shared.column) += *BytesOfTensor(plan_b, cb, tensor);
  }
  return shared;
}

// A coordinate of plan A and how much of a coordinate of plan B it holds.
struct Overlap {
  uint32_t at = 0;
  uint64_t count = 0;
};

// Per ep coordinate of B: the ep coordinates of A that own experts of it.
std::vector<std::vector<Overlap>> ExpertOverlaps(const ClassView& a, const ClassView& b) {
  std::vector<std::vector<Overlap>> overlaps;
  for (const Intervals& experts : b.experts) {
    std::map<uint32_t, uint64_t> counts;
    for (const Interval& interval : experts) {
      const uint32_t last = std::min(interval.last, a.layer_class->experts);
      for (uint32_t expert = interval.first; expert < last; ++expert) {
        ++counts[a.layer_class->expert_shards[expert].owner];
      }
    }
    std::vector<Overlap>& of_coordinate = overlaps.emplace_back();
    for (const auto& [owner, count] : counts) of_coordinate.push_back({owner, count});
  }
  return overlaps;
}

// Per tp coordinate of B: the tp coordinates of A that own columns of it.
std::vector<std::vector<Overlap>> ColumnOverlaps(const ClassView& a, const ClassView& b) {
  std::vector<std::vector<Overlap>> overlaps;
  size_t first = 0;  // the first interval of A that reaches into the one of B; both ascend
  for (const Interval& columns : b.columns) {
    std::vector<Overlap>& of_coordinate = overlaps.emplace_back();
    while (first < a.columns.size() && a.columns[first].last <= columns.first) ++first;
    for (size_t at = first; at < a.columns.size() && a.columns[at].first < columns.last; ++at) {
      const uint32_t begin = std::max(a.columns[at].first, columns.first);
      const uint32_t end = std::min(a.columns[at].last, columns.last);
      of_coordinate.push_back({static_cast<uint32_t>(at), end - begin});
    }
  }
  return overlaps;
}

std::optional<RankMemory> MemoryOf(const Plan& plan, const std::optional<uint32_t>& rank) {
  if (!rank.has_value() || *rank >= plan.memory.size()) return std::nullopt;
  return plan.memory[*rank];
}

// The slots of both plans, and which of them hold a coordinate of plan A.
class Slots {
 public:
  Slots(const Plan& a, const Plan& b, std::vector<SlotMoves>* slots) : degrees_(a.degrees), slots_(*slots) {
    using Place = std::tuple<uint32_t, uint32_t, uint32_t>;  // node, slot, nth
    std::map<std::string, uint32_t> nodes;
    std::map<Place, Both<std::optional<uint32_t>>> ranks;
    const auto add = [&](const Plan& plan, auto member) {
      for (const Node& node : plan.mesh.nodes) nodes.emplace(node.name, static_cast<uint32_t>(nodes.size()));
      std::map<std::pair<uint32_t, uint32_t>, uint32_t> taken;
      for (uint32_t rank = 0; rank < plan.mesh.rank_slots.size(); ++rank) {
        const RankSlot& slot = plan.mesh.rank_slots[rank];
        const uint32_t node = nodes.at(plan.mesh.nodes[slot.node].name);
        const uint32_t nth = taken[{node, slot.slot}]++;
        ranks[{node, slot.slot, nth}].*member = rank;
      }
    };
    add(a, &Both<std::optional<uint32_t>>::a);
    add(b, &Both<std::optional<uint32_t>>::b);

    std::vector<std::string> names(nodes.size());
    for (const auto& [name, number] : nodes) names[number] = name;
    slot_of_a_.resize(a.mesh.rank_slots.size());
    for (const auto& [place, rank] : ranks) {
      SlotMoves slot;
      slot.node = names[std::get<0>(place)];
      slot.slot = std::get<1>(place);
      slot.nth = std::get<2>(place);
      slot.rank = rank;
      node_of_.push_back(std::get<0>(place));
      if (rank.a.has_value()) slot_of_a_[*rank.a] = slots_.size();
      slot.memory.a = MemoryOf(a, rank.a);
      slot.memory.b = MemoryOf(b, rank.b);
      slots_.push_back(std::move(slot));
    }
    holders_.resize(slot_of_a_.size() / degrees_.dp);
    stage_holders_.resize(degrees_.pp);
    for (uint32_t rank = 0; rank < slot_of_a_.size(); ++rank) {
      Coordinate at = CoordinateOf(degrees_, rank);
      at.dp = 0;
      const uint32_t node = node_of_[slot_of_a_[rank]];
      for (RankOnNode* holders : {&holders_[RankOf(degrees_, at)], &stage_holders_[at.pp]}) {
        if (holders->lowest.empty()) holders->first = rank;
        holders->lowest.emplace(node, rank);
      }
    }
  }

  // A slot that held what plan A gives to `coordinate`, whatever its dp: one near `receiver`, else the lowest rank's.
  size_t HolderOf(const Coordinate& coordinate, size_t receiver) const {
    return Nearest(holders_[RankOf(degrees_, coordinate)], receiver);
  }

  // A slot that held what every rank of stage `pp` of plan A has.
  size_t StageHolderOf(uint32_t pp, size_t receiver) const { return Nearest(stage_holders_[pp], receiver); }

 private:
  struct RankOnNode {
    uint32_t first = 0;                   // the lowest rank of all
    std::map<uint32_t, uint32_t> lowest;  // the lowest rank on each node
  };

  size_t Nearest(const RankOnNode& ranks, size_t receiver) const {
    const auto near = ranks.lowest.find(node_of_[receiver]);
    return slot_of_a_[near == ranks.lowest.end() ? ranks.first : near->second];
  }

  const Degrees& degrees_;
  std::vector<SlotMoves>& slots_;
  std::vector<uint32_t> node_of_;          // per slot
  std::vector<size_t> slot_of_a_;          // per rank of A
  std::vector<RankOnNode> holders_;        // per rank of A with dp 0
  std::vector<RankOnNode> stage_holders_;  // per pp coordinate of A
};

// The moves of one group of layers, slot by slot.
class GroupMoves {
 public:
  GroupMoves(const PlanView& a, const PlanView& b, const Both<LayerGroup>& group, Intervals layers, bool same_weights)
      : a_(a), b_(b), group_(group), layers_(std::move(layers)), count_(Count(layers_)) {
    if (group.a.class_index.has_value()) class_a_ = &a.classes[*group.a.class_index];
    if (group.b.class_index.has_value()) class_b_ = &b.classes[*group.b.class_index];
    if (class_a_ == nullptr || class_b_ == nullptr || !same_weights) return;
    shared_ = SharedBytes(*a.plan, *class_a_, *b.plan, *class_b_);
    experts_ = ExpertOverlaps(*class_a_, *class_b_);
    columns_ = ColumnOverlaps(*class_a_, *class_b_);
  }

  // Adds to `moves` what slot number `index` holds of these layers, and to `from` every piece that another slot held.
  void AddTo(const Slots& slots, size_t index, SlotMoves* moves, std::vector<MoveSource>* from) const {
    const std::optional<Coordinate> at_a = Inside(a_, class_a_, group_.a, moves->rank.a);
    const std::optional<Coordinate> at_b = Inside(b_, class_b_, group_.b, moves->rank.b);
    if (!at_a.has_value() && !at_b.has_value()) return;
    Holding holding;
    holding.layers = layers_;
    uint64_t bytes_a = 0;
    uint64_t bytes_b = 0;
    WeightBytes router;
    if (at_a.has_value()) {
      holding.experts.a = class_a_->experts[at_a->ep];
      holding.columns.a = class_a_->columns[at_a->tp];
      router.dropped = count_ * class_a_->bytes.router;
      bytes_a = router.dropped + PieceBytes(class_a_->bytes, Count(holding.experts.a), Count(holding.columns.a));
    }
    uint64_t kept = 0;
    uint64_t from_slots = 0;
    if (at_b.has_value()) {
      holding.experts.b = class_b_->experts[at_b->ep];
      holding.columns.b = class_b_->columns[at_b->tp];
      router.received = count_ * class_b_->bytes.router;
      bytes_b = router.received + PieceBytes(class_b_->bytes, Count(holding.experts.b), Count(holding.columns.b));
      const auto receive = [&](size_t holder, uint64_t bytes) {
        from_slots += bytes;
        from->push_back({holder, bytes});
      };
      if (shared_.router > 0) {
        const uint64_t bytes = count_ * shared_.router;
        if (at_a.has_value()) {
          router.kept = bytes;
          kept += bytes;
        } else {
          receive(slots.StageHolderOf(group_.a.stage, index), bytes);
        }
      }
      if (shared_.column > 0) {
        for (const Overlap& expert : experts_[at_b->ep]) {
          for (const Overlap& column : columns_[at_b->tp]) {
            const uint64_t bytes = PieceBytes(shared_, expert.count, column.count);
            if (at_a.has_value() && at_a->tp == column.at && at_a->ep == expert.at) {
              kept += bytes;
            } else {
              receive(slots.HolderOf({0, group_.a.stage, column.at, expert.at}, index), bytes);
            }
          }
        }
      }
    }
    router.dropped -= router.kept;
    router.received -= router.kept;
    Add(router, &moves->router);
    Add({kept, bytes_a - kept, bytes_b - kept}, &moves->weights);
    moves->from_checkpoint += bytes_b - kept - from_slots;
    moves->holdings.push_back(std::move(holding));
  }

  static void Add(const WeightBytes& bytes, WeightBytes* sum) {
    sum->kept += bytes.kept;
    sum->dropped += bytes.dropped;
    sum->received += bytes.received;
  }

 private:
  // The coordinate of a rank whose stage has these layers.
  static std::optional<Coordinate> Inside(const PlanView& view, const ClassView* of_class, const LayerGroup& group,
                                          const std::optional<uint32_t>& rank) {
    if (of_class == nullptr || !rank.has_value()) return std::nullopt;
    const Coordinate at = CoordinateOf(view.plan->degrees, *rank);
    if (at.pp != group.stage) return std::nullopt;
    return at;
  }

  uint64_t PieceBytes(const LayerBytes& bytes, uint64_t experts, uint64_t columns) const {
    return count_ * experts * columns * bytes.column;
  }

  const PlanView& a_;
  const PlanView& b_;
  Both<LayerGroup> group_;
  Intervals layers_;
  uint64_t count_;
  const ClassView* class_a_ = nullptr;
  const ClassView* class_b_ = nullptr;
  LayerBytes shared_;
  std::vector<std::vector<Overlap>> experts_;
  std::vector<std::vector<Overlap>> columns_;
};

// Holdings that differ in their layers alone become one.
void MergeHoldings(std::vector<Holding>* holdings) {
  using Key = std::tuple<Intervals, Intervals, Interval, Interval>;
  std::map<Key, Intervals> layers_of;
  for (const Holding& h : *holdings) {
    Intervals& layers = layers_of[{h.experts.a, h.experts.b, h.columns.a, h.columns.b}];
    layers.insert(layers.end(), h.layers.begin(), h.layers.end());
  }
  holdings->clear();
  for (auto& [key, layers] : layers_of) {
    std::sort(layers.begin(), layers.end());
    Holding holding;
    for (const Interval& range : layers) Append(range.first, range.last, &holding.layers);
    std::tie(holding.experts.a, holding.experts.b, holding.columns.a, holding.columns.b) = key;
    holdings->push_back(std::move(holding));
  }
  std::sort(holdings->begin(), holdings->end(), [](const Holding& x, const Holding& y) { return x.layers < y.layers; });
}

// Sums the pieces by their slot; `pieces` is left in disorder.
void AddSources(std::vector<MoveSource>* pieces, SlotMoves* moves) {
  const auto by_slot = [](const MoveSource& x, const MoveSource& y) { return x.slot < y.slot; };
  std::sort(pieces->begin(), pieces->end(), by_slot);
  std::vector<MoveSource>& sources = moves->sources;
  for (const MoveSource& piece : *pieces) {
    if (sources.empty() || sources.back().slot != piece.slot) sources.push_back({piece.slot, 0});
    sources.back().bytes += piece.bytes;
  }
  if (sources.size() <= kMostSources) return;
  const auto listed = sources.begin() + static_cast<std::ptrdiff_t>(kMostSources);
  std::nth_element(sources.begin(), listed, sources.end(), [](const MoveSource& x, const MoveSource& y) {
    return x.bytes != y.bytes ? x.bytes > y.bytes : x.slot < y.slot;
  });
  for (auto rest = listed; rest != sources.end(); ++rest) {
    ++moves->unlisted_sources;
    moves->unlisted_bytes += rest->bytes;
  }
  sources = std::vector<MoveSource>(sources.begin(), listed);
  std::sort(sources.begin(), sources.end(), by_slot);
}

}  // namespace

Intervals Intersection(const Intervals& a, const Intervals& b) {
  Intervals both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const uint32_t first = std::max(a[i].first, b[j].first);
    const uint32_t last = std::min(a[i].last, b[j].last);
    if (first < last) Append(first, last, &both);
    a[i].last < b[j].last ? ++i : ++j;
  }
  return both;
}

Intervals Difference(const Intervals& a, const Intervals& b) {
  Intervals rest;
  size_t j = 0;
  for (const Interval& interval : a) {
    uint32_t first = interval.first;
    while (j < b.size() && b[j].last <= first) ++j;
    for (size_t k = j; k < b.size() && b[k].first < interval.last; ++k) {
      if (first < b[k].first) Append(first, b[k].first, &rest);
      first = b[k].last;
    }
    if (first < interval.last) Append(first, interval.last, &rest);
  }
  return rest;
}

absl::StatusOr<PlanMoves> MovesBetween(const Plan& a, const Plan& b) {
  MESHSEAL_ASSIGN_OR_RETURN(const PlanView view_a, ViewOf(a, "A"));
  MESHSEAL_ASSIGN_OR_RETURN(const PlanView view_b, ViewOf(b, "B"));
  PlanMoves moves;
  moves.same_weights =
      a.model_name == b.model_name && a.model_family == b.model_family && a.weight_source == b.weight_source;
  const Slots slots(a, b, &moves.slots);

  std::map<std::pair<LayerGroup, LayerGroup>, Intervals> layers_of;
  for (uint32_t layer = 0; layer < std::max(a.layers, b.layers); ++layer) {
    const auto group = [layer](const PlanView& view) -> LayerGroup {
      const std::optional<size_t> index = view.ClassAt(layer);
      return {index, index.has_value() ? view.stage_of[layer] : 0};
    };
    const std::pair<LayerGroup, LayerGroup> key = {group(view_a), group(view_b)};
    if (!key.first.class_index.has_value() && !key.second.class_index.has_value()) continue;
    Append(layer, layer + 1, &layers_of[key]);
  }
  std::vector<GroupMoves> groups;
  for (const auto& [key, layers] : layers_of) {
    groups.emplace_back(view_a, view_b, Both<LayerGroup>{key.first, key.second}, layers, moves.same_weights);
  }
  std::vector<MoveSource> pieces;
  for (size_t i = 0; i < moves.slots.size(); ++i) {
    SlotMoves& slot = moves.slots[i];
    pieces.clear();
    for (const GroupMoves& group : groups) group.AddTo(slots, i, &slot, &pieces);
    MergeHoldings(&slot.holdings);
    AddSources(&pieces, &slot);
    GroupMoves::Add(slot.weights, &moves.weights);
    GroupMoves::Add(slot.router, &moves.router);
    moves.from_checkpoint += slot.from_checkpoint;
  }
  return moves;
}

}  // namespace meshseal

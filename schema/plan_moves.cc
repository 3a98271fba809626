#include "schema/plan_moves.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "schema/held_weights.h"
#include "schema/mesh_view.h"
#include "schema/slot_holders.h"
#include "schema/status_macros.h"

namespace meshseal {
namespace {

// Layers that are alike in both plans: one class, or none, and one stage each.
struct LayerGroup {
  std::optional<size_t> class_index;
  uint32_t stage = 0;
  friend bool operator<(const LayerGroup& x, const LayerGroup& y) {
    return std::tie(x.class_index, x.stage) < std::tie(y.class_index, y.stage);
  }
};

// Experts of a rank of plan B that the same ep coordinates of plan A hold; none where A does not have them.
struct ExpertGroup {
  std::vector<uint32_t> holders;
  uint64_t count = 0;
};

// Per ep coordinate of B.
std::vector<std::vector<ExpertGroup>> ExpertGroups(const ClassView& a, const ClassView& b) {
  std::vector<std::vector<ExpertGroup>> groups;
  for (const Intervals& experts : b.experts) {
    std::map<std::vector<uint32_t>, uint64_t> counts;
    for (const Interval& interval : experts) {
      const uint32_t last = std::min(interval.last, a.layer_class->experts);
      for (uint32_t expert = interval.first; expert < last; ++expert) ++counts[a.holders[expert]];
    }
    std::vector<ExpertGroup>& of_coordinate = groups.emplace_back();
    for (const auto& [holders, count] : counts) of_coordinate.push_back({holders, count});
  }
  return groups;
}

// A run of columns that is in `at`, a part of plan A, and in a part of plan B.
struct Overlap {
  size_t at = 0;
  uint64_t bytes = 0;
};

// Per part of B. Parts ascend; empty ones have none. `bytes` of a number of columns.
template <class F>
std::vector<std::vector<Overlap>> Overlaps(const std::vector<Interval>& a, const std::vector<Interval>& b, F bytes) {
  std::vector<std::vector<Overlap>> overlaps;
  size_t first = 0;  // the first part of A that reaches into the one of B
  for (const Interval& part : b) {
    std::vector<Overlap>& of_part = overlaps.emplace_back();
    if (Count(part) == 0) continue;
    while (first < a.size() && a[first].last <= part.first) ++first;
    for (size_t at = first; at < a.size() && a[at].first < part.last; ++at) {
      if (Count(a[at]) == 0) continue;
      const uint32_t begin = std::max(a[at].first, part.first);
      const uint32_t end = std::min(a[at].last, part.last);
      of_part.push_back({at, bytes(end - begin)});
    }
  }
  return overlaps;
}

// The moves of one group of layers, slot by slot.
class GroupMoves {
 public:
  GroupMoves(const PlanView& a, const PlanView& b, const Both<LayerGroup>& group, Intervals layers, bool same_weights)
      : a_(a), b_(b), group_(group), layers_(std::move(layers)), count_(Count(layers_)) {
    if (group.a.class_index.has_value()) class_a_ = &a.classes[*group.a.class_index];
    if (group.b.class_index.has_value()) class_b_ = &b.classes[*group.b.class_index];
    if (class_a_ == nullptr || class_b_ == nullptr || !same_weights) return;
    const LayerClass& of_b = *class_b_->layer_class;
    common_ = CommonBytes(*a.plan, *class_a_->layer_class, *b.plan, of_b);
    experts_ = ExpertGroups(*class_a_, *class_b_);
    const auto bytes_of = [&](TensorScope scope) {
      return [&, scope](uint64_t columns) { return ColumnBytes(*b.plan, of_b, common_, scope, columns); };
    };
    columns_ = Overlaps(class_a_->columns, class_b_->columns, bytes_of(TensorScope::kExperts));
    shared_ = Overlaps(class_a_->shared, class_b_->shared, bytes_of(TensorScope::kShared));
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
    WeightBytes replicated;
    if (at_a.has_value()) {
      bytes_a = BytesAt(a_, *class_a_, *at_a);
      replicated.dropped = count_ * class_a_->bytes.replicated;
      Hold(a_, *class_a_, *at_a, &Both<Intervals>::a, &Both<Interval>::a, &holding);
    }
    uint64_t kept = 0;
    uint64_t from_slots = 0;
    if (at_b.has_value()) {
      bytes_b = BytesAt(b_, *class_b_, *at_b);
      replicated.received = count_ * class_b_->bytes.replicated;
      Hold(b_, *class_b_, *at_b, &Both<Intervals>::b, &Both<Interval>::b, &holding);
      replicated.kept = at_a.has_value() ? count_ * common_.replicated : 0;
      // What one layer's piece takes, and who held it: one of the ranks that did.
      const auto piece = [&](uint64_t of_layer, bool held, const auto& holder) {
        const uint64_t bytes = count_ * of_layer;
        if (bytes == 0) return;
        if (held) {
          kept += bytes;
          return;
        }
        from_slots += bytes;
        from->push_back({holder(), bytes});
      };
      piece(common_.replicated, at_a.has_value(), [&] { return slots.StageHolderOf(group_.a.stage, index); });
      AddExperts(at_a, *at_b, slots, index, piece);
      AddShared(at_a, *at_b, slots, index, piece);
    }
    replicated.dropped -= replicated.kept;
    replicated.received -= replicated.kept;
    Add(replicated, &moves->replicated);
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

  static size_t GroupIndex(const PlanView& view, const Coordinate& at) {
    return size_t{at.tp} * view.plan->degrees.ep + at.ep;
  }

  // All that a rank holds of these layers.
  uint64_t BytesAt(const PlanView& view, const ClassView& of_class, const Coordinate& at) const {
    return count_ * (of_class.bytes.replicated + Count(of_class.experts[at.ep]) * of_class.expert_bytes[at.tp] +
                     of_class.shared_bytes[GroupIndex(view, at)]);
  }

  static void Hold(const PlanView& view, const ClassView& of_class, const Coordinate& at,
                   Intervals Both<Intervals>::*experts, Interval Both<Interval>::*columns, Holding* holding) {
    holding->experts.*experts = of_class.experts[at.ep];
    holding->columns.*columns = of_class.columns[at.tp];
    holding->shared_columns.*columns = of_class.shared[GroupIndex(view, at)];
  }

  // The coordinates of plan A with one of `tps` and one of `eps`.
  std::vector<Coordinate> HoldersAt(const std::vector<uint32_t>& tps, const std::vector<uint32_t>& eps) const {
    std::vector<Coordinate> holders;
    for (const uint32_t tp : tps) {
      for (const uint32_t ep : eps) holders.push_back({0, group_.a.stage, tp, ep});
    }
    return holders;
  }

  template <class Piece>
  void AddExperts(const std::optional<Coordinate>& at_a, const Coordinate& at_b, const Slots& slots, size_t index,
                  const Piece& piece) const {
    if (experts_.empty()) return;
    std::vector<uint32_t> all_tp(a_.plan->degrees.tp);
    std::iota(all_tp.begin(), all_tp.end(), 0u);
    for (const ExpertGroup& group : experts_[at_b.ep]) {
      const bool held = at_a.has_value() && std::binary_search(group.holders.begin(), group.holders.end(), at_a->ep);
      piece(group.count * common_.expert, held,
            [&] { return slots.HolderOf(HoldersAt(all_tp, group.holders), index); });
      for (const Overlap& run : columns_[at_b.tp]) {
        const auto tp = static_cast<uint32_t>(run.at);
        piece(group.count * run.bytes, held && at_a->tp == tp,
              [&] { return slots.HolderOf(HoldersAt({tp}, group.holders), index); });
      }
    }
  }

  template <class Piece>
  void AddShared(const std::optional<Coordinate>& at_a, const Coordinate& at_b, const Slots& slots, size_t index,
                 const Piece& piece) const {
    if (shared_.empty()) return;
    const uint32_t ep = a_.plan->degrees.ep;
    const auto at = [&](size_t part) -> Coordinate {
      return {0, group_.a.stage, static_cast<uint32_t>(part / ep), static_cast<uint32_t>(part % ep)};
    };
    const size_t own_part = at_a.has_value() ? GroupIndex(a_, *at_a) : class_a_->shared.size();
    std::vector<Coordinate> holders;  // of what is not cut
    for (size_t part = 0; part < class_a_->shared.size(); ++part) {
      if (Count(class_a_->shared[part]) > 0) holders.push_back(at(part));
    }
    if (!holders.empty() && Count(class_b_->shared[GroupIndex(b_, at_b)]) > 0) {
      const bool held = at_a.has_value() && Count(class_a_->shared[own_part]) > 0;
      piece(common_.shared, held, [&] { return slots.HolderOf(holders, index); });
    }
    for (const Overlap& run : shared_[GroupIndex(b_, at_b)]) {
      piece(run.bytes, run.at == own_part, [&] { return slots.HolderOf({at(run.at)}, index); });
    }
  }

  const PlanView& a_;
  const PlanView& b_;
  Both<LayerGroup> group_;
  Intervals layers_;
  uint64_t count_;
  const ClassView* class_a_ = nullptr;
  const ClassView* class_b_ = nullptr;
  LayerBytes common_;
  std::vector<std::vector<ExpertGroup>> experts_;  // per ep coordinate of B
  std::vector<std::vector<Overlap>> columns_;      // per tp coordinate of B
  std::vector<std::vector<Overlap>> shared_;       // per rank of B's expert group
};

// Holdings that differ in their layers alone become one.
void MergeHoldings(std::vector<Holding>* holdings) {
  using Key = std::tuple<Intervals, Intervals, Interval, Interval, Interval, Interval>;
  std::map<Key, Intervals> layers_of;
  for (const Holding& h : *holdings) {
    Intervals& layers =
        layers_of[{h.experts.a, h.experts.b, h.columns.a, h.columns.b, h.shared_columns.a, h.shared_columns.b}];
    layers.insert(layers.end(), h.layers.begin(), h.layers.end());
  }
  holdings->clear();
  for (auto& [key, layers] : layers_of) {
    Holding holding;
    holding.layers = Joined(std::move(layers));
    std::tie(holding.experts.a, holding.experts.b, holding.columns.a, holding.columns.b, holding.shared_columns.a,
             holding.shared_columns.b) = key;
    holdings->push_back(std::move(holding));
  }
  std::sort(holdings->begin(), holdings->end(), [](const Holding& x, const Holding& y) { return x.layers < y.layers; });
}

// Sums the pieces that a slot receives by the slot that they come from; `pieces` is left in disorder.
void AddSources(std::vector<MoveSource>* pieces, SlotMoves* moves, std::vector<SlotMoves>* slots) {
  const auto by_slot = [](const MoveSource& x, const MoveSource& y) { return x.slot < y.slot; };
  std::sort(pieces->begin(), pieces->end(), by_slot);
  std::vector<MoveSource>& sources = moves->sources;
  for (const MoveSource& piece : *pieces) {
    if (sources.empty() || sources.back().slot != piece.slot) sources.push_back({piece.slot, 0});
    sources.back().bytes += piece.bytes;
    (*slots)[piece.slot].sent += piece.bytes;
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
    AddSources(&pieces, &slot, &moves.slots);
    GroupMoves::Add(slot.weights, &moves.weights);
    GroupMoves::Add(slot.replicated, &moves.replicated);
    moves.from_checkpoint += slot.from_checkpoint;
  }
  return moves;
}

}  // namespace meshseal

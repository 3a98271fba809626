// What changes between two plans: exact moves by hand, and against an oracle that walks every expert and column.
#include "schema/plan_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <ostream>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/mesh_view.h"
#include "schema/plan_diff_json.h"
#include "schema/plan_diff_text.h"
#include "schema/reason.h"
#include "tests/support/plan_builder.h"

namespace meshseal {

// How a failed test prints one.
void PrintTo(const FieldChange& change, std::ostream* out) {
  *out << change.field << ": " << change.a << " -> " << change.b;
}

namespace {

using support::BuildPlan;
using support::PlanNumbers;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// The builder's sizes: 16 hidden, 12 columns, float32, three tensors per expert.
constexpr uint64_t kColumn = 3 * 16 * 4;
constexpr uint64_t kExpert = 12 * kColumn;
constexpr uint64_t kRouter = 8 * 16 * 4;

// Ranks in order on nodes of `slots` slots each.
void Place(uint32_t slots, Plan* plan, const std::string& prefix = "n") {
  const auto world = static_cast<uint32_t>(plan->mesh.rank_slots.size());
  plan->mesh.emulated = false;
  plan->mesh.nodes.clear();
  for (uint32_t node = 0; node * slots < world; ++node) {
    plan->mesh.nodes.push_back({absl::StrCat(prefix, node), 0, slots, 0, {}});
  }
  for (uint32_t rank = 0; rank < world; ++rank) plan->mesh.rank_slots[rank] = {rank / slots, rank % slots};
}

Plan PlacedPlan(const PlanNumbers& numbers, uint32_t slots = 8, const std::string& prefix = "n") {
  Plan plan = BuildPlan(numbers);
  Place(slots, &plan, prefix);
  return plan;
}

PlanMoves Moves(const Plan& a, const Plan& b) {
  absl::StatusOr<PlanMoves> moves = MovesBetween(a, b);
  EXPECT_TRUE(moves.ok()) << moves.status();
  return moves.ok() ? *std::move(moves) : PlanMoves{};
}

// "n0/1: 512 kept, 4608 dropped, 2304 received (2304 from n0/0), experts [2,4) -> [1,2)"
std::string Line(const PlanMoves& moves, size_t index) {
  const auto place = [](const SlotMoves& slot) { return absl::StrCat(slot.node, "/", slot.slot); };
  const SlotMoves& slot = moves.slots.at(index);
  std::string text = absl::StrCat(place(slot), ": ", slot.weights.kept, " kept, ", slot.weights.dropped, " dropped, ",
                                  slot.weights.received, " received (");
  for (const MoveSource& source : slot.sources) {
    absl::StrAppend(&text, source.bytes, " from ", place(moves.slots.at(source.slot)), ", ");
  }
  absl::StrAppend(&text, slot.from_checkpoint, " new)");
  const auto experts = [](const Intervals& intervals) {
    std::string ranges;
    for (const Interval& interval : intervals) absl::StrAppend(&ranges, "[", interval.first, ",", interval.last, ")");
    return ranges.empty() ? "none" : ranges;
  };
  for (const Holding& h : slot.holdings) {
    absl::StrAppend(&text, "; layers ", experts(h.layers), " experts ", experts(h.experts.a), " -> ",
                    experts(h.experts.b), " columns ", h.columns.a.first, "-", h.columns.a.last, " -> ",
                    h.columns.b.first, "-", h.columns.b.last);
  }
  return text;
}

std::vector<std::string> Lines(const PlanMoves& moves) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < moves.slots.size(); ++i) lines.push_back(Line(moves, i));
  return lines;
}

TEST(Intervals, IntersectionAndDifferenceMatchSets) {
  std::mt19937 random(1);
  const auto intervals = [](uint32_t bits) {
    Intervals result;
    for (uint32_t i = 0; i < 16; ++i) {
      if ((bits >> i & 1u) == 0) continue;
      if (!result.empty() && result.back().last == i) {
        ++result.back().last;
      } else {
        result.push_back({i, i + 1});
      }
    }
    return result;
  };
  for (int round = 0; round < 2000; ++round) {
    const uint32_t a = random() & 0xffffu;
    const uint32_t b = random() & 0xffffu;
    ASSERT_EQ(Intersection(intervals(a), intervals(b)), intervals(a & b)) << a << " " << b;
    ASSERT_EQ(Difference(intervals(a), intervals(b)), intervals(a & ~b)) << a << " " << b;
  }
}

TEST(PlanMoves, FourToEightExpertRanks) {
  PlanNumbers numbers;
  numbers.ep = 4;
  const Plan a = PlacedPlan(numbers);
  numbers.ep = 8;
  const PlanMoves moves = Moves(a, PlacedPlan(numbers));
  ASSERT_EQ(kExpert, 2304u);
  ASSERT_EQ(kRouter, 512u);
  EXPECT_TRUE(moves.same_weights);
  const char* columns = " columns 0-12 -> 0-12";
  const char* new_columns = " columns 0-0 -> 0-12";
  EXPECT_THAT(
      Lines(moves),
      ElementsAre(
          absl::StrCat("n0/0: 2816 kept, 2304 dropped, 0 received (0 new); layers [0,1) experts [0,2) -> [0,1)",
                       columns),
          absl::StrCat("n0/1: 512 kept, 4608 dropped, 2304 received (2304 from n0/0, 0 new); layers [0,1) experts "
                       "[2,4) -> [1,2)",
                       columns),
          absl::StrCat("n0/2: 512 kept, 4608 dropped, 2304 received (2304 from n0/1, 0 new); layers [0,1) experts "
                       "[4,6) -> [2,3)",
                       columns),
          absl::StrCat("n0/3: 512 kept, 4608 dropped, 2304 received (2304 from n0/1, 0 new); layers [0,1) experts "
                       "[6,8) -> [3,4)",
                       columns),
          absl::StrCat("n0/4: 0 kept, 0 dropped, 2816 received (512 from n0/0, 2304 from n0/2, 0 new); layers [0,1) "
                       "experts none -> [4,5)",
                       new_columns),
          absl::StrCat("n0/5: 0 kept, 0 dropped, 2816 received (512 from n0/0, 2304 from n0/2, 0 new); layers [0,1) "
                       "experts none -> [5,6)",
                       new_columns),
          absl::StrCat("n0/6: 0 kept, 0 dropped, 2816 received (512 from n0/0, 2304 from n0/3, 0 new); layers [0,1) "
                       "experts none -> [6,7)",
                       new_columns),
          absl::StrCat("n0/7: 0 kept, 0 dropped, 2816 received (512 from n0/0, 2304 from n0/3, 0 new); layers [0,1) "
                       "experts none -> [7,8)",
                       new_columns)));
  EXPECT_EQ(moves.weights.kept, kExpert + 4 * kRouter);
  EXPECT_EQ(moves.weights.received, 7 * kExpert + 4 * kRouter);
  EXPECT_EQ(moves.replicated.kept, 4 * kRouter);
  EXPECT_EQ(moves.replicated.received, 4 * kRouter);
  EXPECT_EQ(moves.from_checkpoint, 0u);
}

TEST(PlanMoves, ThreeToFourExpertRanksUneven) {
  PlanNumbers numbers;
  numbers.ep = 3;
  const Plan a = PlacedPlan(numbers);
  numbers.ep = 4;
  EXPECT_THAT(
      Lines(Moves(a, PlacedPlan(numbers))),
      ElementsAre("n0/0: 5120 kept, 2304 dropped, 0 received (0 new); layers [0,1) experts [0,3) -> [0,2) columns 0-12 "
                  "-> 0-12",
                  "n0/1: 2816 kept, 4608 dropped, 2304 received (2304 from n0/0, 0 new); layers [0,1) experts [3,6) -> "
                  "[2,4) columns 0-12 -> 0-12",
                  "n0/2: 512 kept, 4608 dropped, 4608 received (4608 from n0/1, 0 new); layers [0,1) experts [6,8) -> "
                  "[4,6) columns 0-12 -> 0-12",
                  "n0/3: 0 kept, 0 dropped, 5120 received (512 from n0/0, 4608 from n0/2, 0 new); layers [0,1) experts "
                  "none -> [6,8) columns 0-0 -> 0-12"));
}

TEST(PlanMoves, ColumnsAreCutInTwo) {
  PlanNumbers numbers;
  const Plan a = PlacedPlan(numbers);
  numbers.tp = 2;
  const Plan b = PlacedPlan(numbers);
  EXPECT_THAT(Lines(Moves(a, b)),
              ElementsAre("n0/0: 9728 kept, 9216 dropped, 0 received (0 new); layers [0,1) experts [0,8) -> [0,8) "
                          "columns 0-12 -> 0-6",
                          "n0/1: 0 kept, 0 dropped, 9728 received (9728 from n0/0, 0 new); layers [0,1) experts none "
                          "-> [0,8) columns 0-0 -> 6-12"));
  EXPECT_THAT(Lines(Moves(b, a)),
              ElementsAre("n0/0: 9728 kept, 0 dropped, 9216 received (9216 from n0/1, 0 new); layers [0,1) experts "
                          "[0,8) -> [0,8) columns 0-6 -> 0-12",
                          "n0/1: 0 kept, 9728 dropped, 0 received (0 new); layers [0,1) experts [0,8) -> none columns "
                          "6-12 -> 0-0"));
}

TEST(PlanMoves, ARenamedNodeKeepsNothing) {
  PlanNumbers numbers;
  numbers.ep = 2;
  const PlanMoves moves = Moves(PlacedPlan(numbers), PlacedPlan(numbers, 8, "m"));
  EXPECT_THAT(Lines(moves),
              ElementsAre("n0/0: 0 kept, 9728 dropped, 0 received (0 new); layers [0,1) experts [0,4) -> none columns "
                          "0-12 -> 0-0",
                          "n0/1: 0 kept, 9728 dropped, 0 received (0 new); layers [0,1) experts [4,8) -> none columns "
                          "0-12 -> 0-0",
                          "m0/0: 0 kept, 0 dropped, 9728 received (9728 from n0/0, 0 new); layers [0,1) experts none "
                          "-> [0,4) columns 0-0 -> 0-12",
                          "m0/1: 0 kept, 0 dropped, 9728 received (512 from n0/0, 9216 from n0/1, 0 new); layers [0,1) "
                          "experts none -> [4,8) columns 0-0 -> 0-12"));
}

TEST(PlanMoves, AnotherDTypeOrNameComesFromTheCheckpoint) {
  PlanNumbers numbers;
  const Plan a = PlacedPlan(numbers);
  Plan b = a;
  b.layer_classes[0].tensors[3].dtype = DType::kBf16;  // down
  EXPECT_THAT(Lines(Moves(a, b)),
              ElementsAre("n0/0: 12800 kept, 6144 dropped, 3072 received (3072 new); layers [0,1) experts [0,8) -> "
                          "[0,8) columns 0-12 -> 0-12"));
  b = a;
  b.layer_classes[0].tensors[0].name = "layers.{layer}.gate";
  EXPECT_THAT(Lines(Moves(a, b)),
              ElementsAre("n0/0: 18432 kept, 512 dropped, 512 received (512 new); layers [0,1) experts [0,8) -> [0,8) "
                          "columns 0-12 -> 0-12"));
  b = a;
  b.model_name = "another";
  const PlanMoves moves = Moves(a, b);
  EXPECT_FALSE(moves.same_weights);
  EXPECT_THAT(Lines(moves),
              ElementsAre("n0/0: 0 kept, 18944 dropped, 18944 received (18944 new); layers [0,1) experts [0,8) -> "
                          "[0,8) columns 0-12 -> 0-12"));
}

TEST(PlanMoves, AnotherShapeIsAnotherTensor) {
  const Plan a = PlacedPlan({});
  const auto kept = [&a](const Plan& b) { return Moves(a, b).weights.kept; };
  ASSERT_EQ(kept(a), 8 * kExpert + kRouter);
  PlanNumbers numbers;
  numbers.hidden = 32;
  EXPECT_EQ(kept(PlacedPlan(numbers)), 0u);
  numbers = {};
  numbers.intermediate = 13;
  EXPECT_EQ(kept(PlacedPlan(numbers)), kRouter);
  numbers = {};
  numbers.experts = 9;
  EXPECT_EQ(kept(PlacedPlan(numbers)), 8 * kExpert);
  numbers = {};
  std::swap(numbers.gate_name, numbers.down_name);  // gate is [intermediate, hidden], down the other way round
  EXPECT_EQ(kept(PlacedPlan(numbers)), 8 * kExpert / 3 + kRouter);
}

TEST(PlanMoves, AReplicaNearTheReceiverIsTheSource) {
  PlanNumbers numbers;
  numbers.dp = 2;
  numbers.ep = 2;
  const Plan a = PlacedPlan(numbers, 2);
  numbers.dp = 1;
  numbers.ep = 4;
  EXPECT_THAT(
      Lines(Moves(a, PlacedPlan(numbers, 2))),
      ElementsAre("n0/0: 5120 kept, 4608 dropped, 0 received (0 new); layers [0,1) experts [0,4) -> [0,2) columns 0-12 "
                  "-> 0-12",
                  "n0/1: 512 kept, 9216 dropped, 4608 received (4608 from n0/0, 0 new); layers [0,1) experts [4,8) -> "
                  "[2,4) columns 0-12 -> 0-12",
                  "n1/0: 512 kept, 9216 dropped, 4608 received (4608 from n1/1, 0 new); layers [0,1) experts [0,4) -> "
                  "[4,6) columns 0-12 -> 0-12",
                  "n1/1: 5120 kept, 4608 dropped, 0 received (0 new); layers [0,1) experts [4,8) -> [6,8) columns 0-12 "
                  "-> 0-12"));
}

TEST(PlanMoves, LayersMoveBetweenStages) {
  PlanNumbers numbers;
  numbers.pp = 2;
  numbers.layers = 4;
  const Plan a = PlacedPlan(numbers);
  Plan b = a;
  b.stage_ends = {1, 4};
  EXPECT_THAT(Lines(Moves(a, b)),
              ElementsAre("n0/0: 18944 kept, 18944 dropped, 0 received (0 new); layers [0,1) experts [0,8) -> [0,8) "
                          "columns 0-12 -> 0-12; layers [1,2) experts [0,8) -> none columns 0-12 -> 0-0",
                          "n0/1: 37888 kept, 0 dropped, 18944 received (18944 from n0/0, 0 new); layers [1,2) experts "
                          "none -> [0,8) columns 0-0 -> 0-12; layers [2,4) experts [0,8) -> [0,8) columns 0-12 -> "
                          "0-12"));
}

TEST(PlanMoves, LayersThatOnlyOnePlanHas) {
  PlanNumbers numbers;
  numbers.layers = 3;
  const Plan a = PlacedPlan(numbers);
  numbers.moe_layers = {{1, 3}};
  const Plan b = PlacedPlan(numbers);
  EXPECT_THAT(Lines(Moves(a, b)),
              ElementsAre("n0/0: 37888 kept, 18944 dropped, 0 received (0 new); layers [0,1) experts [0,8) -> none "
                          "columns 0-12 -> 0-0; layers [1,3) experts [0,8) -> [0,8) columns 0-12 -> 0-12"));
  EXPECT_THAT(Lines(Moves(b, a)),
              ElementsAre("n0/0: 37888 kept, 0 dropped, 18944 received (18944 new); layers [0,1) experts none -> [0,8) "
                          "columns 0-0 -> 0-12; layers [1,3) experts [0,8) -> [0,8) columns 0-12 -> 0-12"));
}

TEST(PlanMoves, RanksThatShareASlotAreComparedInOrder) {
  PlanNumbers numbers;
  numbers.ep = 2;
  const Plan a = BuildPlan(numbers);  // both on node0 slot 0
  const PlanMoves moves = Moves(a, a);
  ASSERT_EQ(moves.slots.size(), 2u);
  EXPECT_EQ(moves.slots[1].nth, 1u);
  EXPECT_EQ(moves.slots[1].rank.a, 1u);
  EXPECT_EQ(moves.slots[1].weights.kept, 4 * kExpert + kRouter);
  EXPECT_EQ(moves.weights.dropped + moves.weights.received, 0u);
}

// Columns that no cut divides, in every random plan of a format.
uint32_t UnitOf(DType dtype) { return dtype == DType::kNvfp4 ? 16 : 4; }

// A plan of random degrees, layers, formats, copies and placement; some of them round robin, with rank slots shuffled.
Plan RandomPlan(std::mt19937* random) {
  const auto pick = [random](uint32_t least, uint32_t most) {
    return std::uniform_int_distribution<uint32_t>(least, most)(*random);
  };
  PlanNumbers numbers;
  numbers.dp = pick(1, 2);
  numbers.pp = pick(1, 2);
  numbers.tp = pick(1, 3);
  numbers.ep = pick(1, 4);
  numbers.layers = pick(2, 4);
  if (pick(0, 1) == 1) numbers.moe_layers = {{1, numbers.layers}};
  numbers.intermediate = 48;
  constexpr DType kFormats[] = {DType::kF32, DType::kF8E4M3, DType::kNvfp4};
  numbers.weight_dtype = kFormats[pick(0, 2)];
  numbers.column_unit = UnitOf(numbers.weight_dtype);
  numbers.fused = pick(0, 1) == 1;
  numbers.biases = pick(0, 1) == 1;
  numbers.selection_bias = pick(0, 1) == 1;
  const bool shared = pick(0, 1) == 1;
  if (shared) {
    numbers.shared_width = 48;
    if (pick(0, 1) == 1) numbers.shared_gate = SharedGate::kSigmoid;
    if (pick(0, 1) == 1 || numbers.column_unit == 16) numbers.shared_placement = SharedPlacement::kOwner;
  }
  const bool round_robin = pick(0, 1) == 1;
  if (!round_robin && numbers.ep > 1) numbers.copies = pick(0, 6);
  Plan plan = PlacedPlan(numbers, pick(2, 5));
  std::shuffle(plan.mesh.rank_slots.begin(), plan.mesh.rank_slots.end(), *random);
  LayerClass& c = plan.layer_classes[0];
  if (round_robin) {
    for (uint32_t e = 0; e < c.experts; ++e) c.expert_shards[e] = {e % numbers.ep, e / numbers.ep};
  }
  // A second class of layers, with another type or name.
  if (pick(0, 1) == 1 && c.layers[0].last - c.layers[0].first > 1) {
    LayerClass second = c;
    second.layers = {{c.layers[0].last - 1, c.layers[0].last}};
    --c.layers[0].last;
    TensorClass& tensor = second.tensors[pick(0, 2)];
    if (pick(0, 1) == 1 && tensor.sides.empty()) {
      tensor.dtype = DType::kF16;
    } else {
      tensor.name += ".second";
    }
    plan.layer_classes.push_back(second);
  }
  return plan;
}

// What one rank holds, piece by piece: (layer, tensor name, dtype, expert, run of columns), and its bytes.
using Atom = std::tuple<uint32_t, std::string, DType, uint32_t, uint32_t>;
constexpr uint32_t kNoExpert = UINT32_MAX;
constexpr uint32_t kWhole = UINT32_MAX;

// A run of columns in a matrix, or all of a vector: as the formats of these tests are stored, without whole scales.
uint64_t AtomBytes(const TensorClass& tensor, uint64_t outputs, uint64_t inputs) {
  switch (tensor.dtype) {
    case DType::kF8E4M3:
      return outputs * inputs + outputs / 4 * (inputs / 4) * 4;
    case DType::kNvfp4:
      return outputs * inputs / 2 + outputs * (inputs / 16);
    case DType::kF16:
      return outputs * inputs * 2;
    default:
      return outputs * inputs * 4;
  }
}

class RankAtoms {
 public:
  RankAtoms(const Plan& plan, uint32_t rank) : plan_(plan), at_(CoordinateOf(plan.degrees, rank)) {
    for (const LayerClass& c : plan.layer_classes) {
      for (const LayerRange& range : c.layers) {
        for (uint32_t layer = range.first; layer < range.last; ++layer) {
          if (layer >= plan.stage_ends[at_.pp] || (at_.pp > 0 && layer < plan.stage_ends[at_.pp - 1])) continue;
          for (const TensorClass& tensor : c.tensors) AddTensor(c, layer, tensor);
        }
      }
    }
  }

  std::map<Atom, uint64_t> atoms;

 private:
  void AddTensor(const LayerClass& c, uint32_t layer, const TensorClass& tensor) {
    const uint64_t hidden = plan_.hidden;
    const bool of_expert = absl::StrContains(tensor.name, "{expert}");
    const bool of_shared = absl::StrContains(tensor.name, "shared.");
    std::vector<uint32_t> experts = {kNoExpert};
    if (of_expert) experts = HeldBy(c);
    const LayerRange columns = of_shared ? SharedColumns(c) : Columns(c);
    for (const uint32_t expert : experts) {
      const auto add = [&](uint32_t run, uint64_t bytes) {
        atoms[{layer, tensor.name, tensor.dtype, expert, run}] += bytes;
      };
      for (const SideTensor& side : tensor.sides) {
        const bool fused = tensor.layout != GateUpLayout::kInvalid;
        if (side.block_rows == 0 && columns.first < columns.last) add(kWhole, fused ? 8 : 4);
      }
      if (tensor.role == TensorRole::kDownBias || tensor.role == TensorRole::kSharedExpertGate) {
        add(kWhole, AtomBytes(tensor, 1, hidden));
      } else if (tensor.role == TensorRole::kRouter || tensor.role == TensorRole::kSelectionBias) {
        add(kWhole, AtomBytes(tensor, c.experts, tensor.shape.size() == 2 ? hidden : 1));
      } else {
        const uint32_t unit = UnitOf(tensor.dtype);
        for (uint32_t column = columns.first; column < columns.last; column += unit) {
          add(column / 4, RunBytes(tensor, unit));
        }
      }
    }
  }

  uint64_t RunBytes(const TensorClass& tensor, uint64_t unit) const {
    const bool down = tensor.role == TensorRole::kDown || tensor.role == TensorRole::kSharedDown;
    const bool fused = tensor.layout == GateUpLayout::kHalves;
    const uint64_t other = tensor.shape.size() == 2 ? plan_.hidden : 1;
    return down ? AtomBytes(tensor, other, unit) : AtomBytes(tensor, fused ? unit * 2 : unit, other);
  }

  std::vector<uint32_t> HeldBy(const LayerClass& c) const {
    std::vector<uint32_t> held;
    for (uint32_t expert = 0; expert < c.experts; ++expert) {
      bool holds = c.expert_shards[expert].owner == at_.ep;
      for (const ExpertCopy& copy : c.expert_copies) holds |= copy.expert == expert && copy.owner == at_.ep;
      if (holds) held.push_back(expert);
    }
    return held;
  }

  LayerRange Columns(const LayerClass& c) const {
    const auto end = [&c](uint32_t tp) { return c.segment_ends[c.tp_segment_ends[tp] - 1]; };
    return {at_.tp == 0 ? 0 : end(at_.tp - 1), end(at_.tp)};
  }

  LayerRange SharedColumns(const LayerClass& c) const {
    const SharedExpert& shared = c.shared_expert;
    const bool owner = shared.placement == SharedPlacement::kOwner;
    if (owner && at_.ep > 0) return {};
    const size_t part = owner ? at_.tp : size_t{at_.tp} * plan_.degrees.ep + at_.ep;
    return {part == 0 ? 0 : shared.part_ends[part - 1], shared.part_ends[part]};
  }

  const Plan& plan_;
  Coordinate at_;
};

std::map<Atom, uint64_t> AtomsOf(const Plan& plan, uint32_t rank) { return RankAtoms(plan, rank).atoms; }

TEST(PlanMoves, RandomPairsMatchTheOracle) {
  std::mt19937 random(7);
  for (int round = 0; round < 150; ++round) {
    const Plan a = RandomPlan(&random);
    const Plan b = RandomPlan(&random);
    const PlanMoves moves = Moves(a, b);
    std::set<Atom> anywhere;
    for (uint32_t rank = 0; rank < a.mesh.rank_slots.size(); ++rank) {
      for (const auto& [atom, bytes] : AtomsOf(a, rank)) anywhere.insert(atom);
    }
    std::set<uint32_t> ranks_b;
    uint64_t sent = 0;
    uint64_t sourced = 0;
    for (const SlotMoves& slot : moves.slots) {
      sent += slot.sent;
      sourced += slot.weights.received - slot.from_checkpoint;
      const std::map<Atom, uint64_t> before =
          slot.rank.a.has_value() ? AtomsOf(a, *slot.rank.a) : std::map<Atom, uint64_t>{};
      const std::map<Atom, uint64_t> after =
          slot.rank.b.has_value() ? AtomsOf(b, *slot.rank.b) : std::map<Atom, uint64_t>{};
      WeightBytes expected;
      uint64_t from_checkpoint = 0;
      for (const auto& [atom, bytes] : before) (after.count(atom) > 0 ? expected.kept : expected.dropped) += bytes;
      for (const auto& [atom, bytes] : after) {
        if (before.count(atom) > 0) continue;
        expected.received += bytes;
        if (anywhere.count(atom) == 0) from_checkpoint += bytes;
      }
      const std::string where = absl::StrCat("round ", round, ", ", slot.node, "/", slot.slot);
      ASSERT_EQ(slot.weights.kept, expected.kept) << where;
      ASSERT_EQ(slot.weights.dropped, expected.dropped) << where;
      ASSERT_EQ(slot.weights.received, expected.received) << where;
      ASSERT_EQ(slot.from_checkpoint, from_checkpoint) << where;
      uint64_t from_slots = 0;
      for (const MoveSource& source : slot.sources) {
        from_slots += source.bytes;
        // The source held at least that much of what is received.
        const std::map<Atom, uint64_t> held = AtomsOf(a, *moves.slots[source.slot].rank.a);
        uint64_t most = 0;
        for (const auto& [atom, bytes] : after) {
          if (before.count(atom) == 0 && held.count(atom) > 0) most += bytes;
        }
        ASSERT_LE(source.bytes, most) << where;
        ASSERT_NE(&moves.slots[source.slot], &slot) << where;
      }
      ASSERT_EQ(from_slots + from_checkpoint, expected.received) << where;
      if (slot.rank.b.has_value()) ranks_b.insert(*slot.rank.b);
    }
    ASSERT_EQ(ranks_b.size(), b.mesh.rank_slots.size());
    ASSERT_EQ(sent, sourced) << "round " << round;
  }
}

// The weights line of the memory plan is charged by the rules of the meaning gate: an oracle of its own.
TEST(PlanMoves, SumsAreTheWeightsOfTheMemoryPlans) {
  for (const DType dtype : {DType::kF32, DType::kF8E4M3, DType::kNvfp4}) {
    for (const auto& [tp, ep] : {std::pair{1u, 4u}, {2u, 2u}, {3u, 1u}, {1u, 3u}}) {
      PlanNumbers numbers;
      numbers.layers = 3;
      numbers.ep = 8;
      numbers.intermediate = 48;
      numbers.weight_dtype = dtype;
      numbers.column_unit = UnitOf(dtype);
      numbers.copies = 5;
      numbers.biases = true;
      numbers.shared_width = 48;
      numbers.shared_gate = SharedGate::kSigmoid;
      numbers.shared_placement = SharedPlacement::kOwner;
      const Plan a = PlacedPlan(numbers);
      numbers.tp = tp;
      numbers.ep = ep;
      numbers.copies = ep > 1 ? 3 : 0;
      for (const SlotMoves& slot : Moves(a, PlacedPlan(numbers)).slots) {
        EXPECT_EQ(slot.weights.kept + slot.weights.dropped, slot.memory.a.has_value() ? slot.memory.a->weights : 0);
        EXPECT_EQ(slot.weights.kept + slot.weights.received, slot.memory.b.has_value() ? slot.memory.b->weights : 0);
      }
    }
  }
}

TEST(PlanMoves, AnExpertThatTheSlotHasACopyOfIsKept) {
  PlanNumbers numbers;
  numbers.ep = 2;
  numbers.copies = 1;  // expert 0 on ep 1 also
  const Plan a = PlacedPlan(numbers);
  numbers.copies = 0;
  Plan b = PlacedPlan(numbers);
  std::swap(b.mesh.rank_slots[0], b.mesh.rank_slots[1]);
  EXPECT_THAT(Lines(Moves(a, b)),
              ElementsAre("n0/0: 512 kept, 9216 dropped, 9216 received (9216 from n0/1, 0 new); layers [0,1) experts "
                          "[0,4) -> [4,8) columns 0-12 -> 0-12",
                          "n0/1: 2816 kept, 9216 dropped, 6912 received (6912 from n0/0, 0 new); layers [0,1) experts "
                          "[0,1)[4,8) -> [0,4) columns 0-12 -> 0-12"));
  EXPECT_EQ(Moves(a, b).slots[0].sent, 6912u);
}

TEST(PlanMoves, PartsOfTheSharedExpertMoveToo) {
  PlanNumbers numbers;
  numbers.ep = 2;
  numbers.shared_width = 8;
  const Plan a = PlacedPlan(numbers);
  numbers.shared_placement = SharedPlacement::kOwner;
  const PlanMoves moves = Moves(a, PlacedPlan(numbers));
  ASSERT_EQ(moves.slots.size(), 2u);
  EXPECT_EQ(moves.slots[0].weights.kept, 4 * kExpert + kRouter + 4 * kColumn);
  EXPECT_EQ(moves.slots[0].weights.received, 4 * kColumn);
  ASSERT_EQ(moves.slots[0].sources.size(), 1u);
  EXPECT_EQ(moves.slots[0].sources[0].slot, 1u);
  EXPECT_EQ(moves.slots[1].weights.dropped, 4 * kColumn);
  ASSERT_EQ(moves.slots[1].holdings.size(), 1u);
  EXPECT_EQ(moves.slots[1].holdings[0].shared_columns.a, (Interval{4, 8}));
  EXPECT_EQ(moves.slots[1].holdings[0].shared_columns.b, (Interval{0, 0}));
}

TEST(PlanMoves, ThousandsOfRanks) {
  PlanNumbers numbers;
  numbers.dp = 8;
  numbers.tp = 4;
  numbers.ep = 128;
  numbers.experts = 512;
  numbers.layers = 60;
  const Plan a = PlacedPlan(numbers);
  numbers.dp = 4;
  numbers.tp = 2;
  numbers.ep = 512;
  const PlanMoves moves = Moves(a, PlacedPlan(numbers));
  ASSERT_EQ(moves.slots.size(), 4096u);
  uint64_t weights = 0;
  for (const RankMemory& memory : a.memory) weights += memory.weights;
  EXPECT_EQ(moves.weights.kept + moves.weights.dropped, weights);
  EXPECT_EQ(moves.from_checkpoint, 0u);
}

TEST(PlanMoves, ManySourcesAreSummed) {
  PlanNumbers numbers;
  numbers.ep = 100;
  numbers.experts = 101;  // rank 0 owns two
  const Plan a = PlacedPlan(numbers);
  numbers.dp = 100;
  numbers.ep = 1;
  const SlotMoves slot = Moves(a, PlacedPlan(numbers)).slots[50];
  ASSERT_EQ(slot.sources.size(), kMostSources);
  EXPECT_EQ(slot.sources[0].slot, 0u);
  EXPECT_EQ(slot.sources[0].bytes, 2 * kExpert);
  EXPECT_EQ(slot.sources[63].slot, 64u);  // 50 is the receiver itself
  EXPECT_EQ(slot.unlisted_sources, 35u);
  EXPECT_EQ(slot.unlisted_bytes, 35 * kExpert);
  EXPECT_EQ(slot.weights.received, 100 * kExpert);
  EXPECT_EQ(slot.from_checkpoint, 0u);
}

TEST(PlanMoves, PlansWithoutCoherentOwnersAreRefused) {
  PlanNumbers numbers;
  numbers.ep = 2;
  const Plan good = BuildPlan(numbers);
  Plan bad = good;
  bad.layer_classes[0].expert_shards[3].owner = 9;
  absl::Status refusal = MovesBetween(good, bad).status();
  EXPECT_EQ(refusal.message(), "plan B: [experts-are-owned-once] expert 3 is owned by ep 9, ep is 2");
  EXPECT_EQ(ReasonOf(refusal), Reason::kMeaning);
  bad = good;
  bad.degrees.ep = 0;
  refusal = MovesBetween(bad, good).status();
  EXPECT_EQ(refusal.message(),
            "plan A: [degrees-make-world] degrees dp=1 pp=1 tp=1 ep=0 make no world of 1 to 65536 ranks");
  bad = good;
  bad.layers = 1u << 16;
  bad.stage_ends = {bad.layers};
  bad.layer_classes[0].layers = {{0, bad.layers}};
  bad.hidden = 1u << 20;
  bad.layer_classes[0].intermediate = 1u << 20;
  bad.layer_classes[0].segment_ends = {1u << 20};
  bad.layer_classes[0].experts = 1u << 12;
  bad.layer_classes[0].expert_shards.clear();
  for (uint32_t e = 0; e < 1u << 12; ++e) bad.layer_classes[0].expert_shards.push_back({e % 2, e / 2});
  EXPECT_EQ(MovesBetween(good, bad).status().message(),
            "plan B: the weights of layer 0 are more bytes than 64 bits hold");
}

TEST(PlanDiff, EqualOriginAndDifferent) {
  const Plan a = BuildPlan({});
  PlanDiff diff = DiffPlans(a, a);
  EXPECT_EQ(diff.relation, PlanRelation::kSame);
  EXPECT_TRUE(diff.same_execution);
  Plan b = a;
  b.compiler_version = "0.2.0";
  b.sources[1].digest = Sha256("another model.yaml");
  b.layer_classes[0].programs[0].steps[0].origin.line = 7;
  diff = DiffPlans(a, b);
  EXPECT_EQ(diff.relation, PlanRelation::kOrigin);
  EXPECT_EQ(diff.origin, (FieldChanges{{"compiler_version", "0.1.0", "0.2.0"},
                                       {"sources.1", "model.yaml 000000000000",
                                        absl::StrCat("model.yaml ", HexOf(b.sources[1].digest).substr(0, 12))}}));
  // A difference that no line names is told all the same.
  b.layer_classes[0].programs[0].layouts[0].buffers[0].offset = 64;
  diff = DiffPlans(a, b);
  EXPECT_EQ(diff.relation, PlanRelation::kDifferent);
  EXPECT_EQ(diff.plan, (FieldChanges{{"content", "as sealed in A", "other order or offsets"}}));
}

// Every field that is changed is named, alone, with both values.
TEST(PlanDiff, NamesEveryField) {
  struct Case {
    std::function<void(Plan*)> change;
    FieldChanges PlanDiff::*section;
    FieldChange expected;
  };
  const std::vector<Case> cases = {
      {[](Plan* p) { p->model_name = "m"; }, &PlanDiff::plan, {"model_name", "tiny", "m"}},
      {[](Plan* p) { p->model_family = "m"; }, &PlanDiff::plan, {"model_family", "test", "m"}},
      {[](Plan* p) { p->deployment_name = "m"; }, &PlanDiff::plan, {"deployment_name", "test", "m"}},
      {[](Plan* p) { p->degrees.dense_tp = 7; }, &PlanDiff::plan, {"degrees.dense_tp", "2", "7"}},
      {[](Plan* p) { p->layers = 9; }, &PlanDiff::plan, {"layers", "1", "9"}},
      {[](Plan* p) { p->hidden = 9; }, &PlanDiff::plan, {"hidden", "16", "9"}},
      {[](Plan* p) { p->stage_ends = {}; }, &PlanDiff::plan, {"stage_ends", "1", "none"}},
      {[](Plan* p) { p->failure_scope = FailureScope::kReplica; },
       &PlanDiff::plan,
       {"failure_scope", "world", "replica"}},
      {[](Plan* p) { p->mesh.name = "m"; }, &PlanDiff::mesh, {"name", "threads", "m"}},
      {[](Plan* p) { p->mesh.emulated = false; }, &PlanDiff::mesh, {"emulated", "yes", "no"}},
      {[](Plan* p) { p->mesh.transport = Transport::kNccl; }, &PlanDiff::mesh, {"transport", "inproc", "nccl"}},
      {[](Plan* p) { p->mesh.device_kinds[0].memory_kind = MemoryKind::kUnified; },
       &PlanDiff::mesh,
       {"device_kinds.host.memory_kind", "host", "unified"}},
      {[](Plan* p) { p->mesh.device_kinds[0].memory_bytes = 5; },
       &PlanDiff::mesh,
       {"device_kinds.host.memory_bytes", "1099511627776", "5"}},
      {[](Plan* p) { p->mesh.device_kinds[0].usable_bytes = 5; },
       &PlanDiff::mesh,
       {"device_kinds.host.usable_bytes", "1099511627776", "5"}},
      {[](Plan* p) { p->mesh.device_kinds[0].communicator_bytes = 5; },
       &PlanDiff::mesh,
       {"device_kinds.host.communicator_bytes", "0", "5"}},
      {[](Plan* p) { p->mesh.device_kinds[0].bandwidth = 5; },
       &PlanDiff::mesh,
       {"device_kinds.host.bandwidth", "100000000000", "5"}},
      {[](Plan* p) { p->mesh.device_kinds[0].bf16_rate = 5; },
       &PlanDiff::mesh,
       {"device_kinds.host.bf16_rate", "1000000000000", "5"}},
      {[](Plan* p) {
         p->mesh.island_links = {{5, 7}};
       },
       &PlanDiff::mesh,
       {"island_links.0", "10000000000 B/s after 2000 ns", "5 B/s after 7 ns"}},
      {[](Plan* p) {
         p->mesh.between_islands = {5, 7};
       },
       &PlanDiff::mesh,
       {"between_islands", "none", "5 B/s after 7 ns"}},
      {[](Plan* p) {
         p->mesh.device_kinds.push_back({"gpu", MemoryKind::kDiscrete, 8, 8, 0});
       },
       &PlanDiff::mesh,
       {"device_kinds.gpu", "none", "8 B discrete"}},
      {[](Plan* p) { p->mesh.nodes[0].slots = 3; }, &PlanDiff::mesh, {"nodes.node0.slots", "1", "3"}},
      {[](Plan* p) { p->mesh.nodes[0].device_kind = 3; },
       &PlanDiff::mesh,
       {"nodes.node0.device_kind", "host", "unknown kind"}},
      {[](Plan* p) {
         p->mesh.nodes.push_back({"node1", 0, 4, 0, {}});
       },
       &PlanDiff::mesh,
       {"nodes.node1", "none", "4 slots of host, island 0"}},
      {[](Plan* p) { p->mesh.nodes[0].island = 3; }, &PlanDiff::mesh, {"nodes.node0.island", "0", "3"}},
      {[](Plan* p) {
         p->mesh.nodes[0].identity = {"GPU-0", "GPU-1"};
       },
       &PlanDiff::mesh,
       {"nodes.node0.identity", "any", "GPU-0,GPU-1"}},
      {[](Plan* p) { p->mesh.transport_version_min = "2.28"; },
       &PlanDiff::mesh,
       {"transport_version.min", "any", "2.28"}},
      {[](Plan* p) { p->mesh.transport_version_max = "2.28"; },
       &PlanDiff::mesh,
       {"transport_version.max", "any", "2.28"}},
      {[](Plan* p) { p->attention.heads = 5; }, &PlanDiff::plan, {"attention.heads", "0", "5"}},
      {[](Plan* p) { p->attention.kv_heads = 5; }, &PlanDiff::plan, {"attention.kv_heads", "0", "5"}},
      {[](Plan* p) { p->attention.head_dim = 5; }, &PlanDiff::plan, {"attention.head_dim", "0", "5"}},
      {[](Plan* p) { p->kv_heads = KvHeads::kReplicate; }, &PlanDiff::plan, {"kv_heads", "cut", "replicate"}},
      {[](Plan* p) { p->expert_placement = ExpertPlacement::kBalanced; },
       &PlanDiff::plan,
       {"expert_placement", "contiguous", "balanced"}},
      {[](Plan* p) { p->copy_choice = CopyChoice::kInvalid; },
       &PlanDiff::plan,
       {"copy_choice", "token mod copies", "invalid"}},
      {[](Plan* p) { p->limits.decode_tokens = 5; }, &PlanDiff::limits, {"decode_tokens", "64", "5"}},
      {[](Plan* p) { p->limits.rank_decode_tokens = 5; }, &PlanDiff::limits, {"rank_decode_tokens", "64", "5"}},
      {[](Plan* p) { p->limits.rank_prefill_tokens = 5; }, &PlanDiff::limits, {"rank_prefill_tokens", "64", "5"}},
      {[](Plan* p) { p->limits.capture_bytes = 5; }, &PlanDiff::limits, {"capture_bytes", "0", "5"}},
      {[](Plan* p) { p->limits.repack = Repack::kByTensor; }, &PlanDiff::limits, {"repack", "none", "by_tensor"}},
      {[](Plan* p) { p->limits.repacked_bytes = 5; }, &PlanDiff::limits, {"repacked_bytes", "0", "5"}},
      {[](Plan* p) {
         p->limits.decode_buckets = {5, 64};
       },
       &PlanDiff::limits,
       {"decode_buckets", "64", "5,64"}},
      {[](Plan* p) { p->limits.prefill_tokens = 5; }, &PlanDiff::limits, {"prefill_tokens", "64", "5"}},
      {[](Plan* p) { p->limits.prefill_chunk = 5; }, &PlanDiff::limits, {"prefill_chunk", "64", "5"}},
      {[](Plan* p) { p->limits.sessions = 5; }, &PlanDiff::limits, {"sessions", "1", "5"}},
      {[](Plan* p) { p->limits.per_session_bytes = 5; }, &PlanDiff::limits, {"per_session_bytes", "0", "5"}},
      {[](Plan* p) { p->limits.headroom_bytes = 5; }, &PlanDiff::limits, {"headroom_bytes", "0", "5"}},
      {[](Plan* p) { p->reduction = Reduction::kFast; }, &PlanDiff::numerics, {"reduction", "ordered", "fast"}},
      {[](Plan* p) { p->exact_bound = 0.1; }, &PlanDiff::numerics, {"exact_bound", "0", "0.1"}},
      {[](Plan* p) { p->output = Basis::kBf16; }, &PlanDiff::numerics, {"output_dtype", "f32", "bf16"}},
      {[](Plan* p) { p->numerics = Numerics::kInvalid; },
       &PlanDiff::numerics,
       {"numerics", "backend's own", "invalid"}},
      {[](Plan* p) { p->weight_source = WeightSource::kGguf; },
       &PlanDiff::weights,
       {"weight_source", "safetensors", "gguf"}},
      {[](Plan* p) { p->ignored_tensors = {"x.*"}; }, &PlanDiff::weights, {"ignored_tensors.x.*", "none", "ignored"}},
      {[](Plan* p) { p->weight_seed = 5; }, &PlanDiff::weights, {"weight_seed", "0", "5"}},
      {[](Plan* p) { p->weights_digest[0] = 1; },
       &PlanDiff::weights,
       {"weights_digest", "none", "01" + std::string(62, '0')}},
      {[](Plan* p) { p->other_weights.first = 5; }, &PlanDiff::weights, {"other_weights_bytes.first", "0", "5"}},
      {[](Plan* p) { p->other_weights.layers = 5; }, &PlanDiff::weights, {"other_weights_bytes.layers", "0", "5"}},
      {[](Plan* p) { p->other_weights.last = 5; }, &PlanDiff::weights, {"other_weights_bytes.last", "0", "5"}},
      {[](Plan* p) { p->prices[0].tokens = 5; }, &PlanDiff::prices, {"decode.tokens", "64", "5"}},
      {[](Plan* p) { p->prices[1].weight_bytes = 5; }, &PlanDiff::prices, {"prefill.weight_bytes", "0", "5"}},
      {[](Plan* p) { p->prices[1].operations = 5; }, &PlanDiff::prices, {"prefill.operations", "0", "5"}},
      {[](Plan* p) { p->prices[1].link_bytes = 5; }, &PlanDiff::prices, {"prefill.link_bytes", "0", "5"}},
      {[](Plan* p) { p->prices[1].between_bytes = 5; }, &PlanDiff::prices, {"prefill.between_bytes", "0", "5"}},
      {[](Plan* p) { p->prices[1].messages = 5; }, &PlanDiff::prices, {"prefill.messages", "0", "5"}},
      {[](Plan* p) { p->prices[1].nanoseconds = 5; }, &PlanDiff::prices, {"prefill.nanoseconds", "0", "5"}},
      {[](Plan* p) { p->prices.pop_back(); }, &PlanDiff::prices, {"prefill", "0 ns", "none"}},
  };
  const std::vector<FieldChanges PlanDiff::*> sections = {&PlanDiff::plan,     &PlanDiff::mesh,    &PlanDiff::limits,
                                                          &PlanDiff::numerics, &PlanDiff::weights, &PlanDiff::origin,
                                                          &PlanDiff::prices};
  PlanNumbers numbers;
  numbers.ep = 2;
  numbers.priced = true;
  const Plan a = BuildPlan(numbers);
  for (const Case& c : cases) {
    Plan b = a;
    c.change(&b);
    const PlanDiff diff = DiffPlans(a, b);
    EXPECT_EQ(diff.relation, PlanRelation::kDifferent) << c.expected.field;
    EXPECT_THAT(diff.layers, testing::IsEmpty()) << c.expected.field;
    for (const auto section : sections) {
      const FieldChanges expected = section == c.section ? FieldChanges{c.expected} : FieldChanges{};
      EXPECT_EQ(diff.*section, expected) << c.expected.field;
    }
  }
}

TEST(PlanDiff, NamesEveryFieldOfALayerClass) {
  struct Case {
    std::function<void(LayerClass*)> change;
    FieldChange expected;
  };
  const char* gate = "layers.{layer}.experts.{expert}.gate";
  const char* scale = "layers.{layer}.experts.{expert}.gate_scale";
  const std::vector<Case> cases = {
      {[](LayerClass* c) { c->experts = 9; }, {"experts", "8", "9"}},
      {[](LayerClass* c) { c->top_k = 1; }, {"top_k", "2", "1"}},
      {[](LayerClass* c) { c->intermediate = 9; }, {"intermediate", "12", "9"}},
      {[](LayerClass* c) { c->router.epsilon = 0.01f; }, {"router.epsilon", "0", "0.01"}},
      {[](LayerClass* c) { c->router.guard = 1e-20f; }, {"router.guard", "0", "1e-20"}},
      {[](LayerClass* c) { c->router.groups.count = 4; }, {"router.groups.count", "0", "4"}},
      {[](LayerClass* c) { c->router.groups.keep = 4; }, {"router.groups.keep", "0", "4"}},
      {[](LayerClass* c) { c->router.groups.score = GroupScore::kMax; }, {"router.groups.score", "invalid", "max"}},
      {[](LayerClass* c) { c->router.vocabulary = 4; }, {"router.vocabulary", "0", "4"}},
      {[](LayerClass* c) { c->router.scoring = Scoring::kSigmoid; }, {"router.scoring", "softmax", "sigmoid"}},
      {[](LayerClass* c) { c->router.order = RouteOrder::kTopKThenScore; },
       {"router.order", "score_then_topk", "topk_then_score"}},
      {[](LayerClass* c) { c->router.renormalize = Renormalize::kNone; }, {"router.renormalize", "sum", "none"}},
      {[](LayerClass* c) { c->router.weight_applied = WeightPoint::kInput; },
       {"router.weight_applied", "output", "input"}},
      {[](LayerClass* c) { c->router.input = Basis::kBf16; }, {"router.input_dtype", "f32", "bf16"}},
      {[](LayerClass* c) { c->router.scale = 1.0000001f; }, {"router.scale", "1", "1.0000001"}},
      {[](LayerClass* c) { c->activation.kind = ActivationKind::kGeGlu; }, {"activation.kind", "swiglu", "geglu"}},
      {[](LayerClass* c) { c->activation.alpha = 1.702f; }, {"activation.alpha", "0", "1.702"}},
      {[](LayerClass* c) { c->activation.limit = 7; }, {"activation.limit", "0", "7"}},
      {[](LayerClass* c) { c->shared_expert.width = 9; }, {"shared_expert.width", "8", "9"}},
      {[](LayerClass* c) { c->shared_expert.gate = SharedGate::kSigmoid; }, {"shared_expert.gate", "none", "sigmoid"}},
      {[](LayerClass* c) { c->shared_expert.activation.kind = ActivationKind::kRelu2; },
       {"shared_expert.activation.kind", "swiglu", "relu2"}},
      {[](LayerClass* c) { c->shared_expert.placement = SharedPlacement::kOwner; },
       {"shared_expert.placement", "split", "owner"}},
      {[](LayerClass* c) {
         c->shared_expert.part_ends = {3, 8};
       },
       {"shared_expert.part_ends", "4,8", "3,8"}},
      {[](LayerClass* c) {
         c->shared_expert.segment_ends = {3, 8};
       },
       {"shared_expert.segment_ends", "4,8", "3,8"}},
      {[](LayerClass* c) { c->residual = Residual::kAdd; }, {"residual", "none", "add"}},
      {[](LayerClass* c) { c->gate_up_basis = Basis::kBf16; }, {"gate_up_basis", "f32", "bf16"}},
      {[](LayerClass* c) { c->down_basis = Basis::kBf16; }, {"down_basis", "f32", "bf16"}},
      {[](LayerClass* c) { c->tensors[1].name = "x"; }, {"tensors.gate.name", gate, "x"}},
      {[](LayerClass* c) { c->tensors[1].dtype = DType::kBf16; }, {"tensors.gate.dtype", "f8_e4m3", "bf16"}},
      {[](LayerClass* c) { c->tensors[1].shape = {}; }, {"tensors.gate.shape", "[intermediate, hidden]", "[]"}},
      {[](LayerClass* c) { c->tensors[1].layout = GateUpLayout::kHalves; },
       {"tensors.gate.layout", "invalid", "halves"}},
      {[](LayerClass* c) { c->tensors[1].rotation = 8; }, {"tensors.gate.rotation", "0", "8"}},
      {[](LayerClass* c) { c->tensors[1].sides[0].name = "x"; }, {"tensors.gate.scale.name", scale, "x"}},
      {[](LayerClass* c) { c->tensors[1].sides[0].dtype = DType::kBf16; }, {"tensors.gate.scale.dtype", "f32", "bf16"}},
      {[](LayerClass* c) { c->tensors[1].sides[0].block_rows = 8; }, {"tensors.gate.scale.block", "4 x 4", "8 x 4"}},
      {[](LayerClass* c) { c->tensors[1].sides[0].applies = ScaleApplies::kDivide; },
       {"tensors.gate.scale.applies", "multiply", "divide"}},
      {[](LayerClass* c) { c->tensors[1].sides[0].of = ScaleOf::kHalf; }, {"tensors.gate.scale.of", "invalid", "half"}},
      {[](LayerClass* c) { c->tensors[1].sides.clear(); },
       {"tensors.gate.scale", absl::StrCat(scale, " f32 of 4 x 4"), "none"}},
      {[](LayerClass* c) {
         c->expert_copies = {{3, 1, 4}};
       },
       {"expert_copies", "none", "1 copy: 3 on ep 1"}},
      {[](LayerClass* c) {
         c->load.slots = {1, 2, 3};
       },
       {"load.slots", "none", "6 over 3 experts"}},
      {[](LayerClass* c) { c->load.busiest = 3; }, {"load.busiest", "0", "3"}},
      {[](LayerClass* c) { c->load.busiest_contiguous = 3; }, {"load.busiest_contiguous", "0", "3"}},
      {[](LayerClass* c) { c->fraction_bits = 3; }, {"fraction_bits", "0", "3"}},
      {[](LayerClass* c) { c->programs[0].index_bits = 64; }, {"decode.index_bits", "32", "64"}},
      {[](LayerClass* c) { c->programs[1].reduce_algorithm = ReduceAlgorithm::kExchangeThenSum; },
       {"prefill.reduce_algorithm", "all-gather + rank-order sum", "all-to-all of slices + rank-order sum"}},
      {[](LayerClass* c) { std::swap(c->expert_shards[0].local, c->expert_shards[1].local); },
       {"expert_shards", "contiguous over 2", "contiguous over 2, others"}},
      {[](LayerClass* c) { c->tensors.erase(c->tensors.begin() + 1); },
       {"tensors.gate", absl::StrCat(gate, " f8_e4m3 [intermediate, hidden]"), "none"}},
      {[](LayerClass* c) {
         for (uint32_t e = 0; e < 8; ++e) c->expert_shards[e] = {e % 2, e / 2};
       },
       {"expert_shards", "contiguous over 2", "round robin over 2"}},
      {[](LayerClass* c) {
         c->tp_segment_ends = {1, 1};
       },
       {"tp_column_ends", "12", "12,12"}},
      {[](LayerClass* c) { c->programs.pop_back(); },
       {"prefill",
        "route scatter gate_up_grouped unscatter activation down shared_gate_up shared_activation shared_down "
        "combine_shared collective",
        "none"}},
      {[](LayerClass* c) { c->programs[0].max_tokens = 5; }, {"decode.max_tokens", "64", "5"}},
      {[](LayerClass* c) { c->programs[1].tile_rows = 5; }, {"prefill.tile_rows", "4", "5"}},
      {[](LayerClass* c) { c->programs[0].steps.pop_back(); },
       {"decode.steps",
        "route gate_up activation down shared_gate_up shared_activation shared_down combine_shared collective",
        "route gate_up activation down shared_gate_up shared_activation shared_down combine_shared"}},
      {[](LayerClass* c) { c->programs[0].values[3].weighted = true; },
       {"decode.activation.type", "slot owned columns tp R, ep R", "slot owned columns tp R, ep R, weighted"}},
      {[](LayerClass* c) { c->programs[0].values[3].fixed_point = true; },
       {"decode.activation.type", "slot owned columns tp R, ep R", "slot owned columns tp R, ep R, fixed point"}},
      {[](LayerClass* c) {
         c->programs[0].steps[3].inputs = {2, 1};
       },
       {"decode.down.operands", "%3 %1 -> %4 tensors 3", "%2 %1 -> %4 tensors 3"}},
      {[](LayerClass* c) { c->programs[0].steps.back().collectives[0].over_tp = true; },
       {"decode.collective.over", "sum over expert_group ep", "sum over expert_group tp ep"}},
      {[](LayerClass* c) { c->programs[0].layouts[0].arena_bytes = 64; },
       {"decode.work", "4 experts x 12 columns + 4 shared: 47104 B", "4 experts x 12 columns + 4 shared: 64 B"}},
  };
  PlanNumbers numbers;
  numbers.ep = 2;
  numbers.layers = 3;
  numbers.weight_dtype = DType::kF8E4M3;
  numbers.column_unit = 4;
  numbers.shared_width = 8;
  const Plan a = BuildPlan(numbers);
  for (const Case& c : cases) {
    Plan b = a;
    c.change(&b.layer_classes[0]);
    const PlanDiff diff = DiffPlans(a, b);
    ASSERT_EQ(diff.layers.size(), 1u) << c.expected.field;
    EXPECT_EQ(diff.layers[0].layers, (Intervals{{0, 3}})) << c.expected.field;
    EXPECT_THAT(diff.layers[0].changes, ElementsAre(c.expected));
    EXPECT_THAT(diff.plan, testing::IsEmpty()) << c.expected.field;
  }
}

TEST(PlanDiff, LayersThatChangeAlikeAreOneEntry) {
  PlanNumbers numbers;
  numbers.layers = 6;
  Plan a = BuildPlan(numbers);
  LayerClass& even = a.layer_classes[0];
  LayerClass odd = even;
  even.layers = {{0, 1}, {2, 3}, {4, 5}};
  odd.layers = {{1, 2}, {3, 4}};
  odd.activation.kind = ActivationKind::kGeGlu;
  a.layer_classes.push_back(odd);
  Plan b = a;
  for (LayerClass& c : b.layer_classes) c.top_k = 1;
  b.layer_classes[0].layers.pop_back();
  const PlanDiff diff = DiffPlans(a, b);
  ASSERT_EQ(diff.layers.size(), 2u);
  EXPECT_EQ(diff.layers[0].layers, (Intervals{{0, 4}}));
  EXPECT_THAT(diff.layers[0].changes, ElementsAre(FieldChange{"top_k", "2", "1"}));
  EXPECT_EQ(diff.layers[1].layers, (Intervals{{4, 5}}));
  EXPECT_THAT(diff.layers[1].changes, ElementsAre(FieldChange{"layers", "MoE", "none"}));
}

Both<PlanFile> Files() {
  return {{"a.mseal", std::string(64, '1'), 1, "sealed, not signed", "tiny on threads"},
          {"b.mseal", std::string(64, '2'), 2, "sealed, not signed", "tiny on threads"}};
}

TEST(PlanDiffText, SameInEveryWay) {
  const Plan a = BuildPlan({});
  Plan b = a;
  Both<PlanFile> files = Files();
  const std::string head = absl::StrCat("A a.mseal: plan \"tiny on threads\" id ", std::string(64, '1'),
                                        "  serial 1  sealed, not signed\nB b.mseal: plan \"tiny on threads\" id ",
                                        std::string(64, '2'), "  serial 2  sealed, not signed\n");
  PlanDiff diff = DiffPlans(a, b);
  EXPECT_EQ(PlanDiffText(files, &diff), absl::StrCat(head, "same plan but for its serial\n"));
  files.b.serial = 1;
  EXPECT_THAT(PlanDiffText(files, &diff), HasSubstr("\nsame plan but for its header\n"));
  files.b.id = files.a.id;
  EXPECT_THAT(PlanDiffText(files, &diff), HasSubstr("\nsame plan\n"));
  b.compiler_version = "0.2.0";
  diff = DiffPlans(a, b);
  EXPECT_EQ(
      PlanDiffText(Files(), &diff),
      absl::StrCat(head, "same plan but for its origin\norigin\n  compiler_version             0.1.0 -> 0.2.0\n"));
  files = Files();
  files.b.title.clear();
  EXPECT_THAT(PlanDiffText(files, nullptr), HasSubstr("\nnot compared: no plan can be read from B\n"));
}

TEST(PlanDiffText, EscapesNamesAndCutsLongLists) {
  PlanNumbers numbers;
  numbers.ep = 100;
  numbers.experts = 1000;
  const Plan a = PlacedPlan(numbers);
  Plan b = a;
  b.mesh.nodes[0].name = "n\x1b[2J";
  for (uint32_t e = 0; e < 1000; ++e) b.layer_classes[0].expert_shards[e] = {e % 100, e / 100};
  const PlanDiff diff = DiffPlans(a, b);
  const std::string text = PlanDiffText(Files(), &diff);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("  nodes.n\\033[2J               none -> 8 slots of host, island 0\n"));
  EXPECT_THAT(text, HasSubstr("  and 44 more slots: --format json has them all\n"));  // 100 + the old n0, 64 listed
  EXPECT_THAT(text, HasSubstr("    layer 0: experts [80,90) leave, 8,108,..,908 arrive; columns [0,12)\n"));
  EXPECT_THAT(text, HasSubstr("from 6 more; sends 22.5 KiB\n"));
  std::string bytes = "n\xff";
  b.mesh.nodes[0].name = bytes;
  const PlanDiff broken = DiffPlans(a, b);
  EXPECT_THAT(PlanDiffJson(Files(), &broken), HasSubstr("nodes.n\xef\xbf\xbd"));
}

TEST(PlanDiffText, RanksThatShareASlotHaveANumber) {
  PlanNumbers numbers;
  numbers.ep = 2;
  const Plan a = BuildPlan(numbers);
  numbers.ep = 1;
  const PlanDiff diff = DiffPlans(a, BuildPlan(numbers));
  EXPECT_THAT(PlanDiffText(Files(), &diff),
              HasSubstr("  node0 slot 0 #2 (rank 1 -> free) keeps 0 B, drops 9.5 KiB, receives 0 B; sends 9.0 KiB\n"));
}

TEST(PlanDiffText, SaysWhyMovesAreUnknown) {
  const Plan a = BuildPlan({});
  Plan b = a;
  b.layer_classes[0].segment_ends = {5};
  const PlanDiff diff = DiffPlans(a, b);
  EXPECT_THAT(PlanDiffText(Files(), &diff),
              HasSubstr("weights and memory per slot: not compared: plan B: [columns-are-owned-once] the column "
                        "segments end at 5, the intermediate size is 12\n"));
  const std::string json = PlanDiffJson(Files(), &diff);
  EXPECT_THAT(json, HasSubstr("\"moves\": null,\n  \"moves_unknown\": \"plan B: [columns-are-owned-once] "));
}

}  // namespace
}  // namespace meshseal

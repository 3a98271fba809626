// Listings: what is told once, what is cut, and that a plan which a gate refuses can be listed whatever it holds. Whole
// listings are under lit/show.
#include "schema/plan_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "schema/plan_diff.h"
#include "schema/plan_diff_json.h"
#include "schema/plan_diff_text.h"
#include "schema/plan_json.h"
#include "schema/plan_words.h"
#include "schema/reason.h"
#include "tests/support/plan_builder.h"

namespace meshseal {
namespace {

using support::BuildPlan;
using support::PlanNumbers;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Listed(const Plan& plan, const ListingOptions& options = {}) {
  const absl::StatusOr<std::string> text = ListPlan(plan, std::string(64, '1'), "sealed, not signed", options);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

TEST(PlanWords, NumbersReadBackTheSame) {
  EXPECT_EQ(NumberText(10.0f), "10");
  EXPECT_EQ(NumberText(2.5f), "2.5");
  EXPECT_EQ(NumberText(1e-20f), "1e-20");
  EXPECT_EQ(NumberText(1.702f), "1.702");
  EXPECT_EQ(NumberText(1.0000001f), "1.0000001");
  EXPECT_EQ(NumberText(0.1), "0.1");
  EXPECT_EQ(NumberText(0.30000000000000004), "0.30000000000000004");
}

TEST(PlanWords, IntervalsAreShort) {
  EXPECT_EQ(IntervalsText({}), "none");
  EXPECT_EQ(IntervalsText({{0, 32}}), "[0,32)");
  EXPECT_EQ(IntervalsText({{0, 1}, {4, 5}, {8, 9}}), "0,4,..,8");
  EXPECT_EQ(IntervalsText({{0, 1}, {4, 6}, {8, 9}}), "[0,1)+[4,6)+[8,9)");
  Intervals many;
  for (uint32_t i = 0; i < 10; ++i) many.push_back({i * i * 2, i * i * 2 + 1});
  EXPECT_THAT(IntervalsText(many), HasSubstr("+2 more"));
  EXPECT_EQ(NumbersText({{0, 3}, {5, 6}}), "0-2,5");
  EXPECT_EQ(LayersText({{5, 6}}), "layer 5");
  EXPECT_EQ(RangesText({0, 1, 2, 3, 8}), "[0,4)+[8,9)");
}

TEST(PlanText, LayersThatOnlyTheirOwnersTellApartAreDescribedOnce) {
  PlanNumbers numbers;
  numbers.layers = 40;
  numbers.ep = 2;
  Plan plan = BuildPlan(numbers);
  const LayerClass first = plan.layer_classes[0];
  plan.layer_classes.clear();
  for (uint32_t layer = 0; layer < 40; ++layer) {
    LayerClass c = first;
    c.layers = {{layer, layer + 1}};
    c.expert_shards[layer % 8].owner = 1 - c.expert_shards[layer % 8].owner;
    c.load.slots = {layer};
    plan.layer_classes.push_back(c);
  }
  const std::string text = Listed(plan);
  EXPECT_THAT(text, HasSubstr("\nlayers 0-39: 8 experts, top 2, 16 hidden x 12 columns\n"));
  EXPECT_THAT(text,
              HasSubstr("\nand 32 more classes of layers with other owners: --rank and --layer show one, --format "
                        "json has them all\n"));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 120);
}

TEST(PlanText, ThousandsOfRanksAreAFewScreens) {
  PlanNumbers numbers;
  numbers.dp = 2;
  numbers.ep = 1024;
  numbers.experts = 1024;
  const std::string text = Listed(BuildPlan(numbers));
  EXPECT_THAT(text, HasSubstr("  and 928 more ranks: --rank and --layer show one, --format json has them all\n"));
  EXPECT_THAT(text, HasSubstr("\n  0-2047  "));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 200);
}

TEST(PlanText, SaysWhatARankHasTooMuch) {
  Plan plan = BuildPlan({});
  plan.memory[0].budget = 1024;
  plan.memory[0].total = 1124;
  EXPECT_THAT(Listed(plan), HasSubstr(" 100 B TOO MUCH\n"));
  EXPECT_THAT(Listed(plan, {0, {}}),
              HasSubstr("  memory: 1.1 KiB of 1.0 KiB, 100 B TOO MUCH (0 B headroom left out)\n"));
}

TEST(PlanText, PhasesThatSumInDifferentWaysSaySo) {
  PlanNumbers numbers;
  numbers.ep = 4;
  Plan plan = BuildPlan(numbers);
  EXPECT_THAT(Listed(plan), HasSubstr("\nreduction ordered (all-gather + rank-order sum), output f32,"));
  plan.layer_classes[0].programs[1].reduce_algorithm = ReduceAlgorithm::kExchangeThenSum;
  EXPECT_THAT(Listed(plan), HasSubstr("\nreduction ordered (decode all-gather + rank-order sum, prefill all-to-all of "
                                      "slices + rank-order sum), output f32,"));
  plan.layer_classes[0].programs.clear();
  EXPECT_THAT(Listed(plan), HasSubstr("\nreduction ordered (none), output f32,"));
}

TEST(PlanText, RanksAndLayersThatThereAreNot) {
  const Plan plan = BuildPlan({});
  const absl::Status rank = ListPlan(plan, "id", "sealed", {1, {}}).status();
  EXPECT_EQ(rank.message(), "the plan has no rank 1, its world is 1");
  EXPECT_EQ(ReasonOf(rank), Reason::kUsage);
  EXPECT_EQ(ListPlan(plan, "id", "sealed", {{}, 1}).status().message(), "the plan has no MoE layer 1");
}

TEST(PlanText, NamesAreEscaped) {
  Plan plan = BuildPlan({});
  plan.model_name = plan.mesh.name = plan.mesh.nodes[0].name = plan.layer_classes[0].tensors[0].name = "n\x1b[2J";
  EXPECT_THAT(Listed(plan), Not(HasSubstr("\x1b")));
  EXPECT_THAT(Listed(plan, {0, 0}), Not(HasSubstr("\x1b")));
}

// What the structure gate lets through and the meaning gate refuses. Each is listed and compared without a crash.
TEST(PlanText, ARefusedPlanIsListedAsItStands) {
  PlanNumbers numbers;
  numbers.dp = 2;
  numbers.pp = 2;
  numbers.tp = 2;
  numbers.ep = 2;
  numbers.dense_tp = 2;
  numbers.layers = 4;
  numbers.weight_dtype = DType::kF8E4M3;
  numbers.column_unit = 4;
  numbers.shared_width = 16;
  numbers.fused = true;
  numbers.biases = true;
  numbers.copies = 2;
  numbers.load = {1, 2, 3};
  numbers.priced = true;
  const Plan good = BuildPlan(numbers);
  constexpr uint32_t kMost = UINT32_MAX;
  const std::vector<std::function<void(Plan*)>> changes = {
      [](Plan* p) { p->layer_classes.clear(); },
      [](Plan* p) { p->memory.clear(); },
      [](Plan* p) { p->memory[3].total = UINT64_MAX; },
      [](Plan* p) { p->prices.resize(5); },
      [](Plan* p) { p->prices[0].nanoseconds = p->prices[0].operations = UINT64_MAX; },
      [](Plan* p) { p->sources.clear(); },
      [](Plan* p) { p->stage_ends.clear(); },
      [](Plan* p) {
        p->stage_ends = {0, 0};
      },
      [](Plan* p) {
        p->stage_ends = {9, 3, 1};
      },
      [](Plan* p) { p->degrees.dense_tp = 0; },
      [](Plan* p) { p->degrees.ep = 0; },
      [](Plan* p) { p->degrees.ep = 1u << 20; },
      [](Plan* p) { p->degrees.dp = kMost; },
      [](Plan* p) { p->hidden = kMost; },
      [](Plan* p) { p->mesh.nodes.clear(); },
      [](Plan* p) { p->mesh.nodes[0].device_kind = kMost; },
      [](Plan* p) { p->mesh.rank_slots.clear(); },
      [](Plan* p) {
        p->mesh.rank_slots[1] = {kMost, kMost};
      },
      [](Plan* p) { p->reduction = static_cast<Reduction>(99); },
      [](Plan* p) {
        p->layer_classes[0].layers = {{3, 1}, {kMost, kMost}};
      },
      [](Plan* p) {
        p->layer_classes[0].layers = {{0, kMost}};
      },
      [](Plan* p) { p->layer_classes[0].experts = kMost; },
      [](Plan* p) { p->layer_classes[0].intermediate = kMost; },
      [](Plan* p) { p->layer_classes[0].expert_shards.clear(); },
      [](Plan* p) { p->layer_classes[0].expert_shards[0].owner = kMost; },
      [](Plan* p) {
        p->layer_classes[0].expert_copies[0] = {kMost, kMost, kMost};
      },
      [](Plan* p) {
        p->layer_classes[0].load.slots = {UINT64_MAX, UINT64_MAX};
      },
      [](Plan* p) { p->layer_classes[0].segment_ends.clear(); },
      [](Plan* p) {
        p->layer_classes[0].segment_ends = {kMost, 1};
      },
      [](Plan* p) {
        p->layer_classes[0].tp_segment_ends = {kMost, 0};
      },
      [](Plan* p) { p->layer_classes[0].tp_segment_ends.clear(); },
      [](Plan* p) { p->layer_classes[0].shared_expert.part_ends.clear(); },
      [](Plan* p) {
        p->layer_classes[0].shared_expert.part_ends = {9, 3};
      },
      [](Plan* p) { p->layer_classes[0].shared_expert.segment_ends.clear(); },
      [](Plan* p) { p->layer_classes[0].shared_expert.width = 0; },
      [](Plan* p) { p->layer_classes[0].shared_expert.placement = SharedPlacement::kInvalid; },
      [](Plan* p) { p->layer_classes[0].tensors.clear(); },
      [](Plan* p) { p->layer_classes[0].tensors[1].role = static_cast<TensorRole>(99); },
      [](Plan* p) { p->layer_classes[0].tensors[1].dtype = static_cast<DType>(99); },
      [](Plan* p) { p->layer_classes[0].tensors[1].shape.clear(); },
      [](Plan* p) { p->layer_classes[0].tensors[1].shape = {ShapeAxis::kExperts}; },
      [](Plan* p) { p->layer_classes[0].tensors[1].shape.resize(9, static_cast<ShapeAxis>(99)); },
      [](Plan* p) { p->layer_classes[0].tensors[1].sides[0].block_rows = 0; },
      [](Plan* p) { p->layer_classes[0].tensors[1].sides[0].block_columns = 0; },
      [](Plan* p) { p->layer_classes[0].tensors[1].sides[0].dtype = DType::kInvalid; },
      [](Plan* p) { p->layer_classes[0].router.scale = std::numeric_limits<float>::quiet_NaN(); },
      [](Plan* p) { p->exact_bound = std::numeric_limits<double>::infinity(); },
      [](Plan* p) { p->layer_classes[0].programs.clear(); },
      [](Plan* p) { p->layer_classes[0].programs[0].values.clear(); },
      [](Plan* p) { p->layer_classes[0].programs[0].layouts.clear(); },
      [](Plan* p) { p->layer_classes[0].programs[0].steps[0].inputs = {kMost}; },
      [](Plan* p) { p->layer_classes[0].programs[0].steps[0].kind = static_cast<StepKind>(99); },
      [](Plan* p) { p->layer_classes[0].programs[0].steps[0].origin.source = kMost; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Plan bad = good;
    changes[i](&bad);
    for (const ListingOptions& options :
         {ListingOptions{}, ListingOptions{15, {}}, ListingOptions{{}, 3}, ListingOptions{0, 1}}) {
      const absl::StatusOr<std::string> text = ListPlan(bad, "id", "REFUSED", options);
      EXPECT_TRUE(text.ok() || ReasonOf(text.status()) == Reason::kUsage) << i << ": " << text.status();
    }
    EXPECT_TRUE(PlanJson(bad, "id", "REFUSED", "").ok()) << i;
    for (const bool swapped : {false, true}) {
      const PlanDiff diff = swapped ? DiffPlans(bad, good) : DiffPlans(good, bad);
      EXPECT_NE(diff.relation, PlanRelation::kSame) << i;
      EXPECT_THAT(PlanDiffText({}, &diff), HasSubstr(" plan")) << i;
      EXPECT_THAT(PlanDiffJson({}, &diff), HasSubstr("\"relation\"")) << i;
    }
  }
}

}  // namespace
}  // namespace meshseal

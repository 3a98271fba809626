// scatter and unscatter against the reference's steps.
#include "runtime/cuda/kernels/scatter.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cuda/kernel_buffers.h"
#include "tests/runtime/single_steps.h"

namespace meshseal::cuda {
namespace {

struct Layout {
  uint32_t tokens = 0;
  uint32_t max_tokens = 0;
  uint32_t top_k = 1;
  uint32_t hidden = 1;
  uint32_t tile_rows = 1;
  uint32_t capacity = 0;
  uint64_t first_token = 0;
  bool weighs = false;
};

// What a step writes, unwritten at first.
struct Grouped {
  explicit Grouped(const Layout& layout, uint32_t local_experts)
      : rows(Unwritten<float>(size_t{layout.capacity} * layout.hidden)),
        slot_of_row(Unwritten<int32_t>(layout.capacity)),
        row_of_slot(Unwritten<int32_t>(size_t{layout.max_tokens} * layout.top_k)),
        first_row(Unwritten<int32_t>(local_experts + 1)) {}

  std::vector<float> rows;
  std::vector<int32_t> slot_of_row;
  std::vector<int32_t> row_of_slot;
  std::vector<int32_t> first_row;
};

uint32_t LocalExperts(const std::vector<runtime::ExpertPlace>& places) {
  int32_t last = -1;
  for (const runtime::ExpertPlace& place : places) last = std::max(last, place.local);
  return static_cast<uint32_t>(last + 1);
}

void ExpectLikeReference(const Layout& layout, const std::vector<int32_t>& experts,
                         const std::vector<runtime::ExpertPlace>& places) {
  SCOPED_TRACE(absl::StrCat("T ", layout.tokens, " k ", layout.top_k, " tile ", layout.tile_rows));
  const uint32_t local_experts = LocalExperts(places);
  const std::vector<float> x = Numbers(size_t{layout.tokens} * layout.hidden, 3);
  const std::vector<float> weights = Numbers(experts.size(), 4);

  Grouped expected(layout, local_experts);
  runtime::SingleSteps steps;
  runtime::StepShape shape = runtime::Shape(layout.tokens, layout.top_k, layout.hidden);
  shape.first_token = layout.first_token;
  const absl::Status status = steps.Scatter({shape,
                                             {{experts, weights}, places, layout.first_token, layout.top_k},
                                             layout.weighs,
                                             local_experts,
                                             layout.tile_rows,
                                             x,
                                             absl::MakeSpan(expected.rows),
                                             absl::MakeSpan(expected.slot_of_row),
                                             absl::MakeSpan(expected.row_of_slot),
                                             absl::MakeSpan(expected.first_row)});

  const StepTokens tokens = Tokens(layout.tokens, layout.first_token);
  UnderEverySchedule([&] {
    Grouped found(layout, local_experts);
    std::vector<int32_t> local_of_slot = Unwritten<int32_t>(found.row_of_slot.size());
    std::vector<uint32_t> counts = Unwritten<uint32_t>(local_experts);
    uint64_t failure = 77;
    ScatterStep step;
    step.grid.step = &tokens;
    step.grid.max_tokens = layout.max_tokens;
    step.grid.top_k = layout.top_k;
    step.grid.hidden = layout.hidden;
    step.owned = {experts.data(), weights.data(), places.data()};
    step.weighs = layout.weighs;
    step.local_experts = local_experts;
    step.tile_rows = layout.tile_rows;
    step.capacity = layout.capacity;
    step.x = x.data();
    step.rows = found.rows.data();
    step.slot_of_row = found.slot_of_row.data();
    step.row_of_slot = found.row_of_slot.data();
    step.first_row = found.first_row.data();
    step.failure = &failure;
    step.local_of_slot = local_of_slot.data();
    step.counts = counts.data();
    const cudaError_t launched = LaunchScatter(nullptr, step);
    if (!status.ok()) {
      EXPECT_EQ(FailureKindOf(failure), FailureKind::kGroupedRows);
      EXPECT_EQ(status.message(),
                absl::StrCat(FailureDetail(failure), " rows are needed, the plan proves ", layout.capacity));
      EXPECT_EQ(found.first_row, std::vector<int32_t>(local_experts + 1, 0));
      EXPECT_EQ(found.slot_of_row, std::vector<int32_t>(layout.capacity, -1));
      return launched;
    }
    EXPECT_EQ(failure, 0u);
    EXPECT_EQ(found.first_row, expected.first_row);
    EXPECT_EQ(found.slot_of_row, expected.slot_of_row);
    EXPECT_EQ(found.row_of_slot, expected.row_of_slot);
    EXPECT_TRUE(SameBits(found.rows, expected.rows));
    return launched;
  });
}

TEST(ScatterKernelTest, LikeTheReference) {
  struct Size {
    uint32_t tokens;
    uint32_t top_k;
    uint32_t tile_rows;
  };
  for (const uint32_t experts : {8u, 60u, 72u, 160u}) {
    for (const Size& size : {Size{0, 8, 4}, Size{1, 1, 1}, Size{5, 8, 4}, Size{7, 1, 1}}) {
      const uint32_t capacity = size.tokens * size.top_k * size.tile_rows + 3;
      ExpectLikeReference({size.tokens, 8, size.top_k, 5, size.tile_rows, capacity, 0, size.tile_rows == 1},
                          RandomExperts(size.tokens, size.top_k, experts, size.tokens), HalfHeld(experts));
    }
  }
}

TEST(ScatterKernelTest, AllTokensToOneExpertAndToNone) {
  const std::vector<int32_t> one(45, 4);
  ExpectLikeReference({45, 50, 1, 3, 4, 60, 0, false}, one, HalfHeld(9));
  ExpectLikeReference({45, 50, 1, 3, 4, 60, 0, false}, std::vector<int32_t>(45, 3), HalfHeld(9));  // another rank's
  ExpectLikeReference({45, 50, 1, 3, 4, 60, 0, false}, one, NoneHeld(9));
}

TEST(ScatterKernelTest, CopiesAreChosenByTheCallersNumberOfTheToken) {
  for (const uint64_t first_token : {uint64_t{0}, uint64_t{1}, (uint64_t{1} << 40) + 1}) {
    ExpectLikeReference({21, 21, 2, 3, 2, 60, first_token, true}, RandomExperts(21, 2, 12, 5), HalfHeld(12, true));
  }
}

TEST(ScatterKernelTest, RowsWiderThanABlock) {
  ExpectLikeReference({3, 4, 2, 700, 4, 30, 0, true}, RandomExperts(3, 2, 6, 1), HalfHeld(6));
}

TEST(ScatterKernelTest, MoreRowsThanThePlanProvesAreAFailure) {
  ExpectLikeReference({45, 50, 1, 3, 4, 47, 0, false}, std::vector<int32_t>(45, 4), HalfHeld(9));
  ExpectLikeReference({45, 50, 1, 3, 4, 48, 0, false}, std::vector<int32_t>(45, 4), HalfHeld(9));
}

TEST(UnscatterKernelTest, BringsOwnedRowsBack) {
  for (const uint32_t tokens : {0u, 1u, 5u}) {
    const uint64_t width = 300;
    const std::vector<float> rows = Numbers(20 * width, 1);
    std::vector<int32_t> row_of_slot;
    for (uint32_t slot = 0; slot < tokens * 3; ++slot)
      row_of_slot.push_back(slot % 3 == 1 ? -1 : static_cast<int32_t>(19 - slot));
    std::vector<float> expected = Unwritten<float>(7 * 3 * width);
    runtime::SingleSteps steps;
    ASSERT_TRUE(steps
                    .Unscatter({runtime::Shape(tokens, 3, 1, width / 2),
                                {{}, row_of_slot, {}},
                                rows,
                                absl::MakeSpan(expected).first(tokens * 3 * width)})
                    .ok());
    const StepTokens step_tokens = Tokens(tokens);
    UnderEverySchedule([&] {
      std::vector<float> out = Unwritten<float>(expected.size());
      UnscatterStep step;
      step.grid.step = &step_tokens;
      step.grid.max_tokens = 7;
      step.grid.top_k = 3;
      step.row_of_slot = row_of_slot.data();
      step.width = width;
      step.rows = rows.data();
      step.out = out.data();
      const cudaError_t status = LaunchUnscatter(nullptr, step);
      EXPECT_TRUE(SameBits(out, expected));
      return status;
    });
  }
}

}  // namespace
}  // namespace meshseal::cuda

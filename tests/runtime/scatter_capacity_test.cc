// Scatter against every routing of small sizes: rows of the proven capacity are enough, one tile less is refused for
// some routing, nothing outside the buffers is written, and what it says is a permutation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schema/reason.h"
#include "tests/runtime/single_steps.h"

namespace meshseal::runtime {
namespace {

constexpr uint32_t kHidden = 3;
constexpr float kGuard = -77;
constexpr int32_t kGuardIndex = -88;
constexpr size_t kGuardRows = 2;

struct Sizes {
  uint32_t tokens, top_k, experts, owned, tile;
};

// Every way in which each token picks `top_k` distinct of the experts, in order of choice.
std::vector<std::vector<int32_t>> Routings(const Sizes& sizes) {
  std::vector<std::vector<int32_t>> one_token = {{}};
  for (uint32_t slot = 0; slot < sizes.top_k; ++slot) {
    std::vector<std::vector<int32_t>> longer;
    for (const std::vector<int32_t>& chosen : one_token) {
      for (int32_t expert = 0; expert < static_cast<int32_t>(sizes.experts); ++expert) {
        if (std::find(chosen.begin(), chosen.end(), expert) != chosen.end()) continue;
        longer.push_back(chosen);
        longer.back().push_back(expert);
      }
    }
    one_token = longer;
  }
  std::vector<std::vector<int32_t>> all = {{}};
  for (uint32_t token = 0; token < sizes.tokens; ++token) {
    std::vector<std::vector<int32_t>> longer;
    for (const std::vector<int32_t>& before : all) {
      for (const std::vector<int32_t>& chosen : one_token) {
        longer.push_back(before);
        longer.back().insert(longer.back().end(), chosen.begin(), chosen.end());
      }
    }
    all = longer;
  }
  return all;
}

// This rank owns the last `owned` experts, in order: global and local numbers differ.
int32_t LocalOf(const Sizes& sizes, int32_t expert) {
  const int32_t first = static_cast<int32_t>(sizes.experts - sizes.owned);
  return expert < first ? -1 : expert - first;
}

uint32_t NeededRows(const Sizes& sizes, const std::vector<int32_t>& routing) {
  std::vector<uint32_t> counts(sizes.owned, 0);
  for (const int32_t expert : routing) {
    if (LocalOf(sizes, expert) >= 0) ++counts[static_cast<size_t>(LocalOf(sizes, expert))];
  }
  uint32_t rows = 0;
  for (const uint32_t count : counts) rows += (count + sizes.tile - 1) / sizes.tile * sizes.tile;
  return rows;
}

// The buffers of a scatter between guards.
class Scattered {
 public:
  Scattered(const Sizes& sizes, size_t capacity)
      : sizes_(sizes),
        capacity_(capacity),
        rows_((capacity + 2 * kGuardRows) * kHidden, kGuard),
        slot_of_row_(capacity + 2 * kGuardRows, kGuardIndex),
        row_of_slot_(size_t{sizes.tokens} * sizes.top_k + 2 * kGuardRows, kGuardIndex),
        first_row_(sizes.owned + 1 + 2 * kGuardRows, kGuardIndex) {}

  absl::Status Run(const std::vector<int32_t>& routing) {
    const std::vector<float> weights(routing.size(), 1);
    std::vector<int32_t> numbers;
    for (uint32_t e = 0; e < sizes_.experts; ++e) numbers.push_back(LocalOf(sizes_, static_cast<int32_t>(e)));
    const std::vector<ExpertPlace> local = HeldAs(numbers);
    std::vector<float> x(size_t{sizes_.tokens} * kHidden);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    return SingleSteps().Scatter({Shape(sizes_.tokens, sizes_.top_k, kHidden),
                                  {{routing, weights}, local, 0, sizes_.top_k},
                                  false,
                                  sizes_.owned,
                                  sizes_.tile,
                                  x,
                                  absl::MakeSpan(rows_).subspan(kGuardRows * kHidden, capacity_ * kHidden),
                                  absl::MakeSpan(slot_of_row_).subspan(kGuardRows, capacity_),
                                  absl::MakeSpan(row_of_slot_).subspan(kGuardRows, routing.size()),
                                  absl::MakeSpan(first_row_).subspan(kGuardRows, sizes_.owned + 1)});
  }

  void Check(const std::vector<int32_t>& routing) const {
    const int32_t* first = first_row_.data() + kGuardRows;
    const int32_t* slot_of = slot_of_row_.data() + kGuardRows;
    const int32_t* row_of = row_of_slot_.data() + kGuardRows;
    for (uint32_t e = 0; e < sizes_.owned; ++e) {
      ASSERT_LE(first[e], first[e + 1]);
      ASSERT_EQ(first[e] % static_cast<int32_t>(sizes_.tile), 0);
    }
    size_t taken = 0;
    for (size_t row = 0; row < capacity_; ++row) taken += slot_of[row] >= 0 ? 1 : 0;
    size_t owned = 0;
    for (size_t slot = 0; slot < routing.size(); ++slot) {
      const int32_t local = LocalOf(sizes_, routing[slot]);
      if (local < 0) {
        ASSERT_EQ(row_of[slot], -1);
        continue;
      }
      ++owned;
      ASSERT_GE(row_of[slot], first[local]);
      ASSERT_LT(row_of[slot], first[local + 1]);
      ASSERT_EQ(slot_of[row_of[slot]], static_cast<int32_t>(slot));
      const auto token = static_cast<float>(slot / sizes_.top_k * kHidden);
      ASSERT_EQ(rows_[(kGuardRows + static_cast<size_t>(row_of[slot])) * kHidden], token);
    }
    ASSERT_EQ(taken, owned);
    for (size_t i = 0; i < kGuardRows * kHidden; ++i) {
      ASSERT_EQ(rows_[i], kGuard);
      ASSERT_EQ(rows_[rows_.size() - 1 - i], kGuard);
    }
    for (size_t i = 0; i < kGuardRows; ++i) {
      for (const std::vector<int32_t>* indices : {&slot_of_row_, &row_of_slot_, &first_row_}) {
        ASSERT_EQ((*indices)[i], kGuardIndex);
        ASSERT_EQ((*indices)[indices->size() - 1 - i], kGuardIndex);
      }
    }
  }

 private:
  const Sizes sizes_;
  const size_t capacity_;
  std::vector<float> rows_;
  std::vector<int32_t> slot_of_row_;
  std::vector<int32_t> row_of_slot_;
  std::vector<int32_t> first_row_;
};

TEST(ScatterCapacity, HoldsEveryRoutingAndOneTileLessDoesNot) {
  size_t routings = 0;
  size_t refused = 0;
  for (uint32_t tokens = 0; tokens <= 3; ++tokens) {
    for (uint32_t experts = 1; experts <= 4; ++experts) {
      for (uint32_t top_k = 1; top_k <= std::min(2u, experts); ++top_k) {
        for (uint32_t owned = 1; owned <= experts; ++owned) {
          for (uint32_t tile = 1; tile <= 3; ++tile) {
            const Sizes sizes = {tokens, top_k, experts, owned, tile};
            const std::vector<std::vector<int32_t>> all = Routings(sizes);
            uint32_t worst = 0;
            for (const auto& routing : all) worst = std::max(worst, NeededRows(sizes, routing));
            for (const auto& routing : all) {
              Scattered enough(sizes, worst);
              ASSERT_TRUE(enough.Run(routing).ok());
              enough.Check(routing);
              if (HasFatalFailure()) return;
              ++routings;
              if (worst == 0 || NeededRows(sizes, routing) < worst) continue;
              Scattered less(sizes, worst - tile);
              EXPECT_EQ(ReasonOf(less.Run(routing)), Reason::kBug);
              ++refused;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(routings, 10000u);
  EXPECT_GT(refused, 1000u);
}

}  // namespace
}  // namespace meshseal::runtime

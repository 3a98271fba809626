// Rounding of rows on the device against the reference's.
#include "runtime/cuda/kernels/to_basis.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/backend/basis.h"
#include "schema/terms.h"
#include "tests/cuda/kernel_buffers.h"

namespace meshseal::cuda {
namespace {

constexpr Basis kBases[] = {Basis::kF32, Basis::kBf16, Basis::kF16, Basis::kQ8};

std::vector<float> Rows(size_t count) {
  std::vector<float> values = Numbers(count, 5);
  const float special[] = {0.0f,
                           -0.0f,
                           65519.0f,
                           65520.0f,
                           1e30f,
                           1e-40f,
                           1.00390625f,
                           3e38f,
                           std::numeric_limits<float>::quiet_NaN(),
                           std::numeric_limits<float>::infinity()};
  for (size_t i = 0; i < values.size() && i < 10; ++i) values[i] = special[i];
  return values;
}

TEST(ToBasisKernelTest, EveryBasisAndWidth) {
  for (const Basis basis : kBases) {
    for (const uint32_t width : {0u, 1u, 31u, 32u, 33u, 300u}) {
      for (const uint32_t tokens : {0u, 1u, 3u}) {
        const std::vector<float> rows = Rows(size_t{tokens} * width);
        std::vector<float> expected = rows;
        for (uint32_t row = 0; row < tokens; ++row) {
          runtime::ToBasis(basis, absl::MakeSpan(expected).subspan(size_t{row} * width, width));
        }
        expected.resize(4 * size_t{width}, std::numeric_limits<float>::quiet_NaN());
        const StepTokens step_tokens = Tokens(tokens);
        for (const bool in_place : {false, true}) {
          UnderEverySchedule([&] {
            std::vector<float> out = Unwritten<float>(expected.size());
            if (in_place) std::copy(rows.begin(), rows.end(), out.begin());
            ToBasisStep step;
            step.step = &step_tokens;
            step.max_tokens = 4;
            step.width = width;
            step.basis = basis;
            step.in = in_place ? out.data() : rows.data();
            step.out = out.data();
            const cudaError_t status = LaunchToBasis(nullptr, step);
            EXPECT_TRUE(SameBits(out, expected)) << WordOf(basis) << " " << width;
            return status;
          });
        }
      }
    }
  }
}

TEST(ToBasisKernelTest, SlotRowsOfOtherRanksAreLeftAlone) {
  const uint32_t width = 40;
  const std::vector<int32_t> experts = {0, 1, 3, 2, 4, 5};
  const std::vector<runtime::ExpertPlace> places = HalfHeld(6);
  const DeviceOwned owned = {experts.data(), nullptr, places.data()};
  const std::vector<float> rows = Numbers(experts.size() * width, 8);
  std::vector<float> expected = Unwritten<float>(rows.size());
  for (size_t slot = 0; slot < experts.size(); ++slot) {
    if (experts[slot] % 2 != 0) continue;
    const auto at = static_cast<std::ptrdiff_t>(slot * width);
    std::copy_n(rows.begin() + at, width, expected.begin() + at);
    runtime::ToBasis(Basis::kBf16, absl::MakeSpan(expected).subspan(slot * width, width));
  }
  const StepTokens step_tokens = Tokens(3);
  UnderEverySchedule([&] {
    std::vector<float> out = Unwritten<float>(rows.size());
    ToBasisStep step;
    step.step = &step_tokens;
    step.max_tokens = 3;
    step.rows_per_token = 2;
    step.width = width;
    step.owned = owned;
    step.basis = Basis::kBf16;
    step.in = rows.data();
    step.out = out.data();
    const cudaError_t status = LaunchToBasis(nullptr, step);
    EXPECT_TRUE(SameBits(out, expected));
    return status;
  });
}

}  // namespace
}  // namespace meshseal::cuda

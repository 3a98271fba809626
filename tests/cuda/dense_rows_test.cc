// Rows of dense groups from one order to the other and back.
#include "runtime/cuda/kernels/dense_rows.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/cuda/kernel_buffers.h"

namespace meshseal::cuda {
namespace {

TEST(DenseRowsKernelTest, PacksAndSpreads) {
  const std::vector<std::vector<uint64_t>> cases = {{3, 0, 5, 1}, {0, 0, 0}, {5}, {0, 5}};
  for (const std::vector<uint64_t>& counts : cases) {
    std::vector<runtime::Piece> rows;
    uint64_t tokens = 0;
    for (const uint64_t count : counts) {
      rows.push_back({tokens, count});
      tokens += count;
    }
    DenseRowsStep step;
    step.rows = rows.data();
    step.groups = static_cast<uint32_t>(rows.size());
    step.max_rows = 5;
    step.words_per_row = 130;
    step.words_per_group = 5 * 130 + 3;
    const std::vector<float> packed = Numbers(tokens * step.words_per_row, 1);
    std::vector<float> spread = Unwritten<float>(counts.size() * step.words_per_group);
    for (size_t group = 0; group < rows.size(); ++group) {
      std::copy_n(packed.begin() + static_cast<ptrdiff_t>(rows[group].first * step.words_per_row),
                  rows[group].count * step.words_per_row,
                  spread.begin() + static_cast<ptrdiff_t>(group * step.words_per_group));
    }
    const auto expect = [&step](auto* launch, const std::vector<float>& from, const std::vector<float>& expected) {
      UnderEverySchedule([&] {
        std::vector<float> found = Unwritten<float>(expected.size() + 1);
        step.from = reinterpret_cast<const uint32_t*>(from.data());
        step.to = reinterpret_cast<uint32_t*>(found.data());
        const cudaError_t status = launch(nullptr, step);
        EXPECT_TRUE(std::isnan(found.back()));
        found.pop_back();
        EXPECT_TRUE(SameBytes(found, expected));
        return status;
      });
    };
    expect(LaunchSpreadRows, packed, spread);
    expect(LaunchPackRows, spread, packed);
  }
}

}  // namespace
}  // namespace meshseal::cuda

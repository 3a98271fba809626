// Sums in rank order, and an exact sum's conversion.
#include "runtime/cuda/kernels/rank_order_sum.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/cuda/kernel_buffers.h"

namespace meshseal::cuda {
namespace {

template <class T>
void ExpectRankOrderSum(const std::vector<T>& addends, uint32_t members, uint64_t stride, runtime::Piece piece) {
  std::vector<T> expected = Unwritten<T>(piece.first + piece.count + 3);
  for (uint64_t i = 0; i < piece.count; ++i) {
    T sum = addends[i];
    for (uint32_t member = 1; member < members; ++member) sum += addends[member * stride + i];
    expected[piece.first + i] = sum;
  }
  UnderEverySchedule([&] {
    std::vector<T> sum = Unwritten<T>(expected.size());
    RankOrderSumStep<T> step;
    step.piece = &piece;
    step.max_elements = stride;
    step.members = members;
    step.member_stride = stride;
    step.addends = addends.data();
    step.sum = sum.data();
    const cudaError_t status = LaunchRankOrderSum(nullptr, step);
    EXPECT_EQ(std::memcmp(sum.data(), expected.data(), sum.size() * sizeof(T)), 0);
    return status;
  });
}

TEST(RankOrderSumKernelTest, AddsInMemberOrder) {
  for (const uint32_t members : {1u, 2u, 3u, 8u}) {
    const uint64_t stride = 600;
    std::vector<float> addends = Numbers(members * stride, members);
    addends[0] = -0.0f;  // alone it stays
    std::vector<int64_t> fixed(addends.size());
    std::mt19937_64 random(1);
    for (int64_t& value : fixed) value = static_cast<int64_t>(random()) >> 5;
    for (const runtime::Piece piece : {runtime::Piece{0, 600}, runtime::Piece{37, 299}, runtime::Piece{5, 0}}) {
      ExpectRankOrderSum(addends, members, stride, piece);
      ExpectRankOrderSum(fixed, members, stride, piece);
    }
  }
}

TEST(FixedToFloatKernelTest, RoundsOnce) {
  const runtime::FixedPoint fixed_point = {40, 1024};
  std::vector<int64_t> fixed = {0,
                                1,
                                -1,
                                (int64_t{1} << 24) + 1,
                                (int64_t{1} << 25) + 2,
                                (int64_t{1} << 25) + 6,
                                std::numeric_limits<int64_t>::max(),
                                std::numeric_limits<int64_t>::min()};
  std::mt19937_64 random(3);
  for (int i = 0; i < 400; ++i) fixed.push_back(static_cast<int64_t>(random()) >> (random() % 60));
  const runtime::Piece piece = {3, fixed.size() - 3};
  UnderEverySchedule([&] {
    std::vector<float> out = Unwritten<float>(fixed.size());
    const cudaError_t status =
        LaunchFixedToFloat(nullptr, {&piece, fixed.size(), fixed_point, fixed.data(), out.data()});
    for (size_t i = 0; i < piece.count; ++i) EXPECT_EQ(out[i], fixed_point.ToFloat(fixed[i + 3]));
    EXPECT_TRUE(std::isnan(out[piece.count]));
    return status;
  });
}

}  // namespace
}  // namespace meshseal::cuda

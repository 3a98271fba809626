// Bytes of a matrix as each format stores it.
#include "compiler/budget/stored_size.h"

#include <gtest/gtest.h>

#include <limits>

namespace meshseal::compiler {
namespace {

TensorSpec Weight(DType dtype) {
  TensorSpec tensor;
  tensor.dtype.value = dtype;
  return tensor;
}

SideTensorSpec Scale(DType dtype, std::optional<ScaleBlock> block) {
  SideTensorSpec side;
  side.dtype.value = dtype;
  if (block.has_value()) side.block = Spanned<ScaleBlock>{*block, {}};
  return side;
}

uint64_t Bytes(const TensorSpec& tensor, uint64_t outputs, uint64_t inputs) {
  StoredSize sizes;
  const uint64_t bytes = sizes.Stored(tensor, outputs, inputs);
  EXPECT_FALSE(sizes.overflowed());
  return bytes;
}

TEST(StoredSize, PlainElements) {
  EXPECT_EQ(Bytes(Weight(DType::kBf16), 768, 2048), 768u * 2048 * 2);
  EXPECT_EQ(Bytes(Weight(DType::kF32), 128, 1), 512u);  // a vector
}

TEST(StoredSize, BlocksOfGguf) {
  EXPECT_EQ(Bytes(Weight(DType::kQ4K), 768, 2048), 768u * 8 * 144);
  EXPECT_EQ(Bytes(Weight(DType::kQ6K), 2048, 768), 2048u * 3 * 210);
  EXPECT_EQ(Bytes(Weight(DType::kMxfp4), 2880, 2880), 2880u * 90 * 17);
  // Half a block is charged whole.
  EXPECT_EQ(Bytes(Weight(DType::kQ4K), 1, 384), 2u * 144);
}

TEST(StoredSize, TilesOfFloat8KeepTheirEdges) {
  TensorSpec tensor = Weight(DType::kF8E4M3);
  tensor.scale = Scale(DType::kF32, ScaleBlock{128, 128});
  EXPECT_EQ(Bytes(tensor, 2048, 7168), 2048u * 7168 + 16u * 56 * 4);
  EXPECT_EQ(Bytes(tensor, 320, 100), 320u * 100 + 3u * 1 * 4);
}

TEST(StoredSize, FourBitCodesWithScalesApart) {
  TensorSpec mxfp4 = Weight(DType::kMxfp4);
  mxfp4.scale = Scale(DType::kU8, ScaleBlock{1, 32});
  EXPECT_EQ(Bytes(mxfp4, 2880, 2880), Bytes(Weight(DType::kMxfp4), 2880, 2880));  // another packing, the same bytes
  TensorSpec nvfp4 = Weight(DType::kNvfp4);
  nvfp4.scale = Scale(DType::kF8E4M3, ScaleBlock{1, 16});
  nvfp4.scale_2 = Scale(DType::kF32, std::nullopt);
  nvfp4.input_scale = Scale(DType::kF32, std::nullopt);
  EXPECT_EQ(Bytes(nvfp4, 1536, 4096), 1536u * 4096 / 2 + 1536u * 256 + 8);
}

TEST(StoredSize, SaysWhenSixtyFourBitsAreTooFew) {
  StoredSize sizes;
  sizes.Stored(Weight(DType::kF32), uint64_t{1} << 40, uint64_t{1} << 40);
  EXPECT_TRUE(sizes.overflowed());
}

}  // namespace
}  // namespace meshseal::compiler

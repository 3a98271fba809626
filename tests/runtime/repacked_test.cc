// Repacked matrices (formats/repacked.h): the bits of those as stored, in as many bytes.
#include "runtime/formats/repacked.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/formats/format.h"
#include "runtime/weights/weight_matrix.h"
#include "schema/dtype.h"

namespace meshseal::runtime {
namespace {

std::vector<DType> BlockFormats() {
  return {
#define MESHSEAL_ELEMENT_FORMAT(dtype, Name)
#define MESHSEAL_BLOCK_FORMAT(dtype, Name) DType::dtype,
#include "runtime/formats/formats.def"
#undef MESHSEAL_BLOCK_FORMAT
#undef MESHSEAL_ELEMENT_FORMAT
  };
}

// Random bytes at an address that is no multiple of anything, rows further apart than they are long.
class Stored {
 public:
  Stored(DType dtype, uint32_t rows, uint32_t columns, uint32_t seed = 1)
      : dtype_(dtype), format_(*FindFormat(dtype)), rows_(rows), columns_(columns) {
    std::mt19937 random(seed);
    bytes_.resize(1 + rows * row_bytes());
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random());
  }

  uint64_t run() const { return columns_ / format_.block_elements * format_.block_bytes; }
  uint64_t row_bytes() const { return run() + 3; }
  StoredBlocks blocks() const { return {bytes_.data() + 1, row_bytes(), rows_, columns_}; }
  std::byte* row(uint32_t row) { return bytes_.data() + 1 + row * row_bytes(); }

  WeightMatrix AsStored() const {
    WeightMatrix matrix;
    matrix.dtype = dtype_;
    matrix.rows = rows_;
    matrix.columns = columns_;
    matrix.row_bytes = row_bytes();
    matrix.data = bytes_.data() + 1;
    return matrix;
  }

  std::vector<std::vector<std::byte>> Planes() const {
    std::vector<std::vector<std::byte>> planes;
    for (const Plane& plane : PlanesOf(dtype_)) {
      planes.emplace_back(BytesOfPlane(plane, rows_, columns_));
      RepackPlane(dtype_, blocks(), static_cast<uint32_t>(planes.size() - 1), planes.back().data());
    }
    return planes;
  }

 private:
  const DType dtype_;
  const Format& format_;
  const uint32_t rows_;
  const uint32_t columns_;
  std::vector<std::byte> bytes_;
};

WeightMatrix InPlanes(WeightMatrix matrix, const std::vector<std::vector<std::byte>>& planes) {
  matrix.data = nullptr;
  matrix.row_bytes = 0;
  matrix.planes.strip_rows = StripRowsOf(matrix.rows);
  for (size_t i = 0; i < planes.size(); ++i) matrix.planes.data[i] = planes[i].data();
  return matrix;
}

// Every bit of every element, of NaNs, too.
bool AreTheSame(const WeightMatrix& a, const WeightMatrix& b) {
  std::vector<float> of_a(a.columns);
  std::vector<float> of_b(b.columns);
  for (uint32_t row = 0; row < a.rows; ++row) {
    a.Row(row, absl::MakeSpan(of_a));
    b.Row(row, absl::MakeSpan(of_b));
    if (std::memcmp(of_a.data(), of_b.data(), a.columns * sizeof(float)) != 0) return false;
  }
  return true;
}

TEST(Repacked, EveryElementHasTheBitsOfTheOneAsStored) {
  EXPECT_EQ(BlockFormats().size(), 12u);
  for (const DType dtype : BlockFormats()) {
    const auto block = static_cast<uint32_t>(FindFormat(dtype)->block_elements);
    for (const uint32_t rows : {1u, 2u, 3u, 4u, 7u, 12u}) {
      for (const uint32_t columns : {block, 3 * block}) {
        const Stored stored(dtype, rows, columns, rows);
        const std::vector<std::vector<std::byte>> planes = stored.Planes();
        EXPECT_TRUE(AreTheSame(stored.AsStored(), InPlanes(stored.AsStored(), planes)))
            << DTypeName(dtype) << ", " << rows << " by " << columns;
        uint64_t bytes = 0;
        for (const std::vector<std::byte>& plane : planes) bytes += plane.size();
        EXPECT_EQ(bytes, rows * stored.run());
      }
    }
  }
}

// Sorted by alignment, planes leave no room between them: each is as large as some of what it is aligned to.
TEST(Repacked, APlaneIsAMultipleOfItsAlignment) {
  for (const DType dtype : BlockFormats()) {
    const auto block = static_cast<uint32_t>(FindFormat(dtype)->block_elements);
    for (const uint32_t rows : {1u, 3u, 4u, 20u}) {
      for (const Plane& plane : PlanesOf(dtype)) {
        EXPECT_EQ(BytesOfPlane(plane, rows, 3 * block) % AlignmentOfPlaces(StripRowsOf(rows) * plane.bytes), 0u);
        if (plane.of_codes) {
          EXPECT_EQ(AlignmentOfPlaces(kStripRows * plane.bytes), plane.bytes < 4 ? kStripRows * plane.bytes : 16u);
        }
      }
    }
  }
}

// So no byte is left out, written twice or made up.
TEST(Repacked, EveryBitOfABlockIsOneOfAPlane) {
  for (const DType dtype : BlockFormats()) {
    const Format& format = *FindFormat(dtype);
    Stored stored(dtype, 4, static_cast<uint32_t>(format.block_elements));
    const std::vector<std::vector<std::byte>> before = stored.Planes();
    for (uint64_t bit = 0; bit < 8 * format.block_bytes; ++bit) {
      std::byte& byte = stored.row(2)[bit / 8];
      const std::byte kept = std::exchange(byte, byte ^ static_cast<std::byte>(1u << bit % 8));
      const std::vector<std::vector<std::byte>> after = stored.Planes();
      byte = kept;
      uint64_t changed = 0;
      for (size_t plane = 0; plane < before.size(); ++plane) {
        for (size_t i = 0; i < before[plane].size(); ++i) {
          const auto difference = static_cast<unsigned>(before[plane][i] ^ after[plane][i]);
          changed += static_cast<uint64_t>(__builtin_popcount(difference));
        }
      }
      ASSERT_EQ(changed, 1u) << DTypeName(dtype) << ", bit " << bit;
    }
  }
}

TEST(Repacked, FaultsAreSeen) {
  for (const DType dtype : BlockFormats()) {
    const Stored stored(dtype, 8, 2 * static_cast<uint32_t>(FindFormat(dtype)->block_elements));
    const std::vector<std::vector<std::byte>> planes = stored.Planes();
    const WeightMatrix right = InPlanes(stored.AsStored(), planes);
    ASSERT_TRUE(AreTheSame(stored.AsStored(), right));
    WeightMatrix other_strips = right;
    other_strips.planes.strip_rows = 1;
    EXPECT_FALSE(AreTheSame(stored.AsStored(), other_strips)) << DTypeName(dtype);
    for (size_t i = 0; i < planes.size(); ++i) {
      // The plane begins an element too late.
      std::vector<std::vector<std::byte>> late = planes;
      const uint32_t bytes = PlanesOf(dtype)[i].bytes;
      std::memmove(late[i].data(), planes[i].data() + bytes, planes[i].size() - bytes);
      EXPECT_FALSE(AreTheSame(stored.AsStored(), InPlanes(stored.AsStored(), late))) << DTypeName(dtype) << ", " << i;
      if (i == 0) continue;
      // Another plane lies where it should.
      std::vector<std::vector<std::byte>> swapped = planes;
      const size_t common = std::min(planes[0].size(), planes[i].size());
      std::swap_ranges(swapped[0].begin(), swapped[0].begin() + static_cast<ptrdiff_t>(common), swapped[i].begin());
      EXPECT_FALSE(AreTheSame(stored.AsStored(), InPlanes(stored.AsStored(), swapped))) << DTypeName(dtype);
    }
  }
}

TEST(Repacked, WhoseElementsAreBlocksHasNoOtherForm) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16, DType::kF8E4M3, DType::kI32}) {
    EXPECT_TRUE(PlanesOf(dtype).empty());
    float eight[8];
    ReadEightRepacked(dtype, {}, 8, 0, 0, eight);
    for (const float value : eight) EXPECT_NE(value, value);
  }
}

}  // namespace
}  // namespace meshseal::runtime

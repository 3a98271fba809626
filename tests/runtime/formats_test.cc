// Every weight format decodes to the same bits as the library whose format it is.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/formats/block_bits.h"
#include "runtime/formats/format.h"
#include "schema/dtype.h"
#include "tests/support/test_data.h"

namespace meshseal::runtime {
namespace {

std::string ReadData(const std::string& name) { return support::TestData("quants/" + name); }

std::vector<float> ReadFloats(const std::string& name) {
  const std::string bytes = ReadData(name);
  std::vector<float> floats(bytes.size() / sizeof(float));
  if (!floats.empty()) std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

const std::byte* BytesOf(const std::string& text) { return reinterpret_cast<const std::byte*>(text.data()); }

// The same bits; zeros are the same whatever their sign.
bool IsSame(float a, float b) { return std::memcmp(&a, &b, sizeof(a)) == 0 || (a == 0 && b == 0); }

struct Decoded {
  size_t blocks = 0;
  size_t refused = 0;
  size_t different = 0;  // elements of blocks that are not refused
};

Decoded Compare(const Format& format, const std::string& stored_name, const std::string& decoded_name) {
  const std::string stored = ReadData(stored_name);
  const std::vector<float> expected = ReadFloats(decoded_name);
  Decoded result;
  result.blocks = stored.size() / format.block_bytes;
  EXPECT_EQ(result.blocks * format.block_elements, expected.size()) << stored_name;
  std::vector<float> out(expected.size());
  format.decode(BytesOf(stored), result.blocks, out.data());
  for (size_t block = 0; block < result.blocks; ++block) {
    if (format.fault(BytesOf(stored) + block * format.block_bytes) != nullptr) {
      ++result.refused;
      continue;
    }
    for (size_t i = block * format.block_elements; i < (block + 1) * format.block_elements; ++i) {
      if (!IsSame(out[i], expected[i])) ++result.different;
    }
  }
  return result;
}

TEST(Formats, DecodeToTheBitsOfTheirLibrary) {
  size_t formats = 0;
  for (const DTypeRow& row : DTypeRows()) {
    const Format* format = FindFormat(row.dtype);
    // What a manifest may give a matrix can be computed from, and nothing else.
    EXPECT_EQ(format != nullptr, row.weight) << row.name;
    if (format == nullptr) continue;
    EXPECT_EQ(format->block_elements, row.block_elements) << row.name;
    EXPECT_EQ(format->block_bytes * 8, row.block_bits) << row.name;
    if (row.dtype == DType::kF32 || row.dtype == DType::kF8E4M3) continue;
    const Decoded quantised = Compare(*format, absl::StrCat(row.name, ".q.bin"), absl::StrCat(row.name, ".dq.f32"));
    EXPECT_GE(quantised.blocks, 16u) << row.name;
    EXPECT_EQ(quantised.refused, 0u) << row.name;
    EXPECT_EQ(quantised.different, 0u) << row.name;
    const Decoded random = Compare(*format, absl::StrCat(row.name, ".rnd.bin"), absl::StrCat(row.name, ".rnd.dq.f32"));
    EXPECT_GE(random.blocks, 16u) << row.name;
    EXPECT_EQ(random.refused, row.dtype == DType::kNvfp4 ? 2u : 0u) << row.name;
    EXPECT_EQ(random.different, 0u) << row.name;
    ++formats;
  }
  EXPECT_EQ(formats, 14u);
}

TEST(Formats, EveryCodeOfF8E4M3) {
  const std::vector<float> expected = ReadFloats("tab_f8_e4m3fn.f32");
  ASSERT_EQ(expected.size(), 256u);
  const Format& format = *FindFormat(DType::kF8E4M3);
  for (unsigned code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::byte>(code);
    float value = 0;
    format.decode(&byte, 1, &value);
    const bool same = std::isnan(expected[code]) ? std::isnan(value) : std::memcmp(&value, &expected[code], 4) == 0;
    EXPECT_TRUE(same) << code << ": " << value << ", expected " << expected[code];
  }
}

TEST(Formats, F32IsTakenAsItStands) {
  const float values[] = {1.5f, -0.0f, INFINITY};
  float out[3] = {};
  FindFormat(DType::kF32)->decode(reinterpret_cast<const std::byte*>(values), 3, out);
  EXPECT_EQ(std::memcmp(values, out, sizeof(values)), 0);
}

// What format_elements.h says of float32: of the widest format with minima and of the widest without, for halves whose
// significant bits and exponents are at their ends.
TEST(Formats, Float32RoundsWhereFloat64Does) {
  std::vector<float> halves;
  for (const unsigned bits : {0x0001u, 0x03FFu, 0x0400u, 0x07FFu, 0x3C00u, 0x3555u, 0x5A5Bu, 0x7BFFu}) {
    halves.push_back(F16ToFloat(static_cast<uint16_t>(bits)));
    halves.push_back(-halves.back());
  }
  size_t different = 0;
  for (const float d : halves) {
    for (const float dmin : halves) {
      for (int scale = 0; scale < 64; ++scale) {
        for (const int min : {0, 1, 31, 32, 33, 62, 63}) {
          for (const int code : {0, 1, 2, 15, 16, 21, 30, 31}) {
            const auto number = [](int of) { return static_cast<float>(of); };
            const float in_float32 = ProductLess(d * number(scale), number(code), dmin * number(min));
            const double in_float64 = double{d} * scale * code - double{dmin} * min;
            if (!IsSame(in_float32, static_cast<float>(in_float64))) ++different;
          }
        }
      }
    }
    for (int scale = -128; scale < 128; ++scale) {
      for (int code = -127; code < 128; ++code) {
        if (std::abs(scale) > 32 && std::abs(code) > 32) continue;  // q6_k has these scales, iq4_xs these codes
        const float in_float32 = d * static_cast<float>(scale) * static_cast<float>(code);
        if (double{in_float32} != double{d} * scale * code) ++different;
      }
    }
  }
  EXPECT_EQ(different, 0u);
}

// A block of zeros with the bytes at `at` set.
std::string FaultOf(DType dtype, size_t at, std::vector<unsigned> bytes) {
  const Format& format = *FindFormat(dtype);
  std::vector<std::byte> block(format.block_bytes);
  for (size_t i = 0; i < bytes.size(); ++i) block[at + i] = static_cast<std::byte>(bytes[i]);
  const char* const fault = format.fault(block.data());
  return fault == nullptr ? "" : fault;
}

TEST(Formats, ScalesThatAreNoNumberAreRefused) {
  struct HalfScale {
    DType dtype;
    size_t at;
  };
  const HalfScale scales[] = {{DType::kQ8_0, 0},  {DType::kQ4_0, 0}, {DType::kIq4Nl, 0}, {DType::kQ4K, 0},
                              {DType::kQ4K, 2},   {DType::kQ5K, 0},  {DType::kQ5K, 2},   {DType::kQ6K, 208},
                              {DType::kQ2K, 80},  {DType::kQ2K, 82}, {DType::kQ3K, 108}, {DType::kIq4Xs, 0},
                              {DType::kIq2Xxs, 0}};
  for (const HalfScale& scale : scales) {
    EXPECT_EQ(FaultOf(scale.dtype, scale.at, {0x00, 0x7C}), "its scale is not finite") << DTypeName(scale.dtype);
    EXPECT_EQ(FaultOf(scale.dtype, scale.at, {0x01, 0xFC}), "its scale is not finite") << DTypeName(scale.dtype);
    EXPECT_EQ(FaultOf(scale.dtype, scale.at, {0xFF, 0x7B}), "") << DTypeName(scale.dtype);
    EXPECT_EQ(FaultOf(scale.dtype, scale.at, {0, 0}), "") << DTypeName(scale.dtype);
  }
  EXPECT_EQ(FaultOf(DType::kMxfp4, 0, {255}), "its scale is not finite");
  EXPECT_EQ(FaultOf(DType::kMxfp4, 0, {254}), "");
  for (size_t group = 0; group < 4; ++group) {
    EXPECT_EQ(FaultOf(DType::kNvfp4, group, {0x7F}), "its scale is not finite");
    EXPECT_EQ(FaultOf(DType::kNvfp4, group, {0x80}), "its scale has a sign");
    EXPECT_EQ(FaultOf(DType::kNvfp4, group, {0x7E}), "");
  }
}

}  // namespace
}  // namespace meshseal::runtime

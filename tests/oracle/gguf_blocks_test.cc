// The test quantiser: what it writes decodes to the nearest code.
#include "tests/support/gguf_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/formats/format.h"
#include "schema/float_bits.h"
#include "tests/runtime/oracle.h"
#include "tests/support/checkpoint_writer.h"

namespace meshseal::oracle {
namespace {

TEST(GgufBlocks, HalvesAreTheNearest) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = F16ToFloat(half);
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(support::FloatToF16(value), half);
    const float next = F16ToFloat(static_cast<uint16_t>(half + 1));
    if (!std::isfinite(next)) continue;
    const float middle = (value + next) / 2;
    ASSERT_EQ(support::FloatToF16(middle), half + half % 2) << middle;
  }
}

TEST(GgufBlocks, DecodeToNearlyWhatWasEncoded) {
  struct Row {
    DType dtype;
    double bound;  // half a step of a block that spans (-1, 1), and the rounding of its scales
  };
  const std::vector<float> values = support::RandomValues(4096, 7);
  for (const Row row : {Row{DType::kF32, 0}, Row{DType::kF16, 0.0003}, Row{DType::kQ8_0, 0.5 / 127 + 0.0006},
                        Row{DType::kQ4_0, 1.0 / 8 + 0.0006}, Row{DType::kQ4K, 1.0 / 15 + 0.03}}) {
    SCOPED_TRACE(DTypeName(row.dtype));
    const std::string bytes = support::EncodeBlocks(row.dtype, values);
    const runtime::Format& format = *runtime::FindFormat(row.dtype);
    ASSERT_EQ(bytes.size(), values.size() / format.block_elements * format.block_bytes);
    std::vector<float> decoded(values.size());
    format.decode(reinterpret_cast<const std::byte*>(bytes.data()), values.size() / format.block_elements,
                  decoded.data());
    EXPECT_LE(support::RelativeDifference(decoded, values), row.bound);
  }
}

}  // namespace
}  // namespace meshseal::oracle

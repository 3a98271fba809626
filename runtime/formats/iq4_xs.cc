// iq4_xs: a super-block of 256 codes of iq4_nl in eight groups, each with a scale of six bits around 32.
#include <cstddef>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

void DecodeIq4Xs(const std::byte* block, float* out) {
  const double d = F16At(block, 0);
  const unsigned high_scales = HalfBits(block, 2);
  for (size_t i = 0; i < 256; ++i) {
    const size_t group = i / 32;
    const unsigned low = Nibble(ByteAt(block, 4 + group / 2), group % 2 == 1);
    const int scale = static_cast<int>(low | ((high_scales >> (2 * group)) & 3u) << 4) - 32;
    const unsigned code = Nibble(ByteAt(block, 8 + 16 * group + i % 16), i % 32 >= 16);
    out[i] = static_cast<float>(d * scale * kNonLinear[code]);
  }
}

const char* FaultOfIq4Xs(const std::byte* block) { return FaultOfHalf(block, 0); }

void TameIq4Xs(std::byte* block) { SetHalf(block, 0, -15); }

}  // namespace meshseal::runtime

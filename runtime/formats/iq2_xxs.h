// iq2_xxs: a super-block of 256 elements in octets of a codebook, with seven bits of signs for each octet (an even
// number of them negative) and a scale of four bits for each 32.
#ifndef MESHSEAL_RUNTIME_FORMATS_IQ2_XXS_H_
#define MESHSEAL_RUNTIME_FORMATS_IQ2_XXS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"
#include "runtime/formats/planes.h"

namespace meshseal::runtime {

// Row `row` of the format's codebook: element j of an octet is level (octet >> 2j) & 3 of 8, 25 and 43.
MESHSEAL_HOST_DEVICE inline unsigned OctetOf(unsigned row) {
  // Of a function, so that the host and the device each have one.
  static constexpr uint16_t kOctets[256] = {
      0,     2,     5,     8,     10,    17,    20,    32,    34,    40,    42,    65,    68,    80,    88,    97,
      100,   128,   130,   138,   162,   257,   260,   272,   277,   320,   388,   408,   512,   514,   546,   642,
      1025,  1028,  1040,  1057,  1060,  1088,  1090,  1096,  1120,  1153,  1156,  1168,  1188,  1280,  1282,  1288,
      1312,  1350,  1385,  1408,  1425,  1545,  1552,  1600,  1668,  1700,  2048,  2053,  2056,  2068,  2088,  2113,
      2116,  2128,  2130,  2184,  2308,  2368,  2562,  2580,  4097,  4100,  4112,  4129,  4160,  4192,  4228,  4240,
      4245,  4352,  4360,  4384,  4432,  4442,  4480,  4644,  4677,  5120,  5128,  5152,  5157,  5193,  5248,  5400,
      5474,  5632,  5654,  6145,  6148,  6160,  6208,  6273,  6400,  6405,  6560,  6737,  8192,  8194,  8202,  8260,
      8289,  8320,  8322,  8489,  8520,  8704,  8706,  9217,  9220,  9232,  9280,  9302,  9472,  9537,  9572,  9872,
      10248, 10272, 10388, 10820, 16385, 16388, 16400, 16408, 16417, 16420, 16448, 16456, 16470, 16480, 16513, 16516,
      16528, 16640, 16672, 16737, 16768, 16773, 16897, 16912, 16968, 16982, 17000, 17408, 17416, 17440, 17536, 17561,
      17682, 17700, 17920, 18433, 18436, 18448, 18496, 18501, 18688, 18776, 18785, 18818, 19013, 19088, 20480, 20488,
      20497, 20505, 20512, 20608, 20616, 20740, 20802, 20900, 21137, 21648, 21650, 21770, 22017, 22100, 22528, 22545,
      22553, 22628, 22848, 23048, 24580, 24592, 24640, 24680, 24832, 24917, 25112, 25184, 25600, 25605, 25872, 25874,
      25988, 26690, 32768, 32770, 32778, 32833, 32898, 33028, 33048, 33088, 33297, 33793, 33796, 33808, 33813, 33856,
      33888, 34048, 34118, 34196, 34313, 34368, 34400, 34818, 35076, 35345, 36868, 36880, 36900, 36928, 37025, 37142,
      37248, 37445, 37888, 37922, 37956, 38225, 39041, 39200, 40962, 41040, 41093, 41225, 41472, 42008, 43088, 43268,
  };
  return kOctets[row];
}

// Of the block's scale, the rows of four octets, and the word behind them: four signs of seven bits, then the scale.
MESHSEAL_HOST_DEVICE inline void ValuesOfIq2Xxs(float d, unsigned row, uint32_t packed, uint32_t octet, float* out) {
  constexpr unsigned kLevels = 43 << 16 | 25 << 8 | 8;  // a byte each
  const unsigned signs = (packed >> (7 * octet)) & 127u;
  const unsigned all_signs = signs | (static_cast<unsigned>(std::popcount(signs)) & 1u) << 7;
  const unsigned levels = OctetOf(row);
  const float scale = d * static_cast<float>(2 * (packed >> 28) + 1) * 0.125f;
  for (uint32_t i = 0; i < 8; ++i) {
    const auto level = static_cast<float>((kLevels >> (8 * ((levels >> (2 * i)) & 3u))) & 0xFFu);
    out[i] = scale * (((all_signs >> i) & 1u) != 0 ? -level : level);
  }
}

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfIq2Xxs(const std::byte* block, uint32_t first, float* out) {
  const std::byte* const group = block + 2 + first / 32 * 8;
  const uint32_t octet = first % 32 / 8;
  ValuesOfIq2Xxs(F16At<kAlignment>(block, 0), ByteAt(group, octet), LoadAs<uint32_t, kAlignment>(group + 4), octet,
                 out);
}

struct PlanesOfIq2Xxs {
  static constexpr Plane kPlanes[] = {BytesPlane(32, 8, 2), BytesPlane(256, 2, 0)};
  MESHSEAL_INTO_CALLER static void Values(const PlaneElements& of, uint32_t first, float* out) {
    const uint32_t octet = first % 32 / 8;
    ValuesOfIq2Xxs(of.Half(1), of.Byte(0, 0, octet), of.words[0][1], octet, out);
  }
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_IQ2_XXS_H_

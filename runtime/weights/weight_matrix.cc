#include "runtime/weights/weight_matrix.h"

#include <bit>
#include <cstring>

#include "schema/float_bits.h"

namespace meshseal::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "weights are little-endian and decoded in place");

template <class Decode>
void DecodeHalves(const std::byte* bytes, absl::Span<float> out, Decode decode) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes + i * sizeof(bits), sizeof(bits));
    out[i] = decode(bits);
  }
}

}  // namespace

bool CanDecode(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16; }

void DecodeRow(DType dtype, const std::byte* bytes, absl::Span<float> out) {
  if (dtype == DType::kF16) {
    DecodeHalves(bytes, out, F16ToFloat);
  } else if (dtype == DType::kBf16) {
    DecodeHalves(bytes, out, Bf16ToFloat);
  } else {
    std::memcpy(out.data(), bytes, out.size() * sizeof(float));
  }
}

}  // namespace meshseal::runtime

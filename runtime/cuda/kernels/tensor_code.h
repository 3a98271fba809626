// Instructions of tensor cores, and what feeds them, each with two bodies as device_code.h says. For .cu files alone.
//
// Lane l has group l / 4 and place l % 4 in it. A register holds two 16-bit elements, the first in its lower half.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_TENSOR_CODE_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_TENSOR_CODE_H_

#include <cstdint>

#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/tile_pieces.h"
#include "schema/float_bits.h"

namespace meshseal::cuda {

// The number that 16 bits stand for.
template <HalfType type>
MESHSEAL_DEVICE float NumberOfHalf(uint32_t bits) {
  const auto half = static_cast<uint16_t>(bits);
  return type == HalfType::kBf16 ? Bf16ToFloat(half) : F16ToFloat(half);
}

// cvt.rn.bf16x2.f32 and cvt.rn.f16x2.f32: two numbers rounded to the nearest, ties to even; too large a
// magnitude gives infinity, any NaN the one NaN.
template <HalfType type>
MESHSEAL_DEVICE uint32_t PackTwo(float first, float second) {
#if defined(__CUDA_ARCH__)
  uint32_t packed;
  if constexpr (type == HalfType::kBf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  }
  return packed;
#else
  const auto rounded = [](float value) -> uint32_t {
    if (value != value) return 0x7FFFu;
    return type == HalfType::kBf16 ? FloatToBf16(value) : FloatToF16(value);
  };
  return rounded(second) << 16 | rounded(first);
#endif
}

// Eight elements that lie one after the other.
struct alignas(16) Eight {
  uint32_t pairs[4];
};

// ldmatrix.x4: four matrices of 8 rows of 8 elements in shared memory. Lanes 8 * i to 8 * i + 7 say where the rows of
// matrix i are; of each matrix a lane gets elements 2 * place and 2 * place + 1 of row group.
MESHSEAL_DEVICE void LoadMatrices(const Eight& row, uint32_t (&matrices)[4]) {
#if defined(__CUDA_ARCH__)
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(&row)))
               : "memory");
#elif defined(MESHSEAL_SIMT)
  struct Place {
    const Eight* row;
  };
  const auto places = ::simt::AllLanes(Place{&row});
  for (uint32_t i = 0; i < 4; ++i) matrices[i] = places[8 * i + Lane() / 4].row->pairs[Lane() % 4];
#endif
}

// mma.sync.m16n8k16, sums += a times b with float32 sums. Registers hold, of A [16, 16] rows group (even) and group + 8
// (odd) with columns 2 * place and the next one, from the third on 8 more; of B [16, 8] rows 2 * place and the next
// one, the second 8 more, of column group; of the sums [16, 8] columns 2 * place and the next one of rows group, and of
// group + 8.
//
// The instruction says neither in which order an element's 16 products are added to its sum nor how that is rounded,
// only that each addition is of float32 at least. The host adds in float64 and rounds once.
template <HalfType type>
MESHSEAL_DEVICE void MultiplyAdd(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&sums)[4]) {
#if defined(__CUDA_ARCH__)
  if constexpr (type == HalfType::kBf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#elif defined(MESHSEAL_SIMT)
  struct Fragments {
    uint32_t a[4];
    uint32_t b[2];
  };
  const auto lanes = ::simt::AllLanes(Fragments{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
  const auto number = [](uint32_t pair, uint32_t k) {
    return double{NumberOfHalf<type>(k % 2 == 0 ? pair & 0xFFFFu : pair >> 16)};
  };
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t row = Lane() / 4 + i / 2 * 8;
    const uint32_t column = Lane() % 4 * 2 + i % 2;
    double sum = 0;
    for (uint32_t k = 0; k < 16; ++k) {
      const uint32_t place = k % 8 / 2;
      sum +=
          number(lanes[row % 8 * 4 + place].a[row / 8 + k / 8 * 2], k) * number(lanes[column * 4 + place].b[k / 8], k);
    }
    sums[i] = static_cast<float>(double{sums[i]} + sum);
  }
#endif
}

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_TENSOR_CODE_H_

// What a lane reads of a repacked matrix for a few rows at once, alone in a kernel: lit/ptx looks at it.
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/weight_reader.h"

namespace meshseal::cuda {
namespace {

constexpr uint32_t kRows = 4;

template <DType dtype>
MESHSEAL_DEVICE void Read(const DeviceMatrix& matrix, float* out) {
  float rows[kRows][8];
  RepackedReader<dtype>{matrix}.template Rows<kRows>(blockIdx.x * kRows, threadIdx.x * 8, rows);
  MESHSEAL_UNROLL
  for (uint32_t row = 0; row < kRows; ++row) {
    MESHSEAL_UNROLL
    for (uint32_t i = 0; i < 8; ++i) out[(GridThread() * kRows + row) * 8 + i] = rows[row][i];
  }
}

}  // namespace

#define MESHSEAL_READ(Name, dtype) \
  __global__ void Read##Name(DeviceMatrix matrix, float* out) { Read<DType::dtype>(matrix, out); }
MESHSEAL_READ(Q8_0, kQ8_0)
MESHSEAL_READ(Q4_0, kQ4_0)
MESHSEAL_READ(Q4K, kQ4K)
MESHSEAL_READ(Q6K, kQ6K)
MESHSEAL_READ(Q2K, kQ2K)
MESHSEAL_READ(Mxfp4, kMxfp4)
MESHSEAL_READ(Iq2Xxs, kIq2Xxs)
#undef MESHSEAL_READ

}  // namespace meshseal::cuda

#include "runtime/backend/basis_rounding.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/to_basis.h"

namespace meshseal::cuda {
namespace {

constexpr unsigned kThreads = 128;
static_assert(runtime::kQ8Elements == kWarpLanes, "a lane for each element of a q8 block");

__global__ void ToBasisKernel(ToBasisStep step) {
  const uint64_t row = GridRow();
  const uint64_t column = GridColumn();
  const StepTokens tokens = *step.step;
  if (row >= uint64_t{tokens.tokens} * step.rows_per_token) return;
  if (step.owned.experts != nullptr && step.owned.LocalExpert(row, tokens, step.rows_per_token) < 0) return;
  const bool there = column < step.width;
  const float value = there ? step.in[row * step.width + column] : 0;
  float rounded = 0;
  if (step.basis == Basis::kQ8) {
    rounded = runtime::Q8Step(WarpMax(runtime::LargerMagnitude(0, value))).Rounded(value);
  } else {
    rounded = runtime::RoundedTo(step.basis, value);
  }
  if (there) step.out[row * step.width + column] = rounded;
}

}  // namespace

cudaError_t LaunchToBasis(cudaStream_t stream, const ToBasisStep& step) {
  const uint64_t rows = uint64_t{step.max_tokens} * step.rows_per_token;
  return Launch(stream, ToBasisKernel, GridOfRows(rows, step.width, kThreads), dim3(kThreads), 0, step);
}

}  // namespace meshseal::cuda

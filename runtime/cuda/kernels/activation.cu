#include "runtime/cuda/kernels/activation.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/numerics/activation_value.h"

namespace meshseal::cuda {
namespace {

constexpr unsigned kThreads = 128;

// Column `column` of a row of products: gate columns, then up columns; up columns alone where there is no gate.
MESHSEAL_DEVICE float ActivatedAt(const Activation& rule, const StepGrid& grid, const float* products,
                                  uint64_t column) {
  const float* row = products + GridRow() * grid.products();
  return runtime::Activated(rule, grid.gated ? row[column] : 0, row[grid.gated ? grid.columns + column : column]);
}

__global__ void ActivationKernel(ActivationStep step) {
  const uint64_t slot = GridRow();
  const uint64_t column = GridColumn();
  const StepTokens tokens = *step.grid.step;
  if (slot >= uint64_t{tokens.tokens} * step.grid.top_k || column >= step.grid.columns) return;
  if (step.owned.LocalExpert(slot, tokens, step.grid.top_k) < 0) return;
  const float value = ActivatedAt(step.rule, step.grid, step.gate_up, column);
  step.out[slot * step.grid.columns + column] = step.weighs ? value * step.owned.weights[slot] : value;
}

__global__ void SharedActivationKernel(SharedActivationStep step) {
  const uint64_t column = GridColumn();
  if (GridRow() >= step.grid.step->tokens || column >= step.grid.columns) return;
  step.out[GridRow() * step.grid.columns + column] = ActivatedAt(step.rule, step.grid, step.gate_up, column);
}

}  // namespace

cudaError_t LaunchActivation(cudaStream_t stream, const ActivationStep& step) {
  return Launch(stream, ActivationKernel, GridOfRows(step.grid.max_slots(), step.grid.columns, kThreads),
                dim3(kThreads), 0, step);
}

cudaError_t LaunchSharedActivation(cudaStream_t stream, const SharedActivationStep& step) {
  return Launch(stream, SharedActivationKernel, GridOfRows(step.grid.max_tokens, step.grid.columns, kThreads),
                dim3(kThreads), 0, step);
}

}  // namespace meshseal::cuda

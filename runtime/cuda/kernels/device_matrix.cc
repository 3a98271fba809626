#include "runtime/cuda/kernels/device_matrix.h"

#include "runtime/weights/rank_weights.h"
#include "runtime/weights/weight_matrix.h"

namespace meshseal::cuda {
namespace {

DeviceScales OnDevice(const runtime::WeightScales& scales, const std::byte* host, const std::byte* device) {
  if (scales.dtype == DType::kInvalid) return {};
  return {scales.dtype,    scales.applies,   scales.block_rows,   scales.block_columns,         scales.first_row,
          scales.row_step, scales.row_bytes, scales.column_bytes, device + (scales.data - host)};
}

}  // namespace

DeviceMatrix OnDevice(const runtime::WeightMatrix& matrix, const std::byte* host, const std::byte* device) {
  if (matrix.empty()) return {};
  return {matrix.dtype,
          matrix.packed,
          matrix.rows,
          matrix.columns,
          matrix.row_bytes,
          matrix.element_bytes,
          device + (matrix.data - host),
          OnDevice(matrix.scale, host, device),
          OnDevice(matrix.scale_2, host, device)};
}

DeviceExpert OnDevice(const runtime::ExpertWeights& expert, const std::byte* host, const std::byte* device) {
  return {OnDevice(expert.gate, host, device),    OnDevice(expert.up, host, device),
          OnDevice(expert.down, host, device),    OnDevice(expert.gate_bias, host, device),
          OnDevice(expert.up_bias, host, device), OnDevice(expert.down_bias, host, device)};
}

DeviceShared OnDevice(const runtime::SharedWeights& shared, const std::byte* host, const std::byte* device) {
  return {OnDevice(shared.gate, host, device), OnDevice(shared.up, host, device), OnDevice(shared.down, host, device),
          OnDevice(shared.expert_gate, host, device)};
}

}  // namespace meshseal::cuda

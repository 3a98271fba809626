#include "runtime/cuda/kernels/device_matrix.h"

#include "runtime/weights/rank_weights.h"
#include "runtime/weights/weight_matrix.h"

namespace meshseal::cuda {
namespace {

// Where what the host has at `at` lies. Weights that lie on the device already are at `host` themselves.
const std::byte* Moved(const std::byte* at, const std::byte* host, const std::byte* device) {
  return at == nullptr || host == device ? at : device + (at - host);
}

DeviceScales OnDevice(const runtime::WeightScales& scales, const std::byte* host, const std::byte* device) {
  if (scales.dtype == DType::kInvalid) return {};
  return {scales.dtype,         scales.applies,      scales.block_rows,
          scales.block_columns, scales.first_row,    scales.row_step,
          scales.row_bytes,     scales.column_bytes, Moved(scales.data, host, device)};
}

}  // namespace

DeviceMatrix OnDevice(const runtime::WeightMatrix& matrix, const std::byte* host, const std::byte* device) {
  if (matrix.empty()) return {};
  runtime::RepackedPlanes planes = matrix.planes;
  for (const std::byte*& plane : planes.data) plane = Moved(plane, host, device);
  return {matrix.dtype,
          matrix.packed,
          matrix.rows,
          matrix.columns,
          matrix.row_bytes,
          matrix.element_bytes,
          Moved(matrix.data, host, device),
          OnDevice(matrix.scale, host, device),
          OnDevice(matrix.scale_2, host, device),
          planes};
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

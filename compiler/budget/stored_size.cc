#include "compiler/budget/stored_size.h"

#include "compiler/check/role.h"
#include "schema/checked_math.h"
#include "schema/dtype.h"

namespace meshseal::compiler {

uint64_t StoredSize::Keep(std::optional<uint64_t> result) {
  overflowed_ = overflowed_ || !result.has_value();
  return result.value_or(0);
}

uint64_t StoredSize::Mul(uint64_t a, uint64_t b) { return Keep(CheckedMul(a, b)); }
uint64_t StoredSize::Add(uint64_t a, uint64_t b) { return Keep(CheckedAdd(a, b)); }

uint64_t StoredSize::Scales(const SideTensorSpec& side, bool fused, uint64_t outputs, uint64_t inputs) {
  const uint64_t bytes = FindDType(side.dtype.value)->block_bits / 8;
  if (!side.block.has_value()) return fused ? 2 * bytes : bytes;  // gate and up may have one each
  const ScaleBlock& block = side.block->value;
  const bool by_half = side.of.has_value() && side.of->value == ScaleOf::kHalf;
  const uint64_t rows = by_half ? 2 * CeilDiv(outputs / 2, block.rows) : CeilDiv(outputs, block.rows);
  return Mul(Mul(rows, CeilDiv(inputs, block.columns)), bytes);
}

uint64_t StoredSize::Stored(const TensorSpec& tensor, uint64_t outputs, uint64_t inputs) {
  if (outputs == 0 || inputs == 0) return 0;  // a rank without columns of it
  const DTypeRow& row = *FindDType(tensor.dtype.value);
  const bool apart = row.packed_bits > 0 && tensor.scale.has_value();
  const uint64_t block_bits = apart ? row.packed_bits : row.block_bits;
  const uint64_t block_elements = apart ? 1 : row.block_elements;
  const uint64_t blocks = Mul(outputs, CeilDiv(inputs, block_elements));
  uint64_t bytes = CeilDiv(Mul(blocks, block_bits), 8);
  for (const std::optional<SideTensorSpec>* side : {&tensor.scale, &tensor.scale_2, &tensor.input_scale}) {
    if (side->has_value()) bytes = Add(bytes, Scales(**side, RowOf(tensor.role.value).fused, outputs, inputs));
  }
  return bytes;
}

LayerBytes StoredSize::Layer(const Manifest& model, const MoeSpec& moe, uint64_t columns, uint64_t shared_columns) {
  LayerBytes bytes;
  const auto extent = [&](ShapeAxis axis) -> uint64_t {
    if (axis == ShapeAxis::kIntermediate) return columns;
    if (axis == ShapeAxis::kTwoIntermediate) return 2 * columns;
    if (axis == ShapeAxis::kShared) return shared_columns;
    if (axis == ShapeAxis::kTwoShared) return 2 * shared_columns;
    return ExtentOf(axis, model, moe);
  };
  for (const TensorSpec* tensor : TensorsRead(moe)) {
    const RoleRow& row = RowOf(tensor->role.value);
    const uint64_t stored = Stored(*tensor, extent(row.outputs), IsMatrix(row) ? extent(row.inputs) : 1);
    uint64_t& line = row.per_expert ? bytes.per_expert : IsExpertMatrix(row) ? bytes.shared : bytes.replicated;
    line = Add(line, stored);
  }
  return bytes;
}

}  // namespace meshseal::compiler

#include "compiler/check/grain.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/check/role.h"

namespace meshseal::compiler {

std::vector<Grain> GrainsOf(const MoeSpec& moe, ShapeAxis axis, const Spanned<Basis>& down_basis) {
  std::vector<Grain> grains;
  const auto add = [&grains](uint64_t size, const std::string& what, Span span) {
    if (size > 1) grains.push_back({size, what, span});
  };
  for (const TensorSpec* tensor : TensorsRead(moe)) {
    const RoleRow& row = RowOf(tensor->role.value);
    if (!IsExpertMatrix(row)) continue;
    const ShapeAxis fused = axis == ShapeAxis::kShared ? ShapeAxis::kTwoShared : ShapeAxis::kTwoIntermediate;
    const std::string name = absl::StrCat("'", WordOf(row.role), "'");
    const DTypeRow& dtype = *FindDType(tensor->dtype.value);
    const bool tiled = tensor->scale.has_value() && tensor->scale->block.has_value();
    if (row.inputs == axis) {
      if (tiled) {
        add(tensor->scale->block->value.columns,
            absl::StrCat(name, " has scale blocks of ", tensor->scale->block->value.columns, " columns"),
            tensor->scale->block->span);
      } else {
        add(dtype.block_elements,
            absl::StrCat(name, " has ", std::string(DTypeName(dtype.dtype)), " blocks of ", dtype.block_elements),
            tensor->dtype.span);
      }
      if (tensor->rotation.has_value()) {
        add(tensor->rotation->value, absl::StrCat(name, " is rotated in blocks of ", tensor->rotation->value),
            tensor->rotation->span);
      }
      if (down_basis.value == Basis::kQ8) {
        add(kQ8Block, absl::StrCat("the q8 basis of ", name, " has blocks of ", kQ8Block), down_basis.span);
      }
    } else if ((row.outputs == axis || row.outputs == fused) && tiled) {
      // Interleaved rows are cut in pairs.
      const uint64_t rows = tensor->scale->block->value.rows;
      const bool pairs = tensor->layout.has_value() && tensor->layout->value == GateUpLayout::kInterleaved;
      add(pairs ? rows / std::gcd(rows, uint64_t{2}) : rows, absl::StrCat(name, " has scale blocks of ", rows, " rows"),
          tensor->scale->block->span);
    }
  }
  return grains;
}

uint64_t CutUnit(const std::vector<Grain>& grains) {
  uint64_t unit = 1;
  for (const Grain& grain : grains) unit = std::lcm(unit, grain.size);
  return unit;
}

}  // namespace meshseal::compiler

// Where the intermediate axis and the shared width may be cut: between whole blocks, tiles and segments.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/check/role.h"
#include "compiler/check/rules.h"

namespace meshseal::compiler::rules {
namespace {

constexpr uint64_t kQ8Block = 32;

// A reason why a cut must lie at a multiple of `size`.
struct Grain {
  uint64_t size = 1;
  std::string what;
  Span span;
};

// The grains of the matrices that are cut along `axis`: gate and up by their outputs, down by its inputs.
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
      add(tensor->scale->block->value.rows,
          absl::StrCat(name, " has scale blocks of ", tensor->scale->block->value.rows, " rows"),
          tensor->scale->block->span);
    }
  }
  return grains;
}

// Half of a fused tensor's rows ends inside a scale block that is counted over the fused rows.
const TensorSpec* HalfInsideBlock(const MoeSpec& moe, ShapeAxis axis, uint64_t width) {
  const TensorRole role = axis == ShapeAxis::kShared ? TensorRole::kSharedGateUp : TensorRole::kGateUp;
  const TensorSpec* tensor = moe.FindTensor(role);
  if (tensor == nullptr || !tensor->scale.has_value() || !tensor->scale->block.has_value()) return nullptr;
  const bool fused = tensor->scale->of.has_value() && tensor->scale->of->value == ScaleOf::kFused;
  return fused && width % tensor->scale->block->value.rows != 0 ? tensor : nullptr;
}

struct Cut {
  const char* degree;  // what the cut is called
  const char* axis;
  Spanned<uint64_t> width;
  uint64_t parts = 1;
  Span span;
};

void CheckCut(absl::string_view rule, const Cut& cut, const std::vector<Grain>& grains, const TensorSpec* border,
              bool uneven, Diagnostics& diagnostics) {
  if (cut.parts == 1) return;
  const uint64_t width = cut.width.value;
  if (border != nullptr) {
    diagnostics
        .Error(rule, cut.span,
               absl::StrCat(cut.degree, " ", cut.parts, " cuts '", WordOf(border->role.value), "', whose gate half of ",
                            width, " rows ends inside a scale block"))
        .notes.push_back({border->scale->block->span,
                          absl::StrCat("blocks of ", border->scale->block->value.rows, " rows of the fused tensor")});
    return;
  }
  if (uneven) {
    for (const Grain& grain : grains) {
      const uint64_t units = (width + grain.size - 1) / grain.size;
      if (cut.parts <= units) continue;
      diagnostics
          .Error(rule, cut.span,
                 absl::StrCat(cut.degree, " ", cut.parts, " leaves ranks without a block: ", cut.axis, " ", width,
                              " has ", units, " of ", grain.size))
          .notes.push_back({grain.span, grain.what});
    }
    return;
  }
  if (width % cut.parts != 0) return;  // a rule of its own for the experts, and below for the shared one
  const uint64_t columns = width / cut.parts;
  Diagnostic* error = nullptr;
  for (const Grain& grain : grains) {
    if (columns % grain.size == 0) continue;
    if (error == nullptr) {
      error = &diagnostics.Error(rule, cut.span,
                                 absl::StrCat(cut.degree, " ", cut.parts, " cuts ", cut.axis, " ", width, " into ",
                                              columns, " columns a rank, which are no whole blocks"));
    }
    error->notes.push_back({grain.span, absl::StrCat(grain.what, ": ", columns, " = ", columns / grain.size, " x ",
                                                     grain.size, " + ", columns % grain.size)});
  }
}

}  // namespace

void CutsKeepBlocks(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const Deployment& d = inputs.deployment;
  for (const LayerGroup& group : inputs.model.groups) {
    const MoeSpec& moe = group.moe;
    CheckCut(rule, {"tensor-parallel degree", "intermediate_size", moe.intermediate_size, d.tp.value, d.tp.span},
             GrainsOf(moe, ShapeAxis::kIntermediate, d.down_basis),
             HalfInsideBlock(moe, ShapeAxis::kIntermediate, moe.intermediate_size.value), d.uneven_cuts, diagnostics);
    if (d.reduction.value == Reduction::kExact && d.exact_segments.value != d.tp.value) {
      CheckCut(
          rule,
          {"exact.segments", "intermediate_size", moe.intermediate_size, d.exact_segments.value, d.exact_segments.span},
          GrainsOf(moe, ShapeAxis::kIntermediate, d.down_basis), nullptr, true, diagnostics);
    }
    if (!moe.shared_expert.has_value() || !d.shared_expert.has_value()) continue;
    const Spanned<uint64_t>& width = moe.shared_expert->width;
    const bool split = d.shared_expert->value == SharedPlacement::kSplit;
    const Cut cut = {split ? "shared_expert: split over tp x ep =" : "shared_expert: owner over tp =",
                     "the shared width", width, split ? d.tp.value * d.ep.value : d.tp.value, d.shared_expert->span};
    if (width.value % cut.parts != 0 && !d.uneven_cuts) {
      diagnostics
          .Error(rule, cut.span,
                 absl::StrCat(cut.degree, " ", cut.parts, " does not divide the shared width ", width.value))
          .notes.push_back({width.span, absl::StrCat(width.value, " columns over ", cut.parts, " ranks leaves ",
                                                     width.value % cut.parts, " over")});
    }
    CheckCut(rule, cut, GrainsOf(moe, ShapeAxis::kShared, d.down_basis),
             HalfInsideBlock(moe, ShapeAxis::kShared, width.value), d.uneven_cuts, diagnostics);
  }
}

}  // namespace meshseal::compiler::rules

// Where the intermediate axis and the shared width may be cut: between whole blocks, tiles and segments.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/check/exact_sum.h"
#include "compiler/check/grain.h"
#include "compiler/check/rules.h"

namespace meshseal::compiler::rules {
namespace {

// Half of a fused tensor's rows ends inside a scale block that is counted over the fused rows.
const TensorSpec* HalfInsideBlock(const MoeSpec& moe, ShapeAxis axis, uint64_t width) {
  const TensorRole role = axis == ShapeAxis::kShared ? TensorRole::kSharedGateUp : TensorRole::kGateUp;
  const TensorSpec* tensor = moe.FindTensor(role);
  if (tensor == nullptr || !tensor->scale.has_value() || !tensor->scale->block.has_value()) return nullptr;
  const bool fused = tensor->scale->of.has_value() && tensor->scale->of->value == ScaleOf::kFused &&
                     tensor->layout.has_value() && tensor->layout->value == GateUpLayout::kHalves;
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
    const uint64_t unit = CutUnit(grains);
    const uint64_t units = (width + unit - 1) / unit;
    if (cut.parts <= units) return;
    if (grains.empty()) {
      diagnostics
          .Error(rule, cut.span,
                 absl::StrCat(cut.degree, " ", cut.parts, " is more than ", cut.axis, " ", width, " has columns"))
          .notes.push_back({cut.width.span, "a part has at least one column"});
      return;
    }
    Diagnostic& error =
        diagnostics.Error(rule, cut.span,
                          absl::StrCat(cut.degree, " ", cut.parts, " leaves ranks without a block: ", cut.axis, " ",
                                       width, " has ", units, " of ", unit));
    for (const Grain& grain : grains) error.notes.push_back({grain.span, grain.what});
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

// A rank's columns are whole segments: where segments are unequal, so may be the ranks' columns. `cut` is that of the
// ranks.
void CheckSegments(absl::string_view rule, const Cut& cut, const Spanned<uint64_t>& number, uint64_t unit,
                   Diagnostics& diagnostics) {
  const uint64_t segments = number.value;
  const Spanned<uint64_t>& width = cut.width;
  const uint64_t units = (width.value + unit - 1) / unit;
  if (segments % cut.parts != 0 || segments > units || width.value % cut.parts != 0) return;
  // The first `units mod segments` segments have one unit more.
  const uint64_t per_rank = segments / cut.parts;
  const auto end_of = [&](uint64_t rank) {
    const uint64_t last = rank * per_rank;
    return std::min(width.value, (last * (units / segments) + std::min(last, units % segments)) * unit);
  };
  for (uint64_t rank = 1; rank < cut.parts; ++rank) {
    if (end_of(rank) == rank * (width.value / cut.parts)) continue;
    diagnostics
        .Error(rule, number.span,
               absl::StrCat("exact.segments ", segments, " of ", cut.axis, " ", width.value,
                            " makes unequal ranks: the first has ", end_of(1), " columns, an equal cut has ",
                            width.value / cut.parts))
        .notes.push_back(
            {cut.span, absl::StrCat("a rank's columns are ", per_rank, " whole segments of units of ", unit)});
    return;
  }
}

// The segments of an exact sum, and the ranks' cut into whole ones of them.
void CheckExact(absl::string_view rule, const Cut& cut, const Spanned<uint64_t>& segments,
                const std::vector<Grain>& grains, bool uneven, Diagnostics& diagnostics) {
  CheckCut(rule, {"exact.segments", cut.axis, cut.width, segments.value, segments.span}, grains, nullptr, true,
           diagnostics);
  if (!uneven) CheckSegments(rule, cut, segments, CutUnit(grains), diagnostics);
}

}  // namespace

void CutsKeepBlocks(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const Deployment& d = inputs.deployment;
  for (const LayerGroup& group : inputs.model.groups) {
    const MoeSpec& moe = group.moe;
    const std::vector<Grain> grains = GrainsOf(moe, ShapeAxis::kIntermediate, d.down_basis);
    const Cut by_tp = {"tensor-parallel degree", "intermediate_size", moe.intermediate_size, d.tp.value, d.tp.span};
    if (d.tp.value <= moe.intermediate_size.value) {  // a rule of its own
      CheckCut(rule, by_tp, grains, HalfInsideBlock(moe, ShapeAxis::kIntermediate, moe.intermediate_size.value),
               d.uneven_cuts, diagnostics);
    }
    const bool exact = d.reduction.value == Reduction::kExact;
    if (exact) CheckExact(rule, by_tp, d.exact_segments, grains, d.uneven_cuts, diagnostics);
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
    const std::vector<Grain> shared_grains = GrainsOf(moe, ShapeAxis::kShared, d.down_basis);
    CheckCut(rule, cut, shared_grains, HalfInsideBlock(moe, ShapeAxis::kShared, width.value), d.uneven_cuts,
             diagnostics);
    if (exact) CheckExact(rule, cut, SharedSegments(d), shared_grains, d.uneven_cuts, diagnostics);
  }
}

}  // namespace meshseal::compiler::rules

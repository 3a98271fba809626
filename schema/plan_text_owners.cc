// Who holds which experts and columns, and the local shape of every tensor on one rank.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "schema/byte_text.h"
#include "schema/checked_math.h"
#include "schema/format_text.h"
#include "schema/plan_text.h"
#include "schema/plan_text_parts.h"
#include "schema/plan_words.h"
#include "schema/rank_part.h"

namespace meshseal {
namespace {

std::string MaybeBytes(std::optional<uint64_t> bytes) { return bytes.has_value() ? ByteText(*bytes) : "?"; }

std::optional<uint64_t> Times(std::optional<uint64_t> bytes, uint64_t count) {
  return bytes.has_value() ? CheckedMul(*bytes, count) : std::nullopt;
}

// "busiest rank 1.83x the mean when contiguous, 1.04x as placed".
std::string LoadText(const Plan& plan, const LoadBalance& load) {
  uint64_t sum = 0;
  for (const uint64_t slots : load.slots) sum += slots;  // of a refused plan any sum
  const double mean = static_cast<double>(sum) / std::max(plan.degrees.ep, 1u);
  const auto times = [mean](uint64_t slots) {
    return mean == 0 ? std::string("?") : FormatText("%.2fx", static_cast<double>(slots) / mean);
  };
  return absl::StrCat(sum, " slots measured; busiest rank ", times(load.busiest_contiguous),
                      " the mean when contiguous, ", times(load.busiest), " as placed");
}

bool OwnedAlike(const LayerClass& a, const LayerClass& b) {
  return a.experts == b.experts && a.expert_shards == b.expert_shards && a.expert_copies == b.expert_copies &&
         a.segment_ends == b.segment_ends && a.tp_segment_ends == b.tp_segment_ends &&
         a.shared_expert.placement == b.shared_expert.placement &&
         a.shared_expert.part_ends == b.shared_expert.part_ends &&
         a.shared_expert.segment_ends == b.shared_expert.segment_ends && a.load == b.load;
}

std::string ColumnsText(const Interval& columns) { return Count(columns) == 0 ? "none" : IntervalText(columns); }

void AppendOwnersOf(const Plan& plan, const LayerClass& c, std::string* text) {
  const bool copies = !c.expert_copies.empty();
  const bool shared = c.shared_expert.width > 0;
  std::vector<std::vector<std::string>> rows = {{"rank", "coordinate", "experts"}};
  if (copies) rows[0].emplace_back("of them copies");
  rows[0].emplace_back("columns");
  if (shared) rows[0].emplace_back("shared columns");
  rows[0].emplace_back("a layer");
  const uint64_t ranks = uint64_t{plan.degrees.tp} * plan.degrees.ep;
  for (uint32_t i = 0; i < ranks && i < kMostRows; ++i) {
    const uint32_t tp = i / plan.degrees.ep;
    const uint32_t ep = i % plan.degrees.ep;
    const HeldExperts held = ExpertsOf(c, ep);
    std::vector<std::string>& row = rows.emplace_back();
    row = {absl::StrCat(i), absl::StrCat("tp", tp, " ep", ep), IntervalsText(IntervalsOf(held.all))};
    if (copies) row.push_back(IntervalsText(IntervalsOf(held.copies)));
    row.push_back(ColumnsText(ColumnsOf(c, tp)));
    if (shared) row.push_back(ColumnsText(SharedColumnsOf(c, plan.degrees, tp, ep)));
    row.push_back(MaybeBytes(LayerBytesAt(plan, c, tp, ep)));
  }
  AppendTable(rows, "  ", text);
  if (ranks > kMostRows) absl::StrAppend(text, "  ", MoreText(ranks - kMostRows, "ranks"));
}

// The axes of one matrix, or vector, in the file's order.
std::vector<ShapeAxis> MatrixAxes(const TensorClass& tensor, const meaning::RoleFacts& facts) {
  std::vector<ShapeAxis> of_matrix = tensor.shape;
  const bool stacked = facts.per_expert && !of_matrix.empty() && of_matrix[0] == ShapeAxis::kExperts;
  if (stacked) of_matrix.erase(of_matrix.begin());
  return of_matrix;
}

// Which elements of a cut axis `columns` are.
std::string CutText(const LayerClass& c, const TensorClass& tensor, ShapeAxis axis, const Interval& columns) {
  if (axis != ShapeAxis::kTwoIntermediate && axis != ShapeAxis::kTwoShared) return IntervalText(columns);
  if (tensor.layout == GateUpLayout::kInterleaved) {
    return absl::StrCat("[", uint64_t{columns.first} * 2, ",", uint64_t{columns.last} * 2, ")");
  }
  const uint64_t half = axis == ShapeAxis::kTwoShared ? c.shared_expert.width : c.intermediate;
  return absl::StrCat(IntervalText(columns), "+[", half + columns.first, ",", half + columns.last, ")");
}

std::string SliceText(const LayerClass& c, const TensorClass& tensor, const meaning::RoleFacts& facts,
                      const LocalTensor& local, const std::string& experts) {
  if (local.count == 0) return "nothing";
  std::vector<std::string> parts;
  if (facts.per_expert && local.count < c.experts) parts.push_back(absl::StrCat("experts ", experts));
  const std::vector<ShapeAxis> of_matrix = MatrixAxes(tensor, facts);
  const bool of_shared = ScopeOf(facts) == TensorScope::kShared;
  for (size_t i = 0; i < of_matrix.size(); ++i) {
    if (!IsCut(of_matrix[i]) || Count(local.columns) == (of_shared ? c.shared_expert.width : c.intermediate)) continue;
    parts.push_back(absl::StrCat(of_matrix.size() < 2 ? "elements "
                                 : i == 0             ? "rows "
                                                      : "columns ",
                                 CutText(c, tensor, of_matrix[i], local.columns)));
  }
  return parts.empty() ? "whole" : absl::StrJoin(parts, ", ");
}

// "32 x [384, 2048]": of the experts that a rank holds each.
std::string LocalShapeText(const meaning::RoleFacts& facts, uint64_t count, const std::vector<uint64_t>& extents) {
  const std::string matrix = absl::StrCat("[", absl::StrJoin(extents, ", "), "]");
  return facts.per_expert ? absl::StrCat(count, " x ", matrix) : matrix;
}

uint64_t Blocks(uint64_t extent, uint64_t block) { return extent / block + (extent % block == 0 ? 0 : 1); }

std::vector<uint64_t> ScaleExtents(const SideTensor& side, const LocalTensor& local, bool transposed) {
  if (side.block_rows == 0 || side.block_columns == 0) return {1};
  const uint64_t halves = side.of == ScaleOf::kHalf ? 2 : 1;
  std::vector<uint64_t> extents = {halves * Blocks(local.outputs / halves, side.block_rows),
                                   Blocks(local.inputs, side.block_columns)};
  if (transposed) std::swap(extents[0], extents[1]);
  return extents;
}

void AppendTensor(const Plan& plan, const LayerClass& c, const TensorClass& tensor, const meaning::RoleFacts& facts,
                  const LocalTensor& local, const std::string& experts, const std::optional<uint32_t>& layer,
                  std::vector<std::vector<std::string>>* rows) {
  const auto name = [&layer](const std::string& pattern) {
    if (!layer.has_value()) return Shown(pattern);
    return Shown(absl::StrReplaceAll(pattern, {{"{layer}", absl::StrCat(*layer)}}));
  };
  const std::vector<ShapeAxis> of_matrix = MatrixAxes(tensor, facts);
  std::vector<uint64_t> extents;
  for (const ShapeAxis axis : of_matrix) {
    extents.push_back(meaning::ExtentOf(axis, plan, c, Count(local.columns), Count(local.columns)));
  }
  const auto shape = [&](const std::vector<uint64_t>& of) { return LocalShapeText(facts, local.count, of); };
  rows->push_back({WordOf(tensor.role), std::string(DTypeName(tensor.dtype)), LayoutText(tensor), shape(extents),
                   SliceText(c, tensor, facts, local, experts),
                   MaybeBytes(Times(BytesWithoutSides(tensor, local.outputs, local.inputs), local.count)),
                   name(tensor.name)});
  const bool transposed = of_matrix.size() == 2 && of_matrix[0] == facts.inputs && of_matrix[1] == facts.outputs;
  for (const SideTensor& side : tensor.sides) {
    rows->push_back({absl::StrCat("  ", WordOf(side.kind)), std::string(DTypeName(side.dtype)), "",
                     shape(ScaleExtents(side, local, transposed)), ScaleText(side),
                     MaybeBytes(Times(SideBytes(tensor, side, local.outputs, local.inputs), local.count)),
                     name(side.name)});
  }
}

}  // namespace

void AppendOwners(const Plan& plan, const std::vector<const LayerClass*>& classes, std::string* text) {
  const uint64_t ranks = uint64_t{plan.degrees.tp} * plan.degrees.ep;
  const uint64_t groups = uint64_t{plan.degrees.dp} * plan.degrees.pp;
  std::vector<bool> told(classes.size(), false);
  size_t kinds = 0;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (told[i]) continue;
    if (++kinds > kMostKinds) {
      absl::StrAppend(text, MoreText(static_cast<size_t>(std::count(told.begin(), told.end(), false)),
                                     "classes of layers with other owners"));
      return;
    }
    Intervals layers;
    for (size_t j = i; j < classes.size(); ++j) {
      if (!OwnedAlike(*classes[i], *classes[j])) continue;
      told[j] = true;
      for (const Interval& range : LayersOf(*classes[j])) layers.push_back(range);
    }
    absl::StrAppend(text, "owners of ", LayersText(Joined(layers)), ": experts ", OwnersText(classes[i]->expert_shards),
                    " ep coordinates");
    if (!classes[i]->expert_copies.empty()) {
      absl::StrAppend(text, ", ", classes[i]->expert_copies.size(), " further copies (", WordOf(plan.copy_choice), ")");
    }
    if (groups > 1) {
      absl::StrAppend(text, "; rank r of the first expert group, of the next r + ", ranks,
                      groups > 2 ? ", and so on" : "");
    }
    absl::StrAppend(text, "\n");
    if (!classes[i]->load.slots.empty()) absl::StrAppend(text, "  ", LoadText(plan, classes[i]->load), "\n");
    AppendOwnersOf(plan, *classes[i], text);
  }
}

void AppendHoldings(const Plan& plan, const LayerClass& c, const Coordinate& at, const Intervals& layers,
                    std::optional<uint32_t> layer, std::string* text) {
  const HeldExperts held = ExpertsOf(c, at.ep);
  const Interval columns = ColumnsOf(c, at.tp);
  const Interval shared = SharedColumnsOf(c, plan.degrees, at.tp, at.ep);
  const std::string experts = IntervalsText(IntervalsOf(held.all));
  absl::StrAppend(text, "  ", LayersText(layers), ": experts ", RangesText(held.all), " of ", c.experts);
  if (!held.copies.empty()) absl::StrAppend(text, " (copies: ", RangesText(held.copies), ")");
  absl::StrAppend(text, ", columns ", ColumnsText(columns), " of ", c.intermediate);
  if (c.shared_expert.width > 0) {
    absl::StrAppend(text, ", shared columns ", ColumnsText(shared), " of ", c.shared_expert.width);
  }
  const std::optional<uint64_t> bytes = LayerBytesAt(plan, c, at.tp, at.ep);
  absl::StrAppend(text, "; ", MaybeBytes(bytes), " a layer, ", MaybeBytes(Times(bytes, Count(layers))), " in all\n");
  std::vector<std::vector<std::string>> rows = {{"role", "type", "layout", "local shape", "slice", "a layer", "name"}};
  for (const TensorClass& tensor : c.tensors) {
    const meaning::RoleFacts* facts = meaning::FactsOf(tensor.role);
    if (facts == nullptr) continue;  // not a word of any listing
    AppendTensor(plan, c, tensor, *facts, LocalOf(plan, c, *facts, held.all.size(), columns, shared), experts, layer,
                 &rows);
  }
  AppendTable(rows, "    ", text);
}

}  // namespace meshseal

#include "schema/atom_bytes.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/checked_math.h"
#include "schema/meaning/shape_facts.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal {
namespace {

using meaning::RoleFacts;
using Shape = std::vector<uint64_t>;

uint64_t ExtentOf(ShapeAxis axis, const LayerTensor& of) {
  const LayerClass& c = *of.layer_class;
  return meaning::ExtentOf(axis, of.hidden, c, c.intermediate, c.shared_expert.width);
}

bool IsStacked(const TensorClass& tensor, const RoleFacts& facts) {
  return facts.per_expert && !tensor.shape.empty() && tensor.shape.front() == ShapeAxis::kExperts;
}

// Whether the axis that its product contracts over is not the last one.
bool IsTransposed(const TensorClass& tensor, const RoleFacts& facts) {
  return facts.inputs != ShapeAxis::kInvalid && tensor.shape.back() != facts.inputs;
}

bool HalvesCountApart(const SideTensor& side) { return side.of == ScaleOf::kHalf; }

bool IsCutAxis(ShapeAxis axis) {
  return axis == ShapeAxis::kIntermediate || axis == ShapeAxis::kTwoIntermediate || axis == ShapeAxis::kShared ||
         axis == ShapeAxis::kTwoShared;
}

std::vector<StoredForm> FormsOfWeight(const LayerTensor& of, WeightSource source) {
  const TensorClass& tensor = *of.tensor;
  const DTypeRow* row = FindDType(tensor.dtype);
  if (row == nullptr) return {};
  Shape logical;
  for (const ShapeAxis axis : tensor.shape) logical.push_back(ExtentOf(axis, of));
  if (row->packed_bits != 4 || source == WeightSource::kGguf) return {{tensor.dtype, logical}};
  Shape halved = logical;
  halved.back() /= 2;
  std::vector<StoredForm> forms = {{DType::kU8, halved}, {DType::kI8, halved}, {DType::kF4E2M1, logical}};
  // Blocks as an axis of their own: [..., row / block, block / 2].
  const SideTensor* scale = meaning::FindSide(tensor, SideKind::kScale);
  if (scale != nullptr && meaning::HasBlock(*scale)) {
    Shape blocks = logical;
    blocks.back() /= scale->block_columns;
    blocks.push_back(scale->block_columns / 2);
    forms.push_back({DType::kU8, blocks});
  }
  return forms;
}

// Rows and columns of a grid of scales.
std::pair<uint64_t, uint64_t> GridOf(const LayerTensor& of, const RoleFacts& facts) {
  const SideTensor& side = *of.side;
  const uint64_t outputs = ExtentOf(facts.outputs, of);
  const uint64_t rows =
      HalvesCountApart(side) ? 2 * CeilDiv(outputs / 2, side.block_rows) : CeilDiv(outputs, side.block_rows);
  return {rows, CeilDiv(ExtentOf(facts.inputs, of), side.block_columns)};
}

std::vector<StoredForm> FormsOfSide(const LayerTensor& of, const RoleFacts& facts) {
  const SideTensor& side = *of.side;
  const bool stacked = IsStacked(*of.tensor, facts);
  Shape experts;
  if (stacked) experts.push_back(of.layer_class->experts);
  if (!meaning::HasBlock(side)) {
    std::vector<StoredForm> forms;
    const auto add = [&](std::optional<uint64_t> count) {
      Shape shape = experts;
      if (count.has_value()) shape.push_back(*count);
      forms.push_back({side.dtype, shape});
    };
    // One for a matrix; gate and up in one tensor may have one each.
    add(std::nullopt);
    add(1);
    if (facts.fused) add(2);
    // One for all experts.
    if (stacked) {
      forms.push_back({side.dtype, {}});
      forms.push_back({side.dtype, {1}});
    }
    return forms;
  }
  if (side.block_columns == 0) return {};
  const auto [rows, columns] = GridOf(of, facts);
  const bool transposed = IsTransposed(*of.tensor, facts);
  Shape shape = experts;
  shape.push_back(transposed ? columns : rows);
  shape.push_back(transposed ? rows : columns);
  return {{side.dtype, shape}};
}

std::string FormText(const StoredForm& form) {
  return absl::StrCat(std::string(DTypeName(form.dtype)), " [", absl::StrJoin(form.shape, ", "), "]");
}

absl::Span<const uint64_t> WithoutLeadingOnes(absl::Span<const uint64_t> shape) {
  while (shape.size() > 1 && shape.front() == 1) shape.remove_prefix(1);
  return shape;
}

}  // namespace

std::vector<StoredForm> StoredForms(const LayerTensor& of, WeightSource source) {
  const RoleFacts* facts = meaning::FactsOf(of.tensor->role);
  if (facts == nullptr || of.tensor->shape.empty()) return {};
  return of.side == nullptr ? FormsOfWeight(of, source) : FormsOfSide(of, *facts);
}

bool IsStoredShape(absl::Span<const uint64_t> found, absl::Span<const uint64_t> expected, WeightSource source) {
  if (source != WeightSource::kGguf) return found == expected;
  return WithoutLeadingOnes(found) == WithoutLeadingOnes(expected);
}

absl::StatusOr<StoredTensor> StoredTensor::Of(const LayerTensor& of, WeightSource source, const StoredForm& found) {
  const std::vector<StoredForm> forms = StoredForms(of, source);
  const auto form = std::find_if(forms.begin(), forms.end(), [&](const StoredForm& f) {
    return f.dtype == found.dtype && IsStoredShape(found.shape, f.shape, source);
  });
  const std::optional<uint64_t> elements = ElementsOf(found.shape);
  const std::optional<uint64_t> bytes = elements.has_value() ? BytesOf(found.dtype, *elements) : std::nullopt;
  if (form == forms.end() || !bytes.has_value() || *bytes == 0) {
    return Refuse(Reason::kWeightsTensor, absl::StrCat(FormText(found), " in the file, expected ",
                                                       absl::StrJoin(forms, " or ", [](std::string* out, auto& f) {
                                                         absl::StrAppend(out, FormText(f));
                                                       })));
  }
  const RoleFacts& facts = *meaning::FactsOf(of.tensor->role);
  const bool scalar = of.side != nullptr && !meaning::HasBlock(*of.side);
  const bool transposed = IsTransposed(*of.tensor, facts);
  const bool vector = facts.inputs == ShapeAxis::kInvalid;

  StoredTensor stored;
  // A scalar of a stacked tensor without the experts' axis is for all of them.
  const bool for_all = scalar && form->shape.size() <= 1 && form->shape != Shape{of.layer_class->experts};
  if (IsStacked(*of.tensor, facts) && !for_all) stored.matrices_ = of.layer_class->experts;
  if (!scalar && !vector) {
    // The slow axis of the matrix; its place in the shape is the same in all forms.
    const size_t slow = stored.matrices_ > 1 || IsStacked(*of.tensor, facts) ? 1 : 0;
    if (form->shape.size() > slow + 1) stored.rows_ = form->shape[slow];
  }
  stored.row_bytes_ = *bytes / stored.matrices_ / stored.rows_;
  if (scalar || (!IsCutAxis(facts.outputs) && !IsCutAxis(facts.inputs))) return stored;

  const bool by_outputs = IsCutAxis(facts.outputs);
  const bool by_rows = !vector && by_outputs != transposed;
  stored.cut_ = by_rows ? Cut::kRows : Cut::kPieces;
  const bool shared = !facts.per_expert;
  stored.columns_ = shared ? of.layer_class->shared_expert.width : of.layer_class->intermediate;
  if (facts.fused) {
    const bool halves = of.tensor->layout == GateUpLayout::kHalves;
    stored.parts_ = halves ? 2 : 1;
    stored.per_column_ = halves ? 1 : 2;
  }
  if (of.side != nullptr) {
    stored.block_ = by_outputs ? of.side->block_rows : of.side->block_columns;
    stored.own_blocks_ = HalvesCountApart(*of.side);
    stored.unit_bytes_ = FindDType(found.dtype)->block_bits / 8;
  } else if (!by_rows) {
    const DTypeRow& row = *FindDType(found.dtype);
    // Blocks whose scales are apart: two elements in a byte.
    const bool packed = found.dtype != of.tensor->dtype;
    stored.block_ = packed ? 2 : static_cast<uint32_t>(row.block_elements);
    stored.unit_bytes_ = packed ? 1 : row.block_bits / 8;
  }
  return stored;
}

absl::StatusOr<Interval> StoredTensor::Units(uint32_t part, const Interval& columns) const {
  // All below 2^23: an axis has at most 2^21 elements.
  const uint32_t before = own_blocks_ ? 0 : part * columns_ * per_column_;
  const uint32_t end = (own_blocks_ ? 1 : parts_) * columns_ * per_column_;
  const uint32_t first = before + columns.first * per_column_;
  const uint32_t last = before + columns.last * per_column_;
  if (first % block_ != 0 || (last % block_ != 0 && last != end)) {
    return Refuse(Reason::kWeightsTensor, absl::StrCat("columns [", columns.first, ",", columns.last, ") of ", columns_,
                                                       " end inside a block of ", block_, " elements"));
  }
  const auto units = [this](uint32_t elements) { return static_cast<uint32_t>(CeilDiv(elements, block_)); };
  const uint32_t units_before = own_blocks_ ? part * units(columns_ * per_column_) : 0;
  return Interval{units_before + first / block_, units_before + units(last)};
}

absl::StatusOr<std::vector<ByteRuns>> StoredTensor::Atom(uint64_t expert, const Interval& columns) const {
  if (matrices_ == 1) expert = 0;
  if (expert >= matrices_) {
    return Refuse(Reason::kBug, absl::StrCat("expert ", expert, " of a tensor with ", matrices_));
  }
  const uint64_t matrix = expert * MatrixBytes();
  const ByteRuns whole = {matrix, row_bytes_, row_bytes_, rows_};
  if (cut_ == Cut::kNone) return std::vector<ByteRuns>{whole};
  if (columns.first >= columns.last || columns.last > columns_) {
    return Refuse(Reason::kBug,
                  absl::StrCat("columns [", columns.first, ",", columns.last, ") of a tensor with ", columns_));
  }
  // A scale block that holds rows of gate and of up.
  const bool border = parts_ == 2 && !own_blocks_ && columns_ % block_ != 0;
  if (border && columns == Interval{0, columns_}) return std::vector<ByteRuns>{whole};
  std::vector<ByteRuns> runs;
  for (uint32_t part = 0; part < parts_; ++part) {
    MESHSEAL_ASSIGN_OR_RETURN(const Interval units, Units(part, columns));
    if (cut_ == Cut::kRows) {
      runs.push_back({matrix + units.first * row_bytes_, row_bytes_, row_bytes_, Count(units)});
    } else {
      runs.push_back({matrix + units.first * unit_bytes_, Count(units) * unit_bytes_, row_bytes_, rows_});
    }
  }
  return runs;
}

}  // namespace meshseal

#include "tests/properties/stored_array.h"

#include "absl/strings/str_cat.h"

namespace meshseal::properties {
namespace {

uint64_t CeilDiv(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// Elements and bytes of a block as the formats define it.
struct Block {
  uint64_t elements;
  uint64_t bytes;
};

Block BlockOf(const DeclaredTensor& tensor) {
  bool apart = false;
  for (const DeclaredSide& side : tensor.sides) apart = apart || side.kind == SideKind::kScale;
  switch (tensor.dtype) {
    case DType::kF32:
    case DType::kI32:
      return {1, 4};
    case DType::kI64:
      return {1, 8};
    case DType::kF16:
    case DType::kBf16:
      return {1, 2};
    case DType::kF8E4M3:
      return {1, 1};
    case DType::kMxfp4:
      return apart ? Block{2, 1} : Block{32, 1 + 16};  // a power of two, then codes
    case DType::kNvfp4:
      return apart ? Block{2, 1} : Block{64, 4 + 32};  // four scales, then codes
    case DType::kQ8_0:
      return {32, 2 + 32};
    case DType::kQ4_0:
    case DType::kIq4Nl:
      return {32, 2 + 16};
    case DType::kQ4K:
      return {256, 4 + 12 + 128};
    case DType::kQ5K:
      return {256, 4 + 12 + 32 + 128};
    case DType::kQ6K:
      return {256, 128 + 64 + 16 + 2};
    case DType::kQ2K:
      return {256, 16 + 64 + 4};
    case DType::kQ3K:
      return {256, 32 + 64 + 12 + 2};
    case DType::kIq2Xxs:
      return {256, 2 + 64};
    case DType::kIq4Xs:
      return {256, 2 + 2 + 4 + 128};
    default:
      return {1, 0};
  }
}

uint64_t ScaleBytes(DType dtype) { return dtype == DType::kF32 ? 4 : dtype == DType::kBf16 ? 2 : 1; }

void Append(std::vector<Run>& runs, Run run) {
  // Two halves may end and begin in one block.
  if (!runs.empty() && runs.back().end >= run.begin) {
    runs.back().end = run.end;
  } else {
    runs.push_back(run);
  }
}

// Outputs, inputs and division of a row's matrix, in elements.
struct Matrix {
  uint64_t outputs;
  uint64_t inputs;
  Division division;
  bool cuts_outputs;
  ShapeAxis inner;  // the axis that is last in the usual order
};

Matrix MatrixOf(const DeclaredTensor& tensor, const DeclaredLayers& layers, uint64_t hidden, uint64_t vocabulary) {
  const uint64_t wide = layers.intermediate;
  const uint64_t shared = layers.shared.width;
  constexpr ShapeAxis kHidden = ShapeAxis::kHidden;
  switch (tensor.role) {
    case TensorRole::kRouter:
      return {layers.experts, hidden, Division::kWhole, false, kHidden};
    case TensorRole::kRouterBias:
    case TensorRole::kSelectionBias:
      return {layers.experts, 1, Division::kWhole, false, ShapeAxis::kExperts};
    case TensorRole::kTokenTable:
      return {vocabulary, layers.top_k, Division::kWhole, false, ShapeAxis::kTopK};
    case TensorRole::kGate:
    case TensorRole::kUp:
      return {wide, hidden, Division::kExpertColumns, true, kHidden};
    case TensorRole::kGateUp:
      return {2 * wide, hidden, Division::kExpertColumns, true, kHidden};
    case TensorRole::kDown:
      return {hidden, wide, Division::kExpertColumns, false, ShapeAxis::kIntermediate};
    case TensorRole::kGateBias:
    case TensorRole::kUpBias:
      return {wide, 1, Division::kExpertColumns, true, ShapeAxis::kIntermediate};
    case TensorRole::kGateUpBias:
      return {2 * wide, 1, Division::kExpertColumns, true, ShapeAxis::kTwoIntermediate};
    case TensorRole::kDownBias:
      return {hidden, 1, Division::kExperts, false, kHidden};
    case TensorRole::kSharedGate:
    case TensorRole::kSharedUp:
      return {shared, hidden, Division::kSharedColumns, true, kHidden};
    case TensorRole::kSharedGateUp:
      return {2 * shared, hidden, Division::kSharedColumns, true, kHidden};
    case TensorRole::kSharedDown:
      return {hidden, shared, Division::kSharedColumns, false, ShapeAxis::kShared};
    case TensorRole::kSharedExpertGate:
      return {1, hidden, Division::kWhole, false, kHidden};
    case TensorRole::kInvalid:
      break;
  }
  return {0, 0, Division::kWhole, false, kHidden};
}

}  // namespace

std::vector<Run> StoredArray::CellsOf(uint64_t begin, uint64_t end) const {
  std::vector<Run> cells;
  if (begin == end) return cells;
  const uint64_t c = cell_columns;
  switch (rows) {
    case Rows::kPlain:
      cells.push_back({begin / c, CeilDiv(end, c)});
      break;
    case Rows::kPairs:
      cells.push_back({2 * begin / c, CeilDiv(2 * end, c)});
      break;
    case Rows::kHalves:  // the blocks are counted over gate and up together
      cells.push_back({begin / c, CeilDiv(end, c)});
      Append(cells, {(width + begin) / c, CeilDiv(width + end, c)});
      break;
    case Rows::kOwnHalves: {  // up starts a block of its own
      const uint64_t up = CeilDiv(width, c);
      cells.push_back({begin / c, CeilDiv(end, c)});
      Append(cells, {up + begin / c, up + CeilDiv(end, c)});
      break;
    }
  }
  return cells;
}

uint64_t StoredArray::BytesOf(uint64_t begin, uint64_t end) const {
  uint64_t cells = 0;
  for (const Run& run : CellsOf(begin, end)) cells += run.end - run.begin;
  return cells * (cuts_outputs ? inputs : outputs) * cell_bytes;
}

std::vector<Run> StoredArray::FileRunsOf(uint64_t begin, uint64_t end) const {
  if (!HasColumns()) return {{0, Bytes()}};
  const std::vector<Run> cells = CellsOf(begin, end);
  const uint64_t outer = outputs_outside ? outputs : inputs;
  const uint64_t inner = outputs_outside ? inputs : outputs;
  std::vector<Run> runs;
  if (cuts_outputs == outputs_outside) {  // whole rows of the file
    for (const Run& run : cells) runs.push_back({run.begin * inner * cell_bytes, run.end * inner * cell_bytes});
    return runs;
  }
  for (uint64_t row = 0; row < outer; ++row) {
    for (const Run& run : cells) {
      runs.push_back({(row * inner + run.begin) * cell_bytes, (row * inner + run.end) * cell_bytes});
    }
  }
  return runs;
}

std::vector<StoredArray> StoredArraysOf(const DeclaredLayers& layers, uint32_t hidden, uint32_t vocabulary) {
  using Rows = StoredArray::Rows;
  std::vector<StoredArray> arrays;
  for (const DeclaredTensor& tensor : layers.Tensors()) {
    const Matrix matrix = MatrixOf(tensor, layers, hidden, vocabulary);
    const bool routed = matrix.division == Division::kExpertColumns || matrix.division == Division::kExperts;
    const bool cut = matrix.division == Division::kExpertColumns || matrix.division == Division::kSharedColumns;
    const Block block = BlockOf(tensor);
    StoredArray weights;
    weights.what = WordOf(tensor.role);
    weights.division = matrix.division;
    weights.outputs = matrix.outputs;
    weights.inputs = CeilDiv(matrix.inputs, block.elements);
    weights.cell_bytes = block.bytes;
    weights.outputs_outside = matrix.inputs == 1 || tensor.shape.back() == matrix.inner;
    weights.cuts_outputs = matrix.cuts_outputs;
    weights.width = matrix.division == Division::kSharedColumns ? layers.shared.width : layers.intermediate;
    weights.cell_columns = cut && !matrix.cuts_outputs ? block.elements : 1;
    if (tensor.layout == GateUpLayout::kHalves) weights.rows = Rows::kHalves;
    if (tensor.layout == GateUpLayout::kInterleaved) weights.rows = Rows::kPairs;
    arrays.push_back(weights);
    for (const DeclaredSide& side : tensor.sides) {
      StoredArray scales = weights;
      scales.what = absl::StrCat(WordOf(tensor.role), ".", WordOf(side.kind));
      scales.cell_bytes = ScaleBytes(side.dtype);
      if (side.rows == 0) {
        scales.division = routed ? Division::kExperts : Division::kShared;
        scales.outputs = tensor.layout == GateUpLayout::kInvalid ? 1 : 2;  // gate and up may have one each
        scales.inputs = 1;
      } else {
        scales.outputs = CeilDiv(matrix.outputs, side.rows);
        scales.inputs = CeilDiv(matrix.inputs, side.columns);
        scales.cell_columns = matrix.cuts_outputs ? side.rows : side.columns;
        if (side.of == ScaleOf::kHalf) {
          scales.rows = Rows::kOwnHalves;
          scales.outputs = 2 * CeilDiv(scales.width, side.rows);
        }
      }
      arrays.push_back(scales);
    }
  }
  return arrays;
}

}  // namespace meshseal::properties

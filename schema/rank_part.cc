#include "schema/rank_part.h"

#include <algorithm>
#include <cstddef>

#include "schema/checked_math.h"

namespace meshseal {
namespace {

std::optional<uint64_t> Add(std::optional<uint64_t> a, std::optional<uint64_t> b) {
  return a.has_value() && b.has_value() ? CheckedAdd(*a, *b) : std::nullopt;
}

std::optional<uint64_t> Mul(std::optional<uint64_t> a, std::optional<uint64_t> b) {
  return a.has_value() && b.has_value() ? CheckedMul(*a, *b) : std::nullopt;
}

// Part number `part` of ascending ends.
Interval PartOf(const std::vector<uint32_t>& ends, uint64_t part) {
  if (part >= ends.size()) return {};
  const uint32_t first = part == 0 ? 0 : ends[part - 1];
  return first < ends[part] ? Interval{first, ends[part]} : Interval{};
}

}  // namespace

HeldExperts ExpertsOf(const LayerClass& c, uint32_t ep) {
  HeldExperts held;
  for (uint32_t e = 0; e < c.expert_shards.size(); ++e) {
    if (c.expert_shards[e].owner == ep) held.all.push_back(e);
  }
  for (const ExpertCopy& copy : c.expert_copies) {
    if (copy.owner == ep) held.copies.push_back(copy.expert);
  }
  std::sort(held.copies.begin(), held.copies.end());
  held.all.insert(held.all.end(), held.copies.begin(), held.copies.end());
  std::sort(held.all.begin(), held.all.end());
  held.all.erase(std::unique(held.all.begin(), held.all.end()), held.all.end());
  return held;
}

Interval ColumnsOf(const LayerClass& c, uint32_t tp) {
  const Interval segments = PartOf(c.tp_segment_ends, tp);
  if (segments.last > c.segment_ends.size() || segments == Interval{}) return {};
  const uint32_t first = segments.first == 0 ? 0 : c.segment_ends[segments.first - 1];
  const uint32_t last = c.segment_ends[segments.last - 1];
  return first < last ? Interval{first, last} : Interval{};
}

Interval SharedColumnsOf(const LayerClass& c, const Degrees& degrees, uint32_t tp, uint32_t ep) {
  if (c.shared_expert.placement == SharedPlacement::kOwner) {
    return ep == 0 ? PartOf(c.shared_expert.part_ends, tp) : Interval{};
  }
  return PartOf(c.shared_expert.part_ends, uint64_t{tp} * degrees.ep + ep);
}

TensorScope ScopeOf(const meaning::RoleFacts& facts) {
  if (facts.per_expert) return TensorScope::kExperts;
  return facts.weight ? TensorScope::kShared : TensorScope::kReplicated;
}

bool IsCut(ShapeAxis axis) {
  return axis == ShapeAxis::kIntermediate || axis == ShapeAxis::kTwoIntermediate || axis == ShapeAxis::kShared ||
         axis == ShapeAxis::kTwoShared;
}

std::optional<uint64_t> SideBytes(const TensorClass& tensor, const SideTensor& side, uint64_t outputs,
                                  uint64_t inputs) {
  const DTypeRow* row = FindDType(side.dtype);
  if (row == nullptr) return std::nullopt;
  const uint64_t bytes = CeilDiv(row->block_bits, 8);
  const bool fused = tensor.layout != GateUpLayout::kInvalid;
  if (side.block_rows == 0 || side.block_columns == 0) return fused ? 2 * bytes : bytes;
  const uint64_t halves = side.of == ScaleOf::kHalf ? 2 : 1;
  const uint64_t rows = halves * CeilDiv(outputs / halves, side.block_rows);
  return Mul(CheckedMul(rows, CeilDiv(inputs, side.block_columns)), bytes);
}

std::optional<uint64_t> BytesWithoutSides(const TensorClass& tensor, uint64_t outputs, uint64_t inputs) {
  const DTypeRow* row = FindDType(tensor.dtype);
  if (row == nullptr) return std::nullopt;
  const bool scaled = std::any_of(tensor.sides.begin(), tensor.sides.end(),
                                  [](const SideTensor& side) { return side.kind == SideKind::kScale; });
  const bool apart = row->packed_bits > 0 && scaled;
  const uint64_t block_bits = apart ? row->packed_bits : row->block_bits;
  const uint64_t block_elements = apart ? 1 : row->block_elements;
  const auto bits = Mul(CheckedMul(outputs, CeilDiv(inputs, block_elements)), block_bits);
  return bits.has_value() ? std::optional<uint64_t>(CeilDiv(*bits, 8)) : std::nullopt;
}

std::optional<uint64_t> StoredBytes(const TensorClass& tensor, uint64_t outputs, uint64_t inputs) {
  std::optional<uint64_t> bytes = BytesWithoutSides(tensor, outputs, inputs);
  if (outputs == 0 || inputs == 0) return 0;
  for (const SideTensor& side : tensor.sides) bytes = Add(bytes, SideBytes(tensor, side, outputs, inputs));
  return bytes;
}

LocalTensor LocalOf(const Plan& plan, const LayerClass& c, const meaning::RoleFacts& facts, uint64_t experts,
                    const Interval& columns, const Interval& shared_columns) {
  LocalTensor local;
  local.columns = ScopeOf(facts) == TensorScope::kShared ? shared_columns : columns;
  local.outputs = meaning::ExtentOf(facts.outputs, plan, c, Count(columns), Count(shared_columns));
  local.inputs = meaning::ExtentOf(facts.inputs, plan, c, Count(columns), Count(shared_columns));
  if (ScopeOf(facts) == TensorScope::kExperts) local.count = experts;
  if (local.outputs == 0 || local.inputs == 0) local.count = 0;
  return local;
}

std::optional<uint64_t> LayerBytesAt(const Plan& plan, const LayerClass& c, uint32_t tp, uint32_t ep) {
  const uint64_t experts = ExpertsOf(c, ep).all.size();
  const Interval columns = ColumnsOf(c, tp);
  const Interval shared_columns = SharedColumnsOf(c, plan.degrees, tp, ep);
  std::optional<uint64_t> bytes = 0;
  for (const TensorClass& tensor : c.tensors) {
    const meaning::RoleFacts* facts = meaning::FactsOf(tensor.role);
    if (facts == nullptr) return std::nullopt;
    const LocalTensor local = LocalOf(plan, c, *facts, experts, columns, shared_columns);
    bytes = Add(bytes, Mul(StoredBytes(tensor, local.outputs, local.inputs), local.count));
  }
  return bytes;
}

}  // namespace meshseal

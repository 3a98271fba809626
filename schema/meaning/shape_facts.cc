#include "schema/meaning/shape_facts.h"

namespace meshseal::meaning {
namespace {

constexpr ShapeAxis kVector = ShapeAxis::kInvalid;

constexpr RoleFacts kRoles[] = {
    {TensorRole::kRouter, ShapeAxis::kExperts, ShapeAxis::kHidden, false, false, false},
    {TensorRole::kGate, ShapeAxis::kIntermediate, ShapeAxis::kHidden, true, false, true},
    {TensorRole::kUp, ShapeAxis::kIntermediate, ShapeAxis::kHidden, true, false, true},
    {TensorRole::kDown, ShapeAxis::kHidden, ShapeAxis::kIntermediate, true, false, true},
    {TensorRole::kRouterBias, ShapeAxis::kExperts, kVector, false, false, false},
    {TensorRole::kSelectionBias, ShapeAxis::kExperts, kVector, false, false, false},
    {TensorRole::kTokenTable, ShapeAxis::kTokenIds, ShapeAxis::kTopK, false, false, false},
    {TensorRole::kGateUp, ShapeAxis::kTwoIntermediate, ShapeAxis::kHidden, true, true, true},
    {TensorRole::kGateBias, ShapeAxis::kIntermediate, kVector, true, false, false},
    {TensorRole::kUpBias, ShapeAxis::kIntermediate, kVector, true, false, false},
    {TensorRole::kGateUpBias, ShapeAxis::kTwoIntermediate, kVector, true, true, false},
    {TensorRole::kDownBias, ShapeAxis::kHidden, kVector, true, false, false},
    {TensorRole::kSharedGate, ShapeAxis::kShared, ShapeAxis::kHidden, false, false, true},
    {TensorRole::kSharedUp, ShapeAxis::kShared, ShapeAxis::kHidden, false, false, true},
    {TensorRole::kSharedGateUp, ShapeAxis::kTwoShared, ShapeAxis::kHidden, false, true, true},
    {TensorRole::kSharedDown, ShapeAxis::kHidden, ShapeAxis::kShared, false, false, true},
    {TensorRole::kSharedExpertGate, ShapeAxis::kOne, ShapeAxis::kHidden, false, false, false},
};

}  // namespace

const RoleFacts* FactsOf(TensorRole role) {
  for (const RoleFacts& facts : kRoles) {
    if (facts.role == role) return &facts;
  }
  return nullptr;
}

const TensorClass* FindTensor(const LayerClass& layer_class, TensorRole role) {
  for (const TensorClass& tensor : layer_class.tensors) {
    if (tensor.role == role) return &tensor;
  }
  return nullptr;
}

const SideTensor* FindSide(const TensorClass& tensor, SideKind kind) {
  for (const SideTensor& side : tensor.sides) {
    if (side.kind == kind) return &side;
  }
  return nullptr;
}

uint64_t ExtentOf(ShapeAxis axis, uint64_t hidden, const LayerClass& layer_class, uint64_t columns, uint64_t shared) {
  switch (axis) {
    case ShapeAxis::kHidden:
      return hidden;
    case ShapeAxis::kIntermediate:
      return columns;
    case ShapeAxis::kTwoIntermediate:
      return 2 * columns;
    case ShapeAxis::kExperts:
      return layer_class.experts;
    case ShapeAxis::kShared:
      return shared;
    case ShapeAxis::kTwoShared:
      return 2 * shared;
    case ShapeAxis::kTokenIds:
      return layer_class.router.vocabulary;
    case ShapeAxis::kTopK:
      return layer_class.top_k;
    case ShapeAxis::kOne:
    case ShapeAxis::kInvalid:  // what a vector contracts over
      break;
  }
  return 1;
}

bool IsGated(const LayerClass& layer_class) {
  return FindTensor(layer_class, TensorRole::kGate) != nullptr ||
         FindTensor(layer_class, TensorRole::kGateUp) != nullptr;
}

bool SharedIsGated(const LayerClass& layer_class) {
  return FindTensor(layer_class, TensorRole::kSharedGate) != nullptr ||
         FindTensor(layer_class, TensorRole::kSharedGateUp) != nullptr;
}

StepKind RouteOf(const LayerClass& layer_class) {
  if (layer_class.router.scoring == Scoring::kPrecomputed) return StepKind::kRouteGiven;
  const bool table = FindTensor(layer_class, TensorRole::kTokenTable) != nullptr;
  return table ? StepKind::kRouteByTable : StepKind::kRoute;
}

std::vector<uint32_t> ExpertsPerOwner(const LayerClass& layer_class, uint32_t ep) {
  std::vector<uint32_t> counts(ep, 0);
  for (const ExpertShard& shard : layer_class.expert_shards) ++counts[shard.owner];
  for (const ExpertCopy& copy : layer_class.expert_copies) ++counts[copy.owner];
  return counts;
}

std::vector<uint32_t> ColumnsPerTp(const LayerClass& layer_class) {
  std::vector<uint32_t> columns;
  columns.reserve(layer_class.tp_segment_ends.size());
  uint32_t begin = 0;
  for (const uint32_t segment_end : layer_class.tp_segment_ends) {
    const uint32_t end = layer_class.segment_ends[segment_end - 1];
    columns.push_back(end - begin);
    begin = end;
  }
  return columns;
}

uint32_t SharedColumnsOf(const LayerClass& layer_class, const Degrees& degrees, uint32_t tp, uint32_t ep) {
  const SharedExpert& shared = layer_class.shared_expert;
  if (shared.width == 0) return 0;
  const bool split = shared.placement == SharedPlacement::kSplit;
  if (!split && ep != 0) return 0;
  const size_t part = split ? size_t{tp} * degrees.ep + ep : tp;
  return shared.part_ends[part] - (part == 0 ? 0 : shared.part_ends[part - 1]);
}

}  // namespace meshseal::meaning

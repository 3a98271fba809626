#include "compiler/check/tensor_classes.h"

#include <cstdint>

#include "compiler/check/role.h"

namespace meshseal::compiler {
namespace {

SideTensor LowerSide(SideKind kind, const SideTensorSpec& spec) {
  SideTensor side;
  side.kind = kind;
  side.dtype = spec.dtype.value;
  side.name = spec.name.value;
  if (spec.block.has_value()) {
    side.block_rows = static_cast<uint32_t>(spec.block->value.rows);
    side.block_columns = static_cast<uint32_t>(spec.block->value.columns);
  }
  side.applies = spec.applies.value;
  if (spec.of.has_value()) side.of = spec.of->value;
  return side;
}

}  // namespace

TensorClass TensorClassOf(const TensorSpec& spec) {
  TensorClass tensor;
  tensor.role = spec.role.value;
  tensor.dtype = spec.dtype.value;
  tensor.name = spec.name.value;
  tensor.shape = spec.shape.value;
  if (spec.layout.has_value()) tensor.layout = spec.layout->value;
  if (spec.rotation.has_value()) tensor.rotation = static_cast<uint32_t>(spec.rotation->value);
  if (spec.scale.has_value()) tensor.sides.push_back(LowerSide(SideKind::kScale, *spec.scale));
  if (spec.scale_2.has_value()) tensor.sides.push_back(LowerSide(SideKind::kScale2, *spec.scale_2));
  if (spec.input_scale.has_value()) tensor.sides.push_back(LowerSide(SideKind::kInputScale, *spec.input_scale));
  return tensor;
}

std::vector<TensorClass> TensorClassesOf(const MoeSpec& moe) {
  std::vector<TensorClass> tensors;
  const std::vector<const TensorSpec*> read = TensorsRead(moe);
  for (const Term& role : Terms<TensorRole>()) {
    for (const TensorSpec* spec : read) {
      if (static_cast<uint8_t>(spec->role.value) == role.value) tensors.push_back(TensorClassOf(*spec));
    }
  }
  return tensors;
}

LayerClass StoredLayersOf(const LayerGroup& group) {
  const MoeSpec& moe = group.moe;
  LayerClass layers;
  layers.layers = group.layers;
  layers.experts = static_cast<uint32_t>(moe.experts.value);
  layers.top_k = static_cast<uint32_t>(moe.experts_per_token.value);
  layers.intermediate = static_cast<uint32_t>(moe.intermediate_size.value);
  layers.router.vocabulary = static_cast<uint32_t>(moe.router.vocabulary.value);
  if (moe.shared_expert.has_value()) {
    layers.shared_expert.width = static_cast<uint32_t>(moe.shared_expert->width.value);
  }
  layers.tensors = TensorClassesOf(moe);
  return layers;
}

}  // namespace meshseal::compiler

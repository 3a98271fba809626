#include "compiler/check/role.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace meshseal::compiler {
namespace {

constexpr ShapeAxis kVector = ShapeAxis::kInvalid;

constexpr RoleRow kRoles[] = {
    {TensorRole::kRouter, ShapeAxis::kExperts, ShapeAxis::kHidden, false, false},
    {TensorRole::kRouterBias, ShapeAxis::kExperts, kVector, false, false},
    {TensorRole::kSelectionBias, ShapeAxis::kExperts, kVector, false, false},
    {TensorRole::kTokenTable, ShapeAxis::kTokenIds, ShapeAxis::kTopK, false, false},
    {TensorRole::kGate, ShapeAxis::kIntermediate, ShapeAxis::kHidden, true, false},
    {TensorRole::kUp, ShapeAxis::kIntermediate, ShapeAxis::kHidden, true, false},
    {TensorRole::kGateUp, ShapeAxis::kTwoIntermediate, ShapeAxis::kHidden, true, true},
    {TensorRole::kDown, ShapeAxis::kHidden, ShapeAxis::kIntermediate, true, false},
    {TensorRole::kGateBias, ShapeAxis::kIntermediate, kVector, true, false},
    {TensorRole::kUpBias, ShapeAxis::kIntermediate, kVector, true, false},
    {TensorRole::kGateUpBias, ShapeAxis::kTwoIntermediate, kVector, true, true},
    {TensorRole::kDownBias, ShapeAxis::kHidden, kVector, true, false},
    {TensorRole::kSharedGate, ShapeAxis::kShared, ShapeAxis::kHidden, false, false},
    {TensorRole::kSharedUp, ShapeAxis::kShared, ShapeAxis::kHidden, false, false},
    {TensorRole::kSharedGateUp, ShapeAxis::kTwoShared, ShapeAxis::kHidden, false, true},
    {TensorRole::kSharedDown, ShapeAxis::kHidden, ShapeAxis::kShared, false, false},
    {TensorRole::kSharedExpertGate, ShapeAxis::kOne, ShapeAxis::kHidden, false, false},
};

bool Has(const MoeSpec& moe, TensorRole role) { return moe.FindTensor(role) != nullptr; }

// Gate and up apart, or fused in one tensor where such a row stands.
Reading GateOrUp(bool block, const char* block_why, bool gated, bool fused, bool is_fused, bool is_gate) {
  if (!block) return {false, block_why};
  if (is_fused) return {fused && gated, gated ? "it stands for gate and up" : "moe.gated is false"};
  if (is_gate && !gated) return {false, "moe.gated is false"};
  return {!fused, fused ? "the fused row stands for it" : block_why};
}

}  // namespace

absl::Span<const RoleRow> RoleRows() { return kRoles; }

const RoleRow& RowOf(TensorRole role) {
  const RoleRow* found = kRoles;
  for (const RoleRow& row : kRoles) {
    if (row.role == role) found = &row;
  }
  return *found;
}

bool IsExpertMatrix(const RoleRow& row) {
  return IsMatrix(row) &&
         (row.per_expert || (row.outputs == ShapeAxis::kShared || row.outputs == ShapeAxis::kTwoShared ||
                             row.inputs == ShapeAxis::kShared));
}

Reading ReadingOf(const MoeSpec& moe, TensorRole role) {
  const RouterSpec& router = moe.router;
  const bool table = !router.token_table_layers.value.empty();
  const bool gated = moe.gated.value;
  const bool shared = moe.shared_expert.has_value();
  const char* shared_why = shared ? "there is a shared expert" : "moe.shared_expert is none";
  switch (role) {
    case TensorRole::kRouter:
      return {router.scoring.value != Scoring::kPrecomputed,
              "moe.router.scoring is " + std::string(WordOf(router.scoring.value))};
    case TensorRole::kRouterBias:
      return {router.logit_bias.value,
              absl::StrCat("moe.router.logit_bias is ", router.logit_bias.value ? "tensor" : "none")};
    case TensorRole::kSelectionBias:
      if (table) return {false, "the ids of these layers come from a token table"};
      return {router.selection_bias.value,
              absl::StrCat("moe.router.selection_bias is ", router.selection_bias.value ? "tensor" : "none")};
    case TensorRole::kTokenTable:
      return {table,
              table ? "moe.router.token_table names these layers" : "moe.router.token_table names none of the layers"};
    case TensorRole::kGate:
    case TensorRole::kUp:
    case TensorRole::kGateUp:
      return GateOrUp(true, "every block reads it", gated, Has(moe, TensorRole::kGateUp), role == TensorRole::kGateUp,
                      role == TensorRole::kGate);
    case TensorRole::kSharedGate:
    case TensorRole::kSharedUp:
    case TensorRole::kSharedGateUp:
      return GateOrUp(shared, shared_why, gated, Has(moe, TensorRole::kSharedGateUp), role == TensorRole::kSharedGateUp,
                      role == TensorRole::kSharedGate);
    case TensorRole::kDown:
      return {true, "every block reads it"};
    case TensorRole::kSharedDown:
      return {shared, shared_why};
    case TensorRole::kSharedExpertGate: {
      const bool read = shared && moe.shared_expert->gate.value == SharedGate::kSigmoid;
      return {read, shared && !read ? "moe.shared_expert.gate is none"
                    : shared        ? "moe.shared_expert.gate is sigmoid"
                                    : shared_why};
    }
    // A bias is added where its row stands; gate's and up's belong together.
    case TensorRole::kGateBias:
      return {gated && (Has(moe, role) || Has(moe, TensorRole::kUpBias)), "up_bias has a row"};
    case TensorRole::kUpBias:
      return {Has(moe, role) || Has(moe, TensorRole::kGateBias), "gate_bias has a row"};
    case TensorRole::kGateUpBias:
      return {gated && Has(moe, role), gated ? "it has a row" : "moe.gated is false"};
    case TensorRole::kDownBias:
      return {Has(moe, role), "it has a row"};
    case TensorRole::kInvalid:
      break;
  }
  return {};
}

std::vector<const TensorSpec*> TensorsRead(const MoeSpec& moe) {
  std::vector<const TensorSpec*> read;
  for (const TensorSpec& tensor : moe.tensors) {
    if (ReadingOf(moe, tensor.role.value).read) read.push_back(&tensor);
  }
  return read;
}

uint64_t ExtentOf(ShapeAxis axis, const Manifest& model, const MoeSpec& moe) {
  const uint64_t shared = moe.shared_expert.has_value() ? moe.shared_expert->width.value : 0;
  switch (axis) {
    case ShapeAxis::kHidden:
      return model.hidden_size.value;
    case ShapeAxis::kIntermediate:
      return moe.intermediate_size.value;
    case ShapeAxis::kTwoIntermediate:
      return 2 * moe.intermediate_size.value;
    case ShapeAxis::kExperts:
      return moe.experts.value;
    case ShapeAxis::kShared:
      return shared;
    case ShapeAxis::kTwoShared:
      return 2 * shared;
    case ShapeAxis::kTopK:
      return moe.experts_per_token.value;
    case ShapeAxis::kOne:
      return 1;
    case ShapeAxis::kTokenIds:
      return moe.router.vocabulary.value;
    case ShapeAxis::kInvalid:
      break;
  }
  return 0;
}

bool IsStacked(const TensorSpec& tensor) {
  return RowOf(tensor.role.value).per_expert && !tensor.shape.value.empty() &&
         tensor.shape.value.front() == ShapeAxis::kExperts;
}

bool IsTransposed(const TensorSpec& tensor) {
  const RoleRow& row = RowOf(tensor.role.value);
  return IsMatrix(row) && !tensor.shape.value.empty() && tensor.shape.value.back() != row.inputs;
}

std::vector<NamedSide> SidesOf(const TensorSpec& tensor) {
  std::vector<NamedSide> sides;
  const auto add = [&sides](const char* key, const std::optional<SideTensorSpec>& side) {
    if (side.has_value()) sides.push_back({key, &*side});
  };
  add("scale", tensor.scale);
  add("scale_2", tensor.scale_2);
  add("input_scale", tensor.input_scale);
  return sides;
}

}  // namespace meshseal::compiler

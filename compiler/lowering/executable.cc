#include "compiler/lowering/executable.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/check/role.h"

namespace meshseal::compiler {
namespace {

class Executable {
 public:
  explicit Executable(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  // Refuses the field at `span` where `asked` holds.
  void Refuse(bool asked, Span span, const std::string& what) {
    if (asked) diagnostics_.Error("not-yet-built", span, absl::StrCat(what, " is not built in this version"));
  }

  // Refuses every word but those listed.
  template <class E>
  void Only(const Spanned<E>& word, const char* field, std::initializer_list<E> built) {
    for (const E each : built) {
      if (word.value == each) return;
    }
    Refuse(true, word.span, absl::StrCat(field, ": ", WordOf(word.value)));
  }

 private:
  Diagnostics& diagnostics_;
};

void CheckMoe(const MoeSpec& moe, Executable& built) {
  const RouterSpec& router = moe.router;
  built.Only(router.scoring, "router.scoring", {Scoring::kSoftmax});
  built.Only(router.renormalize, "router.renormalize", {Renormalize::kNone, Renormalize::kSum});
  built.Only(router.weight_applied, "router.weight_applied", {WeightPoint::kOutput});
  built.Only(moe.activation.kind, "activation.kind", {ActivationKind::kSwiGlu});
  built.Refuse(router.logit_bias.value, router.logit_bias.span, "router.logit_bias: tensor");
  built.Refuse(router.selection_bias.value, router.selection_bias.span, "router.selection_bias: tensor");
  if (router.groups.has_value()) built.Refuse(true, router.groups->span, "router.groups");
  built.Refuse(!router.token_table_layers.value.empty(), router.token_table_layers.span, "router.token_table");
  built.Refuse(!moe.gated.value, moe.gated.span, "gated: false");
  if (moe.shared_expert.has_value()) built.Refuse(true, moe.shared_expert->span, "shared_expert");
}

void CheckTensor(const TensorSpec& tensor, Executable& built) {
  const std::string name = absl::StrCat("tensor '", WordOf(tensor.role.value), "'");
  const TensorRole role = tensor.role.value;
  const bool known =
      role == TensorRole::kRouter || role == TensorRole::kGate || role == TensorRole::kUp || role == TensorRole::kDown;
  built.Refuse(!known, tensor.role.span, name);
  const DType dtype = tensor.dtype.value;
  const bool plain = dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16;
  built.Refuse(known && !plain, tensor.dtype.span, absl::StrCat(name, " of ", std::string(DTypeName(dtype))));
  built.Refuse(known && IsStacked(tensor), tensor.shape.span, absl::StrCat(name, " of all experts in one"));
  built.Refuse(known && IsTransposed(tensor), tensor.shape.span, absl::StrCat(name, " stored transposed"));
  if (tensor.rotation.has_value()) built.Refuse(true, tensor.rotation->span, absl::StrCat(name, " with a rotation"));
}

}  // namespace

void CheckExecutable(const CheckedModel& checked, Diagnostics& diagnostics) {
  Executable built(diagnostics);
  const Manifest& model = checked.model();
  const Deployment& d = checked.deployment();
  const MoeSpec& moe = model.groups.front().moe;
  CheckMoe(moe, built);
  for (const TensorSpec* tensor : TensorsRead(moe)) CheckTensor(*tensor, built);
  built.Refuse(model.groups.size() > 1, model.moe_layers.span,
               absl::StrCat("a model whose MoE layers differ (", model.groups.size(), " kinds of them)"));
  built.Only(model.source, "weights.source", {WeightSource::kSafetensors});
  for (const NodeSpec& node : checked.mesh().nodes) {
    built.Refuse(!node.identity.empty(), node.identity_span, "pinning devices by identity");
  }
  built.Only(d.placement, "placement.experts", {ExpertPlacement::kContiguous, ExpertPlacement::kRoundRobin});
  built.Refuse(d.redundant_experts.value > 0, d.redundant_experts.span, "redundant_experts above 0");
  built.Refuse(d.dense_tp.value != d.tp.value * d.ep.value, d.dense_tp.span,
               absl::StrCat("dense.tp ", d.dense_tp.value, " below tp x ep = ", d.tp.value * d.ep.value,
                            " (different tokens inside an expert group)"));
  built.Only(d.reduction, "reduction", {Reduction::kOrdered});
  built.Only(d.gate_up_basis, "activation_basis.gate_up", {Basis::kF32, Basis::kBf16});
  built.Only(d.down_basis, "activation_basis.down", {Basis::kF32, Basis::kBf16});
  built.Only(d.output_dtype, "output_dtype", {Basis::kF32, Basis::kBf16});
}

}  // namespace meshseal::compiler

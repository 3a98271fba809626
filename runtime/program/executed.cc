#include "runtime/program/executed.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/dtype.h"
#include "schema/reason.h"

namespace meshseal::runtime {
namespace {

// What is asked for and not executed, each once, in the order in which it was found.
class Lacking {
 public:
  void If(bool asked, const std::string& what) {
    if (asked && std::find(found_.begin(), found_.end(), what) == found_.end()) found_.push_back(what);
  }

  template <class E>
  void Unless(const char* field, E word, std::initializer_list<E> executed) {
    If(std::find(executed.begin(), executed.end(), word) == executed.end(), absl::StrCat(field, " ", WordOf(word)));
  }

  const std::vector<std::string>& found() const { return found_; }

 private:
  std::vector<std::string> found_;
};

void CheckTensor(const TensorClass& tensor, Lacking& lacking) {
  const std::string name = absl::StrCat("tensor ", WordOf(tensor.role));
  const bool plain = tensor.dtype == DType::kF32 || tensor.dtype == DType::kF16 || tensor.dtype == DType::kBf16;
  const bool known = tensor.role == TensorRole::kRouter || tensor.role == TensorRole::kGate ||
                     tensor.role == TensorRole::kUp || tensor.role == TensorRole::kDown ||
                     tensor.role == TensorRole::kRouterBias || tensor.role == TensorRole::kSelectionBias;
  lacking.If(!known, name);
  if (!known) return;
  lacking.If(!plain, absl::StrCat(name, " of ", std::string(DTypeName(tensor.dtype))));
  lacking.If(tensor.rotation > 0, absl::StrCat(name, " with a rotation"));
  if (tensor.role == TensorRole::kRouterBias || tensor.role == TensorRole::kSelectionBias) return;
  const bool router = tensor.role == TensorRole::kRouter;
  lacking.If(!router && tensor.shape.front() == ShapeAxis::kExperts, absl::StrCat(name, " of all experts in one"));
  const ShapeAxis inputs = tensor.role == TensorRole::kDown ? ShapeAxis::kIntermediate : ShapeAxis::kHidden;
  lacking.If(tensor.shape.back() != inputs, absl::StrCat(name, " stored transposed"));
}

void CheckLayers(const LayerClass& c, Lacking& lacking) {
  const Router& router = c.router;
  lacking.Unless("router.scoring", router.scoring,
                 {Scoring::kSoftmax, Scoring::kSigmoid, Scoring::kSqrtSoftplus, Scoring::kSparsemixer});
  lacking.Unless("router.weight_applied", router.weight_applied, {WeightPoint::kOutput});
  lacking.Unless("activation", c.activation.kind,
                 {ActivationKind::kSwiGlu, ActivationKind::kSwiGluOai, ActivationKind::kSwiGluPreclamp});
  lacking.If(c.shared_expert.width > 0, "a shared expert");
  lacking.Unless("activation_basis.gate_up", c.gate_up_basis, {Basis::kF32, Basis::kBf16});
  lacking.Unless("activation_basis.down", c.down_basis, {Basis::kF32, Basis::kBf16});
  lacking.If(!c.expert_copies.empty(), "redundant experts");
  for (const TensorClass& tensor : c.tensors) CheckTensor(tensor, lacking);
  for (const Program& program : c.programs) {
    for (const Step& step : program.steps) {
      lacking.If(!IsExecuted(step.kind), absl::StrCat("step ", FindStep(step.kind)->mnemonic));
    }
    lacking.If(program.index_bits > 32, "values of more than 2^31 - 1 elements");
  }
}

}  // namespace

absl::Status CheckExecuted(const Plan& plan) {
  Lacking lacking;
  for (const LayerClass& c : plan.layer_classes) CheckLayers(c, lacking);
  lacking.Unless("reduction", plan.reduction, {Reduction::kOrdered});
  lacking.Unless("output_dtype", plan.output, {Basis::kF32, Basis::kBf16});
  lacking.Unless("weights.source", plan.weight_source, {WeightSource::kSafetensors});
  lacking.If(plan.limits.repack != Repack::kNone, "repacked weights");
  for (const Node& node : plan.mesh.nodes) lacking.If(!node.identity.empty(), "devices pinned by identity");
  if (lacking.found().empty()) return absl::OkStatus();
  return Refuse(Reason::kNotBuilt, absl::StrCat("this version does not execute what the plan asks for: ",
                                                absl::StrJoin(lacking.found(), "; ")));
}

}  // namespace meshseal::runtime

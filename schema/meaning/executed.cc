// The words of the language that the programs of this format execute; a manifest has more of them.
#include <algorithm>
#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "schema/meaning/rules.h"

namespace meshseal::meaning {
namespace {

template <class E>
Fault Executed(const char* what, E term, std::initializer_list<E> executed) {
  if (std::find(executed.begin(), executed.end(), term) != executed.end()) return std::nullopt;
  return absl::StrCat(what, " is ", WordOf(term), ", which no program of this format executes");
}

Fault ExecutedBasis(const char* what, Basis basis) { return Executed(what, basis, {Basis::kF32, Basis::kBf16}); }

}  // namespace

Fault TermsAreExecuted(const Plan& plan, const SealFacts&) {
  for (const LayerClass& c : plan.layer_classes) {
    if (Fault fault =
            FirstOf({Executed("router.scoring", c.router.scoring, {Scoring::kSoftmax}),
                     Executed("router.renormalize", c.router.renormalize, {Renormalize::kNone, Renormalize::kSum}),
                     Executed("router.weight_applied", c.router.weight_applied, {WeightPoint::kOutput}),
                     ExecutedBasis("router.input_dtype", c.router.input),
                     Executed("activation", c.activation, {ActivationKind::kSwiGlu}),
                     ExecutedBasis("gate_up basis", c.gate_up_basis), ExecutedBasis("down basis", c.down_basis)})) {
      return fault;
    }
  }
  return FirstOf({Executed("reduction", plan.reduction, {Reduction::kOrdered}),
                  ExecutedBasis("output dtype", plan.output),
                  Executed("weight source", plan.weight_source, {WeightSource::kSafetensors})});
}

}  // namespace meshseal::meaning

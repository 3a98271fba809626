#include "schema/fingerprint.h"

#include "schema/plan_codec.h"

namespace meshseal {

Sha256Digest ExecutionFingerprint(const Plan& plan) {
  Plan bound = plan;
  bound.compiler_version.clear();
  bound.model_name.clear();
  bound.model_family.clear();
  bound.deployment_name.clear();
  bound.sources.clear();
  bound.mesh = Mesh{};
  bound.memory.clear();
  bound.other_weights = {};
  bound.prices.clear();
  bound.execution_fingerprint = {};
  for (LayerClass& layer_class : bound.layer_classes) {
    for (Program& program : layer_class.programs) {
      for (Step& step : program.steps) step.origin = {};
    }
  }
  return Sha256(EncodePlan(bound));
}

}  // namespace meshseal

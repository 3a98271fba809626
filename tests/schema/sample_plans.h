// Numbers of valid plans that among them use every part of the plan language: what the tests of the seal and of the
// meaning gate change.
#ifndef MESHSEAL_TESTS_SCHEMA_SAMPLE_PLANS_H_
#define MESHSEAL_TESTS_SCHEMA_SAMPLE_PLANS_H_

#include <string>
#include <vector>

#include "schema/plan.h"
#include "tests/support/plan_builder.h"

namespace meshseal::samples {

// 24 ranks of all four degrees, with a residual.
support::PlanNumbers Base();
// One rank.
support::PlanNumbers Small();
// A model whose last layer is not MoE.
support::PlanNumbers LastLayerDense();
support::PlanNumbers TwoClasses();
support::PlanNumbers Gathering();
// A shared expert, cut over the group or on its first rank.
support::PlanNumbers Shared();
support::PlanNumbers Owner();
support::PlanNumbers Copies();
support::PlanNumbers Balanced();
support::PlanNumbers Table();
support::PlanNumbers Given();
support::PlanNumbers Exact();
// With a shared expert, and more segments than ranks.
support::PlanNumbers ExactShared();
support::PlanNumbers Quantised();
support::PlanNumbers Fused();
support::PlanNumbers Mxfp4();
// Weights of q8_0 blocks.
support::PlanNumbers Blocks();
support::PlanNumbers WideTiles();
// Every line of the memory plan has a number, and steps have a price.
support::PlanNumbers Full();
// Steps with values of more than 2^31 - 1 elements: the builder's plan is refused until prefill has 64-bit indices.
support::PlanNumbers Huge();

struct SamplePlan {
  std::string name;
  Plan plan;
};

// Plans of all of the above and more, each of which passes all gates.
std::vector<SamplePlan> ValidPlans();

}  // namespace meshseal::samples

#endif  // MESHSEAL_TESTS_SCHEMA_SAMPLE_PLANS_H_

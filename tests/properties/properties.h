// What must hold of every plan, given what its documents declare. Each property is checked with arithmetic of its own
// and adds a text for whatever it finds wrong.
#ifndef MESHSEAL_TESTS_PROPERTIES_PROPERTIES_H_
#define MESHSEAL_TESTS_PROPERTIES_PROPERTIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "schema/plan.h"
#include "tests/properties/random_deployment.h"

namespace meshseal::properties {

using Faults = std::vector<std::string>;

// What the checks came across, so that a test can tell that they looked at something.
struct Coverage {
  uint64_t reassembled_bytes = 0;
  uint64_t naive_cuts = 0;       // of halves of a fused tensor, each unlike the true cut
  uint64_t swapped_shards = 0;   // of two ranks, of one size and told apart
  uint64_t routes = 0;           // routed through the owners
  uint64_t exhausted = 0;        // programs whose every route was tried
  uint64_t full_capacities = 0;  // reached by a route: one tile less would not do
};

// Sizes, layers, router, tensors, limits: the plan says what the documents say.
void CheckDeclared(const RandomDeployment& random, const Plan& plan, Faults& faults);
// Every expert has the declared owners, copies included, and every rank its experts numbered in order.
void CheckOwnership(const RandomDeployment& random, const Plan& plan, Faults& faults);
// Column parts are disjoint, in order and complete, and end between whole units.
void CheckColumns(const RandomDeployment& random, const Plan& plan, Faults& faults);
// A rank's weights are the bytes of its cells; those of a replica are the model's times the declared replication.
void CheckOwnedBytes(const RandomDeployment& random, const Plan& plan, Faults& faults);
// Small tensors, cut by the plan and put together again, are the same bytes.
void CheckReassembly(const RandomDeployment& random, const Plan& plan, Coverage& coverage, Faults& faults);
// One collective a program, after the combining step and over the axes that are divided.
void CheckCollectives(const RandomDeployment& random, const Plan& plan, Faults& faults);
// Buffers have their values' sizes, and those that live together share no byte.
void CheckArenas(const RandomDeployment& random, const Plan& plan, Faults& faults);
// No route puts more rows on a rank than its capacity, and without copies some route needs all of it.
void CheckCapacities(const RandomDeployment& random, const Plan& plan, Coverage& coverage, Faults& faults);
// The lines of every rank's memory add up and fit, with room for the largest arena of its stage.
void CheckMemory(const RandomDeployment& random, const Plan& plan, Faults& faults);

// All of them.
Faults CheckAll(const RandomDeployment& random, const Plan& plan, Coverage& coverage);

}  // namespace meshseal::properties

#endif  // MESHSEAL_TESTS_PROPERTIES_PROPERTIES_H_

// The rules of a layer that a step computes by, as a plan holds them. No Abseil here: device code reads it.
#ifndef MESHSEAL_SCHEMA_RULES_H_
#define MESHSEAL_SCHEMA_RULES_H_

#include <cstdint>

#include "schema/vocabularies.h"

namespace meshseal {

// Neighbouring experts of which the best groups are kept; count 0: there are no groups.
struct RouterGroups {
  uint32_t count = 0;
  uint32_t keep = 0;
  GroupScore score = GroupScore::kInvalid;  // invalid where there are none
  friend bool operator==(const RouterGroups&, const RouterGroups&) = default;
};

// How a token selects its experts. Biases and a token table are there where the layer class has their tensors.
struct Router {
  Scoring scoring = Scoring::kInvalid;
  float epsilon = 0;  // of sparsemixer; 0 otherwise
  RouteOrder order = RouteOrder::kInvalid;
  Renormalize renormalize = Renormalize::kInvalid;
  float guard = 0;  // of sum_plus and sum_floor; 0 otherwise
  RouterGroups groups;
  WeightPoint weight_applied = WeightPoint::kInvalid;
  Basis input = Basis::kInvalid;  // the router product's operands and result are rounded to this
  float scale = 0;                // routed scaling factor, finite and above 0
  uint32_t vocabulary = 0;        // rows of the token table; 0 without one
  friend bool operator==(const Router&, const Router&) = default;
};

struct Activation {
  ActivationKind kind = ActivationKind::kInvalid;
  float alpha = 0;  // of swiglu_oai; 0 otherwise
  float limit = 0;  // of swiglu_oai and swiglu_preclamp; 0 otherwise
  friend bool operator==(const Activation&, const Activation&) = default;
};

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_RULES_H_

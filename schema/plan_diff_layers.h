// What differs in the MoE layers of two plans; a part of plan_diff.h.
#ifndef MESHSEAL_SCHEMA_PLAN_DIFF_LAYERS_H_
#define MESHSEAL_SCHEMA_PLAN_DIFF_LAYERS_H_

#include <vector>

#include "schema/plan_diff.h"

namespace meshseal {

// Ascending by first layer; layers that change alike are one entry.
std::vector<LayerChanges> CompareLayers(const Plan& a, const Plan& b);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_PLAN_DIFF_LAYERS_H_

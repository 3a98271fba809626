// What follows from owners and cuts for the rank at (tp, ep); internal to the meaning gate.
#ifndef MESHSEAL_SCHEMA_MEANING_SHAPE_FACTS_H_
#define MESHSEAL_SCHEMA_MEANING_SHAPE_FACTS_H_

#include <cstdint>
#include <vector>

#include "schema/plan.h"

namespace meshseal::meaning {

// Experts per ep coordinate. Needs experts-are-owned-once.
std::vector<uint32_t> ExpertsPerOwner(const LayerClass& layer_class, uint32_t ep);

// Columns per tp coordinate. Needs columns-are-owned-once.
std::vector<uint32_t> ColumnsPerTp(const LayerClass& layer_class);

}  // namespace meshseal::meaning

#endif  // MESHSEAL_SCHEMA_MEANING_SHAPE_FACTS_H_

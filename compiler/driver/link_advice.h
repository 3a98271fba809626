// What a layout costs over the links between islands, where another one would avoid them.
#ifndef MESHSEAL_COMPILER_DRIVER_LINK_ADVICE_H_
#define MESHSEAL_COMPILER_DRIVER_LINK_ADVICE_H_

#include "compiler/check/checked_model.h"
#include "compiler/placement/placement.h"
#include "compiler/text/diagnostic.h"

namespace meshseal::compiler {

// Warns (groups-stay-in-islands) where tensor parallelism lies on several islands although pipeline stages over the
// islands hold every rule and fit: network operations and bytes of one decode step of one token, for both.
void WarnOfSlowLinks(const CheckedModel& checked, const Placement& placement, Diagnostics& diagnostics);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_DRIVER_LINK_ADVICE_H_

// A digest list against the model and the placement that are to bind it.
#ifndef MESHSEAL_COMPILER_DRIVER_BIND_DIGESTS_H_
#define MESHSEAL_COMPILER_DRIVER_BIND_DIGESTS_H_

#include "compiler/check/checked_model.h"
#include "compiler/placement/placement.h"
#include "compiler/text/diagnostic.h"
#include "schema/weight_digests.h"

namespace meshseal::compiler {

// Reports violations of the rules digests-fit-model and digests-fit-cuts; of the latter only where the former holds.
void CheckDigests(const CheckedModel& checked, const Placement& placement, const WeightDigests& digests,
                  Diagnostics& diagnostics);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_DRIVER_BIND_DIGESTS_H_

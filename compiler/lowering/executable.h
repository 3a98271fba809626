// What the programs of this version execute of what the manifest language says.
#ifndef MESHSEAL_COMPILER_LOWERING_EXECUTABLE_H_
#define MESHSEAL_COMPILER_LOWERING_EXECUTABLE_H_

#include "compiler/check/checked_model.h"
#include "compiler/text/diagnostic.h"

namespace meshseal::compiler {

// Reports each field that asks for more as `not-yet-built`; Lower takes only what was not refused.
void CheckExecutable(const CheckedModel& checked, Diagnostics& diagnostics);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_LOWERING_EXECUTABLE_H_

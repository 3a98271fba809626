// Help that works: parallel degrees that satisfy every rule, found by trying them.
#ifndef MESHSEAL_COMPILER_DRIVER_DEGREE_HELP_H_
#define MESHSEAL_COMPILER_DRIVER_DEGREE_HELP_H_

#include "compiler/manifest/manifest.h"
#include "compiler/text/diagnostic.h"

namespace meshseal::compiler {

// Puts the degrees that pass check, place and budget on every error that other degrees may mend; nothing when there are
// none.
void AddDegreeHelp(const Inputs& inputs, Diagnostics& diagnostics);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_DRIVER_DEGREE_HELP_H_

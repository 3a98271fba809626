// Help for a deployment whose ranks need more memory than there is.
#ifndef MESHSEAL_COMPILER_DRIVER_MEMORY_HELP_H_
#define MESHSEAL_COMPILER_DRIVER_MEMORY_HELP_H_

#include <string>

#include "compiler/check/checked_model.h"
#include "compiler/manifest/manifest.h"

namespace meshseal::compiler {

// "dp=1 pp=1 tp=2 ep=4", and dense.tp where it is not tp x ep.
std::string DegreesText(const Deployment& deployment);

// Whether some dense.tp holds every rule and fits: tp x ep, or else the largest of its divisors that the check stage
// allows; it is left in `candidate`. A smaller one needs no less memory.
bool FindDenseTp(CheckedDocuments& candidate);

// The smallest world that fits: of this mesh with idle slots, or else of several times its nodes; and on devices that
// differ, pipeline stages in proportion to their memory. Everything was tried against every rule. Empty when nothing
// was found.
std::string MemoryHelp(const CheckedDocuments& documents);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_DRIVER_MEMORY_HELP_H_

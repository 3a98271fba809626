// Documents placed without the check stage.
// AS: tools/compile/main.cc
// EXPECT-gcc: invalid initialization of reference of type 'const meshseal::compiler::CheckedModel&'
// EXPECT-clang: no matching function for call to 'Place'
#include "compiler/placement/placement.h"

namespace meshseal::compiler {

#ifdef MESHSEAL_BYPASS
Placement Skip(const Inputs& inputs) { return Place(inputs); }
#else
Placement Go(const CheckedModel& checked) { return Place(checked); }
#endif

}  // namespace meshseal::compiler

// A placement that Place did not make.
// AS: tools/compile/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: calling a private constructor
#include <optional>

#include "compiler/placement/placement.h"

namespace meshseal::compiler {

#ifdef MESHSEAL_BYPASS
Placement placement;
#else
std::optional<Placement> placement;
#endif

}  // namespace meshseal::compiler

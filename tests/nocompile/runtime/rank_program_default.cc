// A rank program that no sealed plan stands behind.
// AS: tools/run/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: calling a private constructor
#include <optional>

#include "runtime/program/rank_program.h"

namespace meshseal::runtime {

#ifdef MESHSEAL_BYPASS
RankProgram program;
#else
std::optional<RankProgram> program;
#endif

}  // namespace meshseal::runtime

// An overload of the one friend of a rank program, over a plan that nobody sealed.
// AS: tools/run/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: calling a private constructor
#include "runtime/program/rank_program.h"

namespace meshseal::runtime {

absl::StatusOr<RankProgram> BindProgram(const Plan& plan, uint32_t rank, uint32_t layer_class, Phase phase);

#ifdef MESHSEAL_BYPASS
absl::StatusOr<RankProgram> BindProgram(const Plan&, uint32_t, uint32_t, Phase) { return RankProgram(); }
#else
absl::StatusOr<RankProgram> BindProgram(const Plan&, uint32_t, uint32_t, Phase) { return absl::OkStatus(); }
#endif

}  // namespace meshseal::runtime

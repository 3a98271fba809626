// A file opened without the policy gate.
// AS: tools/plan/main.cc
// EXPECT-gcc: no matching function for call to
// EXPECT-clang: too few arguments to function call
#include "schema/sealed_plan.h"

namespace meshseal {

absl::StatusOr<SealedPlan> Open(absl::string_view file) {
#ifdef MESHSEAL_BYPASS
  return SealedPlan::Open(file);
#else
  return SealedPlan::Open(file, Policy{});
#endif
}

}  // namespace meshseal

// A class below the sealed plan, which would reach what it protects.
// AS: tools/plan/main.cc
// EXPECT-gcc: cannot derive from 'final' base
// EXPECT-clang: base 'SealedPlan' is marked 'final'
#include "schema/sealed_plan.h"

namespace meshseal {

#ifdef MESHSEAL_BYPASS
class Forged : public SealedPlan {};
#else
struct Holder {
  SealedPlan plan;
};
#endif

}  // namespace meshseal

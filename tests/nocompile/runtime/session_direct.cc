// A session without a model that was loaded.
// AS: tools/run/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: calling a private constructor of class
#include <utility>

#include "runtime/session/session.h"

namespace meshseal::runtime {

#ifdef MESHSEAL_BYPASS
void Start(SealedPlan) { Session session; }
#else
void Start(SealedPlan plan) { (void)Session::Create(std::move(plan), SessionOptions()); }
#endif

}  // namespace meshseal::runtime

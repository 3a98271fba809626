// A session of a plan that nobody sealed.
// AS: tools/run/main.cc
// EXPECT-gcc: to 'meshseal::SealedPlan'
// EXPECT-clang: no viable conversion
#include <utility>

#include "runtime/session/session.h"

namespace meshseal::runtime {

#ifdef MESHSEAL_BYPASS
auto Start(Plan plan) { return Session::Create(std::move(plan), {}); }
#else
auto Start(SealedPlan plan) { return Session::Create(std::move(plan), {}); }
#endif

}  // namespace meshseal::runtime

// A stage of a session, called before the agreement of its ranks.
// AS: tools/run/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: is a private member of
#include "runtime/session/session.h"

namespace meshseal::runtime {

#ifdef MESHSEAL_BYPASS
auto Loader() { return &Session::Load; }
#else
auto Runner() { return &Session::RunStack; }
#endif

}  // namespace meshseal::runtime

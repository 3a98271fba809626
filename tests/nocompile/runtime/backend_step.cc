// A step of a backend, run without a program.
// AS: tools/run/main.cc
// EXPECT-gcc: is protected within this context
// EXPECT-clang: is a protected member of
#include "runtime/backend/backend.h"

namespace meshseal::runtime {

#ifdef MESHSEAL_BYPASS
absl::Status OneStep(Backend& backend, const RouteArgs& args) { return backend.Route(args); }
#else
absl::string_view Name(const Backend& backend) { return backend.name(); }
#endif

}  // namespace meshseal::runtime

// A step of the reference backend, run without a program.
// AS: tools/run/main.cc
// EXPECT-gcc: is protected within this context
// EXPECT-clang: is a protected member of
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

#ifdef MESHSEAL_BYPASS
absl::Status OneStep(const RouteArgs& args) { return ReferenceBackend().Route(args); }
#else
absl::string_view Name() { return ReferenceBackend().name(); }
#endif

}  // namespace meshseal::runtime

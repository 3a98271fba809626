// A stage of a load, called before the agreement of its ranks.
// AS: tools/run/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: is a private member of
#include "runtime/session/resident_rank.h"

namespace meshseal::runtime {

#ifdef MESHSEAL_BYPASS
auto Loader() { return &ResidentRank::Reserve; }
#else
auto Runner() { return &ResidentRank::Run; }
#endif

}  // namespace meshseal::runtime

// A class below the sealed plan that brings its own content.
// AS: tools/plan/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: is a private member of
// EXPECT-clang: base class 'meshseal::SealedPlan' has private constructor
#include <utility>

#include "schema/sealed_plan.h"

namespace meshseal {

class Forged : public SealedPlan {
 public:
#ifdef MESHSEAL_BYPASS
  Forged() : SealedPlan(std::unique_ptr<const Content>()) {}
#else
  explicit Forged(SealedPlan opened) : SealedPlan(std::move(opened)) {}
#endif
};

}  // namespace meshseal

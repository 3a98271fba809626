// A backend that runs the steps of another one.
// AS: tools/run/main.cc
// EXPECT-gcc: is protected within this context
// EXPECT-clang: is a protected member of
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

class Spoiled : public ReferenceBackend {
 public:
  explicit Spoiled(Backend& other) : other_(other) {}

 protected:
#ifdef MESHSEAL_BYPASS
  absl::Status Route(const RouteArgs& args) override { return other_.Route(args); }
#else
  absl::Status Route(const RouteArgs& args) override { return ReferenceBackend::Route(args); }
#endif

 private:
  Backend& other_;
};

}  // namespace meshseal::runtime

// Documents taken for checked ones.
// AS: tools/compile/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: calling a private constructor of class
#include <utility>

#include "compiler/check/checked_model.h"

namespace meshseal::compiler {

#ifdef MESHSEAL_BYPASS
CheckedModel Skip(Inputs inputs) { return CheckedModel(std::move(inputs)); }
#else
std::optional<CheckedModel> Ask(Inputs inputs, Diagnostics& diagnostics) {
  return Check(std::move(inputs), diagnostics);
}
#endif

}  // namespace meshseal::compiler

// Documents taken for ones that hold their own rules.
// AS: tools/compile/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: calling a private constructor of class
#include <utility>

#include "compiler/check/checked_model.h"

namespace meshseal::compiler {

#ifdef MESHSEAL_BYPASS
CheckedDocuments Skip(Inputs inputs) { return CheckedDocuments(std::move(inputs)); }
#else
std::optional<CheckedDocuments> Ask(Inputs inputs, Diagnostics& diagnostics) {
  return CheckDocuments(std::move(inputs), diagnostics);
}
#endif

}  // namespace meshseal::compiler

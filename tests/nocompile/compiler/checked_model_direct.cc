// Documents that hold their own rules, taken for ones that hold every rule.
// AS: tools/compile/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: calling a private constructor of class
#include <utility>

#include "compiler/check/checked_model.h"

namespace meshseal::compiler {

#ifdef MESHSEAL_BYPASS
CheckedModel Skip(CheckedDocuments documents) { return CheckedModel(std::move(documents)); }
#else
std::optional<CheckedModel> Ask(CheckedDocuments documents, Diagnostics& diagnostics) {
  return CheckDeployment(std::move(documents), diagnostics);
}
#endif

}  // namespace meshseal::compiler

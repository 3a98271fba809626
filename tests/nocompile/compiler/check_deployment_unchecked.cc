// A deployment checked over a model and a mesh whose own rules nobody ran.
// AS: tools/compile/main.cc
// EXPECT-gcc: could not convert
// EXPECT-clang: no matching function for call to 'CheckDeployment'
#include <utility>

#include "compiler/check/checked_model.h"

namespace meshseal::compiler {

#ifdef MESHSEAL_BYPASS
auto Skip(Inputs inputs, Diagnostics& diagnostics) { return CheckDeployment(std::move(inputs), diagnostics); }
#else
auto Go(CheckedDocuments documents, Diagnostics& diagnostics) {
  return CheckDeployment(std::move(documents), diagnostics);
}
#endif

}  // namespace meshseal::compiler

// Layouts searched for a model and a mesh whose own rules nobody ran.
// AS: tools/compile/main.cc
// EXPECT-gcc: invalid initialization of reference of type 'const meshseal::compiler::CheckedDocuments&'
// EXPECT-clang: no matching function for call to 'FindLayouts'
#include "compiler/driver/layout_search.h"

namespace meshseal::compiler {

#ifdef MESHSEAL_BYPASS
auto Skip(const Inputs& inputs) { return FindLayouts(inputs); }
#else
auto Go(const CheckedDocuments& documents) { return FindLayouts(documents); }
#endif

}  // namespace meshseal::compiler

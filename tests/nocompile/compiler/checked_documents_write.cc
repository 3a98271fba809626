// The model of checked documents, changed afterwards.
// AS: tools/compile/main.cc
// EXPECT-gcc: in read-only object
// EXPECT-clang: cannot assign to return value because function 'model' returns a const value
#include "compiler/check/checked_model.h"

namespace meshseal::compiler {

void Change(CheckedDocuments& documents) {
#ifdef MESHSEAL_BYPASS
  documents.model().layers.value = 1;
#else
  documents.deployment().dp.value = documents.model().layers.value;
#endif
}

}  // namespace meshseal::compiler

// The name of a function of this program or of a library that it loaded, by its address.
#ifndef MESHSEAL_TESTS_SIMT_SYMBOL_NAME_H_
#define MESHSEAL_TESTS_SIMT_SYMBOL_NAME_H_

#include <string>

namespace simt {

// "scale(float*, unsigned int)", from the file's own symbol table, so also for a function that is not exported; the
// address in hex where there is no symbol.
std::string SymbolName(const void* function);

}  // namespace simt

#endif  // MESHSEAL_TESTS_SIMT_SYMBOL_NAME_H_

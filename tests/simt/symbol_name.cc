#include "tests/simt/symbol_name.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace simt {
namespace {

template <class T>
std::vector<T> ReadArray(std::istream& file, uint64_t offset, uint64_t bytes) {
  std::vector<T> values(bytes / sizeof(T));
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
  if (!file) values.clear();
  return values;
}

// The mangled name of the function that begins at `value`, in the symbol table of an ELF file.
std::string MangledName(const char* path, uint64_t value) {
  std::ifstream file(path, std::ios::binary);
  const auto header = ReadArray<ElfW(Ehdr)>(file, 0, sizeof(ElfW(Ehdr)));
  if (header.empty()) return "";
  const auto sections = ReadArray<ElfW(Shdr)>(file, header[0].e_shoff, sizeof(ElfW(Shdr)) * header[0].e_shnum);
  for (const ElfW(Shdr) & section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const ElfW(Shdr)& strings = sections[section.sh_link];
    const std::vector<char> names = ReadArray<char>(file, strings.sh_offset, strings.sh_size);
    for (const ElfW(Sym) & symbol : ReadArray<ElfW(Sym)>(file, section.sh_offset, section.sh_size)) {
      if (symbol.st_value != value || (symbol.st_info & 0xF) != STT_FUNC || symbol.st_name >= names.size()) continue;
      return &names[symbol.st_name];
    }
  }
  return "";
}

}  // namespace

std::string SymbolName(const void* function) {
  Dl_info place{};
  if (::dladdr(function, &place) != 0 && place.dli_fname != nullptr) {
    const auto base = reinterpret_cast<uintptr_t>(place.dli_fbase);
    const auto address = reinterpret_cast<uintptr_t>(function);
    // Of a program that is not position-independent the table holds addresses as they are.
    for (const uint64_t value : {uint64_t{address - base}, uint64_t{address}}) {
      const std::string mangled = MangledName(place.dli_fname, value);
      if (mangled.empty()) continue;
      int status = 0;
      char* readable = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
      std::string name = status == 0 ? readable : mangled;
      std::free(readable);
      return name;
    }
  }
  std::ostringstream text;
  text << "0x" << std::hex << reinterpret_cast<uintptr_t>(function);
  return text.str();
}

}  // namespace simt

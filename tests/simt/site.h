// A place in the source of a kernel.
#ifndef MESHSEAL_TESTS_SIMT_SITE_H_
#define MESHSEAL_TESTS_SIMT_SITE_H_

#include <cstring>

namespace simt {

struct Site {
  const char* file = "";
  int line = 0;
  friend bool operator==(const Site& a, const Site& b) {
    return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
  }
};

}  // namespace simt

#endif  // MESHSEAL_TESTS_SIMT_SITE_H_

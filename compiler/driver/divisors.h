// The divisors of a number, largest first: the degrees that a search tries.
#ifndef MESHSEAL_COMPILER_DRIVER_DIVISORS_H_
#define MESHSEAL_COMPILER_DRIVER_DIVISORS_H_

#include <cstdint>
#include <vector>

namespace meshseal::compiler {

inline std::vector<uint64_t> Divisors(uint64_t number) {
  std::vector<uint64_t> divisors;
  for (uint64_t d = number; d > 0; --d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return divisors;
}

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_DRIVER_DIVISORS_H_

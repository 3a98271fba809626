// What every communicator must keep, whatever carries its messages: checked by each member on its own end, at the same
// time as all the others.
#ifndef MESHSEAL_TESTS_RANKS_LAWS_H_
#define MESHSEAL_TESTS_RANKS_LAWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace meshseal::support {

// Bytes that a communicator must have reserved for the laws.
inline constexpr uint64_t kLawBytes = 1 << 20;

// Collective. Sums of random addends and sizes by algorithms that change from call to call, gathers, exchanges and
// hand-offs drawn from `seed`; then calls that do not fit together. Returns what was broken, in this member's words;
// empty: nothing.
std::vector<std::string> BrokenLaws(runtime::Communicator& c, uint64_t seed);

}  // namespace meshseal::support

#endif  // MESHSEAL_TESTS_RANKS_LAWS_H_

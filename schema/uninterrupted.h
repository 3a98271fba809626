// System calls that a signal may break off.
#ifndef MESHSEAL_SCHEMA_UNINTERRUPTED_H_
#define MESHSEAL_SCHEMA_UNINTERRUPTED_H_

#include <cerrno>

namespace meshseal {

// The result of `call`, made again as long as a signal breaks it off. Not for close(), which frees the descriptor
// even then.
template <class Call>
auto Uninterrupted(Call call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_UNINTERRUPTED_H_

// The border of a library: where it cannot have memory, its caller gets a status.
#ifndef MESHSEAL_SCHEMA_WITHIN_MEMORY_H_
#define MESHSEAL_SCHEMA_WITHIN_MEMORY_H_

#include <new>
#include <stdexcept>

#include "schema/reason.h"

namespace meshseal {

// What `work` returns, an absl::Status or StatusOr; OutOfMemory() when it runs out of memory. Containers throw
// length_error instead of asking for more than there can be.
template <class Work>
auto WithinMemory(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::length_error&) {
    return OutOfMemory();
  }
}

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_WITHIN_MEMORY_H_

// Early return on a failed absl::Status. Abseil 20220623 ships none.
#ifndef MESHSEAL_SCHEMA_STATUS_MACROS_H_
#define MESHSEAL_SCHEMA_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define MESHSEAL_STATUS_JOIN_INNER(a, b) a##b
#define MESHSEAL_STATUS_JOIN(a, b) MESHSEAL_STATUS_JOIN_INNER(a, b)

// Returns from the enclosing function when `expr` (an absl::Status) is not OK.
#define MESHSEAL_RETURN_IF_ERROR(expr)                                  \
  do {                                                                  \
    if (absl::Status meshseal_status = (expr); !meshseal_status.ok()) { \
      return meshseal_status;                                           \
    }                                                                   \
  } while (false)

// Assigns the value of `expr` (an absl::StatusOr<T>) to `lhs`, or returns its status.
#define MESHSEAL_ASSIGN_OR_RETURN(lhs, expr) \
  MESHSEAL_ASSIGN_OR_RETURN_INNER(MESHSEAL_STATUS_JOIN(meshseal_or_, __LINE__), lhs, expr)
#define MESHSEAL_ASSIGN_OR_RETURN_INNER(temporary, lhs, expr) \
  auto temporary = (expr);                                    \
  if (!temporary.ok()) {                                      \
    return std::move(temporary).status();                     \
  }                                                           \
  lhs = std::move(temporary).value()

#endif  // MESHSEAL_SCHEMA_STATUS_MACROS_H_

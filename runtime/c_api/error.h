// How a call of the C interface ends: no exception leaves it, and a refusal becomes a meshseal_error.
#ifndef MESHSEAL_RUNTIME_C_API_ERROR_H_
#define MESHSEAL_RUNTIME_C_API_ERROR_H_

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/include/meshseal/meshseal.h"
#include "schema/reason.h"

namespace meshseal::runtime::c_api {

// What the caller gets for `status`: NULL when it is OK.
meshseal_error* HandOut(const absl::Status& status);

// What was handed out: its reason and text.
absl::Status StatusOf(const meshseal_error& error);

// The same for memory that cannot be had; made without memory.
meshseal_error* HandOutNoMemory() noexcept;

// Runs the body of a call, which returns an absl::Status.
template <class Body>
meshseal_error* Call(Body body) noexcept {
  try {
    try {
      return HandOut(body());
    } catch (const std::bad_alloc&) {
    } catch (const std::length_error&) {
    } catch (const std::exception& exception) {
      return HandOut(Refuse(Reason::kBug, exception.what()));
    }
  } catch (...) {  // of the handing out itself
  }
  return HandOutNoMemory();
}

// Reason kUsage, with the argument's name, for one that is not as the header says.
absl::Status CheckGiven(const void* argument, absl::string_view name);
absl::Status CheckFlag(int32_t value, absl::string_view name);
absl::Status CheckWait(uint32_t milliseconds, absl::string_view name);
absl::Status CheckStructSize(size_t found, size_t expected, absl::string_view name);

}  // namespace meshseal::runtime::c_api

#endif  // MESHSEAL_RUNTIME_C_API_ERROR_H_

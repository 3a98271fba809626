// Opens plans for any number of hosts that nobody signed.
#ifndef MESHSEAL_TESTS_SUPPORT_OPEN_UNSIGNED_H_
#define MESHSEAL_TESTS_SUPPORT_OPEN_UNSIGNED_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/sealed_plan.h"

namespace meshseal::support {

inline absl::StatusOr<SealedPlan> OpenUnsigned(absl::string_view file) {
  Policy policy;
  policy.allow_unsigned_hosts = true;
  return SealedPlan::Open(file, policy);
}

}  // namespace meshseal::support

#endif  // MESHSEAL_TESTS_SUPPORT_OPEN_UNSIGNED_H_

#include "absl/strings/str_cat.h"
#include "runtime/backend/backend.h"
#include "runtime/reference/reference_backend.h"
#include "schema/reason.h"

namespace meshseal::runtime {

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view name) {
  if (name == ReferenceBackend::kName) return std::make_unique<ReferenceBackend>();
  return Refuse(Reason::kNotBuilt,
                absl::StrCat("backend '", name, "' is not built, this version has '", ReferenceBackend::kName, "'"));
}

}  // namespace meshseal::runtime

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/backend/backend.h"
#include "runtime/reference/reference_backend.h"
#include "schema/reason.h"

namespace meshseal::runtime {

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view name) {
  if (name == ReferenceBackend::kName) return std::make_unique<ReferenceBackend>();
  return Refuse(Reason::kNotBuilt,
                absl::StrCat("backend '", name, "' is not built, this version has '", ReferenceBackend::kName, "'"));
}

absl::Status CheckNumerics(absl::string_view backend, absl::Span<const Numerics> satisfied, Numerics contract) {
  std::vector<const char*> words;
  for (const Numerics one : satisfied) {
    if (one == contract) return absl::OkStatus();
    words.push_back(WordOf(one));
  }
  return Refuse(Reason::kNotBuilt, absl::StrCat("the plan's numerics are ", WordOf(contract), ", backend '", backend,
                                                "' has ", absl::StrJoin(words, ", ")));
}

}  // namespace meshseal::runtime

#include "schema/sealed_file.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal {

absl::Status AtGate(Gate gate, const absl::Status& refusal) {
  if (refusal.ok() || ReasonOf(refusal) == Reason::kOutOfMemory) return refusal;
  return Refuse(*ReasonOf(refusal),
                absl::StrCat("refused at gate '", std::string(GateName(gate)), "': ", std::string(refusal.message())));
}

absl::Status CheckEnvelope(absl::string_view file, PayloadType type) {
  MESHSEAL_RETURN_IF_ERROR(AtGate(Gate::kMark, CheckMark(file)));
  MESHSEAL_RETURN_IF_ERROR(AtGate(Gate::kFormat, CheckFormat(file, type)));
  MESHSEAL_RETURN_IF_ERROR(AtGate(Gate::kSize, CheckSize(file)));
  return AtGate(Gate::kDigest, CheckDigest(file));
}

}  // namespace meshseal

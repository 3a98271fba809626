// Reason codes: every "no" of the run time is an absl::Status that carries one row of reasons.def.
// The status code says what the caller should do, the reason says exactly what happened, the text is for people.
#ifndef MESHSEAL_SCHEMA_REASON_H_
#define MESHSEAL_SCHEMA_REASON_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace meshseal {

enum class Reason : uint8_t {
#define MESHSEAL_REASON(enumerator, slug, exit_code, meaning) enumerator,
#include "schema/reasons.def"
#undef MESHSEAL_REASON
};

struct ReasonRow {
  Reason reason;
  const char* slug;
  int exit_code;
  const char* meaning;
};

// The row of `reason` in reasons.def.
const ReasonRow& RowOf(Reason reason);

// A status that carries `reason`; `text` says where, what was found and what was expected.
absl::Status Refuse(Reason reason, absl::string_view text);

// kOutOfMemory, made without taking memory, hence without text.
inline absl::Status OutOfMemory() { return absl::Status(absl::StatusCode::kResourceExhausted, ""); }

// The reason a status carries; nothing for a status that was made by neither of these. Takes no memory.
std::optional<Reason> ReasonOf(const absl::Status& status);

// The exit code a tool ends with: 0 for OK, the reason's code, 70 for a status without a reason.
int ExitCodeOf(const absl::Status& status);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_REASON_H_

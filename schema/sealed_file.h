// What the gates of every sealed file have in common. Internal to schema/.
#ifndef MESHSEAL_SCHEMA_SEALED_FILE_H_
#define MESHSEAL_SCHEMA_SEALED_FILE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schema/gate.h"
#include "schema/seal.h"

namespace meshseal {

// The refusal of `gate`, its text led by the gate's name. The lack of memory is no refusal of the file.
absl::Status AtGate(Gate gate, const absl::Status& refusal);

// The gates mark, format, size and digest over the whole `file`.
absl::Status CheckEnvelope(absl::string_view file, PayloadType type);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SEALED_FILE_H_

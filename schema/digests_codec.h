// WeightDigests <-> FlatBuffer payload. Internal to schema/: others seal or open (sealed_digests.h).
#ifndef MESHSEAL_SCHEMA_DIGESTS_CODEC_H_
#define MESHSEAL_SCHEMA_DIGESTS_CODEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/weight_digests.h"

namespace meshseal {

// The one writer: equal lists give equal bytes, with any compiler, option and locale.
std::string EncodeDigests(const WeightDigests& digests);

// The structure gate of a digest list, as DecodePlan is of a plan: the FlatBuffers verifier with stated limits, the
// format version, alignment, and that EncodeDigests of the content gives the very same bytes. `payload` must be aligned
// to 8 bytes.
absl::StatusOr<WeightDigests> DecodeDigests(absl::string_view payload);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_DIGESTS_CODEC_H_

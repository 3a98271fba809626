// Plan <-> FlatBuffer payload. Internal to schema/: others seal (seal_plan.h) or open (sealed_plan.h).
#ifndef MESHSEAL_SCHEMA_PLAN_CODEC_H_
#define MESHSEAL_SCHEMA_PLAN_CODEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/plan.h"
#include "schema/sha256.h"

namespace meshseal {

// The one writer: equal plans give equal bytes, with any compiler, option and locale.
std::string EncodePlan(const Plan& plan);

// The same without what decides no computation: names, documents and their lines, mesh, memory, weights that are not
// MoE, prices, and the fingerprint that is made of it.
std::string EncodeExecution(const Plan& plan);

// The structure gate: the FlatBuffers verifier with stated limits, the format version and schema fingerprint, the
// alignment of 8-byte vectors (which the verifier leaves out), and that EncodePlan of the content gives the very same
// bytes. So there is no unknown field, no slack, no aliased table and no second encoding of a plan.
// Enumerations come out as stored; the meaning gate checks them. `payload` must be aligned to 8 bytes.
absl::StatusOr<Plan> DecodePlan(absl::string_view payload);

// SHA-256 of schema/plan.fbs without its comments and blanks.
const Sha256Digest& SchemaFingerprint();

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_PLAN_CODEC_H_

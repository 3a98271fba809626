#include "schema/fingerprint.h"

#include "schema/plan_codec.h"

namespace meshseal {

Sha256Digest ExecutionFingerprint(const Plan& plan) { return Sha256(EncodeExecution(plan)); }

}  // namespace meshseal

// The execution fingerprint: SHA-256 over everything that decides what a rank computes.
#ifndef MESHSEAL_SCHEMA_FINGERPRINT_H_
#define MESHSEAL_SCHEMA_FINGERPRINT_H_

#include "schema/plan.h"
#include "schema/sha256.h"

namespace meshseal {

// The digest of the canonical encoding of `plan` without names of documents and machines, origins, memory figures and
// the fingerprint itself: shapes, router, dtypes, bases, limits, ownership, cuts, programs, reduction, numerics remain.
Sha256Digest ExecutionFingerprint(const Plan& plan);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_FINGERPRINT_H_

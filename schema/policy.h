// What the operator of a machine asks of a plan, beyond that it is sealed and coherent. It is never a field of the
// plan.
#ifndef MESHSEAL_SCHEMA_POLICY_H_
#define MESHSEAL_SCHEMA_POLICY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/minisign_key.h"
#include "schema/seal.h"
#include "schema/sha256.h"

namespace meshseal {

// A key that may sign plans, by the name of its file without ".pub".
struct TrustedKey {
  std::string name;
  PublicKey key;
};

// The lowest serial that is accepted of one stream.
struct StreamSerial {
  StreamId stream{};
  uint64_t min_serial = 0;
};

// What a keyring folder holds (keyring.h).
struct Keyring {
  std::vector<TrustedKey> keys;  // by name, at least one; no key id twice
  std::vector<StreamSerial> min_serials;
  std::vector<Sha256Digest> revoked_plans;
};

// The default is what a machine of its own needs: anything sealed, as long as it stays on one host.
struct Policy {
  // Only this plan.
  std::optional<Sha256Digest> pinned_id;
  // The lowest serial that is accepted of any stream.
  uint64_t min_serial = 0;
  // A policy with a keyring requires a signature by one of its keys.
  std::optional<Keyring> keyring;
  // Requires a signature even where no keyring is configured, and so refuses everything there.
  bool require_signature = false;
  // Takes a plan for several hosts although neither a signature nor a pinned id says who made it.
  bool allow_unsigned_hosts = false;
};

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_POLICY_H_

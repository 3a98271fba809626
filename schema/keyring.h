// The keyring: a folder of the operator's that says which keys may sign plans.
//
//   NAME.pub        a public key as minisign writes it, for each trusted key; at least one
//   min-serials     optional: lines "12 DEPLOYMENT", the lowest serial that is accepted of that deployment's plans
//   revoked-plans   optional: one plan id (64 hexadecimal digits) a line; these are refused whoever signed them
//
// In the two lists, empty lines and lines that begin with '#' say nothing. Any other file is refused: a misspelled name
// must not pass for a rule that is not there.
#ifndef MESHSEAL_SCHEMA_KEYRING_H_
#define MESHSEAL_SCHEMA_KEYRING_H_

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/policy.h"

namespace meshseal {

// A file of the folder.
struct KeyringFile {
  std::string name;  // without folder
  std::string text;
};

inline constexpr size_t kMaxKeyringFiles = 1000;
inline constexpr size_t kMaxKeyringList = 1 << 20;  // bytes of min-serials and of revoked-plans

// The keyring of these files, sorted by name. Reason: kKeyring.
absl::StatusOr<Keyring> ParseKeyring(const std::vector<KeyringFile>& files);

// The keyring in `folder`; a folder that is not there, or that cannot be read, is refused. Reason: kKeyring.
absl::StatusOr<Keyring> ReadKeyring(const std::filesystem::path& folder);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_KEYRING_H_

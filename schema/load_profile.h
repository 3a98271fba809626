// A load profile: how many slots a measured run gave to each expert. One strict JSON document:
//   {"version": 1, "plan": "64 hex digits", "tokens": N, "layers": {"3": [count per expert], ...}}
// Refused: other, missing and duplicate keys, layers named twice, anything but whole numbers in their range.
#ifndef MESHSEAL_SCHEMA_LOAD_PROFILE_H_
#define MESHSEAL_SCHEMA_LOAD_PROFILE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/plan.h"
#include "schema/sha256.h"

namespace meshseal {

inline constexpr uint64_t kLoadProfileMaxBytes = uint64_t{256} << 20;
inline constexpr uint64_t kLoadProfileMaxLayers = 65536;
inline constexpr uint64_t kLoadProfileMaxExperts = uint64_t{1} << 20;  // of a layer
// The largest count and the most tokens: the counts of a layer fit 63 bits.
inline constexpr uint64_t kLoadProfileMaxCount = uint64_t{1} << 42;

struct LoadProfile {
  Sha256Digest plan{};                              // id of the plan that ran
  uint64_t tokens = 0;                              // that each layer saw, at least 1
  std::map<uint32_t, std::vector<uint64_t>> slots;  // by layer, then expert
  friend bool operator==(const LoadProfile&, const LoadProfile&) = default;
};

// `text` is the whole document; `file` names it in messages. Reason: kLoadProfile.
absl::StatusOr<LoadProfile> ParseLoadProfile(absl::string_view file, absl::string_view text);

// The document of a profile within the limits above: one line a layer, equal for equal profiles.
std::string LoadProfileText(const LoadProfile& profile);

// A profile and the file it was read from.
struct LoadProfileFile {
  LoadProfile profile;
  SourceDocument document;
};

// Reason: kLoadProfile, also for a file that cannot be opened or is no regular file.
absl::StatusOr<LoadProfileFile> ReadLoadProfile(const std::filesystem::path& path);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_LOAD_PROFILE_H_

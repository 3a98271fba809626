// Strict reader of a sharded safetensors checkpoint's index: {"metadata": {...}, "weight_map": {"TENSOR": "FILE"}}.
// Refused: duplicate keys at every level, keys beside those two, a file that is not a name inside the index's own
// folder. `metadata` is not interpreted: writers disagree on total_size.
#ifndef MESHSEAL_SCHEMA_SAFETENSORS_INDEX_H_
#define MESHSEAL_SCHEMA_SAFETENSORS_INDEX_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace meshseal {

inline constexpr absl::string_view kSafetensorsIndexName = "model.safetensors.index.json";
inline constexpr uint64_t kSafetensorsMaxIndexBytes = 100'000'000;
inline constexpr uint64_t kMaxShards = 4096;

struct SafetensorsIndex {
  struct Entry {
    std::string name;
    uint32_t file = 0;  // of `files`
  };
  std::vector<std::string> files;  // sorted, unique; single path components
  std::vector<Entry> entries;      // sorted by name, unique, at least one
};

// `json` is the whole index; `file` names it in messages. Reason: kWeightsHeader.
absl::StatusOr<SafetensorsIndex> ParseSafetensorsIndex(absl::string_view file, absl::string_view json);

// Reads no shard. Reasons: also those of RegularFile.
absl::StatusOr<SafetensorsIndex> ReadSafetensorsIndex(const std::filesystem::path& path);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SAFETENSORS_INDEX_H_

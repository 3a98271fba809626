// Strict reader of GGUF files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), versions 2 and 3,
// little-endian. A file is [mark, version, counts][keys and values][tensor infos][padding][data]. Everything the format
// leaves open is refused: duplicate keys or names, holes, overlaps, another order of the data than that of the infos,
// trailing bytes. Only the last tensor's padding may be missing; what padding holds is not looked at. Values are inert:
// nothing here interprets them but general.alignment.
// Offsets and sizes are in bytes. Refusals carry a Reason (weights.*) and a text "FILE: key 'NAME': found, expected" or
// "FILE: tensor 'NAME': found, expected".
#ifndef MESHSEAL_SCHEMA_GGUF_H_
#define MESHSEAL_SCHEMA_GGUF_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/regular_file.h"
#include "schema/tensor_entry.h"

namespace meshseal {

// Limits. Those of keys, names and rank and the smallest alignment are the format's own, the others are ours.
inline constexpr uint64_t kGgufMaxHeaderBytes = uint64_t{1} << 28;  // read in about a second
inline constexpr uint64_t kGgufMaxKeys = 65'536;
inline constexpr uint64_t kGgufMaxTensors = 500'000;  // read in about a second
inline constexpr uint64_t kGgufMaxKeyBytes = 65'535;
inline constexpr uint64_t kGgufMaxNameBytes = 64;
inline constexpr uint64_t kGgufMaxTextBytes = uint64_t{1} << 26;
inline constexpr uint64_t kGgufMaxArrayEntries = uint64_t{1} << 30;
inline constexpr uint64_t kGgufMaxRank = 4;
inline constexpr uint64_t kGgufMaxExtent = (uint64_t{1} << 48) - 1;
inline constexpr uint64_t kGgufMinAlignment = 8;
inline constexpr uint64_t kGgufMaxAlignment = 65'536;
// What is kept of the values; the rest is checked and skipped.
inline constexpr uint64_t kGgufKeptTextBytes = 65'536;
inline constexpr uint64_t kGgufKeptArrayEntries = 65'536;
inline constexpr uint64_t kGgufMaxKeptBytes = 16'777'216;  // all keys and values together; more is refused

// The keys and values of one file. A key that is absent is nothing; a value of another type, or one that was not kept,
// is a refusal (kWeightsHeader) that names file, key, found and expected.
class GgufMetadata {
 public:
  bool Has(absl::string_view key) const;
  // "u32", "text", "array of i32"; "" for an absent key.
  std::string TypeOf(absl::string_view key) const;

  absl::StatusOr<std::optional<std::string>> Text(absl::string_view key) const;
  // Any integer type; a negative value is refused.
  absl::StatusOr<std::optional<uint64_t>> Unsigned(absl::string_view key) const;
  // f32 or f64.
  absl::StatusOr<std::optional<double>> Number(absl::string_view key) const;
  absl::StatusOr<std::optional<bool>> Bool(absl::string_view key) const;
  // An array of any integer type; a negative entry is refused. Arrays of text and of bool are never kept.
  absl::StatusOr<std::optional<std::vector<uint64_t>>> Unsigneds(absl::string_view key) const;
  // An array of f32 or f64.
  absl::StatusOr<std::optional<std::vector<double>>> Numbers(absl::string_view key) const;

  // All keys, sorted.
  std::vector<std::string> Keys() const;

 private:
  friend class GgufHeaderReader;

  struct Skipped {
    uint64_t size;  // bytes of a text, entries of an array
  };
  struct Value {
    uint32_t type = 0;          // as the file says
    uint32_t element_type = 0;  // of an array
    // Signed integers have the int64_t forms, unsigned ones the uint64_t forms.
    std::variant<Skipped, bool, uint64_t, int64_t, double, std::string, std::vector<uint64_t>, std::vector<int64_t>,
                 std::vector<double>>
        content;
  };

  // Null when absent.
  const Value* Find(absl::string_view key) const;
  absl::Status RefuseValue(absl::string_view key, absl::string_view found, absl::string_view expected) const;
  absl::Status RefuseType(absl::string_view key, const Value& value, absl::string_view expected) const;
  static std::string TypeText(const Value& value);

  std::string file_;  // for messages
  std::map<std::string, Value, std::less<>> values_;
};

struct GgufHeader {
  uint32_t version = 0;
  uint64_t alignment = 0;
  GgufMetadata metadata;
  std::vector<TensorEntry> entries;  // sorted by name
};

// Checks the header of a file of `file_size` bytes. `read` fills a span from an offset; it is asked for bytes inside
// the file only, in their order, for none twice, and for at most 128 KiB at once. `file` names the file in messages.
// Takes memory in proportion to what is kept. Reasons: kWeightsHeader, kWeightsTruncated, kWeightsTensor, and those of
// `read`.
absl::StatusOr<GgufHeader> ParseGgufHeader(absl::string_view file,
                                           absl::FunctionRef<absl::Status(uint64_t, absl::Span<std::byte>)> read,
                                           uint64_t file_size);

// An open file with a checked header. Const members may be called from several threads at once.
class GgufFile {
 public:
  // Opens as RegularFile::Open does.
  static absl::StatusOr<GgufFile> Open(const std::filesystem::path& path);

  uint32_t version() const { return header_.version; }
  uint64_t alignment() const { return header_.alignment; }
  const GgufMetadata& metadata() const { return header_.metadata; }

  // Sorted by name.
  absl::Span<const TensorEntry> entries() const { return header_.entries; }

  // The entry of that name; a refusal that names the nearest one otherwise. Lives as long as this object, moved or not.
  absl::StatusOr<const TensorEntry*> Find(absl::string_view name) const;

  // Fills `out` from `offset` of the file. A file that has become shorter since Open is refused.
  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const { return file_.Read(offset, out); }

  // The file alone; nothing of this object may be used afterwards but its entries.
  RegularFile file() && { return std::move(file_); }

 private:
  GgufFile(RegularFile file, GgufHeader header) : file_(std::move(file)), header_(std::move(header)) {}

  RegularFile file_;
  GgufHeader header_;
};

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_GGUF_H_

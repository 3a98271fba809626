// A checkpoint's own JSON, read strictly: one object, no duplicate keys, every field of its kind and in its range, or a
// refusal (Reason::kImport) that names file, field, found and expected.
#ifndef MESHSEAL_COMPILER_IMPORT_CONFIG_FIELDS_H_
#define MESHSEAL_COMPILER_IMPORT_CONFIG_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace meshseal::compiler {

inline constexpr size_t kMaxConfigDepth = 32;

// One map of the document. Copies are cheap and share the document. A field that is null counts as absent.
class ConfigFields {
 public:
  // `text` is the whole file, at most kMaxSourceBytes; `file` names it in messages.
  static absl::StatusOr<ConfigFields> Parse(std::string file, absl::string_view text);

  const std::string& file() const { return *file_; }

  bool Has(absl::string_view key) const;
  // The keys, sorted.
  std::vector<std::string> Keys() const;

  // Required fields. `meaning` says what for in the message about an absent one: "the number of experts".
  absl::StatusOr<uint64_t> Unsigned(absl::string_view key, uint64_t least, uint64_t most,
                                    absl::string_view meaning) const;
  absl::StatusOr<double> Number(absl::string_view key, absl::string_view meaning) const;
  absl::StatusOr<bool> Flag(absl::string_view key, absl::string_view meaning) const;
  absl::StatusOr<std::string> Text(absl::string_view key, absl::string_view meaning) const;
  absl::StatusOr<std::vector<std::string>> Texts(absl::string_view key, absl::string_view meaning) const;
  absl::StatusOr<std::vector<uint64_t>> Unsigneds(absl::string_view key, uint64_t most,
                                                  absl::string_view meaning) const;
  absl::StatusOr<ConfigFields> Map(absl::string_view key, absl::string_view meaning) const;

  // "FILE: PATH.KEY: TEXT", of this map.
  absl::Status Refuse(absl::string_view key, absl::string_view text) const;
  // The value as JSON, cut when it is long: "absent" for an absent one.
  std::string Found(absl::string_view key) const;

 private:
  using Json = nlohmann::json;

  ConfigFields(std::shared_ptr<const std::string> file, std::shared_ptr<const Json> document, const Json* map,
               std::string path)
      : file_(std::move(file)), document_(std::move(document)), map_(map), path_(std::move(path)) {}

  // Null when absent.
  const Json* Find(absl::string_view key) const;
  absl::StatusOr<const Json*> Require(absl::string_view key, absl::string_view meaning) const;
  absl::Status RefuseFound(absl::string_view key, absl::string_view expected) const;

  std::shared_ptr<const std::string> file_;
  std::shared_ptr<const Json> document_;
  const Json* map_;
  std::string path_;  // "" or "text_config."
};

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_IMPORT_CONFIG_FIELDS_H_

#include "compiler/yaml/fields.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/text/utf8.h"
#include "compiler/yaml/scalar.h"
#include "schema/nearest.h"

namespace meshseal::compiler {
namespace {

const YamlNode* Find(const YamlNode& node, absl::string_view key) {
  if (node.map() == nullptr) return nullptr;
  for (const YamlEntry& entry : *node.map()) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

bool Contains(const std::vector<absl::string_view>& words, absl::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

FieldReader::FieldReader(const YamlNode& node, absl::string_view name, Diagnostics& diagnostics)
    : node_(node), name_(name), diagnostics_(diagnostics) {
  if (node_.map() == nullptr) {
    diagnostics_.Error("wrong-kind", node_.span(), absl::StrCat(name_, ": expected a map, found ", Describe(node_)));
  }
}

const YamlNode* FieldReader::Required(absl::string_view key) {
  const YamlNode* value = Optional(key);
  if (value == nullptr && node_.map() != nullptr) {
    diagnostics_.Error("missing-field", node_.span(), absl::StrCat(name_, ": required key '", key, "' is missing"));
  }
  return value;
}

const YamlNode* FieldReader::Optional(absl::string_view key) {
  if (!Contains(known_, key)) known_.push_back(key);
  return Find(node_, key);
}

void FieldReader::Finish() {
  if (node_.map() == nullptr) return;
  // A key that is there already is no remedy: it would be a duplicate.
  std::vector<absl::string_view> absent;
  for (const absl::string_view key : known_) {
    if (Find(node_, key) == nullptr) absent.push_back(key);
  }
  for (const YamlEntry& entry : *node_.map()) {
    if (Contains(known_, entry.key)) continue;
    Diagnostic& error = diagnostics_.Error("unknown-key", entry.key_span,
                                           absl::StrCat("unknown key ", Quoted(entry.key), " in ", name_));
    if (const std::optional<absl::string_view> nearest = Nearest(entry.key, absent)) {
      absl::StrAppend(&error.help, "did you mean '", *nearest, "'? ");
    }
    absl::StrAppend(&error.help, "known keys: ", absl::StrJoin(known_, ", "));
  }
}

}  // namespace meshseal::compiler

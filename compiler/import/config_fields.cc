#include "compiler/import/config_fields.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/text/utf8.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::compiler {
namespace {

constexpr size_t kShownBytes = 60;

// How deep brackets lie inside each other; the parser has no limit of its own.
size_t DepthOf(absl::string_view text) {
  size_t depth = 0;
  size_t deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

absl::StatusOr<ConfigFields> ConfigFields::Parse(std::string file, absl::string_view text) {
  const auto refuse = [&](absl::string_view what) {
    return meshseal::Refuse(Reason::kImport, absl::StrCat(file, ": ", what));
  };
  if (text.find('\0') != absl::string_view::npos) return refuse("is not JSON: it contains a NUL byte");
  if (DepthOf(text) > kMaxConfigDepth) {
    return refuse(absl::StrCat("maps and lists lie more than ", kMaxConfigDepth, " deep"));
  }
  std::vector<std::set<std::string>> keys;  // of the open maps
  std::string duplicate;
  const auto note_keys = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const std::string key = parsed.get<std::string>();
      if (!keys.back().insert(key).second && duplicate.empty()) duplicate = key;
    }
    return true;
  };
  auto document = std::make_shared<Json>();
  try {
    *document = Json::parse(text.begin(), text.end(), note_keys);
  } catch (const Json::parse_error& error) {
    return refuse(absl::StrCat("is not JSON near byte ", error.byte));
  } catch (const Json::exception&) {
    return refuse("is not JSON: a number is out of range");
  }
  if (!duplicate.empty()) return refuse(absl::StrCat("the key ", QuotedName(duplicate), " stands twice in one map"));
  if (!document->is_object()) return refuse("is no JSON object");
  const Json* root = document.get();
  return ConfigFields(std::make_shared<const std::string>(std::move(file)), std::move(document), root, "");
}

const ConfigFields::Json* ConfigFields::Find(absl::string_view key) const {
  const auto found = map_->find(std::string(key));
  return found == map_->end() || found->is_null() ? nullptr : &*found;
}

bool ConfigFields::Has(absl::string_view key) const { return Find(key) != nullptr; }

std::vector<std::string> ConfigFields::Keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map_->items()) keys.push_back(key);
  return keys;
}

absl::Status ConfigFields::Refuse(absl::string_view key, absl::string_view text) const {
  return meshseal::Refuse(Reason::kImport, absl::StrCat(*file_, ": ", path_, key, ": ", text));
}

std::string ConfigFields::Found(absl::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return "absent";
  const std::string text = value->dump(-1, ' ', true, Json::error_handler_t::replace);
  const absl::string_view shown = ShortenUtf8(text, kShownBytes);
  return absl::StrCat(shown, shown.size() < text.size() ? "..." : "");
}

absl::Status ConfigFields::RefuseFound(absl::string_view key, absl::string_view expected) const {
  return Refuse(key, absl::StrCat("found ", Found(key), ", expected ", expected));
}

absl::StatusOr<const ConfigFields::Json*> ConfigFields::Require(absl::string_view key,
                                                                absl::string_view meaning) const {
  const Json* value = Find(key);
  if (value == nullptr) return Refuse(key, absl::StrCat("absent; it is needed as ", meaning));
  return value;
}

absl::StatusOr<uint64_t> ConfigFields::Unsigned(absl::string_view key, uint64_t least, uint64_t most,
                                                absl::string_view meaning) const {
  MESHSEAL_ASSIGN_OR_RETURN(const Json* value, Require(key, meaning));
  if (!value->is_number_unsigned() || value->get<uint64_t>() < least || value->get<uint64_t>() > most) {
    return RefuseFound(key, absl::StrCat("a whole number from ", least, " to ", most));
  }
  return value->get<uint64_t>();
}

absl::StatusOr<double> ConfigFields::Number(absl::string_view key, absl::string_view meaning) const {
  MESHSEAL_ASSIGN_OR_RETURN(const Json* value, Require(key, meaning));
  if (!value->is_number() || !std::isfinite(value->get<double>())) return RefuseFound(key, "a finite number");
  return value->get<double>();
}

absl::StatusOr<bool> ConfigFields::Flag(absl::string_view key, absl::string_view meaning) const {
  MESHSEAL_ASSIGN_OR_RETURN(const Json* value, Require(key, meaning));
  if (!value->is_boolean()) return RefuseFound(key, "true or false");
  return value->get<bool>();
}

absl::StatusOr<std::string> ConfigFields::Text(absl::string_view key, absl::string_view meaning) const {
  MESHSEAL_ASSIGN_OR_RETURN(const Json* value, Require(key, meaning));
  if (!value->is_string()) return RefuseFound(key, "a text");
  return value->get<std::string>();
}

absl::StatusOr<std::vector<std::string>> ConfigFields::Texts(absl::string_view key, absl::string_view meaning) const {
  MESHSEAL_ASSIGN_OR_RETURN(const Json* value, Require(key, meaning));
  if (!value->is_array()) return RefuseFound(key, "a list of texts");
  std::vector<std::string> texts;
  for (const Json& item : *value) {
    if (!item.is_string()) return RefuseFound(key, "a list of texts");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

absl::StatusOr<std::vector<uint64_t>> ConfigFields::Unsigneds(absl::string_view key, uint64_t most,
                                                              absl::string_view meaning) const {
  MESHSEAL_ASSIGN_OR_RETURN(const Json* value, Require(key, meaning));
  const std::string expected = absl::StrCat("a list of whole numbers from 0 to ", most);
  if (!value->is_array()) return RefuseFound(key, expected);
  std::vector<uint64_t> numbers;
  for (const Json& item : *value) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > most) return RefuseFound(key, expected);
    numbers.push_back(item.get<uint64_t>());
  }
  return numbers;
}

absl::StatusOr<ConfigFields> ConfigFields::Map(absl::string_view key, absl::string_view meaning) const {
  MESHSEAL_ASSIGN_OR_RETURN(const Json* value, Require(key, meaning));
  if (!value->is_object()) return RefuseFound(key, "a map");
  return ConfigFields(file_, document_, value, absl::StrCat(path_, key, "."));
}

}  // namespace meshseal::compiler

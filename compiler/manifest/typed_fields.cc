#include "compiler/manifest/typed_fields.h"

#include <algorithm>
#include <utility>

#include "compiler/text/utf8.h"
#include "compiler/yaml/scalar.h"
#include "schema/nearest.h"
#include "schema/utf8.h"

namespace meshseal::compiler {
namespace {

template <class T>
Spanned<T> At(const YamlNode& node, std::optional<T> value) {
  return {std::move(value).value_or(T{}), node.span()};
}

}  // namespace

void CheckText(const Spanned<std::string>& text, absl::string_view name, Diagnostics& diagnostics) {
  if (text.value.empty()) {
    diagnostics.Error("wrong-kind", text.span, absl::StrCat(name, ": expected text that is not empty"));
  } else if (HasControlCharacter(text.value)) {
    diagnostics.Error("wrong-kind", text.span, absl::StrCat(name, ": expected text without control characters"));
  } else if (text.value.size() > kMostTextBytes) {
    diagnostics.Error("out-of-range", text.span,
                      absl::StrCat(name, ": ", text.value.size(), " bytes, expected at most ", kMostTextBytes));
  }
}

TypedFields::TypedFields(const YamlNode& map, std::string name, Diagnostics& diagnostics)
    : name_(std::move(name)),
      map_(&map),
      diagnostics_(&diagnostics),
      fields_(map, name_.empty() ? "document" : name_, diagnostics) {}

const YamlNode* TypedFields::Node(absl::string_view key) { return fields_.Required(key); }

const YamlNode* TypedFields::OptionalNode(absl::string_view key) { return fields_.Optional(key); }

Spanned<uint64_t> TypedFields::Unsigned(absl::string_view key, uint64_t min, uint64_t max) {
  const YamlNode* node = Node(key);
  if (node == nullptr) return {};
  return At(*node, ReadUnsigned(*node, NameOf(key), {min, max}, *diagnostics_));
}

Spanned<double> TypedFields::Number(absl::string_view key) {
  const YamlNode* node = Node(key);
  if (node == nullptr) return {};
  return At(*node, ReadFloat(*node, NameOf(key), *diagnostics_));
}

Spanned<std::string> TypedFields::TextOf(const YamlNode& node, absl::string_view key) {
  Spanned<std::string> text = At(node, ReadText(node, NameOf(key), *diagnostics_));
  if (node.scalar() != nullptr) CheckText(text, NameOf(key), *diagnostics_);
  return text;
}

Spanned<std::string> TypedFields::Text(absl::string_view key) {
  const YamlNode* node = Node(key);
  if (node == nullptr) return {};
  return TextOf(*node, key);
}

Spanned<uint64_t> TypedFields::Bytes(absl::string_view key) {
  const YamlNode* node = Node(key);
  if (node == nullptr) return {};
  return At(*node, ReadBytes(*node, NameOf(key), *diagnostics_));
}

Spanned<uint64_t> TypedFields::BytesPerSecond(absl::string_view key) {
  const YamlNode* node = Node(key);
  if (node == nullptr) return {};
  return At(*node, ReadRate(*node, NameOf(key), Rate::kBytesPerSecond, *diagnostics_));
}

Spanned<uint64_t> TypedFields::FlopPerSecond(absl::string_view key) {
  const YamlNode* node = Node(key);
  if (node == nullptr) return {};
  return At(*node, ReadRate(*node, NameOf(key), Rate::kFlopPerSecond, *diagnostics_));
}

Spanned<uint64_t> TypedFields::Nanoseconds(absl::string_view key) {
  const YamlNode* node = Node(key);
  if (node == nullptr) return {};
  return At(*node, ReadDuration(*node, NameOf(key), *diagnostics_));
}

Spanned<std::vector<uint64_t>> TypedFields::Unsigneds(absl::string_view key, uint64_t min, uint64_t max) {
  const YamlNode* node = Node(key);
  if (node == nullptr) return {};
  Spanned<std::vector<uint64_t>> numbers{{}, node->span()};
  const YamlNode::List* list = ReadList(*node, NameOf(key), *diagnostics_);
  if (list == nullptr) return numbers;
  if (list->empty()) {
    diagnostics_->Error("wrong-kind", node->span(), absl::StrCat(NameOf(key), ": expected at least one number"));
  }
  for (const YamlNode& item : *list) {
    numbers.value.push_back(ReadUnsigned(item, NameOf(key), {min, max}, *diagnostics_).value_or(0));
  }
  return numbers;
}

std::vector<Spanned<std::string>> TypedFields::Texts(absl::string_view key) {
  std::vector<Spanned<std::string>> texts;
  const YamlNode* node = Node(key);
  if (node == nullptr) return texts;
  const YamlNode::List* list = ReadList(*node, NameOf(key), *diagnostics_);
  if (list == nullptr) return texts;
  for (const YamlNode& item : *list) texts.push_back(TextOf(item, key));
  return texts;
}

uint8_t TypedFields::WordOrMap(const YamlNode& node, absl::string_view key, absl::Span<const meshseal::Term> words,
                               const YamlNode** parameters) {
  if (node.map() == nullptr || node.map()->size() != 1) return TermIn(node, key, words);
  const YamlEntry& entry = node.map()->front();
  *parameters = &entry.value;
  return TermIn(YamlNode(entry.key_span, YamlScalar{entry.key, true}), key, words);
}

void TypedFields::ReportParameters(const YamlNode& node, absl::string_view key, const char* word, bool expected) {
  diagnostics_->Error("wrong-kind", node.span(),
                      expected
                          ? absl::StrCat(NameOf(key), ": '", word, "' takes parameters, expected {", word, ": {...}}")
                          : absl::StrCat(NameOf(key), ": '", word, "' takes no parameters"));
}

uint8_t TypedFields::TermIn(const YamlNode& node, absl::string_view key, absl::Span<const meshseal::Term> words) {
  const std::optional<std::string> word = ReadText(node, NameOf(key), *diagnostics_);
  if (!word.has_value()) return 0;
  std::vector<absl::string_view> known;
  for (const meshseal::Term& row : words) {
    if (*word == row.word) return row.value;
    known.emplace_back(row.word);
  }
  std::string list;
  for (const absl::string_view each : known) absl::StrAppend(&list, list.empty() ? "" : ", ", std::string(each));
  const std::optional<absl::string_view> nearest = Nearest(*word, known);
  Diagnostic& error = diagnostics_->Error(
      "unknown-value", node.span(),
      absl::StrCat(NameOf(key), ": unknown value ", Quoted(*word),
                   nearest.has_value() ? absl::StrCat(", did you mean '", std::string(*nearest), "'?") : ""));
  error.help = absl::StrCat("known values: ", list);
  return 0;
}

Spanned<bool> TypedFields::OptionalFlag(absl::string_view key) {
  const YamlNode* node = OptionalNode(key);
  if (node == nullptr) return {};
  return At(*node, ReadBool(*node, NameOf(key), *diagnostics_));
}

Spanned<bool> TypedFields::Flag(absl::string_view key) {
  const YamlNode* node = Node(key);
  if (node == nullptr) return {};
  return At(*node, ReadBool(*node, NameOf(key), *diagnostics_));
}

bool TypedFields::OptionalAllow(absl::string_view key) {
  const YamlNode* node = OptionalNode(key);
  if (node == nullptr) return false;
  constexpr meshseal::Term kWords[] = {{1, "refuse"}, {2, "allow"}};
  return TermIn(*node, key, kWords) == 2;
}

Spanned<bool> TypedFields::NoneOrTensor(absl::string_view key) {
  const YamlNode* node = Node(key);
  if (node == nullptr) return {};
  constexpr meshseal::Term kWords[] = {{1, "none"}, {2, "tensor"}};
  return {TermIn(*node, key, kWords) == 2, node->span()};
}

const YamlNode* TypedFields::NodeOrNone(absl::string_view key) {
  Node(key);  // reports where it is missing
  return OptionalNodeOrNone(key);
}

const YamlNode* TypedFields::OptionalNodeOrNone(absl::string_view key) {
  const YamlNode* node = OptionalNode(key);
  if (node == nullptr || (node->scalar() != nullptr && node->scalar()->text == "none")) return nullptr;
  return node;
}

const YamlNode::List* TypedFields::Rows(absl::string_view key, absl::string_view expected, bool filled) {
  const YamlNode* node = Node(key);
  if (node == nullptr) return nullptr;
  if (node->list() != nullptr && !(filled && node->list()->empty())) return node->list();
  diagnostics_->Error("wrong-kind", node->span(), absl::StrCat(NameOf(key), ": expected ", expected));
  return nullptr;
}

const YamlNode::Map* TypedFields::Entries(absl::string_view key, absl::string_view expected) {
  const YamlNode* node = Node(key);
  if (node == nullptr) return nullptr;
  if (node->map() != nullptr) return node->map();
  diagnostics_->Error("wrong-kind", node->span(), absl::StrCat(NameOf(key), ": expected ", expected));
  return nullptr;
}

std::optional<TypedFields> TypedFields::Map(absl::string_view key) {
  const YamlNode* node = Node(key);
  if (node == nullptr) return std::nullopt;
  return TypedFields(*node, NameOf(key), *diagnostics_);
}

void TypedFields::Finish() { fields_.Finish(); }

Span TypedFields::SpanOf(absl::string_view key) const {
  if (map_->map() != nullptr) {
    for (const YamlEntry& entry : *map_->map()) {
      if (entry.key == key) return entry.key_span;
    }
  }
  return map_->span();
}

}  // namespace meshseal::compiler

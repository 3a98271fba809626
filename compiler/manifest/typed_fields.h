// The fields of one map as typed, spanned values; what every document reader is written with.
#ifndef MESHSEAL_COMPILER_MANIFEST_TYPED_FIELDS_H_
#define MESHSEAL_COMPILER_MANIFEST_TYPED_FIELDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/text/diagnostic.h"
#include "compiler/text/source.h"
#include "compiler/yaml/fields.h"
#include "compiler/yaml/yaml.h"
#include "schema/plan.h"
#include "schema/terms.h"

namespace meshseal::compiler {

class TypedFields;

template <class E>
struct Choice;

// Of a name, a path, an identity: what a plan may hold.
inline constexpr size_t kMostTextBytes = 1024;

// Reports text that is empty, longer than that, or has control characters. `name` leads the message.
void CheckText(const Spanned<std::string>& text, absl::string_view name, Diagnostics& diagnostics);

// Each getter is for a required key unless it says otherwise. A value that is missing or wrong is reported and comes
// back as its type's zero; the reader goes on, and the document is given up at its end.
class TypedFields {
 public:
  // A node that is no map is reported, and all its fields are absent. `name` leads messages: "deployment.parallel"; it
  // is empty for a whole document.
  TypedFields(const YamlNode& map, std::string name, Diagnostics& diagnostics);

  const std::string& name() const { return name_; }
  Span span() const { return map_->span(); }

  Spanned<uint64_t> Unsigned(absl::string_view key, uint64_t min, uint64_t max);
  Spanned<double> Number(absl::string_view key);
  Spanned<std::string> Text(absl::string_view key);
  Spanned<uint64_t> Bytes(absl::string_view key);
  Spanned<uint64_t> BytesPerSecond(absl::string_view key);
  Spanned<uint64_t> FlopPerSecond(absl::string_view key);
  Spanned<uint64_t> Nanoseconds(absl::string_view key);
  Spanned<std::vector<uint64_t>> Unsigneds(absl::string_view key, uint64_t min, uint64_t max);
  std::vector<Spanned<std::string>> Texts(absl::string_view key);

  // A word of E's list, or of `only` where that is not empty.
  template <class E>
  Spanned<E> Term(absl::string_view key, std::initializer_list<E> only = {}) {
    const YamlNode* node = Node(key);
    if (node == nullptr) return {};
    return {static_cast<E>(TermIn(*node, key, WordsOf(only))), node->span()};
  }

  // A word of E's list; those in `with` are written as a map of one key to their parameters, the others alone.
  template <class E>
  Choice<E> TermOrMap(absl::string_view key, std::initializer_list<E> with);

  // `true` or `false`; absent is false.
  Spanned<bool> OptionalFlag(absl::string_view key);
  Spanned<bool> Flag(absl::string_view key);
  // `refuse` or `allow`; absent is refuse.
  bool OptionalAllow(absl::string_view key);

  // Whether the required key says `tensor`; the other word is `none`.
  Spanned<bool> NoneOrTensor(absl::string_view key);
  // The required key's value, or null where it says `none`.
  const YamlNode* NodeOrNone(absl::string_view key);
  // The same for a key that may be absent.
  const YamlNode* OptionalNodeOrNone(absl::string_view key);
  // The rows of a required list or the entries of a required map; null after a report. At least one where `filled`.
  const YamlNode::List* Rows(absl::string_view key, absl::string_view expected, bool filled);
  const YamlNode::Map* Entries(absl::string_view key, absl::string_view expected);

  const YamlNode* Node(absl::string_view key);
  const YamlNode* OptionalNode(absl::string_view key);
  // The required key's value as the fields of a map, named "<this>.<key>"; nothing when it is missing.
  std::optional<TypedFields> Map(absl::string_view key);

  // Reports keys that nobody asked for.
  void Finish();

  // The place of a key, for messages about a whole sub-map.
  Span SpanOf(absl::string_view key) const;
  Diagnostics& diagnostics() { return *diagnostics_; }

  // The row of `words` that a scalar names, or 0 after a report.
  uint8_t TermIn(const YamlNode& node, absl::string_view key, absl::Span<const meshseal::Term> words);

  // Text that is not empty.
  Spanned<std::string> TextOf(const YamlNode& node, absl::string_view key);

  // A map's fields, named "<this>.<key>".
  TypedFields In(const YamlNode& map, absl::string_view key) { return TypedFields(map, NameOf(key), *diagnostics_); }

 private:
  template <class E>
  static std::vector<meshseal::Term> WordsOf(std::initializer_list<E> only) {
    std::vector<meshseal::Term> words;
    for (const meshseal::Term& row : Terms<E>()) {
      const bool allowed = std::find(only.begin(), only.end(), static_cast<E>(row.value)) != only.end();
      if (only.size() == 0 || allowed) words.push_back(row);
    }
    return words;
  }

  // The word of a scalar or of a map's one key, and what stands behind the key.
  uint8_t WordOrMap(const YamlNode& node, absl::string_view key, absl::Span<const meshseal::Term> words,
                    const YamlNode** parameters);
  void ReportParameters(const YamlNode& node, absl::string_view key, const char* word, bool expected);

  std::string NameOf(absl::string_view key) const {
    return name_.empty() ? std::string(key) : absl::StrCat(name_, ".", std::string(key));
  }

  std::string name_;
  const YamlNode* map_;
  Diagnostics* diagnostics_;
  FieldReader fields_;
};

// A word, and the fields of the map behind it where it takes parameters: `sum`, or `{sum_plus: {guard: 1.0e-20}}`.
template <class E>
struct Choice {
  Spanned<E> word;
  std::optional<TypedFields> parameters;
};

template <class E>
Choice<E> TypedFields::TermOrMap(absl::string_view key, std::initializer_list<E> with) {
  const YamlNode* node = Node(key);
  if (node == nullptr) return {};
  Choice<E> choice;
  const YamlNode* parameters = nullptr;
  choice.word = {static_cast<E>(WordOrMap(*node, key, Terms<E>(), &parameters)), node->span()};
  if (choice.word.value == E::kInvalid) return choice;
  const bool takes = std::find(with.begin(), with.end(), choice.word.value) != with.end();
  if (takes != (parameters != nullptr)) {
    ReportParameters(*node, key, WordOf(choice.word.value), takes);
  } else if (takes) {
    choice.parameters.emplace(In(*parameters, absl::StrCat(key, ".", WordOf(choice.word.value))));
  }
  return choice;
}

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_MANIFEST_TYPED_FIELDS_H_

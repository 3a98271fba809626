// The fields of one map as typed, spanned values; what every document reader is written with.
#ifndef MESHSEAL_COMPILER_MANIFEST_TYPED_FIELDS_H_
#define MESHSEAL_COMPILER_MANIFEST_TYPED_FIELDS_H_

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

// Words that the manifest language has and this version does not build; a retired word becomes a term.
using Unbuilt = std::initializer_list<absl::string_view>;

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
  Spanned<uint64_t> Nanoseconds(absl::string_view key);
  Spanned<std::vector<uint64_t>> Unsigneds(absl::string_view key, uint64_t min, uint64_t max);
  std::vector<Spanned<std::string>> Texts(absl::string_view key);

  // A word of E's list; a word in `unbuilt`, or a map where a word stands, is not-yet-built.
  template <class E>
  Spanned<E> Term(absl::string_view key, Unbuilt unbuilt = {}) {
    const YamlNode* node = Node(key);
    if (node == nullptr) return {};
    return {static_cast<E>(TermIn(*node, key, Terms<E>(), unbuilt)), node->span()};
  }

  // `true` or `false`; absent is false.
  Spanned<bool> OptionalFlag(absl::string_view key);
  // `refuse` or `allow`; absent is refuse.
  bool OptionalAllow(absl::string_view key);

  // The key must say `none`: the language has more, this version builds nothing else.
  void OnlyNone(absl::string_view key);
  // The key may stand in the language but not in this version.
  void NotBuilt(absl::string_view key);

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
  uint8_t TermIn(const YamlNode& node, absl::string_view key, absl::Span<const meshseal::Term> words, Unbuilt unbuilt);

  // Text that is not empty.
  Spanned<std::string> TextOf(const YamlNode& node, absl::string_view key);

 private:
  std::string NameOf(absl::string_view key) const {
    return name_.empty() ? std::string(key) : absl::StrCat(name_, ".", std::string(key));
  }

  std::string name_;
  const YamlNode* map_;
  Diagnostics* diagnostics_;
  FieldReader fields_;
};

// Reports that `what` is in the language but not in this version.
void ReportNotBuilt(Span span, const std::string& what, Diagnostics& diagnostics);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_MANIFEST_TYPED_FIELDS_H_

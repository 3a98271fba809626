// One YAML text, read, and what was said about it.
#ifndef MESHSEAL_TESTS_COMPILER_YAML_YAML_DOCUMENT_H_
#define MESHSEAL_TESTS_COMPILER_YAML_YAML_DOCUMENT_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/text/diagnostic.h"
#include "compiler/text/source.h"
#include "compiler/yaml/yaml.h"

namespace meshseal::compiler {

// "line:column+length".
inline std::string Place(const Span& span) {
  if (span.line == 0) return "-";
  return absl::StrCat(span.line, ":", span.column, "+", span.length);
}

class YamlDocument {
 public:
  explicit YamlDocument(std::string text)
      : file_(SourceFile::FromText("in.yaml", std::move(text)).value()), root_(ReadYaml(*file_, diagnostics_)) {}

  bool accepted() const { return root_.has_value() && diagnostics_.ok(); }
  const YamlNode& root() const { return root_.value(); }
  Diagnostics& diagnostics() { return diagnostics_; }

  // The value of a key of the root.
  const YamlNode& at(absl::string_view key) const {
    for (const YamlEntry& entry : *root().map()) {
      if (entry.key == key) return entry.value;
    }
    return root();
  }

  // Every error, note and help on a line of its own, sorted: "1:2+3: text [rule]".
  std::string Said() const {
    std::string said;
    for (const Diagnostic* error : diagnostics_.Sorted()) {
      absl::StrAppend(&said, Place(error->span), ": ", error->text, " [", error->rule, "]\n");
      for (const Note& note : error->notes) absl::StrAppend(&said, "  note ", Place(note.span), ": ", note.text, "\n");
      if (!error->help.empty()) absl::StrAppend(&said, "  help: ", error->help, "\n");
    }
    return said;
  }

 private:
  Diagnostics diagnostics_;
  std::unique_ptr<const SourceFile> file_;
  std::optional<YamlNode> root_;
};

// The tree with every place: scalars as 'plain' or "quoted", maps as {key@place=value}, lists as [value].
inline std::string Tree(const YamlNode& node) {
  std::string tree;
  if (const YamlScalar* scalar = node.scalar()) {
    const char* quote = scalar->plain ? "'" : "\"";
    absl::StrAppend(&tree, quote, scalar->text, quote);
  } else if (const YamlNode::Map* map = node.map()) {
    for (const YamlEntry& entry : *map) {
      absl::StrAppend(&tree, tree.empty() ? "{" : ", ", entry.key, "@", Place(entry.key_span), "=", Tree(entry.value));
    }
    absl::StrAppend(&tree, tree.empty() ? "{}" : "}");
  } else {
    for (const YamlNode& item : *node.list()) absl::StrAppend(&tree, tree.empty() ? "[" : ", ", Tree(item));
    absl::StrAppend(&tree, tree.empty() ? "[]" : "]");
  }
  return absl::StrCat(tree, "@", Place(node.span()));
}

}  // namespace meshseal::compiler

#endif  // MESHSEAL_TESTS_COMPILER_YAML_YAML_DOCUMENT_H_

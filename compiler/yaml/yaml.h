// A strict subset of YAML as a tree that knows where everything was written.
// Read are block and flow maps, block and flow lists, and plain, quoted and block scalars. Refused, each with
// its own rule: anchors, aliases, tags, directives, several documents, text outside the document, duplicate
// keys, keys that are not scalars, empty values and null. Scalars stay text until scalar.h converts them.
#ifndef MESHSEAL_COMPILER_YAML_YAML_H_
#define MESHSEAL_COMPILER_YAML_YAML_H_

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/text/diagnostic.h"
#include "compiler/text/source.h"

namespace meshseal::compiler {

// Limits of one document; a file has at most kMaxSourceBytes.
inline constexpr size_t kMaxYamlDepth = 32;         // maps and lists inside each other
inline constexpr size_t kMaxYamlNodes = 1'000'000;  // keys, values, maps and lists
inline constexpr size_t kMaxScalarBytes = 64 * 1024;
// Bytes from one key or value to the next that is complete. The parser holds back a flow map or list until it
// knows that it is no key; this bounds what it holds, and how long one of those or a run of comments can be.
inline constexpr size_t kMaxYamlLookahead = 512 * 1024;
inline constexpr size_t kMaxYamlErrors = 10'000;  // more than a person reads; then the reading ends

enum class YamlKind { kScalar, kMap, kList };

struct YamlScalar {
  std::string text;    // escapes resolved, lines folded
  bool plain = false;  // neither quoted nor a block scalar
};

struct YamlEntry;

// One value. Spans: a scalar's covers what was written, quotes included (the first line of one that has
// several; the mark of a block scalar). A flow map or list: its opening bracket. A block map: its first key.
// A block list: its first dash.
class YamlNode {
 public:
  using Map = std::vector<YamlEntry>;  // in file order, no key twice
  using List = std::vector<YamlNode>;

  YamlNode(Span span, YamlScalar scalar);
  YamlNode(Span span, Map entries);
  YamlNode(Span span, List items);

  YamlKind kind() const { return static_cast<YamlKind>(value_.index()); }
  const Span& span() const { return span_; }

  // Null, respectively, for a node of another kind.
  const YamlScalar* scalar() const { return std::get_if<YamlScalar>(&value_); }
  const Map* map() const { return std::get_if<Map>(&value_); }
  const List* list() const { return std::get_if<List>(&value_); }

 private:
  Span span_;
  std::variant<YamlScalar, Map, List> value_;  // in the order of YamlKind
};

struct YamlEntry {
  std::string key;
  Span key_span;
  YamlNode value;
};

// The one document in `file`. Nothing, and at least one error, when any of it is refused: all violations that
// can be seen are reported, except that wrong encoding, broken syntax and exceeded limits end the reading.
// Rules: yaml-encoding, yaml-limit, yaml-syntax, yaml-anchor, yaml-alias, yaml-tag, yaml-one-document,
// yaml-unread-input, yaml-empty, yaml-empty-value, yaml-key-not-scalar, duplicate-key.
std::optional<YamlNode> ReadYaml(const SourceFile& file, Diagnostics& diagnostics);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_YAML_YAML_H_

// ReadYaml: yaml-cpp's events, held against a list of what it would let through.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <istream>
#include <numeric>
#include <streambuf>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/text/utf8.h"
#include "compiler/yaml/yaml.h"
#include "schema/format_text.h"
#include "schema/utf8.h"

namespace meshseal::compiler {
namespace {

// Thrown by the event handler, caught where the parser is called: yaml-cpp has no other way to be stopped.
struct StopReading {};

// The file's text as a stream, without a copy. It ends early when the parser reads on and on without an
// event.
class TextBuffer : public std::streambuf {
 public:
  explicit TextBuffer(absl::string_view text) : text_(text) {}

  // The parser has come to byte `offset`.
  void Reach(size_t offset) { reached_ = std::max(reached_, offset); }
  size_t reached() const { return reached_; }
  bool ended_early() const { return ended_early_; }

 protected:
  int_type underflow() override {
    constexpr size_t kChunkBytes = 4096;
    if (given_ > reached_ + kMaxYamlLookahead) ended_early_ = true;
    if (ended_early_ || given_ == text_.size()) return traits_type::eof();
    char* begin = const_cast<char*>(text_.data()) + given_;  // the get area is only read
    const size_t size = std::min(kChunkBytes, text_.size() - given_);
    given_ += size;
    setg(begin, begin, begin + size);
    return traits_type::to_int_type(*begin);
  }

 private:
  absl::string_view text_;
  size_t given_ = 0;
  size_t reached_ = 0;
  bool ended_early_ = false;
};

// --- Before parsing: bytes that yaml-cpp would replace, stop at, or skip.

std::optional<std::string> WhyNotText(absl::string_view text, absl::string_view rest) {
  if (text.size() == rest.size() && (absl::StartsWith(text, "\xff\xfe") || absl::StartsWith(text, "\xfe\xff"))) {
    return "the file is UTF-16; write it as UTF-8";
  }
  const std::optional<CodePoint> point = FirstCodePoint(rest);
  if (!point) return FormatText("byte 0x%02x is not UTF-8", static_cast<uint8_t>(rest[0]));
  const char32_t c = point->value;
  if (c == '\r' && !absl::StartsWith(rest, "\r\n")) return "a carriage return without a line feed is not read";
  if (c == 0xfeff) return "a byte order mark is not read; write the file without one";
  const bool line_end = c == '\r' || c == '\n';
  const bool control = (c < 0x20 && c != '\t' && !line_end) || (c >= 0x7f && c <= 0x9f);
  const bool line_separator = c == 0x2028 || c == 0x2029;  // line ends in YAML 1.1 but not in 1.2
  const bool no_character = c == 0xfffe || c == 0xffff;
  if (control || line_separator || no_character) {
    return FormatText("control character U+%04X is not read", static_cast<uint32_t>(c));
  }
  return std::nullopt;
}

bool CheckEncoding(const SourceFile& file, Diagnostics& diagnostics) {
  const absl::string_view text = file.text();
  for (size_t at = 0; at < text.size();) {
    const absl::string_view rest = text.substr(at);
    if (const std::optional<std::string> why = WhyNotText(text, rest)) {
      diagnostics.Error("yaml-encoding", file.At(at, 1), *why);
      return false;
    }
    at += FirstCodePoint(rest)->length;
  }
  return true;
}

// yaml-cpp drops a directive without an event, even an unknown one at the end of a map. No line may begin
// with '%'; inside a quoted scalar, the line can be indented.
bool CheckDirectives(const SourceFile& file, Diagnostics& diagnostics) {
  for (uint32_t line = 1; line <= file.line_count(); ++line) {
    const absl::string_view text = file.Line(line);
    if (!absl::StartsWith(text, "%")) continue;
    diagnostics.Error("yaml-one-document", Span{&file, line, 1, static_cast<uint32_t>(text.size())},
                      "a directive ('%' at the start of a line) is not read");
    return false;
  }
  return true;
}

// --- The parser's own refusals, in our words. The first row that its message begins with counts.

struct SyntaxRow {
  absl::string_view parser_text;
  absl::string_view rule;
  absl::string_view text;
};

constexpr absl::string_view kAnchorText = "anchors are not read; write the value out";
constexpr absl::string_view kAliasText = "aliases are not read; write the value out";
constexpr absl::string_view kUnclosedText = "a quoted string is not closed";
constexpr absl::string_view kTagText = "tags are not read; the field decides what a value means";

const auto kSyntaxRows = std::to_array<SyntaxRow>({
    {YAML::ErrorMsg::END_OF_MAP_FLOW, "yaml-syntax", "expected ',' or '}' here"},
    {YAML::ErrorMsg::END_OF_MAP, "yaml-syntax", "expected a key and ':' at this map's indentation here"},
    {YAML::ErrorMsg::END_OF_SEQ_FLOW, "yaml-syntax", "expected ',' or ']' here"},
    {YAML::ErrorMsg::END_OF_SEQ, "yaml-syntax", "expected '- ' at this list's indentation here"},
    {YAML::ErrorMsg::INVALID_HEX, "yaml-syntax", "the escape's digits are not hexadecimal"},
    {YAML::ErrorMsg::INVALID_UNICODE, "yaml-syntax", "the escape names no Unicode character"},
    {YAML::ErrorMsg::INVALID_ESCAPE, "yaml-syntax", "this escape does not exist"},
    {YAML::ErrorMsg::UNKNOWN_TOKEN, "yaml-syntax", "a value cannot begin with this character; quote it"},
    {YAML::ErrorMsg::DOC_IN_SCALAR, "yaml-syntax", "'---' or '...' stands in a quoted string"},
    {YAML::ErrorMsg::EOF_IN_SCALAR, "yaml-syntax", kUnclosedText},
    {YAML::ErrorMsg::TAB_IN_INDENTATION, "yaml-syntax", "a tab cannot indent; use spaces"},
    {YAML::ErrorMsg::FLOW_END, "yaml-syntax", "this bracket closes nothing"},
    {YAML::ErrorMsg::BLOCK_ENTRY, "yaml-syntax", "a list item ('- ') cannot stand here"},
    {YAML::ErrorMsg::MAP_KEY, "yaml-syntax", "'?' cannot stand here"},
    {YAML::ErrorMsg::MAP_VALUE, "yaml-syntax", "':' cannot stand here; check the indentation, or quote the text"},
    {YAML::ErrorMsg::ZERO_INDENT_IN_BLOCK, "yaml-syntax", "a block scalar's indentation cannot be 0"},
    {YAML::ErrorMsg::CHAR_IN_BLOCK, "yaml-syntax", "this cannot follow '|' or '>'"},
    {YAML::ErrorMsg::MULTIPLE_ANCHORS, "yaml-anchor", kAnchorText},
    {YAML::ErrorMsg::ANCHOR_NOT_FOUND, "yaml-anchor", kAnchorText},
    {YAML::ErrorMsg::CHAR_IN_ANCHOR, "yaml-anchor", kAnchorText},
    {YAML::ErrorMsg::UNKNOWN_ANCHOR, "yaml-alias", kAliasText},
    {YAML::ErrorMsg::ALIAS_CONTENT, "yaml-alias", kAliasText},
    {YAML::ErrorMsg::ALIAS_NOT_FOUND, "yaml-alias", kAliasText},
    {YAML::ErrorMsg::CHAR_IN_ALIAS, "yaml-alias", kAliasText},
    {YAML::ErrorMsg::MULTIPLE_TAGS, "yaml-tag", kTagText},
    {YAML::ErrorMsg::CHAR_IN_TAG_HANDLE, "yaml-tag", kTagText},
    {YAML::ErrorMsg::TAG_WITH_NO_SUFFIX, "yaml-tag", kTagText},
    {YAML::ErrorMsg::END_OF_VERBATIM_TAG, "yaml-tag", kTagText},
    {"", "yaml-syntax", "this is not YAML"},
});

const SyntaxRow& SyntaxRowOf(absl::string_view parser_text) {
  return *std::find_if(kSyntaxRows.begin(), kSyntaxRows.end(),
                       [&](const SyntaxRow& row) { return absl::StartsWith(parser_text, row.parser_text); });
}

// --- Lengths, which the parser does not give.

bool IsQuote(char c) { return c == '"' || c == '\''; }

// Bytes of the quoted string that begins `text`, quotes included; nothing when it is not closed.
std::optional<size_t> QuotedLength(absl::string_view text) {
  const char quote = text[0];
  for (size_t i = 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '"' || !absl::StartsWith(text.substr(i + 1), "'")) return i + 1;
      ++i;  // '' stands for one quote
    }
  }
  return std::nullopt;
}

// `text` up to the end of its first line.
absl::string_view FirstLine(absl::string_view text) {
  text = text.substr(0, text.find('\n'));
  absl::ConsumeSuffix(&text, "\r");
  return text;
}

// Bytes at the start of `text` that a scalar of value `value` covers, its first line at most.
size_t ScalarLength(absl::string_view text, absl::string_view value) {
  if (text.empty()) return 0;
  if (IsQuote(text[0])) return FirstLine(text.substr(0, QuotedLength(text).value_or(text.size()))).size();
  if (text[0] == '|' || text[0] == '>') return 1;
  // A plain scalar reads as written up to its first line's last visible character.
  const size_t most = std::min(text.size(), value.size());
  const size_t same = static_cast<size_t>(
      std::mismatch(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(most), value.begin()).first -
      text.begin());
  return same > 0 && same < value.size() && text[same - 1] == ' ' ? same - 1 : same;
}

// --- The events.

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const SourceFile& file, TextBuffer& buffer, Diagnostics& diagnostics)
      : file_(file), buffer_(buffer), diagnostics_(diagnostics) {}

  // The document's root; nothing for an empty one.
  std::optional<YamlNode> TakeRoot() { return std::move(root_); }

  // In a document that breaks off, the parser makes up keys and empty values before it says so. To be called
  // when it has not broken off.
  void ReportSuspects() {
    for (Diagnostic& suspect : suspects_) {
      diagnostics_.Error(suspect.rule, suspect.span, std::move(suspect.text));
    }
    suspects_.clear();
  }

  Span At(const YAML::Mark& mark, size_t length) const { return file_.At(Offset(mark), length); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (!document_seen_) {
      document_seen_ = true;
      return;
    }
    // Whatever follows the root, the parser takes for another document.
    if (absl::StartsWith(Rest(mark), "---")) {
      Error("yaml-one-document", At(mark, 3), "a second document starts here; a file holds one");
    } else {
      Error("yaml-unread-input", At(mark, 1), "this and what follows is outside the document and would not be read");
    }
    throw StopReading();
  }

  void OnDocumentEnd() override {}

  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    Error("yaml-anchor", At(mark, 1), absl::StrCat("anchor ", Quoted(name), ": ", kAnchorText));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    Count(mark);
    Error("yaml-alias", At(mark, 1), std::string(kAliasText));
    AddRefused(At(mark, 1));
  }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    Count(mark);
    if (open_.empty()) return;  // the whole document is empty
    const Open& parent = open_.back();
    if (!parent.is_map) {
      Suspect("yaml-empty-value", parent.span,
              absl::StrCat("item ", parent.items.size() + 1, " of this list has no value"));
    } else if (!parent.key) {
      Suspect("yaml-key-not-scalar", At(mark, 1), "a key is empty or null");
    } else if (!parent.key->refused) {
      Suspect("yaml-empty-value", parent.key->span, absl::StrCat("key ", Quoted(parent.key->text), " has no value"));
    }
    AddRefused(At(mark, 1));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    Count(mark);
    const size_t length = ScalarLength(Rest(mark), value);
    CheckTag(mark, tag);
    // The parser takes the end of the file for the closing quote when the last line has an end.
    if (length > 0 && IsQuote(Rest(mark)[0]) && !QuotedLength(Rest(mark))) {
      Error("yaml-syntax", At(mark, length), std::string(kUnclosedText));
      throw StopReading();
    }
    if (value.size() > kMaxScalarBytes) {
      Stop(At(mark, length), absl::StrCat("text of ", value.size(), " bytes; the most is ", kMaxScalarBytes));
    }
    // Plain scalars carry the tag "?"; quoted and block scalars "!".
    Scalar(At(mark, length), YamlScalar{value, /*plain=*/tag == "?"});
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {
    Begin(mark, tag, /*is_map=*/false);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    Begin(mark, tag, /*is_map=*/true);
  }

  void OnSequenceEnd() override {
    Open done = std::move(open_.back());
    open_.pop_back();
    Add(YamlNode(done.span, std::move(done.items)));
  }

  void OnMapEnd() override {
    Open done = std::move(open_.back());
    open_.pop_back();
    CheckDuplicates(done.entries);
    Add(YamlNode(done.span, std::move(done.entries)));
  }

 private:
  struct Key {
    std::string text;
    Span span;
    bool refused = false;  // it and its value are left out of the map
  };

  // A map or list whose end has not been seen.
  struct Open {
    Span span;
    bool is_map = false;
    std::optional<Key> key;  // the map's key that waits for its value
    YamlNode::Map entries;
    YamlNode::List items;
  };

  size_t Offset(const YAML::Mark& mark) const {
    return mark.pos < 0 ? 0 : std::min(static_cast<size_t>(mark.pos), file_.text().size());
  }
  absl::string_view Rest(const YAML::Mark& mark) const { return absl::string_view(file_.text()).substr(Offset(mark)); }

  [[noreturn]] void Stop(const Span& span, std::string text) {
    diagnostics_.Error("yaml-limit", span, std::move(text));
    throw StopReading();
  }

  Diagnostic& Error(absl::string_view rule, const Span& span, std::string text) {
    CountError(span);
    return diagnostics_.Error(rule, span, std::move(text));
  }

  // An error unless the parser turns out to have made up its cause.
  void Suspect(absl::string_view rule, const Span& span, std::string text) {
    CountError(span);
    suspects_.push_back(Diagnostic{span, std::string(rule), std::move(text), {}, ""});
  }

  void CountError(const Span& span) {
    if (++error_count_ > kMaxYamlErrors) {
      Stop(span, absl::StrCat("more than ", kMaxYamlErrors, " errors in one file; the rest is not read"));
    }
  }

  // For every event that begins a node.
  void Count(const YAML::Mark& mark) {
    if (buffer_.ended_early()) throw StopReading();  // the parser sees an end that is not there
    buffer_.Reach(Offset(mark));
    if (++nodes_ > kMaxYamlNodes) {
      Stop(At(mark, 1), absl::StrCat("more than ", kMaxYamlNodes, " keys and values in one file"));
    }
  }

  // A lone '!' reads like a quoted scalar's tag, but then the node begins with that character.
  void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    const absl::string_view rest = Rest(mark);
    if (tag != "?" && (tag != "!" || absl::StartsWith(rest, "!"))) {
      Error("yaml-tag", At(mark, 1), std::string(kTagText));
    }
  }

  void Begin(const YAML::Mark& mark, const std::string& tag, bool is_map) {
    Count(mark);
    CheckTag(mark, tag);
    const Span span = At(mark, 1);
    if (open_.size() == kMaxYamlDepth) {
      Stop(span, absl::StrCat("maps and lists are nested more than ", kMaxYamlDepth, " deep"));
    }
    Open opened;
    opened.span = span;
    opened.is_map = is_map;
    open_.push_back(std::move(opened));
  }

  bool KeyIsDue() const { return !open_.empty() && open_.back().is_map && !open_.back().key; }

  // A finished scalar is a key where one is due.
  void Scalar(const Span& span, YamlScalar scalar) {
    if (!KeyIsDue()) {
      Add(YamlNode(span, std::move(scalar)));
      return;
    }
    Open& map = open_.back();
    // A block map begins with its first key, whose length is known only now.
    if (map.entries.empty() && map.span.line == span.line && map.span.column == span.column) map.span = span;
    map.key = Key{std::move(scalar.text), span};
  }

  // Takes the place of a key or value that is refused.
  void AddRefused(const Span& span) {
    if (KeyIsDue()) {
      open_.back().key = Key{"", span, /*refused=*/true};
    } else {
      Add(YamlNode(span, YamlScalar{}));
    }
  }

  // A finished value goes to what contains it. Only a map or list can come where a key is due.
  void Add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (Open& parent = open_.back(); !parent.is_map) {
      parent.items.push_back(std::move(node));
    } else if (!parent.key) {
      Suspect("yaml-key-not-scalar", node.span(), node.kind() == YamlKind::kMap ? "a key is a map" : "a key is a list");
      AddRefused(node.span());
    } else {
      if (!parent.key->refused) {
        parent.entries.push_back({std::move(parent.key->text), parent.key->span, std::move(node)});
      }
      parent.key.reset();
    }
  }

  void CheckDuplicates(const YamlNode::Map& entries) {
    std::vector<size_t> order(entries.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return entries[a].key < entries[b].key; });
    size_t first = 0;  // of the run of equal keys
    for (size_t i = 1; i < order.size(); ++i) {
      const YamlEntry& entry = entries[order[i]];
      const YamlEntry& earlier = entries[order[first]];
      if (entry.key != earlier.key) {
        first = i;
        continue;
      }
      Diagnostic& error =
          Error("duplicate-key", entry.key_span, absl::StrCat("key ", Quoted(entry.key), " stands here again"));
      error.notes.push_back({earlier.key_span, "the first one is here"});
    }
  }

  const SourceFile& file_;
  TextBuffer& buffer_;
  Diagnostics& diagnostics_;
  size_t error_count_ = 0;
  std::vector<Diagnostic> suspects_;
  bool document_seen_ = false;
  size_t nodes_ = 0;
  std::vector<Open> open_;  // outermost first
  std::optional<YamlNode> root_;
};

}  // namespace

std::optional<YamlNode> ReadYaml(const SourceFile& file, Diagnostics& diagnostics) {
  if (!CheckEncoding(file, diagnostics) || !CheckDirectives(file, diagnostics)) return std::nullopt;

  const size_t errors_before = diagnostics.size();
  TextBuffer buffer(file.text());
  TreeBuilder builder(file, buffer, diagnostics);
  try {
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    // The parser stops after one root without looking on. The second call makes it say what it left.
    if (parser.HandleNextDocument(builder)) parser.HandleNextDocument(builder);
    builder.ReportSuspects();
  } catch (const StopReading&) {
    builder.ReportSuspects();
  } catch (const YAML::Exception& error) {
    if (!buffer.ended_early()) {
      const SyntaxRow& row = SyntaxRowOf(error.msg);
      diagnostics.Error(row.rule, builder.At(error.mark, 1), std::string(row.text));
    }
  }
  if (buffer.ended_early()) {
    diagnostics.Error("yaml-limit", file.At(buffer.reached(), 1),
                      absl::StrCat("no key or value is complete within ", kMaxYamlLookahead, " bytes"));
  }
  if (diagnostics.size() > errors_before) return std::nullopt;
  std::optional<YamlNode> root = builder.TakeRoot();
  if (!root) diagnostics.Error("yaml-empty", Span{&file}, "the file holds no value");
  return root;
}

}  // namespace meshseal::compiler

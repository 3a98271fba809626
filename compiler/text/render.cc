#include "compiler/text/render.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compiler/text/utf8.h"
#include "schema/utf8.h"

namespace meshseal::compiler {
namespace {

constexpr size_t kLineNumberWidth = 5;
constexpr size_t kMaxShownBytes = 200;

bool SteersTerminal(char32_t c) {
  const bool control = c < 0x20 || (c >= 0x7f && c <= 0x9f);
  const bool line_separator = c == 0x2028 || c == 0x2029;
  const bool bidirectional =
      c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  return control || line_separator || bidirectional;
}

// One character of a text as it is shown, and how many bytes of the text it stands for.
struct Cell {
  absl::string_view shown;
  size_t length = 1;
};

Cell FirstCell(absl::string_view text) {
  const std::optional<CodePoint> point = FirstCodePoint(text);
  if (!point) return Cell{"?", 1};
  if (SteersTerminal(point->value)) return Cell{"?", point->length};
  return Cell{text.substr(0, point->length), point->length};
}

std::string Shown(absl::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const Cell cell = FirstCell(text);
    shown.append(cell.shown.data(), cell.shown.size());
    text.remove_prefix(cell.length);
  }
  return shown;
}

class TextRenderer {
 public:
  explicit TextRenderer(const TextOptions& options) : options_(options) {}

  void Render(const Diagnostic& error) {
    Location(error.span);
    Styled(error.warning ? kYellow : kRed, error.warning ? "warning: " : "error: ");
    Styled(kBold, Shown(error.text));
    absl::StrAppend(&out_, " [", Shown(error.rule), "]\n");
    Excerpt(error.span);
    for (const Note& note : error.notes) {
      Location(note.span);
      Styled(kCyan, "note: ");
      absl::StrAppend(&out_, Shown(note.text), "\n");
    }
    if (!error.help.empty()) {
      absl::StrAppend(&out_, "   ");
      Styled(kBold, "help: ");
      absl::StrAppend(&out_, Shown(error.help), "\n");
    }
  }

  std::string Take() { return std::move(out_); }

 private:
  static constexpr absl::string_view kBold = "\x1b[1m";
  static constexpr absl::string_view kRed = "\x1b[1;31m";
  static constexpr absl::string_view kYellow = "\x1b[1;33m";
  static constexpr absl::string_view kGreen = "\x1b[1;32m";
  static constexpr absl::string_view kCyan = "\x1b[1;36m";

  void Styled(absl::string_view style, absl::string_view text) {
    if (options_.colour) {
      absl::StrAppend(&out_, style, text, "\x1b[0m");
    } else {
      absl::StrAppend(&out_, text);
    }
  }

  void Location(const Span& span) {
    if (span.file == nullptr) return;
    const std::string path = Shown(span.file->path());
    Styled(kBold,
           span.line == 0 ? absl::StrCat(path, ": ") : absl::StrCat(path, ":", span.line, ":", span.column, ": "));
  }

  // The source line and, below it, the caret.
  void Excerpt(const Span& span) {
    if (span.file == nullptr || span.line == 0 || span.line > span.file->line_count()) return;
    const absl::string_view line = span.file->Line(span.line);
    const size_t caret = span.column == 0 ? 0 : span.column - size_t{1};  // bytes before the caret

    // The part of a long line that is shown: [begin, end), never inside a code point.
    size_t begin = 0;
    size_t end = line.size();
    if (line.size() > kMaxShownBytes) {
      begin = caret > kMaxShownBytes / 2 ? caret - kMaxShownBytes / 2 : 0;
      begin = std::min(begin, line.size() - kMaxShownBytes);
      begin = ShortenUtf8(line, begin).size();
      end = ShortenUtf8(line, begin + kMaxShownBytes).size();
    }

    std::string shown(begin > 0 ? "..." : "");
    std::string below(shown.size(), ' ');
    std::string marks;
    for (size_t at = begin; at < end;) {
      const Cell cell = FirstCell(line.substr(at, end - at));
      const bool tab = line[at] == '\t';
      absl::StrAppend(&shown, tab ? "\t" : cell.shown);
      if (at + cell.length <= caret) {
        absl::StrAppend(&below, tab ? "\t" : " ");
      } else if (marks.empty()) {
        marks.push_back('^');
      } else if (at < caret + span.length) {
        marks.push_back('~');
      }
      at += cell.length;
    }
    if (end < line.size()) absl::StrAppend(&shown, "...");
    if (marks.empty()) marks.push_back('^');  // the place is the end of the line

    const std::string number = absl::StrCat(span.line);
    const size_t width = std::max(kLineNumberWidth, number.size());
    absl::StrAppend(&out_, std::string(width - number.size(), ' '), number, " | ", shown, "\n");
    absl::StrAppend(&out_, std::string(width, ' '), " | ", below);
    Styled(kGreen, marks);
    absl::StrAppend(&out_, "\n");
  }

  TextOptions options_;
  std::string out_;
};

using Json = nlohmann::ordered_json;

void PutLocation(const Span& span, bool with_length, Json& out) {
  const bool has_line = span.file != nullptr && span.line != 0;
  out["file"] = span.file == nullptr ? Json(nullptr) : Json(span.file->path());
  out["line"] = has_line ? Json(span.line) : Json(nullptr);
  out["column"] = has_line ? Json(span.column) : Json(nullptr);
  if (with_length) out["length"] = has_line ? Json(span.length) : Json(nullptr);
}

}  // namespace

std::string RenderText(const Diagnostics& diagnostics, const TextOptions& options) {
  TextRenderer renderer(options);
  for (const Diagnostic* error : diagnostics.Sorted()) renderer.Render(*error);
  return renderer.Take();
}

std::string RenderJson(const Diagnostics& diagnostics) {
  Json rows = Json::array();
  for (const Diagnostic* error : diagnostics.Sorted()) {
    Json row;
    row["severity"] = error->warning ? "warning" : "error";
    row["rule"] = error->rule;
    PutLocation(error->span, /*with_length=*/true, row);
    row["message"] = error->text;
    row["notes"] = Json::array();
    for (const Note& note : error->notes) {
      Json note_row;
      PutLocation(note.span, /*with_length=*/false, note_row);
      note_row["message"] = note.text;
      row["notes"].push_back(std::move(note_row));
    }
    row["help"] = error->help.empty() ? Json(nullptr) : Json(error->help);
    rows.push_back(std::move(row));
  }
  Json document;
  document["version"] = 1;
  document["diagnostics"] = std::move(rows);
  // `replace` never throws on bytes that are not UTF-8.
  return absl::StrCat(document.dump(-1, ' ', false, Json::error_handler_t::replace), "\n");
}

}  // namespace meshseal::compiler

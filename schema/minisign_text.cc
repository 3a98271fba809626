#include "schema/minisign_text.h"

#include <sodium.h>

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/utf8.h"

namespace meshseal {
namespace {

bool IsBase64Digit(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '/'; }

bool IsControl(char32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }

}  // namespace

absl::StatusOr<std::vector<absl::string_view>> MinisignLines(absl::string_view text, size_t count, size_t max_size,
                                                             Reason reason) {
  if (text.size() > max_size) {
    return Refuse(reason, absl::StrCat("the file has ", text.size(), " bytes, at most ", max_size, " are read"));
  }
  if (absl::StrContains(text, '\r')) {
    return Refuse(reason, "the file has a carriage return; its lines end with a line feed alone");
  }
  const bool open_end = !text.empty() && text.back() != '\n';
  const auto found = static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + (open_end ? 1 : 0);
  if (found != count) {
    return Refuse(reason, absl::StrCat("the file has ", found, found == 1 ? " line" : " lines", ", expected ", count));
  }
  if (open_end) return Refuse(reason, "the last line of the file does not end with a line feed");
  std::vector<absl::string_view> lines;
  lines.reserve(count);
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

absl::Status CheckComment(absl::string_view comment, absl::string_view what, size_t max_size, Reason reason) {
  if (comment.size() > max_size) {
    return Refuse(reason,
                  absl::StrCat("the ", what, " has ", comment.size(), " bytes, at most ", max_size, " are allowed"));
  }
  for (absl::string_view rest = comment; !rest.empty();) {
    const std::optional<CodePoint> point = FirstCodePoint(rest);
    const size_t at = comment.size() - rest.size() + 1;
    if (!point.has_value()) return Refuse(reason, absl::StrCat("the ", what, " is not UTF-8 at its byte ", at));
    if (IsControl(point->value) && point->value != '\t') {
      return Refuse(reason, absl::StrCat("the ", what, " has a control character at its byte ", at));
    }
    rest.remove_prefix(point->length);
  }
  return absl::OkStatus();
}

absl::Status DecodeBase64Line(absl::string_view line, size_t number, absl::Span<uint8_t> out, Reason reason) {
  const size_t length = Base64Length(out.size());
  if (line.size() != length) {
    return Refuse(reason,
                  absl::StrCat("line ", number, " has ", line.size(), " characters, expected ", length, " of base64"));
  }
  // libsodium takes some bytes for digits that are none, so the alphabet is checked here.
  const size_t digits = length - (3 - out.size() % 3) % 3;
  for (size_t i = 0; i < length; ++i) {
    if (i < digits ? IsBase64Digit(line[i]) : line[i] == '=') continue;
    return Refuse(reason, absl::StrCat("line ", number, " has at character ", i + 1, " no base64 ",
                                       i < digits ? "digit" : "padding"));
  }
  size_t decoded = 0;
  if (sodium_base642bin(out.data(), out.size(), line.data(), line.size(), nullptr, &decoded, nullptr,
                        sodium_base64_VARIANT_ORIGINAL) != 0 ||
      decoded != out.size()) {
    return Refuse(reason, absl::StrCat("line ", number, " has bits after its last byte that are not zero"));
  }
  return absl::OkStatus();
}

void AppendBase64Line(absl::Span<const uint8_t> bytes, std::string& text) {
  const size_t start = text.size();
  const size_t length = Base64Length(bytes.size());
  text.resize(start + length + 1);  // the zero that libsodium ends with becomes the line feed
  sodium_bin2base64(text.data() + start, length + 1, bytes.data(), bytes.size(), sodium_base64_VARIANT_ORIGINAL);
  text.back() = '\n';
}

absl::Status StartSodium() {
  if (sodium_init() < 0) return Refuse(Reason::kBug, "libsodium cannot be started");
  return absl::OkStatus();
}

}  // namespace meshseal

// What minisign's key and signature files are made of: comment lines and lines of base64, checked to the byte.
// Every line ends with one line feed, as the stock program writes them; no carriage return, nothing before or after.
#ifndef MESHSEAL_SCHEMA_MINISIGN_TEXT_H_
#define MESHSEAL_SCHEMA_MINISIGN_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/reason.h"

namespace meshseal {

inline constexpr absl::string_view kUntrustedCommentPrefix = "untrusted comment: ";
inline constexpr absl::string_view kTrustedCommentPrefix = "trusted comment: ";

// Bytes of a comment without its prefix: what stock minisign has room for.
inline constexpr size_t kMaxUntrustedComment = 1003;
inline constexpr size_t kMaxTrustedComment = 8173;

// Characters that the base64 of `bytes` bytes takes, with padding.
constexpr size_t Base64Length(size_t bytes) { return (bytes + 2) / 3 * 4; }

// The lines of `text`, without their line feeds: exactly `count` of them, `max_size` bytes at most in all.
absl::StatusOr<std::vector<absl::string_view>> MinisignLines(absl::string_view text, size_t count, size_t max_size,
                                                             Reason reason);

// OK if `comment` is UTF-8 of at most `max_size` bytes without control characters. Tab is allowed: the stock program
// puts it between the parts of a trusted comment. `what` names the comment in the text of a refusal.
absl::Status CheckComment(absl::string_view comment, absl::string_view what, size_t max_size, Reason reason);

// Decodes line `number` (from 1), the canonical base64 of exactly out.size() bytes: the standard alphabet, full
// padding, unused bits zero, nothing else.
absl::Status DecodeBase64Line(absl::string_view line, size_t number, absl::Span<uint8_t> out, Reason reason);

// Appends the base64 of `bytes` and a line feed.
void AppendBase64Line(absl::Span<const uint8_t> bytes, std::string& text);

// Makes libsodium ready; any number of times, from any thread. Reason: kBug.
absl::Status StartSodium();

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_MINISIGN_TEXT_H_

// What our readers of JSON share: nlohmann's SAX parser with positions and with our refusals. For schema/*.cc alone.
#ifndef MESHSEAL_SCHEMA_STRICT_JSON_H_
#define MESHSEAL_SCHEMA_STRICT_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "schema/reason.h"

namespace meshseal {

// OK when `text` begins with '{': the parser would skip white space and a byte order mark before it. The arguments are
// those of StrictJson.
absl::Status CheckBeginsObject(Reason reason, absl::string_view file, absl::string_view what, absl::string_view text);

// A grammar as a handler of events. The parser checks UTF-8 and strict JSON (no comments, no trailing commas); the
// handler checks the rest and bounds the nesting. A method that returns false ends the parse with Stop's refusal.
class StrictJson : public nlohmann::json_sax<nlohmann::json> {
 public:
  // OK or the refusal. Called once.
  absl::Status Parse();

  bool null() override;
  bool boolean(bool value) override;
  bool number_integer(number_integer_t value) override;
  bool number_unsigned(number_unsigned_t value) override;
  // Fractions, exponents and numbers above 2^64 arrive here.
  bool number_float(number_float_t value, const string_t& text) override;
  bool binary(binary_t& value) override;
  bool parse_error(size_t position, const std::string& token, const nlohmann::detail::exception& error) override;

 protected:
  // `text` is the JSON, bytes [start, start + text.size()) of `file`; `what` names it in messages: "the header".
  // `reason` is that of text which is no strict JSON.
  StrictJson(Reason reason, absl::string_view file, absl::string_view what, absl::string_view text, uint64_t start)
      : reason_(reason), file_(file), what_(what), text_(text), start_(start) {}

  // A value without an event of its own in the handler, in words: "null", "the number 4".
  virtual bool OtherValue(absl::string_view found) = 0;

  // Refuses with "FILE: `text` (near byte N)".
  bool Stop(Reason reason, absl::string_view text);

 private:
  std::string Near() const;

  const Reason reason_;
  const absl::string_view file_;
  const absl::string_view what_;
  const absl::string_view text_;
  const uint64_t start_;
  uint64_t consumed_ = 0;  // bytes of text_
  absl::Status status_;
};

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_STRICT_JSON_H_

#include "schema/strict_json.h"

#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "schema/format_text.h"
#include "schema/quoted_name.h"

namespace meshseal {
namespace {

// Walks over the text and keeps count, because nlohmann's SAX events carry no position.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, uint64_t* count) : at_(at), count_(count) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  uint64_t* count_;
};

}  // namespace

absl::Status CheckBeginsObject(Reason reason, absl::string_view file, absl::string_view what, absl::string_view text) {
  if (text.empty()) return Refuse(reason, absl::StrCat(file, ": ", what, " is empty, expected '{'"));
  if (text.front() == '{') return absl::OkStatus();
  return Refuse(reason, FormatText("%s: %s begins with byte 0x%02x, expected '{'", file, what,
                                   static_cast<unsigned char>(text.front())));
}

absl::Status StrictJson::Parse() {
  // The parser takes a NUL for the end of its input.
  if (const size_t nul = text_.find('\0'); nul != absl::string_view::npos) {
    return Refuse(reason_, absl::StrCat(file_, ": ", what_, " holds a NUL at byte ", start_ + nul));
  }
  const CountingIterator first(text_.data(), &consumed_);
  const CountingIterator last(text_.data() + text_.size(), &consumed_);
  if (nlohmann::json::sax_parse(first, last, this)) return absl::OkStatus();
  return status_;
}

bool StrictJson::null() { return OtherValue("null"); }
bool StrictJson::boolean(bool value) { return OtherValue(value ? "true" : "false"); }
bool StrictJson::number_integer(number_integer_t) { return OtherValue("a signed number"); }
bool StrictJson::number_unsigned(number_unsigned_t value) { return OtherValue(absl::StrCat("the number ", value)); }
bool StrictJson::number_float(number_float_t, const string_t& text) {
  return OtherValue(absl::StrCat("the number ", QuotedName(text)));
}
bool StrictJson::binary(binary_t&) { return OtherValue("binary data"); }

bool StrictJson::parse_error(size_t, const std::string&, const nlohmann::detail::exception&) {
  constexpr uint64_t kShown = 24;
  const uint64_t first = consumed_ > kShown ? consumed_ - kShown : 0;
  const std::string before =
      absl::StrReplaceAll(absl::CEscape(text_.substr(first, consumed_ - first)), {{"\\\"", "\""}});
  return Stop(reason_, absl::StrCat(what_, " is not strict UTF-8 JSON after '", before, "'"));
}

bool StrictJson::Stop(Reason reason, absl::string_view text) {
  status_ = Refuse(reason, absl::StrCat(file_, ": ", text, Near()));
  return false;
}

std::string StrictJson::Near() const { return absl::StrCat(" (near byte ", start_ + consumed_, ")"); }

}  // namespace meshseal

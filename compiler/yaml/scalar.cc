#include "compiler/yaml/scalar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "compiler/text/utf8.h"
#include "schema/checked_math.h"

namespace meshseal::compiler {
namespace {

// What is due, for messages.
struct Due {
  absl::string_view rule;
  absl::string_view expected;  // "a whole number"
  absl::string_view noun;      // "number", as in "a quoted string is not a ..."
};

Diagnostic& RefuseValue(const YamlNode& node, absl::string_view name, const Due& due, absl::string_view why,
                        Diagnostics& diagnostics) {
  std::string text = absl::StrCat(name, ": expected ", due.expected, ", found ", Describe(node));
  if (!why.empty()) absl::StrAppend(&text, " (", why, ")");
  return diagnostics.Error(due.rule, node.span(), std::move(text));
}

const YamlScalar* ScalarOf(const YamlNode& node, absl::string_view name, const Due& due, Diagnostics& diagnostics) {
  const YamlScalar* scalar = node.scalar();
  if (scalar == nullptr) {
    RefuseValue(node, name, Due{"wrong-kind", due.expected, due.noun}, "", diagnostics);
  }
  return scalar;
}

// The text of a plain scalar.
std::optional<absl::string_view> PlainText(const YamlNode& node, absl::string_view name, const Due& due,
                                           Diagnostics& diagnostics) {
  const YamlScalar* scalar = ScalarOf(node, name, due, diagnostics);
  if (scalar == nullptr) return std::nullopt;
  if (!scalar->plain) {
    RefuseValue(node, name, due, absl::StrCat("a quoted string is not a ", due.noun), diagnostics);
    return std::nullopt;
  }
  return scalar->text;
}

// How many digits `text` begins with.
size_t DigitCount(absl::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(), absl::ascii_isdigit);
  return static_cast<size_t>(end - text.begin());
}

bool AllDigits(absl::string_view text) { return !text.empty() && DigitCount(text) == text.size(); }

// 0|[1-9][0-9]*
bool IsWholeNumber(absl::string_view text) { return AllDigits(text) && (text.size() == 1 || text[0] != '0'); }

constexpr absl::string_view kLeadingZeros = "leading zeros are not allowed";

// Why `text` is not a whole number, where that can be told.
absl::string_view WhyNotWhole(absl::string_view text) {
  if (absl::StartsWith(text, "-") || absl::StartsWith(text, "+")) return "a sign is not allowed";
  if (absl::StartsWithIgnoreCase(text, "0x")) return "hex is not allowed";
  if (absl::StartsWithIgnoreCase(text, "0o") || absl::StartsWithIgnoreCase(text, "0b")) {
    return "only decimal is allowed";
  }
  if (AllDigits(text)) return kLeadingZeros;
  const size_t digits = DigitCount(text);
  if (digits == 0) return "";
  switch (text[digits]) {
    case '.':
      return "a fraction is not allowed";
    case 'e':
    case 'E':
      return "an exponent is not allowed";
    case '_':
    case ',':
      return "digits are not grouped";
    default:
      return "";
  }
}

// A whole number written in `digits`, or nothing when it does not fit in 64 bits.
std::optional<uint64_t> ToUnsigned(absl::string_view digits) {
  uint64_t value = 0;
  if (!absl::SimpleAtoi(digits, &value)) return std::nullopt;
  return value;
}

// -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?
bool IsDecimal(absl::string_view text) {
  if (absl::StartsWith(text, "-")) text.remove_prefix(1);
  const size_t whole = DigitCount(text);
  if (!IsWholeNumber(text.substr(0, whole))) return false;
  text.remove_prefix(whole);
  if (absl::StartsWith(text, ".")) {
    const size_t fraction = DigitCount(text.substr(1));
    if (fraction == 0) return false;
    text.remove_prefix(1 + fraction);
  }
  if (absl::StartsWith(text, "e") || absl::StartsWith(text, "E")) {
    text.remove_prefix(1);
    if (absl::StartsWith(text, "-") || absl::StartsWith(text, "+")) text.remove_prefix(1);
    return AllDigits(text);
  }
  return text.empty();
}

struct UnitRow {
  absl::string_view name;
  uint64_t factor;
};

constexpr auto kByteUnits = std::to_array<UnitRow>({
    {"B", 1},
    {"KiB", uint64_t{1} << 10},
    {"MiB", uint64_t{1} << 20},
    {"GiB", uint64_t{1} << 30},
    {"TiB", uint64_t{1} << 40},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
});
constexpr auto kByteRateUnits = std::to_array<UnitRow>({{"GB/s", 1'000'000'000}});
constexpr auto kFlopRateUnits = std::to_array<UnitRow>({{"TFLOP/s", 1'000'000'000'000}});
constexpr auto kTimeUnits = std::to_array<UnitRow>({{"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}});

struct Quantity {
  Due due;
  absl::Span<const UnitRow> units;
  absl::string_view base;  // the unit of the result, for messages
};

const Quantity kSize = {{"bad-size", "a size such as 4GiB", "size"}, kByteUnits, "bytes"};
const Quantity kByteRate = {{"bad-rate", "a rate such as 450GB/s", "rate"}, kByteRateUnits, "bytes per second"};
const Quantity kFlopRate = {{"bad-rate", "a rate such as 989TFLOP/s", "rate"}, kFlopRateUnits, "operations per second"};
const Quantity kDuration = {{"bad-duration", "a time such as 10us", "time"}, kTimeUnits, "nanoseconds"};

// Why `text`, of which the first `digits` bytes are digits and the rest is no unit, is not a quantity.
std::string WhyNotQuantity(absl::string_view text, size_t digits) {
  if (digits == 0) return "";
  const absl::string_view unit = text.substr(digits);
  if (unit.empty()) return "the unit is missing";
  if (unit[0] == ' ') return "no space between number and unit";
  if (unit[0] == '.') return "only whole numbers of a unit";
  return absl::StrCat("unknown unit ", Quoted(unit));
}

std::optional<uint64_t> ReadQuantity(const YamlNode& node, absl::string_view name, const Quantity& quantity,
                                     Diagnostics& diagnostics) {
  const std::optional<absl::string_view> text = PlainText(node, name, quantity.due, diagnostics);
  if (!text) return std::nullopt;
  const size_t digits = DigitCount(*text);
  const absl::string_view number = text->substr(0, digits);
  const absl::string_view unit = text->substr(digits);
  const auto row = std::find_if(quantity.units.begin(), quantity.units.end(),
                                [&](const UnitRow& candidate) { return candidate.name == unit; });
  if (digits == 0 || row == quantity.units.end()) {
    RefuseValue(node, name, quantity.due, WhyNotQuantity(*text, digits), diagnostics).help = absl::StrCat(
        "units: ", absl::StrJoin(quantity.units, " ",
                                 [](std::string* out, const UnitRow& known) { absl::StrAppend(out, known.name); }));
    return std::nullopt;
  }
  if (!IsWholeNumber(number)) {
    RefuseValue(node, name, quantity.due, kLeadingZeros, diagnostics);
    return std::nullopt;
  }
  const std::optional<uint64_t> count = ToUnsigned(number);
  const std::optional<uint64_t> value = count ? CheckedMul(*count, row->factor) : std::nullopt;
  if (!value) {
    diagnostics.Error("out-of-range", node.span(),
                      absl::StrCat(name, ": ", Quoted(*text), " is more than ", std::numeric_limits<uint64_t>::max(),
                                   " ", quantity.base));
  }
  return value;
}

// One index or range of a list, all below `end`.
std::optional<IndexRange> ReadRangeItem(const YamlNode& node, absl::string_view name, uint64_t end,
                                        Diagnostics& diagnostics) {
  constexpr Due kDue = {"bad-range", "an index or a range such as 3-60", "range"};
  const std::optional<absl::string_view> text = PlainText(node, name, kDue, diagnostics);
  if (!text) return std::nullopt;
  const size_t dash = text->find('-');
  const absl::string_view first_text = text->substr(0, dash);
  const absl::string_view last_text = dash == absl::string_view::npos ? first_text : text->substr(dash + 1);
  for (const absl::string_view part : {first_text, last_text}) {
    if (IsWholeNumber(part)) continue;
    RefuseValue(node, name, kDue, AllDigits(part) ? kLeadingZeros : "", diagnostics);
    return std::nullopt;
  }
  const std::optional<uint64_t> first = ToUnsigned(first_text);
  const std::optional<uint64_t> last = ToUnsigned(last_text);
  if (!first || !last || *first >= end || *last >= end) {
    diagnostics.Error("out-of-range", node.span(), absl::StrCat(name, ": ", Quoted(*text), " is not below ", end));
    return std::nullopt;
  }
  if (*last < *first) {
    diagnostics.Error("bad-range", node.span(),
                      absl::StrCat(name, ": the range ", Quoted(*text), " ends before it begins"));
    return std::nullopt;
  }
  return IndexRange{*first, *last + 1};  // cannot wrap: *last < end
}

}  // namespace

std::string Describe(const YamlNode& node) {
  switch (node.kind()) {
    case YamlKind::kMap:
      return "a map";
    case YamlKind::kList:
      return "a list";
    case YamlKind::kScalar:
      break;
  }
  const YamlScalar& scalar = *node.scalar();
  return Quoted(scalar.text, scalar.plain ? '\'' : '"');
}

std::optional<uint64_t> ReadUnsigned(const YamlNode& node, absl::string_view name, const UnsignedRange& range,
                                     Diagnostics& diagnostics) {
  constexpr Due kDue = {"bad-integer", "a whole number", "number"};
  const std::optional<absl::string_view> text = PlainText(node, name, kDue, diagnostics);
  if (!text) return std::nullopt;
  if (!IsWholeNumber(*text)) {
    RefuseValue(node, name, kDue, WhyNotWhole(*text), diagnostics);
    return std::nullopt;
  }
  const std::optional<uint64_t> value = ToUnsigned(*text);
  if (!value || *value < range.least || *value > range.most) {
    diagnostics.Error("out-of-range", node.span(),
                      absl::StrCat(name, ": expected a whole number from ", range.least, " to ", range.most, ", found ",
                                   Quoted(*text)));
    return std::nullopt;
  }
  return value;
}

std::optional<bool> ReadBool(const YamlNode& node, absl::string_view name, Diagnostics& diagnostics) {
  constexpr Due kDue = {"bad-boolean", "true or false", "boolean"};
  const std::optional<absl::string_view> text = PlainText(node, name, kDue, diagnostics);
  if (!text) return std::nullopt;
  if (*text == "true") return true;
  if (*text == "false") return false;
  RefuseValue(node, name, kDue, "", diagnostics);
  return std::nullopt;
}

std::optional<double> ReadFloat(const YamlNode& node, absl::string_view name, Diagnostics& diagnostics) {
  constexpr Due kDue = {"bad-number", "a finite decimal number", "number"};
  const std::optional<absl::string_view> text = PlainText(node, name, kDue, diagnostics);
  if (!text) return std::nullopt;
  if (!IsDecimal(*text)) {
    RefuseValue(node, name, kDue, "", diagnostics);
    return std::nullopt;
  }
  double value = 0;
  const absl::from_chars_result result = absl::from_chars(text->data(), text->data() + text->size(), value);
  if (result.ec != std::errc() || !std::isfinite(value)) {
    diagnostics.Error("out-of-range", node.span(),
                      absl::StrCat(name, ": ", Quoted(*text), " is not within the range of a 64-bit float"));
    return std::nullopt;
  }
  return value;
}

std::optional<std::string> ReadText(const YamlNode& node, absl::string_view name, Diagnostics& diagnostics) {
  const YamlScalar* scalar = ScalarOf(node, name, Due{"", "text", "text"}, diagnostics);
  if (scalar == nullptr) return std::nullopt;
  return scalar->text;
}

std::optional<uint64_t> ReadBytes(const YamlNode& node, absl::string_view name, Diagnostics& diagnostics) {
  return ReadQuantity(node, name, kSize, diagnostics);
}

std::optional<uint64_t> ReadRate(const YamlNode& node, absl::string_view name, Rate rate, Diagnostics& diagnostics) {
  return ReadQuantity(node, name, rate == Rate::kBytesPerSecond ? kByteRate : kFlopRate, diagnostics);
}

std::optional<uint64_t> ReadDuration(const YamlNode& node, absl::string_view name, Diagnostics& diagnostics) {
  return ReadQuantity(node, name, kDuration, diagnostics);
}

const YamlNode::List* ReadList(const YamlNode& node, absl::string_view name, Diagnostics& diagnostics) {
  if (node.list() == nullptr) {
    RefuseValue(node, name, Due{"wrong-kind", "a list", "list"}, "", diagnostics);
  }
  return node.list();
}

std::optional<std::vector<Spanned<IndexRange>>> ReadRanges(const YamlNode& node, absl::string_view name, uint64_t end,
                                                           Diagnostics& diagnostics) {
  const YamlNode::List* items = node.list();
  if (items == nullptr) {
    RefuseValue(node, name, Due{"wrong-kind", "a list of indices and ranges such as [0-2, 5]", "list"}, "",
                diagnostics);
    return std::nullopt;
  }
  const size_t errors_before = diagnostics.size();
  std::vector<Spanned<IndexRange>> ranges;
  for (const YamlNode& item : *items) {
    const std::optional<IndexRange> range = ReadRangeItem(item, name, end, diagnostics);
    if (range) ranges.push_back({*range, item.span()});
  }
  if (diagnostics.size() > errors_before) return std::nullopt;
  return ranges;
}

}  // namespace meshseal::compiler

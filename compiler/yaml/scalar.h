// From YAML text to typed values. Every quantity has one spelling; what does not match it is an error, never
// a guess. Each function returns nothing after adding one error to `diagnostics` (ReadRanges: one per bad
// item). `name` is what messages call the value, such as "moe.experts". A map or list where text is due is
// `wrong-kind`; a well-formed number that is too small or too large is `out-of-range`.
#ifndef MESHSEAL_COMPILER_YAML_SCALAR_H_
#define MESHSEAL_COMPILER_YAML_SCALAR_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/text/diagnostic.h"
#include "compiler/text/source.h"
#include "compiler/yaml/yaml.h"

namespace meshseal::compiler {

// Both ends are allowed.
struct UnsignedRange {
  uint64_t least = 0;
  uint64_t most = std::numeric_limits<uint64_t>::max();
};

// [first, last)
struct IndexRange {
  uint64_t first = 0;
  uint64_t last = 0;

  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

enum class Rate : uint8_t {
  kBytesPerSecond,  // GB/s
  kFlopPerSecond,   // TFLOP/s
};

// A plain 0|[1-9][0-9]*. Rules: bad-integer.
std::optional<uint64_t> ReadUnsigned(const YamlNode& node, absl::string_view name, const UnsignedRange& range,
                                     Diagnostics& diagnostics);

// A plain true or false. Rule: bad-boolean.
std::optional<bool> ReadBool(const YamlNode& node, absl::string_view name, Diagnostics& diagnostics);

// A plain -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?, rounded to the nearest double; out of range where
// that would be infinite, or 0 without being written as 0. Rule: bad-number.
std::optional<double> ReadFloat(const YamlNode& node, absl::string_view name, Diagnostics& diagnostics);

// Any scalar, quoted or not, as it reads; it may be empty.
std::optional<std::string> ReadText(const YamlNode& node, absl::string_view name, Diagnostics& diagnostics);

// A plain whole number followed by B, KiB, MiB, GiB, TiB (powers of 1024), KB, MB, GB or TB (powers of 1000).
// In bytes. Rule: bad-size.
std::optional<uint64_t> ReadBytes(const YamlNode& node, absl::string_view name, Diagnostics& diagnostics);

// A plain whole number followed by the rate's unit. In bytes (1 GB = 10^9) or floating-point operations (1
// TFLOP = 10^12) per second. Rule: bad-rate.
std::optional<uint64_t> ReadRate(const YamlNode& node, absl::string_view name, Rate rate, Diagnostics& diagnostics);

// A plain whole number followed by ns, us, ms or s. In nanoseconds. Rule: bad-duration.
std::optional<uint64_t> ReadDuration(const YamlNode& node, absl::string_view name, Diagnostics& diagnostics);

// A list of indices and inclusive ranges, all below `end`, such as [0-2, 5], in file order. Whether it may
// be empty, and whether its ranges ascend, is for the caller to rule. Rule: bad-range.
std::optional<std::vector<Spanned<IndexRange>>> ReadRanges(const YamlNode& node, absl::string_view name, uint64_t end,
                                                           Diagnostics& diagnostics);

// The items of a list, which may be empty; they live as long as `node`. Null after `wrong-kind`.
const YamlNode::List* ReadList(const YamlNode& node, absl::string_view name, Diagnostics& diagnostics);

// The node as messages show it: 'plain', "quoted", a map, a list.
std::string Describe(const YamlNode& node);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_YAML_SCALAR_H_

#include "tools/arrays/compare.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "schema/float_bits.h"
#include "schema/format_text.h"
#include "schema/reason.h"

namespace meshseal::tools {
namespace {

std::vector<uint64_t> IndexOf(uint64_t element, absl::Span<const uint64_t> shape) {
  std::vector<uint64_t> index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = element % shape[axis];
    element /= shape[axis];
  }
  return index;
}

template <class Stored>
Stored Load(const Array& array, uint64_t element) {
  Stored value;
  std::memcpy(&value, array.data.data() + element * sizeof(Stored), sizeof(Stored));
  return value;
}

// Stored is the integer that holds an element's bits; value_of turns it into the number: a float, a double or
// itself.
template <class Stored, class ValueOf>
Comparison Compare(const Array& array, const Array& reference, ValueOf value_of) {
  using Value = decltype(value_of(Stored{}));
  Comparison result;
  result.elements = array.data.size() / sizeof(Stored);
  double max_delta = 0;
  double max_reference = 0;
  bool found = false;
  uint64_t worst = 0;
  for (uint64_t i = 0; i < result.elements; ++i) {
    const auto a_bits = Load<Stored>(array, i);
    const auto b_bits = Load<Stored>(reference, i);
    const Value a = value_of(a_bits);
    const Value b = value_of(b_bits);
    bool differs = a_bits != b_bits;
    double delta = 0;
    if constexpr (std::is_floating_point_v<Value>) {
      if (std::isnan(a) || std::isnan(b)) {
        ++result.nans;
        differs = true;
        delta = std::numeric_limits<double>::quiet_NaN();
      } else if (std::isinf(a) || std::isinf(b)) {
        ++result.infinities;
        if (a != b) delta = std::numeric_limits<double>::infinity();
      } else {
        delta = std::fabs(static_cast<double>(a) - static_cast<double>(b));
        max_reference = std::fmax(max_reference, std::fabs(static_cast<double>(b)));
      }
    } else {
      // Unsigned subtraction gives the exact distance, even between the ends of i64.
      const uint64_t distance = a > b ? static_cast<uint64_t>(a) - static_cast<uint64_t>(b)
                                      : static_cast<uint64_t>(b) - static_cast<uint64_t>(a);
      delta = static_cast<double>(distance);
      max_reference = std::fmax(max_reference, std::fabs(static_cast<double>(b)));
    }
    if (differs) ++result.differing;
    if (delta > max_delta || (std::isnan(delta) && !std::isnan(max_delta))) {
      max_delta = delta;
      worst = i;
      found = true;
    }
  }
  if (!found) return result;
  result.ratio =
      std::isnan(max_delta) || max_reference == 0 ? std::numeric_limits<double>::infinity() : max_delta / max_reference;
  result.worst_index = IndexOf(worst, array.shape);
  const auto text = [&](const Array& from) {
    const Value value = value_of(Load<Stored>(from, worst));
    if constexpr (std::is_same_v<Value, double>) return FormatText("%.17g", value);
    if constexpr (std::is_same_v<Value, float>) return FormatText("%.9g", value);
    return absl::StrCat(value);
  };
  result.worst_value = text(array);
  result.worst_reference = text(reference);
  return result;
}

}  // namespace

absl::StatusOr<Comparison> CompareArrays(const Array& array, const Array& reference) {
  if (array.dtype != reference.dtype) {
    return Refuse(Reason::kDiffers, absl::StrCat("dtype ", DTypeName(array.dtype), " against ",
                                                 DTypeName(reference.dtype), ", expected the same"));
  }
  if (array.shape != reference.shape) {
    return Refuse(Reason::kDiffers, absl::StrCat("shape ", ShapeText(array.shape), " against ",
                                                 ShapeText(reference.shape), ", expected the same"));
  }
  const std::optional<uint64_t> elements = ElementsOf(array.shape);
  const std::optional<uint64_t> bytes = elements.has_value() ? BytesOf(array.dtype, *elements) : std::nullopt;
  if (bytes != array.data.size() || bytes != reference.data.size()) {
    return Refuse(Reason::kBug, absl::StrCat("arrays of ", array.data.size(), " and ", reference.data.size(),
                                             " bytes do not have the size of their shape ", ShapeText(array.shape)));
  }
  switch (array.dtype) {
    case DType::kF64:
      return Compare<uint64_t>(array, reference, [](uint64_t bits) { return std::bit_cast<double>(bits); });
    case DType::kF32:
      return Compare<uint32_t>(array, reference, [](uint32_t bits) { return std::bit_cast<float>(bits); });
    case DType::kF16:
      return Compare<uint16_t>(array, reference, F16ToFloat);
    case DType::kBf16:
      return Compare<uint16_t>(array, reference, Bf16ToFloat);
    case DType::kI8:
      return Compare<int8_t>(array, reference, [](int8_t bits) { return int64_t{bits}; });
    case DType::kBool:
    case DType::kU8:
      return Compare<uint8_t>(array, reference, [](uint8_t bits) { return uint64_t{bits}; });
    case DType::kI16:
      return Compare<int16_t>(array, reference, [](int16_t bits) { return int64_t{bits}; });
    case DType::kU16:
      return Compare<uint16_t>(array, reference, [](uint16_t bits) { return uint64_t{bits}; });
    case DType::kI32:
      return Compare<int32_t>(array, reference, [](int32_t bits) { return int64_t{bits}; });
    case DType::kU32:
      return Compare<uint32_t>(array, reference, [](uint32_t bits) { return uint64_t{bits}; });
    case DType::kI64:
      return Compare<int64_t>(array, reference, [](int64_t bits) { return bits; });
    case DType::kU64:
      return Compare<uint64_t>(array, reference, [](uint64_t bits) { return bits; });
    default:
      return Refuse(Reason::kNotBuilt, absl::StrCat("arrays of ", DTypeName(array.dtype), " cannot be compared yet"));
  }
}

std::string ComparisonText(const Comparison& comparison) {
  std::string text = FormatText("max|Δ|/max|ref| = %.3g", comparison.ratio);
  if (!comparison.worst_value.empty()) {
    absl::StrAppend(&text, " (worst at ", ShapeText(comparison.worst_index), ": ", comparison.worst_value, " against ",
                    comparison.worst_reference, ")");
  }
  absl::StrAppend(&text, ", ", comparison.elements, " elements, ", comparison.differing, " differ");
  if (comparison.nans != 0 || comparison.infinities != 0) {
    absl::StrAppend(&text, "\nnot finite: ", comparison.nans, " with NaN (always a difference), ",
                    comparison.infinities, " with an infinity");
  }
  return text;
}

}  // namespace meshseal::tools

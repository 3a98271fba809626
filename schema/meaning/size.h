// A number of bytes or rows that may have overflowed on its way; internal to the meaning gate.
#ifndef MESHSEAL_SCHEMA_MEANING_SIZE_H_
#define MESHSEAL_SCHEMA_MEANING_SIZE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "schema/checked_math.h"

namespace meshseal::meaning {

// An overflow sticks.
class Size {
 public:
  Size(uint64_t value) : value_(value) {}  // NOLINT(google-explicit-constructor): reads as a number

  Size operator*(Size other) const { return Both(other, CheckedMul); }
  Size operator+(Size other) const { return Both(other, CheckedAdd); }
  Size DividedUp(uint64_t unit) const {
    Size result = *this;
    if (value_.has_value()) result.value_ = *value_ / unit + (*value_ % unit == 0 ? 0 : 1);
    return result;
  }
  Size RoundedUp(uint64_t unit) const { return DividedUp(unit) * unit; }
  // The larger one; an overflow is larger than any number.
  Size OrMore(Size other) const {
    if (!value_.has_value() || !other.value_.has_value()) return value_.has_value() ? other : *this;
    return *value_ < *other.value_ ? other : *this;
  }

  bool Is(uint64_t expected) const { return value_ == expected; }
  // The number, where there is one.
  std::optional<uint64_t> value() const { return value_; }
  std::string Text() const {
    return value_.has_value() ? absl::StrCat(*value_) : std::string("more than 64 bits hold");
  }

 private:
  Size Both(Size other, std::optional<uint64_t> (*operation)(uint64_t, uint64_t)) const {
    Size result(0);
    result.value_ = value_.has_value() && other.value_.has_value() ? operation(*value_, *other.value_) : std::nullopt;
    return result;
  }

  std::optional<uint64_t> value_;
};

}  // namespace meshseal::meaning

#endif  // MESHSEAL_SCHEMA_MEANING_SIZE_H_

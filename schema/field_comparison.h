// Compares two plans field by field; internal to plan_diff.
#ifndef MESHSEAL_SCHEMA_FIELD_COMPARISON_H_
#define MESHSEAL_SCHEMA_FIELD_COMPARISON_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "schema/dtype.h"
#include "schema/plan_diff.h"
#include "schema/plan_words.h"

namespace meshseal {

inline constexpr absl::string_view kNone = "none";

// Texts that differ wherever the values do.
inline std::string FieldText(const std::string& text) { return text; }
inline std::string FieldText(bool value) { return value ? "yes" : "no"; }
inline std::string FieldText(uint32_t value) { return absl::StrCat(value); }
inline std::string FieldText(uint64_t value) { return absl::StrCat(value); }
inline std::string FieldText(float value) { return NumberText(value); }
inline std::string FieldText(double value) { return NumberText(value); }
inline std::string FieldText(DType dtype) { return std::string(DTypeName(dtype)); }
inline std::string FieldText(const std::vector<uint32_t>& values) {
  return values.empty() ? std::string(kNone) : absl::StrJoin(values, ",");
}
template <class E, class = std::enable_if_t<std::is_enum_v<E>>>
std::string FieldText(E term) {
  return WordOf(term);
}

// Collects the fields that differ, under one prefix.
class Comparison {
 public:
  explicit Comparison(FieldChanges* changes, std::string prefix = "")
      : changes_(*changes), prefix_(std::move(prefix)) {}

  template <class T>
  void Field(absl::string_view name, const T& a, const T& b) const {
    std::string text_a = FieldText(a);
    std::string text_b = FieldText(b);
    if (text_a != text_b) Add(name, std::move(text_a), std::move(text_b));
  }

  // What has no text of its own that tells all values apart: `text(value)` is a summary.
  template <class T, class TextOf>
  void Summary(absl::string_view name, const T& a, const T& b, TextOf text) const {
    if (a == b) return;
    std::string text_a = text(a);
    std::string text_b = text(b);
    if (text_a == text_b) text_b += ", others";
    Add(name, std::move(text_a), std::move(text_b));
  }

  void Add(absl::string_view name, std::string a, std::string b) const {
    changes_.push_back({absl::StrCat(prefix_, name), std::move(a), std::move(b)});
  }

  Comparison Under(absl::string_view name) const { return Comparison(&changes_, absl::StrCat(prefix_, name, ".")); }

  // Things with a name: `compare(Comparison, a, b)` for those of both plans, text(thing) where only one has it.
  template <class T, class Name, class TextOf, class Compare>
  void Named(const std::vector<T>& a, const std::vector<T>& b, Name name, TextOf text, Compare compare) const {
    std::map<std::string, const T*> of_b;
    for (const T& item : b) of_b.emplace(name(item), &item);
    std::set<std::string> in_a;
    for (const T& item : a) {
      in_a.insert(name(item));
      const auto found = of_b.find(name(item));
      if (found == of_b.end()) {
        Add(name(item), text(item), std::string(kNone));
      } else {
        compare(Under(name(item)), item, *found->second);
      }
    }
    for (const T& item : b) {
      if (in_a.count(name(item)) == 0) Add(name(item), std::string(kNone), text(item));
    }
  }

 private:
  FieldChanges& changes_;
  std::string prefix_;
};
}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_FIELD_COMPARISON_H_

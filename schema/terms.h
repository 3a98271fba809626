// The words of a plan's closed vocabularies, both ways.
#ifndef MESHSEAL_SCHEMA_TERMS_H_
#define MESHSEAL_SCHEMA_TERMS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/vocabularies.h"

namespace meshseal {

struct Term {
  uint8_t value;
  const char* word;
};

// Terms<E>() is the list behind enumeration E.
template <class E>
absl::Span<const Term> Terms();

#define MESHSEAL_TERM_ROW(enumerator, value, word) Term{value, word},
#define MESHSEAL_DEFINE_TERMS(Type, LIST)                      \
  template <>                                                  \
  inline absl::Span<const Term> Terms<Type>() {                \
    static constexpr Term kRows[] = {LIST(MESHSEAL_TERM_ROW)}; \
    return kRows;                                              \
  }
MESHSEAL_VOCABULARIES(MESHSEAL_DEFINE_TERMS)
#undef MESHSEAL_DEFINE_TERMS
#undef MESHSEAL_TERM_ROW

// The word of a term; "invalid" for a value outside its list.
template <class E>
const char* WordOf(E term) {
  for (const Term& row : Terms<E>()) {
    if (row.value == static_cast<uint8_t>(term)) return row.word;
  }
  return "invalid";
}

// The term a word names, if any.
template <class E>
std::optional<E> TermOf(absl::string_view word) {
  for (const Term& row : Terms<E>()) {
    if (word == row.word) return static_cast<E>(row.value);
  }
  return std::nullopt;
}

// Whether a wire value is a row of its list.
template <class E>
bool IsKnown(E term) {
  for (const Term& row : Terms<E>()) {
    if (row.value == static_cast<uint8_t>(term)) return true;
  }
  return false;
}

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_TERMS_H_

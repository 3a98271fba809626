#include "schema/tensor_name.h"

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace meshseal {
namespace {

constexpr absl::string_view kLayer = "{layer}";
constexpr absl::string_view kExpert = "{expert}";

// The length of the decimal number that `text` starts with; 0 when it starts with none.
size_t NumberLength(absl::string_view text) {
  size_t length = 0;
  while (length < text.size() && text[length] >= '0' && text[length] <= '9') ++length;
  return length > 1 && text[0] == '0' ? 1 : length;
}

}  // namespace

std::string TensorName(absl::string_view pattern, uint32_t layer, uint32_t expert) {
  return absl::StrReplaceAll(pattern, {{kLayer, absl::StrCat(layer)}, {kExpert, absl::StrCat(expert)}});
}

// Walks both once; after a mismatch it goes back to the last star and lets it take one character more. A number takes
// all its digits, so there is nothing else to go back to.
bool MatchesPattern(absl::string_view pattern, absl::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = absl::string_view::npos;
  size_t star_name = 0;
  while (true) {
    const absl::string_view rest = pattern.substr(p);
    const size_t placeholder = absl::StartsWith(rest, kLayer)    ? kLayer.size()
                               : absl::StartsWith(rest, kExpert) ? kExpert.size()
                                                                 : 0;
    if (rest.empty() && n == name.size()) return true;
    if (!rest.empty() && rest[0] == '*') {
      star = p++;
      star_name = n;
    } else if (const size_t digits = placeholder == 0 ? 0 : NumberLength(name.substr(n)); digits > 0) {
      p += placeholder;
      n += digits;
    } else if (placeholder == 0 && !rest.empty() && n < name.size() && rest[0] == name[n]) {
      ++p;
      ++n;
    } else if (star != absl::string_view::npos && star_name < name.size()) {
      p = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
}

namespace {

// A pattern as a chain of states; each consumes one character of a class to go on, or to stay where it repeats.
struct ChainLink {
  enum class Class : uint8_t { kLiteral, kDigit, kAny } characters = Class::kLiteral;
  char literal = 0;
  bool repeats = false;   // may consume more
  bool optional = false;  // may consume nothing
};

std::vector<ChainLink> ChainOf(absl::string_view pattern) {
  std::vector<ChainLink> chain;
  while (!pattern.empty()) {
    if (absl::ConsumePrefix(&pattern, "{layer}") || absl::ConsumePrefix(&pattern, "{expert}")) {
      chain.push_back({ChainLink::Class::kDigit, 0, true, false});
    } else if (absl::ConsumePrefix(&pattern, "*")) {
      chain.push_back({ChainLink::Class::kAny, 0, true, true});
    } else {
      chain.push_back({ChainLink::Class::kLiteral, pattern.front(), false, false});
      pattern.remove_prefix(1);
    }
  }
  return chain;
}

// Whether one character fits both.
bool ShareCharacter(const ChainLink& a, const ChainLink& b) {
  if (a.characters == ChainLink::Class::kAny || b.characters == ChainLink::Class::kAny) return true;
  if (a.characters == ChainLink::Class::kLiteral && b.characters == ChainLink::Class::kLiteral)
    return a.literal == b.literal;
  const auto digit = [](const ChainLink& link) {
    return link.characters == ChainLink::Class::kDigit || (link.literal >= '0' && link.literal <= '9');
  };
  return digit(a) && digit(b);
}

}  // namespace

bool PatternsOverlap(absl::string_view a, absl::string_view b) {
  const std::vector<ChainLink> x = ChainOf(a);
  const std::vector<ChainLink> y = ChainOf(b);
  // What is left of both, with whether the first link of each has consumed something already.
  using State = std::tuple<size_t, bool, size_t, bool>;
  std::vector<bool> seen(4 * (x.size() + 1) * (y.size() + 1), false);
  std::vector<State> open = {{0, false, 0, false}};
  while (!open.empty()) {
    const State state = open.back();
    open.pop_back();
    const auto [i, i_used, j, j_used] = state;
    const size_t number = ((i * (y.size() + 1) + j) * 2 + (i_used ? 1 : 0)) * 2 + (j_used ? 1 : 0);
    if (seen[number]) continue;
    seen[number] = true;
    if (i == x.size() && j == y.size()) return true;
    if (i < x.size() && (i_used || x[i].optional)) open.emplace_back(i + 1, false, j, j_used);
    if (j < y.size() && (j_used || y[j].optional)) open.emplace_back(i, i_used, j + 1, false);
    if (i == x.size() || j == y.size()) continue;
    if ((i_used && !x[i].repeats) || (j_used && !y[j].repeats) || !ShareCharacter(x[i], y[j])) continue;
    open.emplace_back(i, true, j, true);
  }
  return false;
}

}  // namespace meshseal

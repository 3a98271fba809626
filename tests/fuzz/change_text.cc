#include "tests/fuzz/change_text.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/fuzz/fuzz_target.h"

namespace meshseal::fuzz {
namespace {

struct Place {
  size_t begin = 0;
  size_t size = 0;
};

bool IsWord(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The maximal runs of letters and digits, or the lines.
std::vector<Place> PlacesOf(const std::string& text, bool lines) {
  std::vector<Place> places;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && (lines ? text[i] != '\n' : IsWord(text[i]))) continue;
    if (i > begin) places.push_back({begin, i - begin});
    begin = i + 1;
  }
  return places;
}

std::string OtherNumber(uint64_t number, std::minstd_rand& random) {
  switch (random() % 8) {
    case 0:
      return absl::StrCat(number + 1);
    case 1:
      return absl::StrCat(number - 1);
    case 2:
      return absl::StrCat(number * 2);
    case 3:
      return absl::StrCat(number / 2);
    case 4:
      return "0";
    case 5:
      return absl::StrCat(1 + random() % 64);
    default: {
      constexpr uint64_t kOne = 1;
      return absl::StrCat((kOne << std::vector{8, 16, 20, 31, 32, 42, 48, 63}[random() % 8]) - random() % 2);
    }
  }
}

}  // namespace

size_t ChangeText(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  std::minstd_rand random(seed);
  std::string text(TextOf(data, size));
  const bool lines = random() % 8 == 0;
  const std::vector<Place> places = PlacesOf(text, lines);
  if (random() % 2 == 0 || places.empty()) return LLVMFuzzerMutate(data, size, max_size);
  const Place place = places[random() % places.size()];
  const Place other = places[random() % places.size()];
  const std::string now = text.substr(place.begin, place.size);
  uint64_t number = 0;
  if (lines) {
    // With its line feed.
    const std::string line = absl::StrCat(text.substr(other.begin, other.size), "\n");
    if (random() % 2 == 0) {
      text.erase(other.begin, line.size());
    } else {
      text.insert(place.begin, line);
    }
  } else if (absl::SimpleAtoi(now, &number) && random() % 4 != 0) {
    text.replace(place.begin, place.size, OtherNumber(number, random));
  } else {
    text.replace(place.begin, place.size, text.substr(other.begin, other.size));
  }
  return Replace(text, data, size, max_size);
}

}  // namespace meshseal::fuzz

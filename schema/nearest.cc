#include "schema/nearest.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace meshseal {
namespace {

size_t EditDistance(absl::string_view a, absl::string_view b) {
  // Three rows of the usual table: row i holds the distances of a's first i bytes to every start of b.
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<absl::string_view> Nearest(absl::string_view word, absl::Span<const absl::string_view> candidates) {
  std::optional<absl::string_view> nearest;
  size_t limit = std::max<size_t>(1, word.size() / 3);  // the most edits that still win
  for (const absl::string_view candidate : candidates) {
    const size_t longer = std::max(word.size(), candidate.size());
    const size_t shorter = std::min(word.size(), candidate.size());
    if (longer - shorter > limit) continue;  // at least that many inserts
    const size_t distance = EditDistance(word, candidate);
    if (distance > limit) continue;
    nearest = candidate;
    if (distance == 0) break;
    limit = distance - 1;
  }
  return nearest;
}

}  // namespace meshseal

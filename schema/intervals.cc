#include "schema/intervals.h"

#include <algorithm>
#include <cstddef>

namespace meshseal {

uint64_t Count(const Intervals& intervals) {
  uint64_t count = 0;
  for (const Interval& interval : intervals) count += Count(interval);
  return count;
}

void Append(uint32_t first, uint32_t last, Intervals* intervals) {
  if (!intervals->empty() && intervals->back().last == first) {
    intervals->back().last = last;
  } else {
    intervals->push_back({first, last});
  }
}

Intervals IntervalsOf(const std::vector<uint32_t>& ascending) {
  Intervals intervals;
  for (const uint32_t number : ascending) Append(number, number + 1, &intervals);
  return intervals;
}

Intervals Joined(Intervals intervals) {
  std::sort(intervals.begin(), intervals.end());
  Intervals joined;
  for (const Interval& interval : intervals) Append(interval.first, interval.last, &joined);
  return joined;
}

Intervals Intersection(const Intervals& a, const Intervals& b) {
  Intervals both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const uint32_t first = std::max(a[i].first, b[j].first);
    const uint32_t last = std::min(a[i].last, b[j].last);
    if (first < last) Append(first, last, &both);
    a[i].last < b[j].last ? ++i : ++j;
  }
  return both;
}

Intervals Difference(const Intervals& a, const Intervals& b) {
  Intervals rest;
  size_t j = 0;
  for (const Interval& interval : a) {
    uint32_t first = interval.first;
    while (j < b.size() && b[j].last <= first) ++j;
    for (size_t k = j; k < b.size() && b[k].first < interval.last; ++k) {
      if (first < b[k].first) Append(first, b[k].first, &rest);
      first = b[k].last;
    }
    if (first < interval.last) Append(first, interval.last, &rest);
  }
  return rest;
}

}  // namespace meshseal

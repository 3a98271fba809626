// Half-open ranges of layers, experts and columns.
#ifndef MESHSEAL_SCHEMA_INTERVALS_H_
#define MESHSEAL_SCHEMA_INTERVALS_H_

#include <cstdint>
#include <vector>

namespace meshseal {

struct Interval {
  uint32_t first = 0;
  uint32_t last = 0;  // one past
  friend bool operator==(const Interval& a, const Interval& b) { return a.first == b.first && a.last == b.last; }
  friend bool operator<(const Interval& a, const Interval& b) {
    return a.first != b.first ? a.first < b.first : a.last < b.last;
  }
};

// Ascending, disjoint, no two of them touch.
using Intervals = std::vector<Interval>;

inline uint64_t Count(const Interval& interval) { return interval.last - interval.first; }
uint64_t Count(const Intervals& intervals);

// Appends to ascending intervals.
void Append(uint32_t first, uint32_t last, Intervals* intervals);

// Of ascending numbers.
Intervals IntervalsOf(const std::vector<uint32_t>& ascending);

// Of intervals in any order.
Intervals Joined(Intervals intervals);

// What is in `a` and in `b`; what is in `a` only.
Intervals Intersection(const Intervals& a, const Intervals& b);
Intervals Difference(const Intervals& a, const Intervals& b);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_INTERVALS_H_

#include "compiler/budget/arena.h"

#include <algorithm>
#include <numeric>

namespace meshseal::compiler {
namespace {

uint64_t Aligned(uint64_t bytes) { return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment; }

bool LiveTogether(const Demand& a, const Demand& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

Arena PlaceBuffers(const std::vector<Demand>& demands) {
  std::vector<size_t> order(demands.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&demands](size_t a, size_t b) { return demands[a].bytes > demands[b].bytes; });
  Arena arena;
  arena.buffers.resize(demands.size());
  std::vector<size_t> placed;
  for (const size_t next : order) {
    // The buffers in the way, by offset; the new one goes into the first gap that holds it.
    std::vector<Buffer> in_the_way;
    for (const size_t other : placed) {
      if (LiveTogether(demands[next], demands[other])) in_the_way.push_back(arena.buffers[other]);
    }
    std::sort(in_the_way.begin(), in_the_way.end(),
              [](const Buffer& a, const Buffer& b) { return a.offset < b.offset; });
    uint64_t offset = 0;
    for (const Buffer& buffer : in_the_way) {
      if (offset + demands[next].bytes <= buffer.offset) break;
      offset = std::max(offset, Aligned(buffer.offset + buffer.bytes));
    }
    arena.buffers[next] = {offset, demands[next].bytes};
    arena.bytes = std::max(arena.bytes, Aligned(offset + demands[next].bytes));
    placed.push_back(next);
  }
  return arena;
}

}  // namespace meshseal::compiler

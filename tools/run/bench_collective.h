// What a collective took in the timed calls of a bench.
#ifndef MESHSEAL_TOOLS_RUN_BENCH_COLLECTIVE_H_
#define MESHSEAL_TOOLS_RUN_BENCH_COLLECTIVE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "runtime/session/run_request.h"

namespace meshseal::tools {

// One collective of one rank. Where a call has several (a round each, a gather and a sum), the mean of them: a time
// that is latency + bytes / bandwidth of each is so of their means, too, so lines of any calls fit one link.
struct BenchCollective {
  uint32_t rank = 0;
  uint64_t calls = 0;  // collectives of the rank in a call of the layer
  double bytes = 0;    // that it received
  double seconds = 0;  // moving and adding, without the wait for the last member
};

// Of each call's reports the rank that took longest, because its group goes on when that one does; of all calls the
// least, because what else the machine does only adds to it. Nothing where no rank received anything: groups of one.
std::optional<BenchCollective> CollectiveOf(absl::Span<const std::vector<runtime::RankReport>> calls);

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_RUN_BENCH_COLLECTIVE_H_

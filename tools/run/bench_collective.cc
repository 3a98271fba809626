#include "tools/run/bench_collective.h"

namespace meshseal::tools {
namespace {

using runtime::RankReport;

std::optional<BenchCollective> SlowestOf(absl::Span<const RankReport> ranks) {
  std::optional<BenchCollective> slowest;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const RankReport& report = ranks[rank];
    if (report.collective_bytes == 0) continue;
    const auto calls = static_cast<double>(report.collectives);
    const double seconds = report.collective_seconds / calls;
    if (slowest.has_value() && slowest->seconds >= seconds) continue;
    slowest = {rank, report.collectives, static_cast<double>(report.collective_bytes) / calls, seconds};
  }
  return slowest;
}

}  // namespace

std::optional<BenchCollective> CollectiveOf(absl::Span<const std::vector<RankReport>> calls) {
  std::optional<BenchCollective> least;
  for (const std::vector<RankReport>& ranks : calls) {
    const std::optional<BenchCollective> slowest = SlowestOf(ranks);
    if (!slowest.has_value()) continue;
    if (!least.has_value() || slowest->seconds < least->seconds) least = slowest;
  }
  return least;
}

}  // namespace meshseal::tools

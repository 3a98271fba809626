#include "runtime/session/token_bands.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "schema/mesh_view.h"
#include "schema/reason.h"

namespace meshseal::runtime {
namespace {

// `tokens` over `parts`, as equal as possible, larger first.
std::vector<uint32_t> Even(uint32_t tokens, uint32_t parts) {
  std::vector<uint32_t> counts(parts, tokens / parts);
  for (uint32_t i = 0; i < tokens % parts; ++i) ++counts[i];
  return counts;
}

// The rounds of one replica whose groups bring `left` tokens each, from row `first` on. A group gives what it has, the
// program takes and the ones before it leave room for.
std::vector<Round> RoundsOfReplica(uint32_t first, std::vector<uint32_t> left, uint32_t most_of_group, uint32_t most) {
  std::vector<uint64_t> next(left.size());
  for (size_t group = 0; group < left.size(); ++group) {
    next[group] = first;
    first += left[group];
  }
  std::vector<Round> rounds;
  do {
    Round& round = rounds.emplace_back();
    for (size_t group = 0; group < left.size(); ++group) {
      const uint32_t count = std::min({left[group], most_of_group, most - round.tokens});
      round.groups.push_back({next[group], count});
      round.tokens += count;
      next[group] += count;
      left[group] -= count;
    }
  } while (std::any_of(left.begin(), left.end(), [](uint32_t tokens) { return tokens > 0; }));
  return rounds;
}

}  // namespace

absl::StatusOr<TokenBands> TokenBands::Of(const Plan& plan, Phase phase, uint32_t tokens,
                                          absl::Span<const uint32_t> group_tokens) {
  const Limits& limits = plan.limits;
  const uint32_t groups = DenseGroups(plan.degrees);
  const uint32_t replicas = plan.degrees.dp;
  std::vector<uint32_t> counts(group_tokens.begin(), group_tokens.end());
  if (counts.empty()) {
    for (const uint32_t of_replica : Even(tokens, replicas)) {
      for (const uint32_t of_group : Even(of_replica, groups)) counts.push_back(of_group);
    }
  }
  if (counts.size() != size_t{replicas} * groups) {
    return Refuse(Reason::kUsage, absl::StrCat("token counts of ", counts.size(), " groups, the plan has ", replicas,
                                               " replicas of ", groups, " dense groups each"));
  }
  const uint64_t sum = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  if (sum != tokens) {
    return Refuse(Reason::kUsage, absl::StrCat("the groups' token counts add up to ", sum, ", the call has ", tokens));
  }

  const bool decode = phase == Phase::kDecode;
  const uint32_t limit = decode ? limits.decode_tokens : limits.prefill_tokens;
  const uint32_t most_of_group = decode ? limits.rank_decode_tokens : limits.rank_prefill_tokens;
  TokenBands bands;
  uint32_t first = 0;
  for (uint32_t replica = 0; replica < replicas; ++replica) {
    const auto begin = counts.begin() + static_cast<ptrdiff_t>(size_t{replica} * groups);
    const std::vector<uint32_t> of_replica(begin, begin + groups);
    const uint64_t brought = std::accumulate(of_replica.begin(), of_replica.end(), uint64_t{0});
    if (brought > limit) {
      return Refuse(Reason::kLimit, absl::StrCat("a ", WordOf(phase), " of ", tokens, " tokens gives ", brought,
                                                 " to a replica, the plan's ",
                                                 decode ? "decode_tokens" : "prefill_tokens", " is ", limit));
    }
    const uint32_t largest = *std::max_element(of_replica.begin(), of_replica.end());
    if (decode && largest > most_of_group) {
      return Refuse(Reason::kLimit,
                    absl::StrCat("a decode of ", tokens, " tokens gives ", largest,
                                 " to a dense group, the plan's rank_tokens.decode is ", most_of_group));
    }
    bands.rounds_.push_back(
        RoundsOfReplica(first, of_replica, most_of_group, decode ? limits.decode_tokens : limits.prefill_chunk));
    bands.rows_.push_back({first, brought});
    first += static_cast<uint32_t>(brought);
  }
  return bands;
}

}  // namespace meshseal::runtime

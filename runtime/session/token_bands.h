// Which rows of a call each dense group of each replica brings, and in which rounds.
#ifndef MESHSEAL_RUNTIME_SESSION_TOKEN_BANDS_H_
#define MESHSEAL_RUNTIME_SESSION_TOKEN_BANDS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/comm/communicator.h"
#include "schema/plan.h"

namespace meshseal::runtime {

// One run of a program: rows of the call for each dense group, of a replica.
struct Round {
  std::vector<Piece> groups;
  uint32_t tokens = 0;  // of all of them
};

// Contiguous bands in the order of replicas, then dense groups.
class TokenBands {
 public:
  // `group_tokens` has one count for each dense group of each replica; empty: as equal as possible over the replicas,
  // then over their groups, larger first. Reasons: kLimit for more than the plan's limits, kUsage for counts that do
  // not add up to `tokens`.
  static absl::StatusOr<TokenBands> Of(const Plan& plan, Phase phase, uint32_t tokens,
                                       absl::Span<const uint32_t> group_tokens);

  // The rows of replica `replica`, in as many rounds as its largest group needs; one without a token where there are
  // none, because the ranks of a group wait for each other.
  const std::vector<Round>& RoundsOf(uint32_t replica) const { return rounds_[replica]; }

  // The same rows as one piece.
  const Piece& RowsOf(uint32_t replica) const { return rows_[replica]; }

 private:
  std::vector<std::vector<Round>> rounds_;  // by replica
  std::vector<Piece> rows_;                 // by replica
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_TOKEN_BANDS_H_

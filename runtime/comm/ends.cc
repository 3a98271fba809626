#include "runtime/comm/ends.h"

#include "runtime/comm/agreement.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {

Ends::Ends(uint32_t world, uint32_t scope) : scope_(scope), scopes_(world / scope) {}

bool Ends::Add(uint32_t rank, Channel channel, const absl::Status& cause) {
  if (channel == Channel::kBetweenScopes) return false;
  std::optional<End>& end = IsOfWorld(channel) ? world_ : scopes_[ScopeOf(rank)];
  if (end.has_value()) return false;
  end = End{rank, cause};
  return true;
}

absl::Status Ends::StatusFor(uint32_t rank, const std::optional<End>& end) {
  if (!end.has_value()) return absl::OkStatus();
  return end->rank == rank ? end->cause : PeerFailed(end->rank, end->cause.message());
}

absl::Status Ends::For(uint32_t rank, Channel channel, absl::Span<const Outgoing> out,
                       absl::Span<const Incoming> in) const {
  MESHSEAL_RETURN_IF_ERROR(StatusFor(rank, world_));
  if (IsOfWorld(channel)) return absl::OkStatus();
  if (channel != Channel::kBetweenScopes) return StatusFor(rank, scopes_[ScopeOf(rank)]);
  for (const Outgoing& message : out) MESHSEAL_RETURN_IF_ERROR(StatusFor(rank, scopes_[ScopeOf(message.to)]));
  for (const Incoming& message : in) MESHSEAL_RETURN_IF_ERROR(StatusFor(rank, scopes_[ScopeOf(message.from)]));
  return absl::OkStatus();
}

}  // namespace meshseal::runtime

// What of a world has ended, as far as one knows, and who ended it: the rules of scopes (endpoint.h), for transports.
#ifndef MESHSEAL_RUNTIME_COMM_ENDS_H_
#define MESHSEAL_RUNTIME_COMM_ENDS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/comm/endpoint.h"

namespace meshseal::runtime {

// Not thread-safe.
class Ends {
 public:
  // `scope` divides `world`.
  Ends(uint32_t world, uint32_t scope);

  uint32_t scopes() const { return static_cast<uint32_t>(scopes_.size()); }
  uint32_t ScopeOf(uint32_t rank) const { return rank / scope_; }

  // `rank` ends what the channel's messages belong to. False: it has ended before, or nothing ends with the channel.
  bool Add(uint32_t rank, Channel channel, const absl::Status& cause);

  // What ends `rank`'s calls over `channel`, with its messages' peers where they tell; OK: nothing has. A rank that
  // ended it itself gets its cause back, others kPeerFailed.
  absl::Status For(uint32_t rank, Channel channel, absl::Span<const Outgoing> out = {},
                   absl::Span<const Incoming> in = {}) const;

 private:
  struct End {
    uint32_t rank = 0;
    absl::Status cause;
  };

  static absl::Status StatusFor(uint32_t rank, const std::optional<End>& end);
  bool IsOfWorld(Channel channel) const { return channel == Channel::kWorld || scopes_.size() == 1; }

  const uint32_t scope_;
  std::optional<End> world_;
  std::vector<std::optional<End>> scopes_;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_COMM_ENDS_H_

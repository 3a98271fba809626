// One rank's end of the messages between the ranks of a world: all that a transport has to bring.
//
// Messages of one sender, receiver and channel arrive in the order in which they were sent, each once and whole. What
// they mean is the communicators' business (communicator.h), which are the same over every transport.
//
// Ranks fail together in scopes: as many of them in a row as a connection was made for, all ranks of the world or those
// of a replica. What fails is ended for all who would wait for it: the world where its channel is kWorld, the rank's
// scope where it is one inside a scope, nothing else where it is kBetweenScopes. The end of a scope reaches all calls
// of its ranks inside it, and other ranks' kBetweenScopes with them; that of the world all calls of all ranks. A scope
// of all ranks is the world: then all channels but kBetweenScopes end together.
#ifndef MESHSEAL_RUNTIME_COMM_ENDPOINT_H_
#define MESHSEAL_RUNTIME_COMM_ENDPOINT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/memory/arena.h"
#include "schema/terms.h"

namespace meshseal::runtime {

// Keeps the messages of a rank's groups apart; a rank is in one group of each, but of kBetweenScopes, whose groups are
// pairs of ranks of different scopes. Groups of kExpertGroup, kPipeline and kScope lie inside a scope.
enum class Channel : uint8_t { kWorld = 0, kExpertGroup = 1, kPipeline = 2, kScope = 3, kBetweenScopes = 4 };
inline constexpr uint32_t kChannels = 5;

struct Outgoing {
  uint32_t to = 0;  // world rank, another than the own one
  absl::Span<const std::byte> bytes;
};

struct Incoming {
  uint32_t from = 0;
  absl::Span<std::byte> bytes;  // exactly as many as are sent
};

// A message that has another size than its receiver expects: reason kBug.
absl::Status OtherSize(uint32_t from, uint64_t found, uint64_t expected);

// The peers that a call waited for in vain: reason kDeadline. `ranks` is not empty.
absl::Status NobodyCame(std::chrono::milliseconds deadline, std::vector<uint32_t> ranks);

// Used by one thread at a time, except Abort, which any thread may call.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t world() const = 0;

  // Sends and receives all of it at once; returns when every message was taken by its receiver. At most one message to
  // and one from each rank; a message of no bytes is not sent. Reasons: kDeadline when a peer did not come in
  // `deadline`, counted from the call: the text names the peers; kPeerFailed when a rank has ended the call's scope or
  // the world. After a failure every later call inside what has ended fails likewise, and the memory of the messages
  // belongs to Keep; between scopes, the two ranks exchange nothing any more.
  virtual absl::Status Exchange(Channel channel, absl::Span<const Outgoing> out, absl::Span<const Incoming> in,
                                std::chrono::milliseconds deadline) = 0;

  // What deadlines are counted in, from any zero.
  virtual std::chrono::nanoseconds Now() const { return std::chrono::steady_clock::now().time_since_epoch(); }

  // Before two ranks of different scopes exchange, they meet: each tells all ranks that it has come, without waiting,
  // and looks for the other in as many waits as it likes. `number` counts a rank's meetings, from 1.
  virtual void Come(uint64_t number) = 0;
  // OK when `peer` has come to that meeting or a later one. Reasons: kDeadline when it does not in `time`, which ends
  // nothing; kPeerFailed when its scope or the world has ended.
  virtual absl::Status AwaitPeer(uint32_t peer, uint64_t number, std::chrono::milliseconds time) = 0;
  // This rank will not look for `peer` again.
  virtual void GiveUpOn(uint32_t peer) { static_cast<void>(peer); }

  // OK as long as this end has not heard that a rank has ended what the channel's messages belong to; else what
  // Exchange would return. Does not wait. An end that hears nothing between calls says OK.
  virtual absl::Status Check(Channel) { return absl::OkStatus(); }

  // Ends what the channel's messages belong to: every call in it that waits on any rank, and every later one, returns
  // kPeerFailed that names this rank and `cause`. The first cause stays.
  virtual void Abort(Channel channel, const absl::Status& cause) = 0;

  // Around the rank's part in one call of a session, for a transport that must know who is about to exchange:
  // BeginCall before any rank of this process starts, by the caller's thread; EndCall last, by the rank's.
  virtual void BeginCall() {}
  virtual void EndCall() {}

  // Takes memory that messages lie in, because a failed exchange may still be reading or writing it.
  virtual void Keep(Arena memory) { static_cast<void>(memory); }
};

// Where the ranks of a world are: it makes their endpoints.
class RankWorld {
 public:
  virtual ~RankWorld() = default;

  // How the ranks reach each other, and with which library ("" for none), as text for people and for comparison.
  virtual Transport transport() const = 0;
  virtual std::string library() const = 0;

  // New endpoints for the ranks of this process, ascending, whose messages meet no others. `scope` ranks in a row fail
  // together; it divides `world`. All processes of the world call it equally often, in the same order. Reason
  // kWorldSize when there are other than `world` ranks.
  virtual absl::StatusOr<std::vector<std::unique_ptr<Endpoint>>> Connect(uint32_t world, uint32_t scope) = 0;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_COMM_ENDPOINT_H_

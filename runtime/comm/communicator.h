// How the ranks of one group talk. Every member makes the same calls in the same order, with parts that fit together.
//
// A call begins with an announcement of every member to every other: what it calls, with how much, and its status lane.
// So unequal or malformed parts are refused on all members, with one text, before anything is moved, and the group goes
// on. A member that does not come is named (kDeadline), one that gave up is named with its cause (kPeerFailed); both
// end the world's messages: every later call fails likewise.
#ifndef MESHSEAL_RUNTIME_COMM_COMMUNICATOR_H_
#define MESHSEAL_RUNTIME_COMM_COMMUNICATOR_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/comm/piece.h"
#include "runtime/comm/status_lane.h"
#include "schema/terms.h"

namespace meshseal::runtime {

// Bytes of each member's part that a world's communicator is reserved for.
inline constexpr size_t kMaxGatherBytes = 1024;

// What a member's calls took since it was made: all but those of a group of one, which move nothing.
struct CallTotals {
  uint64_t calls = 0;
  uint64_t received_bytes = 0;         // of other members, without announcements
  std::chrono::nanoseconds waited{0};  // from the begin of a call until the announcements of all its members are there
  std::chrono::nanoseconds moved{0};   // from then to its end: moving and adding
};

// One member's end. Used by one thread at a time, except Abort, which any thread may call. A sum may take its addend's
// place, a member's piece of a sum the piece's; no other output may overlap an input. Outputs mean nothing after a
// failure.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // World ranks of the group, in the order of its members.
  virtual absl::Span<const uint32_t> members() const = 0;

  // This end's place among the members.
  virtual uint32_t rank() const = 0;

  uint32_t size() const { return static_cast<uint32_t>(members().size()); }

  // Memory for the messages of later calls, once. Local. Reason kOutOfMemory. A call that needs more is refused (kBug).
  virtual absl::Status Reserve(uint64_t bytes) = 0;

  // How later sums are made; kGatherThenSum until then. Local: members whose sums are made differently are refused.
  // kGatherThenSum: every member gets all addends and adds them in member order. kExchangeThenSum: every member does so
  // with its own piece, and a sum over all is gathered from the pieces. kTransport: likewise, and a piece is added up
  // as it arrives, from the next member on; not in member order. Of a scattered sum the first two are the same.
  virtual void SetReduceAlgorithm(ReduceAlgorithm algorithm) = 0;

  // sum[i] = the members' addends, and the lanes field by field. In member order acc = addend of member 0, then
  // acc += the next. All members get the same bits. One member: a copy, bit for bit.
  virtual absl::Status AllReduceSum(absl::Span<const float> addend, const StatusLane& lane, absl::Span<float> sum,
                                    StatusLane* lane_sum) = 0;
  virtual absl::Status AllReduceSum(absl::Span<const int64_t> addend, const StatusLane& lane, absl::Span<int64_t> sum,
                                    StatusLane* lane_sum) = 0;

  // The same sum, of which each member gets its own piece: pieces[m] is that of member m, and several members may have
  // one: the same bits of it. The pieces are the same on all members.
  virtual absl::Status ReduceScatterSum(absl::Span<const float> addend, absl::Span<const Piece> pieces,
                                        const StatusLane& lane, absl::Span<float> own, StatusLane* lane_sum) = 0;
  virtual absl::Status ReduceScatterSum(absl::Span<const int64_t> addend, absl::Span<const Piece> pieces,
                                        const StatusLane& lane, absl::Span<int64_t> own, StatusLane* lane_sum) = 0;

  // all = the members' `own`, one after the other in member order. Same size on all members.
  virtual absl::Status AllGather(absl::Span<const std::byte> own, absl::Span<std::byte> all) = 0;

  // The same with a piece of `all` for each member; of members with the same piece, who bring the same bytes, the first
  // one's is taken.
  virtual absl::Status AllGather(absl::Span<const std::byte> own, absl::Span<const Piece> pieces,
                                 absl::Span<std::byte> all) = 0;

  // Part m of `received` is this member's part of what member m sent, in equal parts.
  virtual absl::Status AllToAll(absl::Span<const std::byte> sent, absl::Span<std::byte> received) = 0;

  // Bytes from one member to another, which calls the other of the two; nobody else takes part.
  virtual absl::Status Send(uint32_t member, absl::Span<const std::byte> bytes) = 0;
  virtual absl::Status Receive(uint32_t member, absl::Span<std::byte> bytes) = 0;

  // Of all calls so far, also of those that failed. Local.
  virtual CallTotals totals() const = 0;

  // OK as long as this end has not heard that a rank has ended the world's messages; else what every later call
  // returns. Does not wait: for a member that waits for something else meanwhile.
  virtual absl::Status Check() = 0;

  // The longest wait of later calls. Local.
  virtual void SetDeadline(std::chrono::milliseconds deadline) = 0;

  // Ends the world's messages: every call that waits, and every later one, returns kPeerFailed that names this member
  // and `cause`. The first cause stays.
  virtual void Abort(const absl::Status& cause) = 0;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_COMM_COMMUNICATOR_H_

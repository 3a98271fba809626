// How the ranks of one group talk: two collective calls, and a way out.
//
// Every member makes the same calls in the same order; each call waits for all members, up to the group's
// deadline. Whatever goes wrong, every member's call returns: unequal or malformed parts are refused on all
// of them, a member that does not come is named (kDeadline), a member that gave up is named with its cause
// (kPeerFailed). After kDeadline or Abort every later call fails likewise.
#ifndef MESHSEAL_RUNTIME_COMM_COMMUNICATOR_H_
#define MESHSEAL_RUNTIME_COMM_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/comm/status_lane.h"

namespace meshseal::runtime {

// The most bytes a member gives to one AllGather.
inline constexpr size_t kMaxGatherBytes = 1024;

// One member's end. Used by one thread at a time, except Abort, which any thread may call.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // World ranks of the group, in the order of its members.
  virtual absl::Span<const uint32_t> members() const = 0;

  // This end's place among the members.
  virtual uint32_t rank() const = 0;

  uint32_t size() const { return static_cast<uint32_t>(members().size()); }

  // Memory for sums of up to `elements`, once, before the first of them. Local. Reason kOutOfMemory.
  virtual absl::Status Reserve(uint64_t elements) = 0;

  // sum[i] = the members' addends in member order: acc = addend of member 0, then acc += the next, in
  // float32; the lanes field by field. One member: a copy, bit for bit. Same element count on all members and
  // in `sum`. `sum` may not overlap `addend`. On failure `sum` and `lane_sum` mean nothing.
  virtual absl::Status AllReduceSum(absl::Span<const float> addend, const StatusLane& lane, absl::Span<float> sum,
                                    StatusLane* lane_sum) = 0;

  // all = the members' `own`, one after the other in member order. Same size on all members, at most
  // kMaxGatherBytes.
  virtual absl::Status AllGather(absl::Span<const std::byte> own, absl::Span<std::byte> all) = 0;

  // Ends the group: every call that waits, and every later one, returns kPeerFailed that names this member
  // and `cause`. The first cause stays.
  virtual void Abort(const absl::Status& cause) = 0;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_COMM_COMMUNICATOR_H_

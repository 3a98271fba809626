// One verdict for all: how a group ends a stage of its life, or a step that failed somewhere.
#ifndef MESHSEAL_RUNTIME_COMM_AGREEMENT_H_
#define MESHSEAL_RUNTIME_COMM_AGREEMENT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/comm/communicator.h"

namespace meshseal::runtime {

// Collective. OK when `own` is OK on every member. A member with a cause of its own gets that back; the
// others get kPeerFailed that names the first such member and its text, cut to what fits.
absl::Status Agree(Communicator& group, const absl::Status& own);

// "rank 3 failed first: TEXT", reason kPeerFailed; TEXT alone where it already names who failed first.
absl::Status PeerFailed(uint32_t world_rank, absl::string_view text);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_COMM_AGREEMENT_H_

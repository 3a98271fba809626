// A communicator made of messages: the same algorithms, and so the same bits and the same refusals, over every
// transport.
#ifndef MESHSEAL_RUNTIME_COMM_MESSAGE_COMMUNICATOR_H_
#define MESHSEAL_RUNTIME_COMM_MESSAGE_COMMUNICATOR_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/endpoint.h"

namespace meshseal::runtime {

struct MessageOptions {
  // The longest one wait may last, counted from the waiting member's own arrival.
  std::chrono::milliseconds deadline{30'000};
};

// `members` are world ranks, not empty, and the endpoint's is one of them. The endpoint must live longer. Reason
// kOutOfMemory.
absl::StatusOr<std::unique_ptr<Communicator>> MakeMessageCommunicator(Endpoint& endpoint, Channel channel,
                                                                      std::vector<uint32_t> members,
                                                                      const MessageOptions& options);

// Bytes of what is reserved that one Send or Receive takes at most, however much it moves.
inline constexpr uint64_t kHandOffBytes = 256 * 1024;

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_COMM_MESSAGE_COMMUNICATOR_H_

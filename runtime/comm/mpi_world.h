// Ranks as processes, on one host or several, over MPI (written for and tested with Open MPI 4.1): one rank a process.
//
// No call of MPI that could wait for ever is made: messages are non-blocking, every wait has a deadline, errors are
// returned. Groups need no communicators of MPI's own, whose making is a wait for all members; a tag keeps their
// messages apart. A rank that ends the world tells the others on a second communicator.
#ifndef MESHSEAL_RUNTIME_COMM_MPI_WORLD_H_
#define MESHSEAL_RUNTIME_COMM_MPI_WORLD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/comm/endpoint.h"

namespace meshseal::runtime {

// One per process, from Start to Finish. Thread-safe.
class MpiWorld : public RankWorld {
 public:
  // Starts MPI. `stop`, which may be null and must live as long as the process, tells that the process was asked to
  // end: a wait that lasts longer than a moment then ends with kStopped. Reasons: kUsage when MPI was started before,
  // or cannot be called by several threads.
  static absl::StatusOr<std::shared_ptr<MpiWorld>> Start(const std::atomic<bool>* stop);

  ~MpiWorld() override;

  uint32_t rank() const;
  uint32_t size() const;

  Transport transport() const override { return Transport::kMpi; }
  std::string library() const override;
  absl::StatusOr<std::vector<std::unique_ptr<Endpoint>>> Connect(uint32_t world) override;

  // Ends MPI, with exit code 0 together with all others. With another code it tells them `cause`, waits a moment so
  // that they can say why they end, then ends the whole job and does not return.
  void Finish(int exit_code, absl::string_view cause);

 private:
  class State;
  explicit MpiWorld(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_COMM_MPI_WORLD_H_

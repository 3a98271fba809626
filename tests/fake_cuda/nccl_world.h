// Communicators, and how the ranks of a world meet. Used under the machine's lock (machine.h).
#ifndef MESHSEAL_TESTS_FAKE_CUDA_NCCL_WORLD_H_
#define MESHSEAL_TESTS_FAKE_CUDA_NCCL_WORLD_H_

#include <nccl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/fake_cuda/fake_nccl.h"
#include "tests/fake_cuda/machine.h"
#include "tests/fake_cuda/nccl_meeting.h"

namespace fake_nccl {

// An operation that has its turn on its rank's stream.
struct Arrival {
  Operation operation;
  uint64_t number = 0;  // among its rank's collectives, or among the messages of its pair of ranks, from 1
  bool posted = false;  // it is known where the ranks meet, and what it sends lies there
  bool done = false;
};

// One process's view of it.
class World {
 public:
  World(uint64_t number, std::unique_ptr<Meeting> meeting);

  const uint64_t number;  // for messages

  // A rank comes. False: it came twice, or for another size than the first one, and the world never gets complete.
  bool Join(size_t size, size_t rank, int device);
  size_t size() const { return board().size; }
  bool complete() const;
  // Why NCCL refuses a complete world.
  std::string Duplicate() const;

  void Leave(size_t rank, bool left = true) { board().ranks[rank].left = left; }
  bool EverybodyLeft() const;
  // Rank's registrations of windows so far, this one counted; and whether all ranks have made as many.
  uint64_t RegisterWindow(size_t rank) { return ++board().ranks[rank].windows; }
  bool AllRegistered(uint64_t windows) const;

  // Rank's operation arrives. Nothing of it is done yet.
  void Arrive(size_t rank, Arrival* arrival);
  // Whether something of it can be done now; and does it.
  bool CanMove(size_t rank, const Arrival& arrival) const;
  void Move(size_t rank, Arrival* arrival, const Options& options);
  // The rank will not move it any more: others that have not yet its part wait for ever.
  void TakeBack(size_t rank, const Arrival& arrival);

 private:
  using Pair = std::pair<size_t, size_t>;  // sender, receiver

  MeetingBoard& board() const { return meeting_->board(); }
  Pair PairOf(size_t rank, const Operation& operation) const;
  void PostMessage(const Pair& pair, const Arrival& arrival, const Options& options);
  void PostPart(size_t rank, const Arrival& arrival, const Options& options);
  std::vector<std::byte> Result(size_t rank, const Operation& operation, SumOrder order) const;
  void TellMismatch(uint64_t call, const Options& options);

  const std::unique_ptr<Meeting> meeting_;
  std::array<uint64_t, kMostRanks> calls_ = {};  // by rank: collectives that arrived
  std::map<Pair, uint64_t> sends_;
  std::map<Pair, uint64_t> receives_;
};

// What a call began and ncclCommGetAsyncError ends. It is the communicator's, so that it must not own that.
struct Job {
  std::function<bool()> ready;
  uint32_t polls = 0;
  std::function<ncclResult_t(fake_cuda::Lock&)> finish;
};

struct Communicator : std::enable_shared_from_this<Communicator> {
  std::shared_ptr<World> world;
  size_t rank = 0;
  int device = 0;
  bool blocking = true;
  bool initialised = false;
  bool finalized = false;
  bool aborted = false;
  bool dead = false;
  ncclResult_t state = ncclSuccess;
  std::optional<Job> job;  // state is ncclInProgress
  size_t launched = 0;     // on streams, not done
  size_t captured = 0;     // held by graphs
};

// One launch of a communicator: what was in its group.
class CollectiveWork : public fake_cuda::Work {
 public:
  CollectiveWork(std::shared_ptr<Communicator> communicator, std::vector<Operation> operations, bool captured);
  ~CollectiveWork() override;

  std::shared_ptr<fake_cuda::Work> ForOneRun() override;
  cudaGraphNodeType type() const override { return cudaGraphNodeTypeKernel; }
  std::string Text() const override;  // "rank 0's AllReduce of 8 float32 (sum)"
  const std::vector<fake_cuda::Operand>& operands() const override { return operands_; }
  bool Runnable() const override;
  fake_cuda::Outcome Run(fake_cuda::Lock& lock) override;
  void Withdraw() override;

 private:
  bool AllDone() const;

  std::shared_ptr<Communicator> communicator_;
  std::vector<Operation> operations_;
  bool captured_;
  bool arrived_ = false;
  std::vector<Arrival> arrivals_;
  std::vector<fake_cuda::Operand> operands_;
  bool outside_ = false;  // an operand is no device memory, or longer than it
};

// How the world works at the moment.
Options& CurrentOptions();

}  // namespace fake_nccl

#endif  // MESHSEAL_TESTS_FAKE_CUDA_NCCL_WORLD_H_

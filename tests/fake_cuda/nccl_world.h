// Communicators, and how the ranks of a world meet. Used under the machine's lock (machine.h).
#ifndef MESHSEAL_TESTS_FAKE_CUDA_NCCL_WORLD_H_
#define MESHSEAL_TESTS_FAKE_CUDA_NCCL_WORLD_H_

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/fake_cuda/fake_nccl.h"
#include "tests/fake_cuda/machine.h"

namespace fake_nccl {

enum class Kind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kSend, kReceive };

// What one rank asks for.
struct Operation {
  Kind kind = Kind::kAllReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;  // as the call's
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t reduction = ncclSum;  // of AllReduce and ReduceScatter
  int peer = 0;                     // of Send and Receive; of Broadcast its root

  bool is_point_to_point() const { return kind == Kind::kSend || kind == Kind::kReceive; }
  // "AllReduce of 8 float32 (sum)"
  std::string Text() const;
};

// An operation that has its turn on its rank's stream.
struct Arrival {
  Operation operation;
  bool done = false;
};

class World {
 public:
  World(uint64_t number, size_t size);

  // Rank's operation arrives; what has all its ranks now is done. `arrival` stays where it is until it is done or taken
  // back.
  void Arrive(size_t rank, Arrival* arrival, const Options& options);
  void TakeBack(const Arrival* arrival);

  const uint64_t number;
  const size_t size;

  // Of joining: the device of each rank that came.
  std::vector<std::optional<int>> devices;
  bool broken = false;    // ranks that came twice, or for another size: it never gets complete
  std::string duplicate;  // why NCCL refuses a complete world

  std::vector<bool> left;         // by rank: finalised, destroyed, aborted
  std::vector<uint64_t> windows;  // by rank: registrations so far
  bool complete() const;

 private:
  struct Meeting {
    std::vector<Arrival*> arrivals;  // by rank
    bool mismatched = false;
  };
  using Pair = std::pair<size_t, size_t>;  // sender, receiver

  void Meet(uint64_t call, Meeting* meeting, const Options& options);
  void Pass(const Pair& pair, const Options& options);

  std::vector<uint64_t> calls_;  // by rank: collectives that arrived
  std::map<uint64_t, Meeting> meetings_;
  std::map<Pair, std::deque<Arrival*>> sends_;
  std::map<Pair, std::deque<Arrival*>> receives_;
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

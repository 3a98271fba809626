// The state behind the stand-ins: devices, streams and who runs next, errors. One lock for everything; work runs one at
// a time, on the threads that call, while they wait or ask (and, with a seed, when they ask for work).
#ifndef MESHSEAL_TESTS_FAKE_CUDA_MACHINE_H_
#define MESHSEAL_TESTS_FAKE_CUDA_MACHINE_H_

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/graph.h"
#include "tests/fake_cuda/guarded_memory.h"
#include "tests/fake_cuda/recorded_calls.h"
#include "tests/fake_cuda/work.h"

namespace fake_cuda {

using Lock = std::unique_lock<std::mutex>;

struct Stream {
  uint64_t number = 0;
  int device = 0;
  bool alive = true;
  uint32_t weight = 1;  // of being chosen next
  std::deque<Item> queue;
  std::shared_ptr<Capture> capture;
  std::vector<size_t> capture_tail;  // nodes that the next one needs
};

struct Event {
  int device = 0;
  bool alive = true;
  bool timing = true;
  std::shared_ptr<EventRecord> record;  // null: never recorded
  std::shared_ptr<Capture> capture;     // recorded last inside of it
  std::vector<size_t> capture_tail;
};

struct RegisteredKernel {
  bool launchable = false;  // false: so far only its attributes were set
  std::vector<size_t> parameter_bytes;
  int max_dynamic_shared_bytes = 48 << 10;
};

// What a call needs before it may go on.
enum class Needs {
  kNothing,
  kContext,         // a current device that is not lost
  kContextOutside,  // and no capture that the call would disturb
  kRelease,         // a device; what is released goes also when it is lost
};

class Machine {
 public:
  Machine();

  std::mutex& mutex() { return mutex_; }
  std::condition_variable& changed() { return changed_; }

  // Everything below is called with the lock held; `lock` is that lock, let go of while waiting or running.

  void Reset(const Options& options);
  const Options& options() const { return options_; }
  int device_count() const { return static_cast<int>(options_.devices.size()); }
  RecordedCalls& calls() { return calls_; }
  GuardedMemory& memory() { return *memory_; }
  std::map<const void*, RegisteredKernel>& kernels() { return kernels_; }
  KernelRunner& runner() { return runner_; }
  KernelLookup& kernel_lookup() { return kernel_lookup_; }
  std::mt19937_64& random() { return random_; }

  // The calling thread's.
  int current_device() const;
  void SetCurrentDevice(int device);
  cudaStreamCaptureMode& capture_mode();
  cudaError_t& last_error();

  // A call comes in: noted, and refused where a fault or the state wants it.
  cudaError_t Admit(const char* function, Needs needs);
  cudaError_t Remember(cudaError_t error);
  // cudaErrorStreamCaptureUnsupported, and the captures invalidated, where this thread may not make unsafe calls now.
  cudaError_t AdmitOutsideCaptures();

  cudaError_t DeviceError(int device) const { return lost_.at(static_cast<size_t>(device)); }
  void LoseDevice(int device, cudaError_t error);
  // Drops the device's work, and destroys its streams and events and what is in its memory.
  void ResetDevice(int device);
  // On the current device; null where its memory does not suffice. `bytes` > 0.
  const Allocation* AllocateOnDevice(size_t bytes, Allocator allocator);

  void Violate(std::string text) { violations_.push_back(std::move(text)); }
  void CheckGuards();
  std::vector<std::string> AllViolations();

  // Handles. `function` is named in what is said of a wrong one.
  Stream* AddStream(int device);
  cudaError_t FindStream(const char* function, cudaStream_t handle, Stream** stream);
  Stream* LiveStream(cudaStream_t handle) const;
  Event* AddEvent(int device, bool timing);
  Event* LiveEvent(cudaEvent_t handle) const;
  cudaGraph_t AddGraph(std::unique_ptr<Graph> graph);
  Graph* LiveGraph(cudaGraph_t handle) const;
  bool RemoveGraph(cudaGraph_t handle) { return graphs_.erase(handle) == 1; }
  Node* LiveNode(cudaGraphNode_t handle) const;
  cudaGraphExec_t AddGraphExec(std::shared_ptr<GraphExec> exec);
  std::shared_ptr<GraphExec> LiveGraphExec(cudaGraphExec_t handle) const;
  bool RemoveGraphExec(cudaGraphExec_t handle) { return graph_execs_.erase(handle) == 1; }
  Alive CountAlive() const;

  std::set<std::shared_ptr<Capture>>& captures() { return captures_; }
  // Leaves the capture, with all its streams.
  void EndCapture(const std::shared_ptr<Capture>& capture);

  // Puts work on the stream or into its capture. May run some.
  cudaError_t Enqueue(Lock& lock, Stream* stream, std::shared_ptr<Work> work);

  // Runs up to `count` items if nobody else does.
  void RunSome(Lock& lock, uint64_t count);
  // What an asking call runs.
  void Poll(Lock& lock);
  // Runs until `done`. False, and a violation that names what streams are at, where nothing moved for the hang limit.
  bool RunUntil(Lock& lock, const std::function<bool()>& done, const std::string& what);
  // Waits until no work runs, so that memory may go.
  void WaitIdle(Lock& lock);
  bool StreamIsIdle(const Stream& stream) const { return stream.queue.empty(); }
  bool DeviceIsIdle(int device) const;

  // Of an item whose turn it is. For streams and for runs of graphs.
  bool MayRun(const Stream& stream, Item& item);
  Outcome RunItem(Lock& lock, const Stream& stream, const Item& item);
  void AddWorkFault(const WorkFault& fault) { work_faults_.push_back({fault, 0}); }

 private:
  struct ThreadState;
  struct ArmedWorkFault {
    WorkFault fault;
    uint64_t seen = 0;
  };

  ThreadState& thread() const;
  void DropWork(int device);
  void Draw(const Stream& stream, Item& item);
  Stream* ChooseStream();
  std::string WhereStreamsAre() const;
  bool RunOne(Lock& lock);
  bool OperandsLive(const Stream& stream, const Work& work);

  std::mutex mutex_;
  std::condition_variable changed_;

  Options options_;
  uint64_t generation_ = 0;  // counts resets
  RecordedCalls calls_;
  std::map<const void*, RegisteredKernel> kernels_;
  KernelRunner runner_ = nullptr;
  KernelLookup kernel_lookup_ = nullptr;
  std::mt19937_64 random_;
  uint64_t eagerness_ = 0;  // of 4: how often a call that asks for work runs some

  std::vector<cudaError_t> lost_;  // by device: its sticky error
  std::vector<std::string> violations_;
  std::vector<ArmedWorkFault> work_faults_;

  std::vector<std::unique_ptr<Stream>> streams_;  // destroyed ones, too: a handle is never used again
  std::vector<std::unique_ptr<Event>> events_;
  std::map<cudaGraph_t, std::unique_ptr<Graph>> graphs_;
  std::map<cudaGraphExec_t, std::shared_ptr<GraphExec>> graph_execs_;
  std::set<std::shared_ptr<Capture>> captures_;
  uint64_t next_handle_ = 1;
  std::unique_ptr<GuardedMemory> memory_ = std::make_unique<GuardedMemory>();

  bool running_ = false;   // somebody runs work
  uint64_t progress_ = 0;  // counts what moved
  uint64_t ticks_ = 0;     // counts polls and idle waits: the clock of delays
};

// The one machine.
Machine& TheMachine();

// A call of the runtime: `body(machine, lock)` gives its error.
template <class Body>
cudaError_t Call(const char* function, Needs needs, const Body& body) {
  Machine& machine = TheMachine();
  Lock lock(machine.mutex());
  cudaError_t error = machine.Admit(function, needs);
  if (error == cudaSuccess) error = body(machine, lock);
  return machine.Remember(error);
}

// Is this thread inside of a host function of a stream?
bool& InHostFunction();

}  // namespace fake_cuda

#endif  // MESHSEAL_TESTS_FAKE_CUDA_MACHINE_H_

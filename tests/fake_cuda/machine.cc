#include "tests/fake_cuda/machine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace fake_cuda {

struct Machine::ThreadState {
  uint64_t generation = 0;
  int device = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  cudaError_t last_error = cudaSuccess;
};

Machine& TheMachine() {
  static Machine* const machine = new Machine;  // outlives every thread
  return *machine;
}

Machine::Machine() { Reset(Options()); }

Machine::ThreadState& Machine::thread() const {
  thread_local ThreadState state;
  if (state.generation != generation_) {
    state = ThreadState();
    state.generation = generation_;
  }
  return state;
}

void Machine::Reset(const Options& options) {
  options_ = options;
  for (size_t i = 0; i < options_.devices.size(); ++i) {
    Device& device = options_.devices[i];
    const auto number = static_cast<uint8_t>(i + 1);
    if (device.uuid == std::array<uint8_t, 16>{})
      device.uuid = {0xFA, 0xCE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number};
    if (device.pci_bus == 0) device.pci_bus = number;
  }
  ++generation_;
  calls_ = RecordedCalls();
  random_.seed(options.seed);
  // A seed has a temper of its own: from one that runs nothing early to one that always does.
  eagerness_ = options.seed == 0 ? 0 : random_() % 5;
  lost_.assign(options.devices.size(), cudaSuccess);
  violations_.clear();
  work_faults_.clear();
  graphs_.clear();
  graph_execs_.clear();
  captures_.clear();
  streams_.clear();
  events_.clear();
  memory_ = std::make_unique<GuardedMemory>();
  for (auto& [kernel, registered] : kernels_) {
    registered.max_dynamic_shared_bytes = RegisteredKernel().max_dynamic_shared_bytes;
  }
}

int Machine::current_device() const { return thread().device; }
void Machine::SetCurrentDevice(int device) { thread().device = device; }
cudaStreamCaptureMode& Machine::capture_mode() { return thread().mode; }
cudaError_t& Machine::last_error() { return thread().last_error; }

cudaError_t Machine::Admit(const char* function, Needs needs) {
  const std::optional<int> fault = calls_.Enter(function);
  if (fault) return static_cast<cudaError_t>(*fault);
  if (InHostFunction()) {
    Violate(absl::StrCat(function, ": called from a host function of a stream"));
    return cudaErrorNotPermitted;
  }
  if (needs == Needs::kNothing) return cudaSuccess;
  if (options_.driver_version / 1000 < options_.runtime_version / 1000) return cudaErrorInsufficientDriver;
  if (options_.devices.empty()) return cudaErrorNoDevice;
  if (needs == Needs::kRelease) return cudaSuccess;
  const cudaError_t lost = DeviceError(current_device());
  if (lost != cudaSuccess || needs == Needs::kContext) return lost;
  return AdmitOutsideCaptures();
}

cudaError_t Machine::Remember(cudaError_t error) {
  if (error != cudaSuccess) last_error() = error;
  return error;
}

cudaError_t Machine::AdmitOutsideCaptures() {
  const cudaStreamCaptureMode mode = capture_mode();
  if (mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (const std::shared_ptr<Capture>& capture : captures_) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool disturbed = own ? capture->mode != cudaStreamCaptureModeRelaxed
                               : mode == cudaStreamCaptureModeGlobal && capture->mode == cudaStreamCaptureModeGlobal;
    if (!disturbed) continue;
    capture->invalidated = true;
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

void Machine::LoseDevice(int device, cudaError_t error) {
  lost_[static_cast<size_t>(device)] = error;
  DropWork(device);
}

void Machine::ResetDevice(int device) {
  DropWork(device);
  for (const std::unique_ptr<Stream>& stream : streams_) {
    if (stream->device == device) stream->alive = false;
  }
  for (const std::unique_ptr<Event>& event : events_) {
    if (event->device == device) event->alive = false;
  }
  memory_->FreeAll(device);
}

const Allocation* Machine::AllocateOnDevice(size_t bytes, Allocator allocator) {
  const int device = current_device();
  const uint64_t limit = options_.devices[static_cast<size_t>(device)].memory_bytes;
  if (bytes > limit || TakenBytes(bytes) > limit - memory_->used(device)) return nullptr;
  return memory_->Allocate(bytes, device, allocator);
}

void Machine::DropWork(int device) {
  for (const std::unique_ptr<Stream>& stream : streams_) {
    if (stream->device != device) continue;
    for (const Item& item : stream->queue) item.work->Withdraw();
    stream->queue.clear();
  }
}

void Machine::CheckGuards() {
  for (std::string& text : memory_->CheckGuards()) Violate(std::move(text));
}

std::vector<std::string> Machine::AllViolations() {
  for (std::string& text : memory_->CheckAll()) Violate(std::move(text));
  return violations_;
}

Stream* Machine::AddStream(int device) {
  auto stream = std::make_unique<Stream>();
  stream->number = streams_.size() + 1;
  stream->device = device;
  if (options_.seed != 0) stream->weight = random_() % 2 == 0 ? 1 : 16;
  streams_.push_back(std::move(stream));
  return streams_.back().get();
}

Stream* Machine::LiveStream(cudaStream_t handle) const {
  for (const std::unique_ptr<Stream>& stream : streams_) {
    if (reinterpret_cast<cudaStream_t>(stream.get()) == handle) return stream->alive ? stream.get() : nullptr;
  }
  return nullptr;
}

cudaError_t Machine::FindStream(const char* function, cudaStream_t handle, Stream** stream) {
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
    Violate(absl::StrCat(function, ": a default stream"));
    return cudaErrorInvalidResourceHandle;
  }
  *stream = LiveStream(handle);
  if (*stream) return DeviceError((*stream)->device);
  Violate(absl::StrCat(function, ": a stream that does not exist"));
  return cudaErrorInvalidResourceHandle;
}

Event* Machine::AddEvent(int device, bool timing) {
  auto event = std::make_unique<Event>();
  event->device = device;
  event->timing = timing;
  events_.push_back(std::move(event));
  return events_.back().get();
}

Event* Machine::LiveEvent(cudaEvent_t handle) const {
  for (const std::unique_ptr<Event>& event : events_) {
    if (reinterpret_cast<cudaEvent_t>(event.get()) == handle) return event->alive ? event.get() : nullptr;
  }
  return nullptr;
}

cudaGraph_t Machine::AddGraph(std::unique_ptr<Graph> graph) {
  const auto handle = reinterpret_cast<cudaGraph_t>(next_handle_++ * 16);
  graphs_[handle] = std::move(graph);
  return handle;
}

Graph* Machine::LiveGraph(cudaGraph_t handle) const {
  const auto found = graphs_.find(handle);
  return found == graphs_.end() ? nullptr : found->second.get();
}

Node* Machine::LiveNode(cudaGraphNode_t handle) const {
  for (const auto& [name, graph] : graphs_) {
    for (const std::unique_ptr<Node>& node : graph->nodes) {
      if (reinterpret_cast<cudaGraphNode_t>(node.get()) == handle) return node.get();
    }
  }
  return nullptr;
}

cudaGraphExec_t Machine::AddGraphExec(std::shared_ptr<GraphExec> exec) {
  const auto handle = reinterpret_cast<cudaGraphExec_t>(next_handle_++ * 16);
  graph_execs_[handle] = std::move(exec);
  return handle;
}

std::shared_ptr<GraphExec> Machine::LiveGraphExec(cudaGraphExec_t handle) const {
  const auto found = graph_execs_.find(handle);
  return found == graph_execs_.end() ? nullptr : found->second;
}

Alive Machine::CountAlive() const {
  Alive alive;
  alive.device_allocations = memory_->live(false);
  alive.pinned_allocations = memory_->live(true);
  for (int device = 0; device < device_count(); ++device) alive.device_bytes += memory_->used(device);
  for (const std::unique_ptr<Stream>& stream : streams_) alive.streams += stream->alive ? 1u : 0u;
  for (const std::unique_ptr<Event>& event : events_) alive.events += event->alive ? 1u : 0u;
  alive.graphs = graphs_.size();
  alive.graph_execs = graph_execs_.size();
  return alive;
}

void Machine::EndCapture(const std::shared_ptr<Capture>& capture) {
  for (const std::unique_ptr<Stream>& stream : streams_) {
    if (stream->capture != capture) continue;
    stream->capture = nullptr;
    stream->capture_tail.clear();
  }
  captures_.erase(capture);
}

cudaError_t Machine::Enqueue(Lock& lock, Stream* stream, std::shared_ptr<Work> work) {
  if (stream->capture) {
    if (stream->capture->invalidated) return cudaErrorStreamCaptureInvalidated;
    std::vector<std::unique_ptr<Node>>& nodes = stream->capture->graph->nodes;
    nodes.push_back(std::make_unique<Node>(Node{std::move(work), stream->capture_tail}));
    stream->capture_tail = {nodes.size() - 1};
    return cudaSuccess;
  }
  stream->queue.push_back({std::move(work)});
  ++progress_;
  changed_.notify_all();
  if (options_.seed != 0 && random_() % 4 < eagerness_) RunSome(lock, 1 + random_() % 3);
  return cudaSuccess;
}

void Machine::Draw(const Stream& stream, Item& item) {
  item.drawn = true;
  if (item.work->type() == cudaGraphNodeTypeGraph) return;  // its nodes have turns of their own
  for (ArmedWorkFault& armed : work_faults_) {
    const WorkFault& fault = armed.fault;
    if (fault.device >= 0 && fault.device != stream.device) continue;
    if (fault.stream != 0 && fault.stream != stream.number) continue;
    if (fault.kernels_only && item.work->type() != cudaGraphNodeTypeKernel) continue;
    if (++armed.seen != fault.nth) continue;
    switch (fault.outcome) {
      case WorkFault::Outcome::kError:
        item.fault = fault.error;
        break;
      case WorkFault::Outcome::kDelay:
        item.due = ticks_ + fault.delay;
        break;
      case WorkFault::Outcome::kNever:
        item.never = true;
        break;
    }
  }
}

bool Machine::MayRun(const Stream& stream, Item& item) {
  if (!item.drawn) Draw(stream, item);
  if (item.never || ticks_ < item.due) return false;
  return item.fault != cudaSuccess || item.work->Runnable();
}

bool Machine::OperandsLive(const Stream& stream, const Work& work) {
  for (const Operand& operand : work.operands()) {
    const Allocation* const allocation = memory_->Numbered(operand.allocation);
    if (!allocation || allocation->freed) {
      Violate(absl::StrCat("stream ", stream.number, ": ", operand.what, " is in memory that was freed: allocation ",
                           operand.allocation));
      return false;
    }
    // Copies reach every device's memory, kernels their own.
    const bool elsewhere = allocation->device != kPinned && allocation->device != operand.device;
    if (elsewhere && work.type() == cudaGraphNodeTypeKernel) {
      Violate(absl::StrCat("stream ", stream.number, ": ", operand.what, " on device ", operand.device,
                           " is in another device's memory: ", allocation->Name()));
      return false;
    }
  }
  return true;
}

Outcome Machine::RunItem(Lock& lock, const Stream& stream, const Item& item) {
  if (item.fault != cudaSuccess) return {true, item.fault};
  if (!OperandsLive(stream, *item.work)) return {true, cudaErrorIllegalAddress};
  return item.work->Run(lock);
}

Stream* Machine::ChooseStream() {
  std::vector<Stream*> ready;
  uint64_t weights = 0;
  for (const std::unique_ptr<Stream>& stream : streams_) {
    if (stream->queue.empty() || !MayRun(*stream, stream->queue.front())) continue;
    ready.push_back(stream.get());
    weights += stream->weight;
  }
  if (ready.empty()) return nullptr;
  if (options_.seed == 0) return ready.front();
  uint64_t drawn = random_() % weights;
  for (Stream* const stream : ready) {
    if (drawn < stream->weight) return stream;
    drawn -= stream->weight;
  }
  return ready.back();
}

bool Machine::RunOne(Lock& lock) {
  if (running_) return false;
  Stream* const stream = ChooseStream();
  if (!stream) return false;
  running_ = true;
  const std::shared_ptr<Work> work = stream->queue.front().work;
  const Outcome outcome = RunItem(lock, *stream, stream->queue.front());
  running_ = false;
  ++progress_;
  if (outcome.error != cudaSuccess) {
    LoseDevice(stream->device, outcome.error);
  } else if (outcome.done) {
    stream->queue.pop_front();
  }
  changed_.notify_all();
  return true;
}

void Machine::RunSome(Lock& lock, uint64_t count) {
  while (count > 0 && RunOne(lock)) --count;
}

void Machine::Poll(Lock& lock) {
  ++ticks_;
  RunSome(lock, options_.seed == 0 ? 1 : 1 + random_() % 4);
}

// ": stream 1 at a kernel, stream 2 at a copy"; nothing if all are idle.
std::string Machine::WhereStreamsAre() const {
  std::string text;
  for (const std::unique_ptr<Stream>& stream : streams_) {
    if (stream->queue.empty()) continue;
    absl::StrAppend(&text, text.empty() ? ": " : ", ", "stream ", stream->number, " at ",
                    stream->queue.front().work->Text());
  }
  return text;
}

bool Machine::RunUntil(Lock& lock, const std::function<bool()>& done, const std::string& what) {
  uint64_t seen = progress_;
  auto since = std::chrono::steady_clock::now();
  while (!done()) {
    if (RunOne(lock)) continue;
    ++ticks_;
    changed_.wait_for(lock, std::chrono::milliseconds(1));
    const auto now = std::chrono::steady_clock::now();
    if (seen != progress_ || running_) {
      seen = progress_;
      since = now;
    } else if (now - since >= options_.hang_limit) {
      Violate(absl::StrCat(what, " would wait for ever", WhereStreamsAre()));
      return false;
    }
  }
  return true;
}

void Machine::WaitIdle(Lock& lock) {
  changed_.wait(lock, [this] { return !running_; });
}

bool Machine::DeviceIsIdle(int device) const {
  return std::all_of(streams_.begin(), streams_.end(), [device](const std::unique_ptr<Stream>& stream) {
    return stream->device != device || stream->queue.empty();
  });
}

}  // namespace fake_cuda

#include "runtime/cuda/cuda_executor.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/backend/basis.h"
#include "runtime/backend/refusals.h"
#include "runtime/comm/status_lane.h"
#include "runtime/cuda/block_places.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/device_sum.h"
#include "runtime/cuda/kernels/lane.h"
#include "runtime/cuda/kernels/rank_order_sum.h"
#include "runtime/cuda/peer_watch.h"
#include "runtime/cuda/stream.h"
#include "runtime/execute/check_run.h"
#include "runtime/execute/collective_verdict.h"
#include "schema/byte_text.h"
#include "schema/mesh_view.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::cuda {
namespace {

using runtime::RankProgram;
using runtime::StatusLane;
using runtime::StepFrame;
using runtime::StepInput;
using runtime::StepOutput;

// How long a device may take to come to rest after its collective was ended, before its memory is left to it.
constexpr std::chrono::milliseconds kRest{2'000};

// The fixed places of the host, page-locked.
struct Staged {
  StepParameters* parameters = nullptr;
  runtime::Piece* groups = nullptr;  // [dense groups]
  float* rows = nullptr;             // [T, H]
  int32_t* token_ids = nullptr;      // [T]
  int32_t* given = nullptr;          // [T*k]
  float* given_weights = nullptr;    // [T*k]
  LaneReport* report = nullptr;
  StatusLane* sum = nullptr;
  int32_t* experts = nullptr;  // [T*k]
  float* weights = nullptr;    // [T*k]
  float* output = nullptr;     // [T, H]
};

struct PlacedStaged {
  Staged staged;
  uint64_t bytes = 0;
};

PlacedStaged PlaceStaged(absl::Span<const RankProgram* const> programs, std::byte* block) {
  uint64_t elements = 0;
  uint64_t tokens = 0;
  uint64_t slots = 0;
  uint64_t groups = 0;
  for (const RankProgram* const program : programs) {
    tokens = std::max<uint64_t>(tokens, program->max_tokens());
    elements = std::max(elements, uint64_t{program->max_tokens()} * program->hidden());
    slots = std::max(slots, uint64_t{program->max_tokens()} * program->layer_class().top_k);
    groups = std::max<uint64_t>(groups, DenseGroups(program->degrees()));
  }
  PlacedStaged placed;
  Staged& s = placed.staged;
  BlockPlaces places(block);
  places.Place(1, &s.parameters);
  places.Place(groups, &s.groups);
  places.Place(elements, &s.rows);
  places.Place(tokens, &s.token_ids);
  places.Place(slots, &s.given);
  places.Place(slots, &s.given_weights);
  places.Place(1, &s.report);
  places.Place(1, &s.sum);
  places.Place(slots, &s.experts);
  places.Place(slots, &s.weights);
  places.Place(elements, &s.output);
  placed.bytes = places.bytes();
  return placed;
}

struct DestroyGraph {
  std::atomic<bool>* hung = nullptr;

  void operator()(cudaGraph_t graph) const { Note(cudaGraphDestroy(graph)); }
  void operator()(cudaGraphExec_t graph) const { Note(cudaGraphExecDestroy(graph)); }

 private:
  void Note(cudaError_t ended) const {
    if (ended != cudaSuccess) hung->store(true);
  }
};
using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph>;
using GraphExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, DestroyGraph>;

// A captured program, and what it has to report.
struct Captured {
  bool ran = false;  // without being captured
  GraphExec exec;
  std::vector<CudaBackend::Failures> failures;
};

absl::Status CopyIn(void* device, const void* host, uint64_t bytes, cudaStream_t stream) {
  return EnqueueCopy(device, host, bytes, cudaMemcpyHostToDevice, stream, "a copy to the device");
}
absl::Status CopyOut(void* host, const void* device, uint64_t bytes, cudaStream_t stream) {
  return EnqueueCopy(host, device, bytes, cudaMemcpyDeviceToHost, stream, "a copy from the device");
}

// Drops what `stream` has captured, where it still captures: that its end was asked for and failed does not end it.
void EndCapture(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (!FromCuda(cudaStreamIsCapturing(stream, &status), "a capture").ok()) return;
  if (status == cudaStreamCaptureStatusNone) return;
  cudaGraph_t ended = nullptr;
  static_cast<void>(FromCuda(cudaStreamEndCapture(stream, &ended), "the end of a capture"));
  Graph(ended).reset();
}

// What a program may have captured: kernels, copies and fills; and what a transport puts beside its kernels, to have
// them wait for its other work and for threads that send what they leave.
bool MayBeCaptured(cudaGraphNodeType type, bool with_transport) {
  switch (type) {
    case cudaGraphNodeTypeKernel:
    case cudaGraphNodeTypeMemcpy:
    case cudaGraphNodeTypeMemset:
      return true;
    case cudaGraphNodeTypeHost:
    case cudaGraphNodeTypeEmpty:
    case cudaGraphNodeTypeWaitEvent:
    case cudaGraphNodeTypeEventRecord:
      return with_transport;
    default:
      return false;
  }
}

absl::Status CheckNodes(cudaGraph_t graph, bool with_transport) {
  size_t count = 0;
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaGraphGetNodes(graph, nullptr, &count), "the nodes of a graph");
  std::vector<cudaGraphNode_t> nodes(count);
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaGraphGetNodes(graph, nodes.data(), &count), "the nodes of a graph");
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type = cudaGraphNodeTypeCount;
    MESHSEAL_RETURN_IF_CUDA_ERROR(cudaGraphNodeGetType(node, &type), "a node of a graph");
    if (MayBeCaptured(type, with_transport)) continue;
    return Refuse(Reason::kBug, absl::StrCat("a captured program has a node of type ", static_cast<int>(type)));
  }
  return absl::OkStatus();
}

}  // namespace

// All that calls under way use, in one object, so that it can be left to a device that does not come to rest. Graphs
// end before the communicator that they hold calls of.
struct CudaExecutor::OnDevice {
  OnDevice(uint32_t ranks, DeviceMemory arena_memory, DeviceMemory collective_memory, DeviceMemory scratch_memory,
           PinnedMemory staged_memory, absl::Span<const RankProgram* const> programs, Stream made, Event event,
           ProductKind kind)
      : arena(std::move(arena_memory)),
        addends(std::move(collective_memory)),
        scratch_block(std::move(scratch_memory)),
        staged_block(std::move(staged_memory)),
        scratch(PlaceScratch(programs, ranks, scratch_block.bytes().data()).scratch),
        staged(PlaceStaged(programs, staged_block.bytes().data()).staged),
        stream(std::move(made)),
        done(std::move(event)),
        backend(stream.get(), scratch, kind) {}

  const DeviceMemory arena;
  const DeviceMemory addends;  // of the collective
  const DeviceMemory scratch_block;
  const PinnedMemory staged_block;
  const StepScratch scratch;
  const Staged staged;
  const Stream stream;
  const Event done;
  CudaBackend backend;
  std::optional<DeviceTables> tables;
  std::unique_ptr<DeviceCollective> collective;
  std::map<std::tuple<const RankProgram*, uint32_t, uint64_t>, Captured> graphs;  // by program, layer, own tokens
  absl::Span<const CudaBackend::Failures> failures;                               // of the run under way
};

CudaExecutor::CudaExecutor(const Plan& plan, const Device& device, runtime::Communicator& group,
                           const runtime::ExecutorOptions& options, HungFlag hung)
    : plan_(plan), device_(device), group_(group), options_(options), hung_(std::move(hung)) {}

absl::StatusOr<std::unique_ptr<CudaExecutor>> CudaExecutor::Reserve(
    const Plan& plan, const RankMemory& memory, const Device& device, absl::Span<const RankProgram* const> programs,
    runtime::Communicator& group, const runtime::ExecutorOptions& options, HungFlag hung) {
  const uint64_t scratch_bytes = PlaceScratch(programs, group.size(), nullptr).bytes;
  if (scratch_bytes > memory.capture) {
    return Refuse(Reason::kOutOfMemory, absl::StrCat("captured programs need ", ByteText(scratch_bytes),
                                                     " beside their values, the plan charges ",
                                                     ByteText(memory.capture), ": see the deployment's field capture"));
  }
  for (const RankProgram* const program : programs) {
    if (!program->gathers() || ExchangeBytes(*program) <= memory.collective) continue;
    return Refuse(Reason::kOutOfMemory,
                  absl::StrCat("the ", WordOf(program->phase()), " program exchanges ", ExchangeBytes(*program),
                               " bytes of its dense groups, the plan charges ", memory.collective));
  }
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaSetDevice(device.ordinal), absl::StrCat("device ", device.pci_id));
  MESHSEAL_ASSIGN_OR_RETURN(DeviceMemory arena, DeviceMemory::Reserve(runtime::WorkBytes(memory), "the work arena"));
  MESHSEAL_ASSIGN_OR_RETURN(DeviceMemory addends, DeviceMemory::Reserve(memory.collective, "a collective"));
  MESHSEAL_ASSIGN_OR_RETURN(DeviceMemory scratch, DeviceMemory::Reserve(scratch_bytes, "captured programs"));
  MESHSEAL_ASSIGN_OR_RETURN(PinnedMemory staged,
                            PinnedMemory::Reserve(PlaceStaged(programs, nullptr).bytes, "rows on their way"));
  MESHSEAL_ASSIGN_OR_RETURN(Stream stream, Stream::Make());
  MESHSEAL_ASSIGN_OR_RETURN(Event done, Event::Make());
  const ProductKind kind = plan.numerics == Numerics::kReference1 ? ProductKind::kReference : ProductKind::kLanes;
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(plan, device, group, options, std::move(hung)));
  executor->on_device_ =
      std::make_unique<OnDevice>(group.size(), std::move(arena), std::move(addends), std::move(scratch),
                                 std::move(staged), programs, std::move(stream), std::move(done), kind);
  return executor;
}

CudaExecutor::~CudaExecutor() {
  if (on_device_ == nullptr) return;
  on_device_->graphs.clear();
  if (hung_->load()) static_cast<void>(on_device_.release());
}

void CudaExecutor::Bind(DeviceTables tables, std::unique_ptr<DeviceCollective> collective) {
  on_device_->tables.emplace(std::move(tables));
  on_device_->collective = std::move(collective);
  on_device_->backend.Use(*on_device_->tables);
}

uint64_t CudaExecutor::arena_bytes() const { return on_device_->arena.bytes().size(); }

bool CudaExecutor::IsCaptured(const RankProgram& program) const {
  const DeviceCollective& collective = *on_device_->collective;
  return program.phase() == Phase::kDecode && collective.capturable() &&
         (collective.size() == 1 || plan_.mesh.capturable);
}

uint32_t CudaExecutor::RowsFor(const RankProgram& program, uint32_t tokens, uint32_t most) const {
  if (!IsCaptured(program)) return tokens;
  for (const uint32_t bucket : plan_.limits.decode_buckets) {
    if (bucket >= tokens) return std::min(bucket, most);
  }
  return most;
}

StepInput CudaExecutor::Widen(const RankProgram& program, const StepInput& input,
                              std::vector<uint32_t>* group_tokens) const {
  StepInput widest = input;
  if (!program.gathers()) {
    widest.tokens = RowsFor(program, input.tokens, program.max_tokens());
    return widest;
  }
  const uint32_t largest = *std::max_element(input.group_tokens.begin(), input.group_tokens.end());
  const uint32_t rows = RowsFor(program, largest, program.max_own_tokens());
  group_tokens->assign(input.group_tokens.size(), rows);
  widest.group_tokens = *group_tokens;
  const uint64_t all = uint64_t{rows} * group_tokens->size();
  widest.tokens = static_cast<uint32_t>(std::min<uint64_t>(all, program.max_tokens()));
  return widest;
}

void CudaExecutor::Stage(const StepFrame& frame, const StepInput& input) {
  const Staged& staged = on_device_->staged;
  const RankProgram& program = frame.program();
  const uint64_t hidden = program.hidden();
  StepParameters parameters;
  parameters.tokens.first_token = input.first_token;
  parameters.tokens.tokens = input.tokens;
  parameters.own = parameters.tokens;
  parameters.drain = options_.drain != nullptr && options_.drain->load(std::memory_order_relaxed) ? 1 : 0;
  const DeviceCollective& collective = *on_device_->collective;
  if (program.gathers()) {
    uint64_t first = 0;
    for (size_t group = 0; group < input.group_tokens.size(); ++group) {
      staged.groups[group] = {first, input.group_tokens[group]};
      first += input.group_tokens[group];
    }
    parameters.own.tokens = input.group_tokens[DenseGroupOf(program.degrees(), program.at())];
    parameters.sum = parameters.rows = {0, parameters.own.tokens * hidden};
  } else {
    const uint64_t elements = frame.shape().tokens * hidden;
    parameters.sum = SumPieceOf(program.reduce_algorithm(), elements, collective.size(), collective.rank());
    parameters.rows = {0, elements};
  }
  parameters.lane = {0, kLaneWords};
  *staged.parameters = parameters;
  std::copy(input.hidden.begin(), input.hidden.end(), staged.rows);
  std::copy(input.token_ids.begin(), input.token_ids.end(), staged.token_ids);
  std::copy(input.routing.experts.begin(), input.routing.experts.end(), staged.given);
  std::copy(input.routing.weights.begin(), input.routing.weights.end(), staged.given_weights);
}

absl::Status CudaExecutor::Enqueue(const StepFrame& frame) {
  OnDevice& on = *on_device_;
  const cudaStream_t stream = on.stream.get();
  const RankProgram& program = frame.program();
  on.backend.Begin();
  if (options_.poison) {
    MESHSEAL_RETURN_IF_CUDA_ERROR(
        cudaMemsetAsync(on.arena.bytes().data(), runtime::kPoison, program.arena_bytes(), stream),
        "filling the work arena");
  }
  MESHSEAL_RETURN_IF_ERROR(CopyIn(on.scratch.parameters, on.staged.parameters, sizeof(StepParameters), stream));
  if (program.gathers()) {
    MESHSEAL_RETURN_IF_ERROR(
        CopyIn(on.scratch.groups, on.staged.groups, DenseGroups(program.degrees()) * sizeof(runtime::Piece), stream));
  }
  const absl::Span<float> rows = frame.OwnTokens(program.layer_input());
  MESHSEAL_RETURN_IF_ERROR(CopyIn(rows.data(), on.staged.rows, rows.size() * sizeof(float), stream));
  const runtime::BoundStep& route = program.route();
  if (route.kind == StepKind::kRouteByTable) {
    const absl::Span<int32_t> ids = frame.TokenIds(route.inputs[1]);
    MESHSEAL_RETURN_IF_ERROR(CopyIn(ids.data(), on.staged.token_ids, ids.size() * sizeof(int32_t), stream));
  }
  if (route.kind == StepKind::kRouteGiven) {
    const absl::Span<int32_t> experts = frame.ExpertIds(route.inputs[0]);
    const absl::Span<float> weights = frame.ExpertWeights(route.inputs[0]);
    MESHSEAL_RETURN_IF_ERROR(CopyIn(experts.data(), on.staged.given, experts.size() * sizeof(int32_t), stream));
    MESHSEAL_RETURN_IF_ERROR(CopyIn(weights.data(), on.staged.given_weights, weights.size() * sizeof(float), stream));
  }
  for (uint32_t i = 0; i < program.steps().size(); ++i) {
    MESHSEAL_RETURN_IF_ERROR(EnqueueStep(frame, i));
  }
  const absl::Span<float> result = frame.OwnTokens(program.layer_output());
  return CopyOut(on.staged.output, result.data(), result.size() * sizeof(float), stream);
}

absl::Status CudaExecutor::EnqueueStep(const StepFrame& frame, uint32_t step_number) {
  const runtime::BoundStep& step = frame.program().steps()[step_number];
  if (step.kind == StepKind::kCollective) return EnqueueCollective(frame, step_number);
  if (step.kind != StepKind::kGather) return RunStep(frame, step_number, on_device_->backend);
  return frame.Placed(
      step_number, ExchangeFor(frame).Gather(frame.OwnTokens(step.inputs.front()), frame.Tokens(step.outputs.front())));
}

TokenExchange CudaExecutor::ExchangeFor(const StepFrame& frame) {
  OnDevice& on = *on_device_;
  return TokenExchange(*on.collective, frame.program(), on.scratch.groups, static_cast<uint32_t>(frame.own().count),
                       on.addends.bytes(), on.stream.get());
}

absl::Status CudaExecutor::EnqueueCollective(const StepFrame& frame, uint32_t step_number) {
  OnDevice& on = *on_device_;
  const cudaStream_t stream = on.stream.get();
  const RankProgram& program = frame.program();
  const runtime::BoundStep& step = program.steps()[step_number];
  const absl::Span<int32_t> experts = frame.ExpertIds(frame.RoutingPlace());
  const absl::Span<float> weights = frame.ExpertWeights(frame.RoutingPlace());

  LaneStep lane;
  lane.step = &on.scratch.parameters->tokens;
  lane.top_k = frame.shape().top_k;
  lane.experts = experts.data();
  lane.weights = weights.data();
  lane.computed = on.scratch.computed;
  for (const CudaBackend::Failures& failures : on.backend.failures()) lane.failures[lane.lists++] = failures.list;
  lane.drain = &on.scratch.parameters->drain;
  lane.report = on.scratch.report;
  MESHSEAL_RETURN_IF_CUDA_ERROR(LaunchLane(stream, lane), "the status lane");
  MESHSEAL_RETURN_IF_ERROR(CopyOut(on.staged.report, on.scratch.report, sizeof(LaneReport), stream));
  // The plan lets later values take the routing's place.
  MESHSEAL_RETURN_IF_ERROR(CopyOut(on.staged.experts, experts.data(), experts.size() * sizeof(int32_t), stream));
  MESHSEAL_RETURN_IF_ERROR(CopyOut(on.staged.weights, weights.data(), weights.size() * sizeof(float), stream));

  DeviceCollective& collective = *on.collective;
  const absl::Span<StatusLane> lanes(on.scratch.lanes, collective.size());
  MESHSEAL_RETURN_IF_ERROR(EnqueueCopy(&lanes[collective.rank()], &on.scratch.report->lane, sizeof(StatusLane),
                                       cudaMemcpyDeviceToDevice, stream, "the status lane"));
  const Buffer& in = step.inputs.front();
  const absl::Span<float> out = frame.OwnTokens(step.outputs.front());
  const bool exact = program.fixed_point().has_value();
  const absl::Span<float> addend = frame.Tokens(in);
  const absl::Span<int64_t> fixed = exact ? frame.FixedTokens(in) : absl::Span<int64_t>();
  MESHSEAL_RETURN_IF_CUDA_ERROR(
      LaunchZeroOnError(stream, {lane.step, frame.shape().tokens, uint64_t{program.hidden()} * (exact ? 2 : 1),
                                 on.scratch.report, reinterpret_cast<uint32_t*>(addend.data())}),
      "the addend of a failed rank");
  // Where the sum lies that the transport makes: in the place of the addends, or of this rank's rows in the buffer.
  const auto sum_of = [&](auto values) -> absl::StatusOr<decltype(values.data())> {
    if (program.gathers()) return ExchangeFor(frame).Sum(absl::MakeConstSpan(values), lanes);
    MESHSEAL_RETURN_IF_ERROR(EnqueueSum(collective, values, lanes, stream));
    return values.data();
  };
  const SumPieces pieces = {&on.scratch.parameters->sum, &on.scratch.parameters->lane};
  if (exact) {
    MESHSEAL_ASSIGN_OR_RETURN(const int64_t* const sum, sum_of(fixed));
    MESHSEAL_RETURN_IF_CUDA_ERROR(
        LaunchFixedToFloat(stream, {&on.scratch.parameters->rows, out.size(), *program.fixed_point(), sum, out.data()}),
        "the sum as float32");
  } else if (program.reduce_algorithm() == ReduceAlgorithm::kTransport) {
    MESHSEAL_ASSIGN_OR_RETURN(const float* const sum, sum_of(addend));
    MESHSEAL_RETURN_IF_ERROR(EnqueueCopy(out.data(), sum, out.size() * sizeof(float), cudaMemcpyDeviceToDevice, stream,
                                         "a copy of the sum"));
  } else if (program.gathers()) {
    MESHSEAL_RETURN_IF_ERROR(ExchangeFor(frame).OrderedSum(addend, out, lanes, pieces));
  } else {
    MESHSEAL_RETURN_IF_ERROR(EnqueueOrderedSum(collective, program.reduce_algorithm(), addend, on.addends.bytes(), out,
                                               lanes, pieces, stream));
  }
  return CopyOut(on.staged.sum, &lanes[0], sizeof(StatusLane), stream);
}

absl::Status CudaExecutor::EnqueueAnew(const StepFrame& frame) {
  MESHSEAL_RETURN_IF_ERROR(Enqueue(frame));
  on_device_->failures = on_device_->backend.failures();
  return absl::OkStatus();
}

absl::Status CudaExecutor::Replay(const StepFrame& frame) {
  OnDevice& on = *on_device_;
  const cudaStream_t stream = on.stream.get();
  Captured& captured = on.graphs[{&frame.program(), frame.layer(), frame.own().count}];
  const bool with_transport = on.collective->size() > 1;
  if (with_transport && !captured.ran) {
    captured.ran = true;
    return EnqueueAnew(frame);
  }
  if (captured.exec == nullptr) {
    MESHSEAL_RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "a capture");
    const absl::Status enqueued = Enqueue(frame);
    cudaGraph_t ended = nullptr;
    const cudaError_t end = cudaStreamEndCapture(stream, &ended);
    const Graph graph(ended, {hung_.get()});
    MESHSEAL_RETURN_IF_ERROR(enqueued);
    MESHSEAL_RETURN_IF_CUDA_ERROR(end, "the end of a capture");
    MESHSEAL_RETURN_IF_ERROR(CheckNodes(graph.get(), with_transport));
    cudaGraphExec_t exec = nullptr;
    MESHSEAL_RETURN_IF_CUDA_ERROR(cudaGraphInstantiate(&exec, graph.get(), 0), "a graph");
    captured.exec = GraphExec(exec, {hung_.get()});
    captured.failures.assign(on.backend.failures().begin(), on.backend.failures().end());
  }
  on.failures = captured.failures;
  return FromCuda(cudaGraphLaunch(captured.exec.get(), stream), "the launch of a graph");
}

absl::Status CudaExecutor::Wait(const StepFrame& frame) {
  OnDevice& on = *on_device_;
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaEventRecord(on.done.get(), on.stream.get()), "an event");
  PeerWatch peers(group_, options_.deadline, options_.drain);
  return peers.Watch([&] {
    return WaitFor(on.done.get(), options_.deadline, absl::StrCat("the ", WordOf(frame.program().phase()), " program"),
                   [&] {
                     const absl::Status state = on.collective->Check();
                     return state.ok() ? peers.Check() : state;
                   });
  });
}

absl::Status CudaExecutor::GiveUp(const absl::Status& cause) {
  OnDevice& on = *on_device_;
  group_.Abort(cause);
  on.failures = {};
  EndCapture(on.stream.get());
  on.graphs.clear();
  if (hung_->load()) return cause;
  on.collective->Abort();
  // A device that is past use fails at once, and so does freeing its memory.
  if (!FromCuda(cudaEventRecord(on.done.get(), on.stream.get()), "an event").ok()) return cause;
  const absl::Status rest = WaitFor(on.done.get(), kRest, "the end of a failed run", [] { return absl::OkStatus(); });
  if (ReasonOf(rest) == Reason::kDeadline) hung_->store(true);
  return cause;
}

absl::Status CudaExecutor::CauseOf(const StepFrame& frame, const StepInput& input) const {
  const LaneReport& report = *on_device_->staged.report;
  if (report.failure == 0) return absl::OkStatus();
  const FailureList& list = on_device_->failures[report.list].list;
  const uint64_t at = list.items_per_token == 0 ? 0 : report.item / list.items_per_token;
  const uint64_t token = input.first_token + at;
  const uint32_t expert = FailedExpert(report.failure);
  const uint32_t detail = FailureDetail(report.failure);
  const std::string whose =
      expert == kSharedExpert ? std::string(runtime::kSharedExpertText) : runtime::ExpertText(expert);
  absl::Status cause;
  switch (FailureKindOf(report.failure)) {
    case FailureKind::kRouterScore:
      cause = runtime::RefuseScore(token, expert);
      break;
    case FailureKind::kOutput:
      cause = runtime::RefuseOutput(token, whose);
      break;
    case FailureKind::kBound:
      cause = runtime::RefuseAddend(*frame.program().fixed_point(), token, whose, std::bit_cast<float>(detail));
      break;
    case FailureKind::kTokenId:
      cause =
          Refuse(Reason::kUsage, absl::StrCat("token ", token, " has the id ", detail, ", outside the token table"));
      break;
    case FailureKind::kTokenTableRow:
      cause = Refuse(Reason::kWeightsTensor, absl::StrCat("token ", token, ": the token table's row ", detail,
                                                          " does not select different experts"));
      break;
    case FailureKind::kGroupedRows:
      cause = runtime::RefuseRows(detail, frame.program().grouped_rows());
      break;
    case FailureKind::kNone:
      cause = Refuse(Reason::kBug, absl::StrCat("an unknown failure ", report.failure));
      break;
  }
  const absl::Span<const runtime::BoundStep> steps = frame.program().steps();
  const StepKind kind = on_device_->failures[report.list].step;
  const auto failed = std::find_if(steps.begin(), steps.end(), [kind](const auto& step) { return step.kind == kind; });
  return frame.Placed(static_cast<uint32_t>(failed - steps.begin()), cause);
}

void CudaExecutor::HandOut(const RankProgram& program, const StepOutput& output) const {
  const Staged& staged = on_device_->staged;
  std::copy_n(staged.experts, output.expert_ids.size(), output.expert_ids.begin());
  std::copy_n(staged.weights, output.expert_weights.size(), output.expert_weights.begin());
  if (output.hidden.empty()) return;
  std::copy_n(staged.output, output.hidden.size(), output.hidden.begin());
  runtime::ToBasis(program.output(), output.hidden);
}

absl::Status CudaExecutor::Run(const RankProgram& program, const runtime::LayerWeights& weights, const StepInput& input,
                               const StepOutput& output, runtime::StepCounters* counters) {
  OnDevice& on = *on_device_;
  MESHSEAL_RETURN_IF_ERROR(CheckRun(program, arena_bytes(), input, output));
  const absl::Status current = FromCuda(cudaSetDevice(device_.ordinal), absl::StrCat("device ", device_.pci_id));
  if (!current.ok()) return GiveUp(current);
  std::vector<uint32_t> group_tokens;
  const StepInput widest = Widen(program, input, &group_tokens);
  runtime::StepCounters unused;
  const StepFrame frame(program, weights, widest, on.arena.bytes(), &unused);
  Stage(frame, input);

  const auto collective =
      std::find_if(program.steps().begin(), program.steps().end(),
                   [](const runtime::BoundStep& step) { return step.kind == StepKind::kCollective; });
  const auto step_number = static_cast<uint32_t>(collective - program.steps().begin());
  trail_.Enter(input.layer, step_number, collective->mnemonic);
  const absl::Status enqueued = IsCaptured(program) ? Replay(frame) : EnqueueAnew(frame);
  if (!enqueued.ok()) return GiveUp(enqueued);
  const uint64_t slots = uint64_t{input.tokens} * program.layer_class().top_k;
  const StatusLane& sum = *on.staged.sum;
  const absl::Status reduced = Wait(frame);
  const absl::Status cause = reduced.ok() ? CauseOf(frame, input) : absl::OkStatus();
  drains_ = reduced.ok() && sum.drain > 0;
  if (reduced.ok()) {
    const auto computed = static_cast<uint64_t>(on.staged.report->lane.computed_slots);
    counters->gate_up_slots += computed;
    counters->down_slots += computed;
  }
  const absl::Status verdict = CollectiveVerdict(frame, step_number, slots, cause, reduced, sum, trail_, group_);
  if (!reduced.ok()) return GiveUp(verdict);
  MESHSEAL_RETURN_IF_ERROR(verdict);
  HandOut(program, output);
  return absl::OkStatus();
}

}  // namespace meshseal::cuda

#include "runtime/session/session.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/backend/backend.h"
#include "runtime/comm/agreement.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/inproc.h"
#include "runtime/execute/rank_executor.h"
#include "runtime/program/executed.h"
#include "runtime/program/rank_facts.h"
#include "runtime/program/rank_program.h"
#include "runtime/session/preflight.h"
#include "runtime/weights/rank_weights.h"
#include "runtime/weights/weight_files.h"
#include "schema/mesh_view.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

constexpr const char* kInproc = "inproc";

uint32_t WorldSize(const Plan& plan) { return static_cast<uint32_t>(plan.mesh.rank_slots.size()); }

// One arena for the programs of both phases.
uint64_t WorkBytes(const RankMemory& memory) { return std::max(memory.decode_work, memory.prefill_work); }

// Rows [first, first + count) of a call.
struct Band {
  uint32_t first = 0;
  uint32_t count = 0;
};

// The band of replica `replica`: as equal as possible, larger first.
Band BandOf(uint32_t tokens, uint32_t replicas, uint32_t replica) {
  const uint32_t size = tokens / replicas;
  const uint32_t larger = tokens % replicas;
  return {replica * size + std::min(replica, larger), size + (replica < larger ? 1 : 0)};
}

absl::Status CheckOptions(const Plan& plan, const SessionOptions& options) {
  if (options.ranks != kInproc) {
    return Refuse(Reason::kNotBuilt,
                  absl::StrCat("ranks '", options.ranks, "' are not built, this version has '", kInproc, "'"));
  }
  MESHSEAL_RETURN_IF_ERROR(MakeBackend(options.backend).status());
  MESHSEAL_RETURN_IF_ERROR(CheckExecuted(plan));
  if (plan.mesh.transport != Transport::kInproc && !options.emulate) {
    return Refuse(Reason::kUsage, absl::StrCat("the plan's mesh has transport ", WordOf(plan.mesh.transport),
                                               ", the ranks would be threads: that is an emulation, and not allowed"));
  }
  if (plan.failure_scope == FailureScope::kReplica && plan.degrees.dp > 1) {
    return Refuse(Reason::kNotBuilt, "failure_scope: replica is not built, a failure ends all replicas");
  }
  const size_t world = plan.mesh.rank_slots.size();
  if (options.weights.size() != 1 && options.weights.size() != world) {
    return Refuse(Reason::kUsage, absl::StrCat(options.weights.size(), " weights folders for ", world,
                                               " ranks, expected one for all or one per rank"));
  }
  if (!options.unverified_weights) {
    return Refuse(Reason::kWeightsUnverified,
                  "the plan binds no weights digests; allow unverified weights to run it all the same");
  }
  return absl::OkStatus();
}

// The cause behind the statuses of all ranks: the first one that does not blame a peer, with its rank in
// front.
absl::Status CauseOf(const Plan& plan, absl::Span<const absl::Status> statuses) {
  std::optional<uint32_t> cause;
  for (uint32_t rank = 0; rank < statuses.size(); ++rank) {
    if (statuses[rank].ok()) continue;
    if (ReasonOf(statuses[rank]) != Reason::kPeerFailed) {
      cause = rank;
      break;
    }
    if (!cause.has_value()) cause = rank;
  }
  if (!cause.has_value()) return absl::OkStatus();
  const absl::Status& status = statuses[*cause];
  return Refuse(
      ReasonOf(status).value_or(Reason::kBug),
      absl::StrCat("rank ", *cause, " (", CoordinateText(CoordinateOf(plan.degrees, *cause)), "): ", status.message()));
}

}  // namespace

// Everything of one rank; touched by its thread alone while a call is running.
struct Session::Rank {
  uint32_t rank = 0;
  Coordinate at;
  std::unique_ptr<Communicator> world;  // agreements of all ranks
  std::unique_ptr<Communicator> group;  // the one collective of its expert group
  std::unique_ptr<Backend> backend;
  std::optional<WeightFiles> files;  // until they are loaded
  std::vector<RankProgram> decode;   // by layer class
  std::vector<RankProgram> prefill;
  std::optional<RankWeights> weights;
  std::optional<RankExecutor> executor;
};

Session::Session(SealedPlan plan, SessionOptions options) : plan_(std::move(plan)), options_(std::move(options)) {}

Session::~Session() = default;

absl::StatusOr<std::unique_ptr<Session>> Session::Create(SealedPlan plan, SessionOptions options) {
  if (!plan.valid()) return Refuse(Reason::kUsage, "the plan was moved from: it is another session's");
  MESHSEAL_RETURN_IF_ERROR(CheckOptions(plan.plan(), options));
  std::unique_ptr<Session> session(new Session(std::move(plan), std::move(options)));
  const Plan& content = session->plan_.plan();

  std::vector<uint32_t> all_ranks;
  for (uint32_t rank = 0; rank < WorldSize(content); ++rank) {
    all_ranks.push_back(rank);
    session->ranks_.push_back(std::make_unique<Rank>());
    session->ranks_[rank]->rank = rank;
    session->ranks_[rank]->at = CoordinateOf(content.degrees, rank);
    MESHSEAL_ASSIGN_OR_RETURN(session->ranks_[rank]->backend, MakeBackend(session->options_.backend));
  }
  std::vector<std::unique_ptr<Communicator>> world = MakeInprocGroup(all_ranks, {session->options_.load_deadline});
  for (const uint32_t rank : all_ranks) {
    session->ranks_[rank]->world = std::move(world[rank]);
    const std::vector<uint32_t> group = GroupOf(content.degrees, MeshGroup::kExpert, rank);
    if (group.front() != rank) continue;
    std::vector<std::unique_ptr<Communicator>> ends = MakeInprocGroup(group, {session->options_.deadline});
    for (size_t i = 0; i < group.size(); ++i) session->ranks_[group[i]]->group = std::move(ends[i]);
  }

  MESHSEAL_RETURN_IF_ERROR(CauseOf(content, session->OnAllRanks([&](Rank& rank) { return session->Prepare(rank); })));
  return session;
}

template <class Work>
std::vector<absl::Status> Session::OnAllRanks(Work work) {
  std::vector<absl::Status> statuses(ranks_.size());
  std::vector<std::thread> threads;
  threads.reserve(ranks_.size());  // nothing may throw past a thread that runs
  for (const std::unique_ptr<Rank>& owned : ranks_) {
    Rank& rank = *owned;
    absl::Status& status = statuses[rank.rank];
    const auto finish = [&rank, &status](absl::Status verdict) {
      status = std::move(verdict);
      if (status.ok()) return;
      rank.world->Abort(status);
      rank.group->Abort(status);
    };
    try {
      threads.emplace_back([&rank, work, finish] {
        try {
          finish(work(rank));
        } catch (const std::bad_alloc&) {
          finish(Refuse(Reason::kOutOfMemory, "memory for the rank's own records cannot be had"));
        }
      });
    } catch (const std::exception&) {  // system_error or bad_alloc
      finish(Refuse(Reason::kOutOfMemory, "a thread for the rank cannot be had"));
    }
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

absl::Status Session::Prepare(Rank& rank) {
  MESHSEAL_RETURN_IF_ERROR(Agree(*rank.world, Open(rank)));
  MESHSEAL_RETURN_IF_ERROR(Preflight(*rank.world, RecordOf(plan_, rank.rank, rank.backend->name())));
  MESHSEAL_RETURN_IF_ERROR(Agree(*rank.world, Reserve(rank)));
  return Agree(*rank.world, Load(rank));
}

absl::Status Session::Open(Rank& rank) {
  for (uint32_t c = 0; c < plan_.plan().layer_classes.size(); ++c) {
    MESHSEAL_ASSIGN_OR_RETURN(RankProgram decode, BindProgram(plan_, rank.rank, c, Phase::kDecode));
    MESHSEAL_ASSIGN_OR_RETURN(RankProgram prefill, BindProgram(plan_, rank.rank, c, Phase::kPrefill));
    rank.decode.push_back(std::move(decode));
    rank.prefill.push_back(std::move(prefill));
  }
  const std::filesystem::path& folder = options_.weights[options_.weights.size() == 1 ? 0 : rank.rank];
  MESHSEAL_ASSIGN_OR_RETURN(rank.files, WeightFiles::Open(plan_, folder));
  return absl::OkStatus();
}

absl::Status Session::Reserve(Rank& rank) {
  const Plan& plan = plan_.plan();
  MESHSEAL_ASSIGN_OR_RETURN(rank.weights, RankWeights::Reserve(plan_, rank.rank));
  RankExecutor::Options options;
  options.poison = options_.poison;
  MESHSEAL_ASSIGN_OR_RETURN(
      rank.executor, RankExecutor::Reserve(WorkBytes(plan.memory[rank.rank]), *rank.backend, *rank.group, options));
  return rank.group->Reserve(uint64_t{std::max(plan.limits.decode_tokens, plan.limits.prefill_chunk)} * plan.hidden);
}

absl::Status Session::Load(Rank& rank) {
  MESHSEAL_RETURN_IF_ERROR(rank.weights->Load(plan_, *rank.files));
  rank.files.reset();
  return absl::OkStatus();
}

absl::Status Session::CheckRequest(const RunRequest& request) const {
  const Plan& plan = plan_.plan();
  if (!ClassOfLayer(plan, request.layer).has_value()) {
    return Refuse(Reason::kUsage, absl::StrCat("layer ", request.layer, " is not a layer with experts of this plan"));
  }
  if (!IsKnown(request.phase)) return Refuse(Reason::kUsage, "a run has the phase decode or prefill");
  const bool decode = request.phase == Phase::kDecode;
  const uint32_t limit = decode ? plan.limits.decode_tokens : plan.limits.prefill_tokens;
  const uint32_t most = BandOf(request.tokens, plan.degrees.dp, 0).count;
  if (most > limit) {
    return Refuse(Reason::kLimit, absl::StrCat("a ", WordOf(request.phase), " of ", request.tokens, " tokens gives ",
                                               most, " to a replica, the plan's ",
                                               decode ? "decode_tokens" : "prefill_tokens", " is ", limit));
  }
  const uint64_t elements = uint64_t{request.tokens} * plan.hidden;
  if (request.hidden.size() != elements || request.output.size() != elements) {
    return Refuse(Reason::kUsage,
                  absl::StrCat("hidden has ", request.hidden.size(), " and output ", request.output.size(),
                               " elements, ", request.tokens, " tokens have ", elements));
  }
  const std::less<const float*> before;
  if (elements > 0 && before(request.hidden.data(), request.output.data() + elements) &&
      before(request.output.data(), request.hidden.data() + elements)) {
    return Refuse(Reason::kUsage, "hidden and output overlap");
  }
  return absl::OkStatus();
}

absl::Status Session::Run(const RunRequest& request, RunResult* result) {
  *result = RunResult{};
  if (!failure_.ok()) {
    return Refuse(*ReasonOf(failure_), absl::StrCat("the session is over: ", failure_.message()));
  }
  MESHSEAL_RETURN_IF_ERROR(CheckRequest(request));
  const Plan& plan = plan_.plan();
  const uint64_t slots = uint64_t{request.tokens} * plan.layer_classes[*ClassOfLayer(plan, request.layer)].top_k;
  result->expert_ids.resize(slots);
  result->expert_weights.resize(slots);
  result->ranks.resize(ranks_.size());

  const std::vector<absl::Status> statuses = OnAllRanks([&](Rank& rank) { return RunRank(rank, request, result); });
  for (size_t rank = 0; rank < statuses.size(); ++rank) result->ranks[rank].status = statuses[rank];
  failure_ = CauseOf(plan, statuses);
  if (!failure_.ok()) std::fill(request.output.begin(), request.output.end(), std::numeric_limits<float>::quiet_NaN());
  return failure_;
}

absl::Status Session::RunRank(Rank& rank, const RunRequest& request, RunResult* result) {
  const Plan& plan = plan_.plan();
  const LayerRange stage = LayersOfStage(plan, rank.at.pp);
  if (request.layer < stage.first || request.layer >= stage.last) return absl::OkStatus();
  RankReport& report = result->ranks[rank.rank];
  report.ran = true;
  const auto start = std::chrono::steady_clock::now();

  const uint32_t layer_class = *ClassOfLayer(plan, request.layer);
  const RankProgram& program = (request.phase == Phase::kDecode ? rank.decode : rank.prefill)[layer_class];
  const uint64_t top_k = plan.layer_classes[layer_class].top_k;
  const Band band = BandOf(request.tokens, plan.degrees.dp, rank.at.dp);
  // All ranks of an expert group hold the same bits; its first one hands them out.
  const bool hands_out = rank.at.tp == 0 && rank.at.ep == 0;
  absl::Status status;
  uint32_t done = 0;
  do {  // once even without a token: the peers of the group wait for all
    StepInput input;
    input.layer = request.layer;
    input.first_token = uint64_t{band.first} + done;
    input.tokens = std::min(band.count - done, program.max_tokens());
    const uint64_t first = input.first_token * plan.hidden;
    const uint64_t size = uint64_t{input.tokens} * plan.hidden;
    input.hidden = request.hidden.subspan(first, size);
    StepOutput output;
    if (hands_out) {
      output.hidden = request.output.subspan(first, size);
      output.expert_ids = absl::MakeSpan(result->expert_ids).subspan(input.first_token * top_k, input.tokens * top_k);
      output.expert_weights =
          absl::MakeSpan(result->expert_weights).subspan(input.first_token * top_k, input.tokens * top_k);
    }
    status = rank.executor->Run(program, *rank.weights->Layer(request.layer), input, output, &report.counters);
    done += input.tokens;
  } while (status.ok() && done < band.count);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return status;
}

absl::Status Session::RunStack(Phase phase, uint32_t tokens, absl::Span<const float> hidden, absl::Span<float> output,
                               std::vector<RunResult>* results) {
  results->clear();
  const Plan& plan = plan_.plan();
  if (plan.degrees.pp > 1) {
    return Refuse(Reason::kNotBuilt, absl::StrCat("a stack over ", plan.degrees.pp, " pipeline stages is not built"));
  }
  std::vector<float> input(hidden.begin(), hidden.end());
  for (uint32_t layer = 0; layer < plan.layers; ++layer) {
    if (!ClassOfLayer(plan, layer).has_value()) continue;  // a layer without experts has no program
    results->emplace_back();
    MESHSEAL_RETURN_IF_ERROR(Run({layer, phase, tokens, input, output}, &results->back()));
    input.assign(output.begin(), output.end());
  }
  return absl::OkStatus();
}

uint64_t Session::resident_weight_bytes(uint32_t rank) const { return ranks_[rank]->weights->resident_bytes(); }

}  // namespace meshseal::runtime

#include "runtime/session/resident_model.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/routing_checks.h"
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
#include "schema/plan.h"
#include "schema/reason.h"
#include "schema/seal.h"
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
  const bool synthetic = plan.weight_source == WeightSource::kSynthetic;
  if (options.weights.size() != (synthetic ? 0 : 1) && options.weights.size() != world) {
    return Refuse(Reason::kUsage,
                  absl::StrCat(options.weights.size(), " weights folders for ", world, " ranks, expected ",
                               synthetic ? "none" : "one for all or one per rank"));
  }
  if (synthetic || options.unverified_weights || !options.digests.empty()) return absl::OkStatus();
  return Refuse(Reason::kWeightsUnverified,
                BindsWeights(plan)
                    ? absl::StrCat("the plan binds the weights digests ", HexOf(plan.weights_digest).substr(0, 16),
                                   "..., and no list is given; give it, or allow unverified weights")
                    : "the plan binds no weights digests; allow unverified weights to run it all the same");
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
struct ResidentModel::Rank {
  uint32_t rank = 0;
  Coordinate at;
  std::unique_ptr<Communicator> world;  // agreements of all ranks
  std::unique_ptr<Communicator> group;  // the one collective of its expert group
  std::unique_ptr<Backend> backend;
  std::shared_ptr<const WeightFiles> files;  // until they are loaded
  std::vector<RankProgram> decode;           // by layer class
  std::vector<RankProgram> prefill;
  std::optional<RankWeights> weights;
  std::optional<RankExecutor> executor;
};

ResidentModel::ResidentModel(SealedPlan plan, SessionOptions options)
    : plan_(std::make_shared<const SealedPlan>(std::move(plan))), options_(std::move(options)) {}

ResidentModel::~ResidentModel() = default;

absl::StatusOr<std::unique_ptr<ResidentModel>> ResidentModel::Load(SealedPlan plan, SessionOptions options) {
  if (!plan.valid()) return Refuse(Reason::kUsage, "the plan was moved from: it is another session's");
  MESHSEAL_RETURN_IF_ERROR(CheckOptions(plan.plan(), options));
  std::unique_ptr<ResidentModel> model(new ResidentModel(std::move(plan), std::move(options)));
  const Plan& content = model->plan_->plan();
  if (!model->options_.digests.empty()) {
    MESHSEAL_ASSIGN_OR_RETURN(const std::string list, ReadDigestsFile(model->options_.digests));
    MESHSEAL_ASSIGN_OR_RETURN(model->digests_, SealedDigests::Open(list));
    MESHSEAL_RETURN_IF_ERROR(CheckBound(*model->digests_, content));
  }

  std::vector<uint32_t> all_ranks;
  for (uint32_t rank = 0; rank < WorldSize(content); ++rank) {
    all_ranks.push_back(rank);
    model->ranks_.push_back(std::make_unique<Rank>());
    model->ranks_[rank]->rank = rank;
    model->ranks_[rank]->at = CoordinateOf(content.degrees, rank);
    MESHSEAL_ASSIGN_OR_RETURN(model->ranks_[rank]->backend, MakeBackend(model->options_.backend));
  }
  std::vector<std::unique_ptr<Communicator>> world = MakeInprocGroup(all_ranks, {model->options_.load_deadline});
  for (const uint32_t rank : all_ranks) {
    model->ranks_[rank]->world = std::move(world[rank]);
    const std::vector<uint32_t> group = GroupOf(content.degrees, MeshGroup::kExpert, rank);
    if (group.front() != rank) continue;
    std::vector<std::unique_ptr<Communicator>> ends = MakeInprocGroup(group, {model->options_.deadline});
    for (size_t i = 0; i < group.size(); ++i) model->ranks_[group[i]]->group = std::move(ends[i]);
  }

  MESHSEAL_RETURN_IF_ERROR(CauseOf(content, model->OnAllRanks([&](Rank& rank) { return model->Prepare(rank); })));
  model->files_.reset();
  model->digests_.reset();
  model->options_.progress = nullptr;  // the caller's, and not for longer
  return model;
}

template <class Work>
std::vector<absl::Status> ResidentModel::OnAllRanks(Work work) {
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
          finish(OutOfMemory());
        }
      });
    } catch (const std::exception&) {  // system_error or bad_alloc
      finish(OutOfMemory());
    }
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

absl::Status ResidentModel::Prepare(Rank& rank) {
  MESHSEAL_RETURN_IF_ERROR(Agree(*rank.world, Open(rank)));
  MESHSEAL_RETURN_IF_ERROR(Preflight(*rank.world, RecordOf(*plan_, rank.rank, rank.backend->name())));
  MESHSEAL_RETURN_IF_ERROR(Agree(*rank.world, Reserve(rank)));
  return Agree(*rank.world, Load(rank));
}

absl::Status ResidentModel::Open(Rank& rank) {
  for (uint32_t c = 0; c < plan_->plan().layer_classes.size(); ++c) {
    MESHSEAL_ASSIGN_OR_RETURN(RankProgram decode, BindProgram(*plan_, rank.rank, c, Phase::kDecode));
    MESHSEAL_ASSIGN_OR_RETURN(RankProgram prefill, BindProgram(*plan_, rank.rank, c, Phase::kPrefill));
    rank.decode.push_back(std::move(decode));
    rank.prefill.push_back(std::move(prefill));
  }
  MESHSEAL_ASSIGN_OR_RETURN(rank.files, FilesOf(rank));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const WeightFiles>> ResidentModel::FilesOf(const Rank& rank) {
  const auto open = [this](const std::filesystem::path& path) -> absl::StatusOr<std::shared_ptr<const WeightFiles>> {
    MESHSEAL_ASSIGN_OR_RETURN(WeightFiles files,
                              WeightFiles::Open(*plan_, path, digests_.has_value() ? &digests_->digests() : nullptr));
    return std::make_shared<const WeightFiles>(std::move(files));
  };
  if (options_.weights.size() > 1) return open(options_.weights[rank.rank]);
  const std::lock_guard<std::mutex> lock(files_mutex_);
  if (!files_.has_value()) files_ = open(options_.weights.empty() ? std::filesystem::path() : options_.weights[0]);
  return *files_;
}

absl::Status ResidentModel::Reserve(Rank& rank) {
  const Plan& plan = plan_->plan();
  MESHSEAL_ASSIGN_OR_RETURN(rank.weights, RankWeights::Reserve(*plan_, rank.rank));
  if (options_.progress != nullptr) options_.progress->total.fetch_add(rank.weights->resident_bytes());
  RankExecutor::Options options;
  options.poison = options_.poison;
  MESHSEAL_ASSIGN_OR_RETURN(
      rank.executor, RankExecutor::Reserve(WorkBytes(plan.memory[rank.rank]), *rank.backend, *rank.group, options));
  return rank.group->Reserve(uint64_t{std::max(plan.limits.decode_tokens, plan.limits.prefill_chunk)} * plan.hidden);
}

absl::Status ResidentModel::Load(Rank& rank) {
  const uint32_t all = options_.load_threads > 0 ? options_.load_threads : std::thread::hardware_concurrency();
  const auto own = static_cast<uint32_t>(std::max<size_t>(1, all / ranks_.size()));
  MESHSEAL_RETURN_IF_ERROR(rank.weights->Load(*rank.files, own, options_.progress));
  rank.files.reset();
  return absl::OkStatus();
}

absl::Status ResidentModel::CheckRequest(const RunRequest& request) const {
  const Plan& plan = plan_->plan();
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
  return CheckRouting(request);
}

absl::Status ResidentModel::CheckRouting(const RunRequest& request) const {
  const LayerClass& c = plan_->plan().layer_classes[*ClassOfLayer(plan_->plan(), request.layer)];
  const StepKind route = RouteOf(c);
  const auto placed = [&](const absl::Status& status) {
    if (status.ok()) return status;
    return Refuse(*ReasonOf(status), absl::StrCat("layer ", request.layer, ": ", status.message()));
  };
  const auto sized = [&](const char* what, size_t found, bool read, uint64_t expected) -> absl::Status {
    if (!read) expected = 0;
    if (found == expected) return absl::OkStatus();
    return Refuse(Reason::kUsage, absl::StrCat("layer ", request.layer, " reads ", expected, " ", what, ", ", found,
                                               " are given: its routing is ", FindStep(route)->mnemonic));
  };
  const uint64_t slots = uint64_t{request.tokens} * c.top_k;
  const bool by_table = route == StepKind::kRouteByTable;
  const bool given = route == StepKind::kRouteGiven;
  MESHSEAL_RETURN_IF_ERROR(sized("token ids", request.token_ids.size(), by_table, request.tokens));
  MESHSEAL_RETURN_IF_ERROR(sized("expert ids", request.routing.experts.size(), given, slots));
  MESHSEAL_RETURN_IF_ERROR(sized("expert weights", request.routing.weights.size(), given, slots));
  MESHSEAL_RETURN_IF_ERROR(placed(CheckTokenIds(request.token_ids, c.router.vocabulary, 0)));
  return placed(CheckGivenRouting(request.routing, c.top_k, c.experts, 0));
}

absl::Status ResidentModel::Run(const RunRequest& request, RunResult* result) {
  *result = RunResult{};
  if (!failure_.ok()) {
    return Refuse(*ReasonOf(failure_), absl::StrCat("the session is over: ", failure_.message()));
  }
  MESHSEAL_RETURN_IF_ERROR(CheckRequest(request));
  const Plan& plan = plan_->plan();
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

absl::Status ResidentModel::RunRank(Rank& rank, const RunRequest& request, RunResult* result) {
  const Plan& plan = plan_->plan();
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
    const uint64_t first_slot = input.first_token * top_k;
    const uint64_t slots = input.tokens * top_k;
    input.hidden = request.hidden.subspan(first, size);
    if (!request.token_ids.empty()) input.token_ids = request.token_ids.subspan(input.first_token, input.tokens);
    if (!request.routing.experts.empty()) {
      input.routing = {request.routing.experts.subspan(first_slot, slots),
                       request.routing.weights.subspan(first_slot, slots)};
    }
    StepOutput output;
    if (hands_out) {
      output.hidden = request.output.subspan(first, size);
      output.expert_ids = absl::MakeSpan(result->expert_ids).subspan(first_slot, slots);
      output.expert_weights = absl::MakeSpan(result->expert_weights).subspan(first_slot, slots);
    }
    status = rank.executor->Run(program, *rank.weights->Layer(request.layer), input, output, &report.counters);
    done += input.tokens;
  } while (status.ok() && done < band.count);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return status;
}

absl::Status ResidentModel::RunStack(const StackRequest& request, std::vector<RunResult>* results) {
  results->clear();
  const Plan& plan = plan_->plan();
  if (plan.degrees.pp > 1) {
    return Refuse(Reason::kNotBuilt, absl::StrCat("a stack over ", plan.degrees.pp, " pipeline stages is not built"));
  }
  std::vector<float> input(request.hidden.begin(), request.hidden.end());
  std::vector<RunRequest> layers;
  bool reads_ids = false;
  for (uint32_t layer = 0; layer < plan.layers; ++layer) {
    const std::optional<uint32_t> layer_class = ClassOfLayer(plan, layer);
    if (!layer_class.has_value()) continue;  // a layer without experts has no program
    const StepKind route = RouteOf(plan.layer_classes[*layer_class]);
    if (route == StepKind::kRouteGiven) {
      return Refuse(Reason::kUsage,
                    absl::StrCat("layer ", layer, " takes its routing from the caller, who has none for a stack"));
    }
    layers.push_back({layer, request.phase, request.tokens, input, request.output});
    if (route != StepKind::kRouteByTable) continue;
    layers.back().token_ids = request.token_ids;
    reads_ids = true;
  }
  if (!reads_ids && !request.token_ids.empty()) {
    return Refuse(Reason::kUsage, absl::StrCat(request.token_ids.size(), " token ids, which no layer reads"));
  }
  for (const RunRequest& layer : layers) MESHSEAL_RETURN_IF_ERROR(CheckRequest(layer));
  for (const RunRequest& layer : layers) {
    results->emplace_back();
    MESHSEAL_RETURN_IF_ERROR(Run(layer, &results->back()));
    std::copy(request.output.begin(), request.output.end(), input.begin());
  }
  return absl::OkStatus();
}

uint64_t ResidentModel::resident_weight_bytes(uint32_t rank) const { return ranks_[rank]->weights->resident_bytes(); }

uint64_t ResidentModel::work_bytes(uint32_t rank) const { return ranks_[rank]->executor->arena_bytes(); }

}  // namespace meshseal::runtime

#include "runtime/session/resident_model.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/backend/backend.h"
#include "runtime/comm/inproc.h"
#include "runtime/program/rank_facts.h"
#include "runtime/session/check_request.h"
#include "runtime/session/preflight.h"
#include "schema/mesh_view.h"
#include "schema/plan.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

absl::Status CheckOptions(const Plan& plan, const SessionOptions& options) {
  const Compute& compute = *options.compute;
  MESHSEAL_RETURN_IF_ERROR(CheckNumerics(compute.name(), compute.numerics(), plan.numerics));
  MESHSEAL_RETURN_IF_ERROR(compute.CheckPlan(plan));
  const Transport transport = compute.transport().value_or(options.world->transport());
  if (plan.mesh.transport != transport && !options.emulate) {
    return Refuse(Reason::kUsage, absl::StrCat("the plan's mesh has transport ", WordOf(plan.mesh.transport),
                                               ", the ranks would be on ", WordOf(transport),
                                               ": that is an emulation, and not allowed"));
  }
  if (compute.emulates() && !options.emulate) {
    return Refuse(Reason::kUsage, absl::StrCat("backend '", compute.name(),
                                               "' stands in for the plan's devices: that is "
                                               "an emulation, and not allowed"));
  }
  const size_t world = plan.mesh.rank_slots.size();
  const bool synthetic = plan.weight_source == WeightSource::kSynthetic;
  if (options.weights.size() != (synthetic ? 0 : 1) && options.weights.size() != world) {
    return Refuse(Reason::kUsage,
                  absl::StrCat(options.weights.size(), " weights folders for ", world, " ranks, expected ",
                               synthetic ? "none" : "one for all or one per rank"));
  }
  MESHSEAL_RETURN_IF_ERROR(
      CheckNetworkTrust(plan, options.emulate, options.job_key.has_value(), options.isolated_network));
  if (synthetic || options.unverified_weights || !options.digests.empty()) return absl::OkStatus();
  return Refuse(Reason::kWeightsUnverified,
                BindsWeights(plan)
                    ? absl::StrCat("the plan binds the weights digests ", HexOf(plan.weights_digest).substr(0, 16),
                                   "..., and no list is given; give it, or allow unverified weights")
                    : "the plan binds no weights digests; allow unverified weights to run it all the same");
}

// What became of a scope of `ranks` ranks: "replica 1 (ranks 2 to 3) failed: CAUSE"; CAUSE where it is the world.
std::string FailureText(uint32_t scope, uint32_t ranks, uint32_t scopes, const char* what, const absl::Status& cause) {
  if (scopes == 1) return std::string(cause.message());
  const uint32_t first = scope * ranks;
  return absl::StrCat(
      "replica ", scope, " (",
      ranks == 1 ? absl::StrCat("rank ", first) : absl::StrCat("ranks ", first, " to ", first + ranks - 1), ") ", what,
      ": ", cause.message());
}

}  // namespace

ResidentModel::ResidentModel(SealedPlan plan, SessionOptions options)
    : plan_(std::make_shared<const SealedPlan>(std::move(plan))),
      options_(std::move(options)),
      scope_ranks_(RanksOfScope(plan_->plan())),
      failures_(plan_->plan().mesh.rank_slots.size() / scope_ranks_) {}

absl::StatusOr<std::unique_ptr<ResidentModel>> ResidentModel::Load(SealedPlan plan, SessionOptions options) {
  if (!plan.valid()) return Refuse(Reason::kUsage, "the plan was moved from: it is another session's");
  if (options.world == nullptr) options.world = MakeInprocWorld();
  if (options.compute == nullptr) {
    MESHSEAL_ASSIGN_OR_RETURN(options.compute, MakeHostCompute(options.backend));
  }
  MESHSEAL_RETURN_IF_ERROR(CheckOptions(plan.plan(), options));
  std::unique_ptr<ResidentModel> model(new ResidentModel(std::move(plan), std::move(options)));
  const auto world = static_cast<uint32_t>(model->plan_->plan().mesh.rank_slots.size());
  MESHSEAL_ASSIGN_OR_RETURN(const std::unique_ptr<LoadSource> source, LoadSource::Open(model->plan_, model->options_));
  absl::StatusOr<std::vector<std::unique_ptr<Endpoint>>> ends =
      model->options_.world->Connect(world, model->scope_ranks_);
  if (ReasonOf(ends.status()) == Reason::kWorldSize) {
    return Refuse(Reason::kWorldSize, absl::StrCat("plan ", HexOf(model->plan_->id()), ": ", ends.status().message()));
  }
  MESHSEAL_RETURN_IF_ERROR(ends.status());
  for (std::unique_ptr<Endpoint>& end : *ends) {
    MESHSEAL_ASSIGN_OR_RETURN(std::unique_ptr<ResidentRank> rank,
                              ResidentRank::Make(model->plan_, std::move(end), ends->size(), model->options_));
    model->ranks_.push_back(std::move(rank));
  }
  const std::vector<absl::Status> prepared =
      model->OnAllRanks([&](ResidentRank& rank) { return rank.Prepare(*source); },
                        [](ResidentRank& rank, const absl::Status& cause) { rank.EndWorld(cause); });
  MESHSEAL_RETURN_IF_ERROR(model->CauseOf(prepared, std::nullopt));
  model->options_.progress = nullptr;  // the caller's, and not for longer
  return model;
}

const ResidentRank* ResidentModel::FindRank(uint32_t rank) const {
  for (const std::unique_ptr<ResidentRank>& own : ranks_) {
    if (own->rank() == rank) return own.get();
  }
  return nullptr;
}

template <class Work, class EndOthers>
std::vector<absl::Status> ResidentModel::OnAllRanks(Work work, EndOthers end_others) {
  std::vector<absl::Status> statuses;
  for (const std::unique_ptr<ResidentRank>& rank : ranks_) statuses.push_back(failures_[ScopeOf(*rank)]);
  std::vector<std::thread> threads;
  threads.reserve(ranks_.size());  // nothing may throw past a thread that runs
  for (const std::unique_ptr<ResidentRank>& rank : ranks_) {
    if (failures_[ScopeOf(*rank)].ok()) rank->BeginCall();
  }
  for (size_t i = 0; i < ranks_.size(); ++i) {
    ResidentRank& rank = *ranks_[i];
    if (!failures_[ScopeOf(rank)].ok()) continue;
    absl::Status& status = statuses[i];
    const auto finish = [&rank, &status, end_others](absl::Status verdict) {
      status = std::move(verdict);
      if (!status.ok()) end_others(rank, status);
      rank.EndCall();
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

absl::Status ResidentModel::CauseOf(absl::Span<const absl::Status> statuses, std::optional<uint32_t> scope) const {
  std::optional<size_t> cause;
  for (size_t i = 0; i < statuses.size(); ++i) {
    if (statuses[i].ok() || (scope.has_value() && ScopeOf(*ranks_[i]) != *scope)) continue;
    if (ReasonOf(statuses[i]) != Reason::kPeerFailed) {
      cause = i;
      break;
    }
    if (!cause.has_value()) cause = i;
  }
  if (!cause.has_value()) return absl::OkStatus();
  const absl::Status& status = statuses[*cause];
  const uint32_t rank = ranks_[*cause]->rank();
  return Refuse(ReasonOf(status).value_or(Reason::kBug),
                absl::StrCat("rank ", rank, " (", CoordinateText(CoordinateOf(plan_->plan().degrees, rank)),
                             "): ", status.message()));
}

bool ResidentModel::AllOver() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [this](const auto& rank) { return !failures_[ScopeOf(*rank)].ok(); });
}

bool ResidentModel::Knows(uint32_t scope) const {
  if (ranks_.size() == failures_.size() * scope_ranks_ || ScopeOf(*ranks_.front()) == scope) return true;
  return ranks_.front()->rank() == 0 && !AllOver();
}

absl::Status ResidentModel::CheckAlive() const {
  if (!AllOver()) return absl::OkStatus();
  std::vector<std::string> causes;
  for (uint32_t scope = 0; scope < scopes(); ++scope) {
    if (!failures_[scope].ok())
      causes.push_back(FailureText(scope, scope_ranks_, scopes(), "failed", failures_[scope]));
  }
  const absl::Status& first = failures_[ScopeOf(*ranks_.front())];
  return Refuse(*ReasonOf(first), absl::StrCat("the session is over: ", absl::StrJoin(causes, "; ")));
}

void ResidentModel::Blank(const LayerCall& call, std::vector<RunResult>* results) const {
  const Plan& plan = plan_->plan();
  const auto blank = [&](const Piece& rows) {
    const absl::Span<float> output = call.output.subspan(rows.first * plan.hidden, rows.count * plan.hidden);
    std::fill(output.begin(), output.end(), std::numeric_limits<float>::quiet_NaN());
    for (size_t i = 0; i < call.layers.size(); ++i) {
      const uint64_t top_k = plan.layer_classes[*ClassOfLayer(plan, call.layers[i])].top_k;
      const auto first = static_cast<ptrdiff_t>(rows.first * top_k);
      const auto count = static_cast<ptrdiff_t>(rows.count * top_k);
      std::fill_n((*results)[i].expert_ids.begin() + first, count, -1);
      std::fill_n((*results)[i].expert_weights.begin() + first, count, std::numeric_limits<float>::quiet_NaN());
    }
  };
  for (uint32_t replica = 0; replica < plan.degrees.dp; ++replica) {
    if (AllOver() || !failures_[scopes() == 1 ? 0 : replica].ok()) blank(call.bands.RowsOf(replica));
  }
}

absl::Status ResidentModel::VerdictOf(const LayerCall& call, const std::vector<bool>& over_before) const {
  if (scopes() == 1) return failures_.front();
  std::optional<Reason> reason;
  std::vector<std::string> parts;
  std::vector<uint32_t> well;
  for (uint32_t scope = 0; scope < scopes(); ++scope) {
    const absl::Status& failure = failures_[scope];
    if (failure.ok()) {
      if (Knows(scope)) well.push_back(scope);
      continue;
    }
    if (over_before[scope] && call.bands.RowsOf(scope).count == 0) continue;  // nothing was asked of it
    if (!reason.has_value() || reason == Reason::kPeerFailed)
      reason = ReasonOf(failure);  // the one that blames no peer
    parts.push_back(FailureText(scope, scope_ranks_, scopes(), over_before[scope] ? "is over" : "failed", failure));
  }
  if (!reason.has_value()) return absl::OkStatus();
  const bool knows_all = Knows(0) && Knows(scopes() - 1);
  if (!knows_all && !ranks_.front()->IsWorldOver()) parts.push_back("the other replicas go on");
  if (!well.empty()) {
    parts.push_back(
        absl::StrCat(well.size() == 1 ? "replica " : "replicas ", absl::StrJoin(well, ", "), " ended well"));
  }
  return Refuse(*reason, absl::StrJoin(parts, "; "));
}

absl::Status ResidentModel::RunCall(const LayerCall& call, uint32_t tokens, std::vector<RunResult>* results) {
  const Plan& plan = plan_->plan();
  for (const uint32_t layer : call.layers) {
    const uint64_t slots = uint64_t{tokens} * plan.layer_classes[*ClassOfLayer(plan, layer)].top_k;
    RunResult& result = results->emplace_back();
    result.expert_ids.resize(slots);
    result.expert_weights.resize(slots);
    result.ranks.resize(plan.mesh.rank_slots.size());
  }
  std::vector<bool> over_before;
  for (const absl::Status& failure : failures_) over_before.push_back(!failure.ok());
  const std::vector<absl::Status> statuses =
      OnAllRanks([&](ResidentRank& rank) { return rank.Run(call, results); },
                 [](ResidentRank& rank, const absl::Status& cause) {
                   // Who was asked to end was asked so for the whole world.
                   ReasonOf(cause) == Reason::kStopped ? rank.EndWorld(cause) : rank.EndScope(cause);
                 });
  const bool collected = ranks_.size() == 1 && ranks_.front()->rank() == 0 && statuses.front().ok();
  for (uint32_t scope = 0; scope < scopes(); ++scope) {
    if (over_before[scope]) continue;
    failures_[scope] = CauseOf(statuses, scope);
    if (collected && failures_[scope].ok()) failures_[scope] = ranks_.front()->LossOf(scope);
  }
  for (RunResult& result : *results) {
    for (uint32_t scope = 0; scope < scopes(); ++scope) {
      if (scopes() == 1) continue;
      result.replicas.push_back(Knows(scope) ? std::optional<absl::Status>(failures_[scope]) : std::nullopt);
      for (uint32_t i = 0; i < scope_ranks_; ++i) result.ranks[scope * scope_ranks_ + i].status = failures_[scope];
    }
    for (size_t i = 0; i < statuses.size(); ++i) result.ranks[ranks_[i]->rank()].status = statuses[i];
  }
  Blank(call, results);
  return VerdictOf(call, over_before);
}

absl::Status ResidentModel::Run(const RunRequest& request, RunResult* result) {
  *result = RunResult{};
  MESHSEAL_RETURN_IF_ERROR(CheckAlive());
  const Plan& plan = plan_->plan();
  MESHSEAL_RETURN_IF_ERROR(CheckRequest(plan, request));
  MESHSEAL_ASSIGN_OR_RETURN(TokenBands bands,
                            TokenBands::Of(plan, request.phase, request.tokens, request.group_tokens));
  const LayerCall call = {request.phase,  {request.layer},   std::move(bands), request.hidden,
                          request.output, request.token_ids, request.routing};
  std::vector<RunResult> results;
  absl::Status status = RunCall(call, request.tokens, &results);
  *result = std::move(results.front());
  return status;
}

absl::Status ResidentModel::RunStack(const StackRequest& request, std::vector<RunResult>* results) {
  results->clear();
  MESHSEAL_RETURN_IF_ERROR(CheckAlive());
  const Plan& plan = plan_->plan();
  LayerCall call;
  call.phase = request.phase;
  call.hidden = request.hidden;
  call.output = request.output;
  call.token_ids = request.token_ids;
  bool reads_ids = false;
  for (uint32_t layer = 0; layer < plan.layers; ++layer) {
    const std::optional<uint32_t> layer_class = ClassOfLayer(plan, layer);
    if (!layer_class.has_value()) continue;  // a layer without experts has no program
    const StepKind route = RouteOf(plan.layer_classes[*layer_class]);
    if (route == StepKind::kRouteGiven) {
      return Refuse(Reason::kUsage,
                    absl::StrCat("layer ", layer, " takes its routing from the caller, who has none for a stack"));
    }
    RunRequest single = {layer, request.phase, request.tokens, request.hidden, request.output};
    if (route == StepKind::kRouteByTable) {
      single.token_ids = request.token_ids;
      reads_ids = true;
    }
    MESHSEAL_RETURN_IF_ERROR(CheckRequest(plan, single));
    call.layers.push_back(layer);
  }
  if (!reads_ids && !request.token_ids.empty()) {
    return Refuse(Reason::kUsage, absl::StrCat(request.token_ids.size(), " token ids, which no layer reads"));
  }
  MESHSEAL_ASSIGN_OR_RETURN(call.bands, TokenBands::Of(plan, request.phase, request.tokens, request.group_tokens));
  return RunCall(call, request.tokens, results);
}

uint64_t ResidentModel::resident_weight_bytes(uint32_t rank) const {
  const ResidentRank* own = FindRank(rank);
  return own == nullptr ? 0 : own->resident_weight_bytes();
}

uint64_t ResidentModel::work_bytes(uint32_t rank) const {
  const ResidentRank* own = FindRank(rank);
  return own == nullptr ? 0 : own->work_bytes();
}

}  // namespace meshseal::runtime

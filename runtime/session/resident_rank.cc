#include "runtime/session/resident_rank.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/comm/agreement.h"
#include "runtime/comm/element_bytes.h"
#include "runtime/comm/message_communicator.h"
#include "runtime/program/rank_facts.h"
#include "runtime/session/local_facts.h"
#include "runtime/session/preflight.h"
#include "runtime/session/rank_record.h"
#include "schema/plan.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

// The first rank of a scope waits for those of others in turns of a fourth of the deadline, and tells its own scope
// after each. World rank 0 waits one turn for a message of a rank that it has met, and that one two: rank 0 may have
// turned to another.
constexpr int kTurns = 4;

uint32_t StageOf(const Plan& plan, uint32_t layer) {
  return static_cast<uint32_t>(std::upper_bound(plan.stage_ends.begin(), plan.stage_ends.end(), layer) -
                               plan.stage_ends.begin());
}

// What of the preflight's record neither the plan nor the machine says.
RankFacts FactsOf(const Plan& plan, const SessionOptions& options, const LocalFacts& local) {
  RankFacts facts;
  facts.local = local;
  if (options.world->transport() == Transport::kMpi) facts.mpi_version = options.world->library();
  facts.policy =
      absl::StrCat(PolicyText(options.policy), "unverified-weights ", options.unverified_weights ? "yes" : "no", "\n");
  if (!options.digests.empty()) facts.weights_digests = plan.weights_digest;
  facts.emulate = options.emulate;
  facts.job_key = options.job_key;
  facts.isolated_network = options.isolated_network;
  return facts;
}

// What a rank tells of a layer that it ran.
struct WireReport {
  uint64_t gate_up_slots = 0;
  uint64_t down_slots = 0;
  double seconds = 0;
  uint64_t collectives = 0;
  uint64_t collective_bytes = 0;
  double waited_seconds = 0;
  double collective_seconds = 0;
  uint64_t ran = 0;
};

WireReport ToWire(const RankReport& report) {
  return {report.counters.gate_up_slots,
          report.counters.down_slots,
          report.seconds,
          report.collectives,
          report.collective_bytes,
          report.waited_seconds,
          report.collective_seconds,
          report.ran ? 1u : 0u};
}

// Keeps what the wire does not say.
void FromWire(const WireReport& wire, RankReport* report) {
  report->ran = wire.ran != 0;
  report->counters = {wire.gate_up_slots, wire.down_slots};
  report->seconds = wire.seconds;
  report->collectives = wire.collectives;
  report->collective_bytes = wire.collective_bytes;
  report->waited_seconds = wire.waited_seconds;
  report->collective_seconds = wire.collective_seconds;
}

double SecondsOf(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

// What a group's calls took between two looks at its totals.
void AddCollectives(const CallTotals& before, const CallTotals& after, RankReport* report) {
  report->collectives += after.calls - before.calls;
  report->collective_bytes += after.received_bytes - before.received_bytes;
  report->waited_seconds += SecondsOf(after.waited - before.waited);
  report->collective_seconds += SecondsOf(after.moved - before.moved);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadSource>> LoadSource::Open(std::shared_ptr<const SealedPlan> plan,
                                                             const SessionOptions& options) {
  std::unique_ptr<LoadSource> source(new LoadSource(std::move(plan), options));
  if (options.digests.empty()) return source;
  MESHSEAL_ASSIGN_OR_RETURN(const std::string list, ReadDigestsFile(options.digests));
  MESHSEAL_ASSIGN_OR_RETURN(source->digests_, SealedDigests::Open(list));
  MESHSEAL_RETURN_IF_ERROR(CheckBound(*source->digests_, source->plan_->plan()));
  return source;
}

absl::StatusOr<std::shared_ptr<const WeightFiles>> LoadSource::FilesOf(uint32_t rank) {
  const auto open = [this](const std::filesystem::path& path) -> absl::StatusOr<std::shared_ptr<const WeightFiles>> {
    MESHSEAL_ASSIGN_OR_RETURN(WeightFiles files,
                              WeightFiles::Open(*plan_, path, digests_.has_value() ? &digests_->digests() : nullptr));
    return std::make_shared<const WeightFiles>(std::move(files));
  };
  if (options_.weights.size() > 1) return open(options_.weights[rank]);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!files_.has_value()) files_ = open(options_.weights.empty() ? std::filesystem::path() : options_.weights[0]);
  return *files_;
}

uint32_t LoadSource::ThreadsOf(size_t ranks) const {
  const uint32_t all = options_.load_threads > 0 ? options_.load_threads : std::thread::hardware_concurrency();
  return static_cast<uint32_t>(std::max<size_t>(1, all / ranks));
}

ResidentRank::ResidentRank(std::shared_ptr<const SealedPlan> plan, std::unique_ptr<Endpoint> endpoint, size_t peers,
                           const SessionOptions& options)
    : plan_(std::move(plan)),
      options_(options),
      endpoint_(std::move(endpoint)),
      peers_(peers),
      at_(CoordinateOf(plan_->plan().degrees, endpoint_->rank())),
      lost_(endpoint_->world() / RanksOfScope(plan_->plan())) {}

absl::StatusOr<std::unique_ptr<ResidentRank>> ResidentRank::Make(std::shared_ptr<const SealedPlan> plan,
                                                                 std::unique_ptr<Endpoint> endpoint, size_t peers,
                                                                 const SessionOptions& options) {
  std::unique_ptr<ResidentRank> rank(new ResidentRank(std::move(plan), std::move(endpoint), peers, options));
  const Plan& content = rank->plan_->plan();
  Endpoint& end = *rank->endpoint_;
  std::vector<uint32_t> all(end.world());
  for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  MESHSEAL_ASSIGN_OR_RETURN(rank->compute_, options.compute->MakeRank(*rank->plan_, end.rank(), options.emulate));
  MESHSEAL_ASSIGN_OR_RETURN(rank->world_,
                            MakeMessageCommunicator(end, Channel::kWorld, std::move(all), {options.load_deadline}));
  MESHSEAL_RETURN_IF_ERROR(rank->world_->Reserve(std::max<uint64_t>(end.world() * kMaxGatherBytes, kHandOffBytes)));
  MESHSEAL_ASSIGN_OR_RETURN(
      rank->group_,
      MakeMessageCommunicator(end, Channel::kExpertGroup, GroupOf(content.degrees, MeshGroup::kExpert, end.rank()),
                              {options.deadline}));
  MESHSEAL_ASSIGN_OR_RETURN(
      rank->pipeline_,
      MakeMessageCommunicator(end, Channel::kPipeline, GroupOf(content.degrees, MeshGroup::kPp, end.rank()),
                              {options.deadline}));
  MESHSEAL_RETURN_IF_ERROR(rank->MakeScopes());
  return rank;
}

absl::Status ResidentRank::MakeScopes() {
  if (scopes() == 1 || peers_ == endpoint_->world()) return absl::OkStatus();
  const uint32_t size = endpoint_->world() / scopes();
  const uint32_t own = ScopeOf(rank());
  std::vector<uint32_t> members(size);
  std::iota(members.begin(), members.end(), FirstOfScope(own));
  MESHSEAL_ASSIGN_OR_RETURN(
      scope_, MakeMessageCommunicator(*endpoint_, Channel::kScope, std::move(members), {options_.deadline}));
  MESHSEAL_RETURN_IF_ERROR(scope_->Reserve(std::max<uint64_t>(size * kMaxGatherBytes, kHandOffBytes)));
  if (rank() != FirstOfScope(own)) return absl::OkStatus();
  pairs_.resize(scopes());
  for (uint32_t other = 0; other < scopes(); ++other) {
    if (other == own || (own != 0 && other != 0)) continue;
    MESHSEAL_ASSIGN_OR_RETURN(
        pairs_[other],
        MakeMessageCommunicator(*endpoint_, Channel::kBetweenScopes, {0, FirstOfScope(std::max(own, other))},
                                {options_.deadline * (own == 0 ? 1 : 2) / kTurns}));
    MESHSEAL_RETURN_IF_ERROR(pairs_[other]->Reserve(kHandOffBytes));
  }
  return absl::OkStatus();
}

absl::Status ResidentRank::Prepare(LoadSource& source) {
  MESHSEAL_RETURN_IF_ERROR(Agree(*world_, Open(source)));
  const absl::StatusOr<LocalFacts> local = CollectLocalFacts();
  RankFacts facts = FactsOf(plan_->plan(), options_, local.ok() ? *local : LocalFacts());
  MESHSEAL_RETURN_IF_ERROR(Agree(*world_, local.ok() ? compute_->Describe(&facts) : local.status()));
  MESHSEAL_RETURN_IF_ERROR(Preflight(*world_, *plan_, StatementOf(*plan_, rank(), facts)));
  MESHSEAL_RETURN_IF_ERROR(Agree(*world_, Reserve(source)));
  MESHSEAL_RETURN_IF_ERROR(Agree(*world_, Load(source)));
  MESHSEAL_RETURN_IF_ERROR(Agree(*world_, compute_->Bind(*weights_, *group_)));
  world_->SetDeadline(options_.deadline);
  return absl::OkStatus();
}

absl::Status ResidentRank::Open(LoadSource& source) {
  for (uint32_t c = 0; c < plan_->plan().layer_classes.size(); ++c) {
    MESHSEAL_ASSIGN_OR_RETURN(RankProgram decode, BindProgram(*plan_, rank(), c, Phase::kDecode));
    MESHSEAL_ASSIGN_OR_RETURN(RankProgram prefill, BindProgram(*plan_, rank(), c, Phase::kPrefill));
    decode_.push_back(std::move(decode));
    prefill_.push_back(std::move(prefill));
  }
  MESHSEAL_ASSIGN_OR_RETURN(files_, source.FilesOf(rank()));
  return absl::OkStatus();
}

absl::Status ResidentRank::Reserve(LoadSource& source) {
  const Plan& plan = plan_->plan();
  const RankMemory& memory = plan.memory[rank()];
  MESHSEAL_ASSIGN_OR_RETURN(weights_, RankWeights::Reserve(*plan_, rank(), [this](uint64_t bytes) {
                              return compute_->ReserveWeights(bytes);
                            }));
  if (source.progress() != nullptr) source.progress()->total.fetch_add(weights_->resident_bytes());
  std::vector<const RankProgram*> programs;
  for (const std::vector<RankProgram>* const phase : {&decode_, &prefill_}) {
    for (const RankProgram& program : *phase) programs.push_back(&program);
  }
  MESHSEAL_ASSIGN_OR_RETURN(executor_, compute_->ReserveExecutor(programs, memory, *group_,
                                                                 {options_.poison, options_.drain, options_.deadline}));
  return plan.degrees.pp > 1 ? pipeline_->Reserve(kHandOffBytes) : absl::OkStatus();
}

absl::Status ResidentRank::Load(LoadSource& source) {
  MESHSEAL_RETURN_IF_ERROR(weights_->Load(*files_, source.ThreadsOf(peers_), source.progress()));
  files_.reset();
  return absl::OkStatus();
}

absl::Status ResidentRank::Run(const LayerCall& call, std::vector<RunResult>* results) {
  MESHSEAL_RETURN_IF_ERROR(RunLayers(call, results));
  if (peers_ == endpoint_->world()) return absl::OkStatus();
  MESHSEAL_RETURN_IF_ERROR(Agree(scope(), absl::OkStatus()));
  MESHSEAL_RETURN_IF_ERROR(Collect(call, results));
  if (scopes() == 1) return absl::OkStatus();
  return MeetScopes(call, results);
}

absl::Status ResidentRank::RunLayers(const LayerCall& call, std::vector<RunResult>* results) {
  const LayerRange stage = LayersOfStage(plan_->plan(), at_.pp);
  const auto index_of = [&call](uint32_t layer) {
    return static_cast<size_t>(std::lower_bound(call.layers.begin(), call.layers.end(), layer) - call.layers.begin());
  };
  const size_t first = index_of(stage.first);
  const size_t last = index_of(stage.last);
  if (first == last) return absl::OkStatus();
  for (const Round& round : call.bands.RoundsOf(at_.dp)) {
    MESHSEAL_RETURN_IF_ERROR(RunRound(call, round, first, last, results));
  }
  return absl::OkStatus();
}

absl::Status ResidentRank::RunRound(const LayerCall& call, const Round& round, size_t first, size_t last,
                                    std::vector<RunResult>* results) {
  const Plan& plan = plan_->plan();
  const uint32_t dense_group = DenseGroupOf(plan.degrees, at_);
  const Piece own = round.groups[dense_group];
  const uint64_t hidden = plan.hidden;
  // All ranks of a dense group hold the same bits; its first one hands them out. The routing of all groups is the same
  // on all ranks of the expert group.
  const bool hands_out_rows = (at_.tp * plan.degrees.ep + at_.ep) % plan.degrees.dense_tp == 0;
  const bool hands_out_routing = at_.tp == 0 && at_.ep == 0;

  std::vector<uint32_t> group_tokens;
  if (round.groups.size() > 1) {
    for (const Piece& group : round.groups) group_tokens.push_back(static_cast<uint32_t>(group.count));
  }
  const bool receives = first > 0;
  const bool sends = last < call.layers.size();
  const absl::Span<const float> given = call.hidden.subspan(own.first * hidden, own.count * hidden);
  const absl::Span<float> wanted = call.output.subspan(own.first * hidden, own.count * hidden);
  if (receives || sends || last - first > 1) rows_.resize(own.count * hidden);
  const absl::Span<float> between = absl::MakeSpan(rows_);
  if (receives) {
    MESHSEAL_RETURN_IF_ERROR(pipeline_->Receive(StageOf(plan, call.layers[first - 1]), BytesIn(between)));
  }
  for (size_t i = first; i < last; ++i) {
    const std::chrono::nanoseconds start = endpoint_->Now();
    const CallTotals before = group_->totals();
    RunResult& result = (*results)[i];
    RankReport& report = result.ranks[rank()];
    report.ran = true;
    const uint32_t layer = call.layers[i];
    const uint32_t layer_class = *ClassOfLayer(plan, layer);
    const RankProgram& program = (call.phase == Phase::kDecode ? decode_ : prefill_)[layer_class];
    const uint64_t top_k = plan.layer_classes[layer_class].top_k;

    StepInput input;
    input.layer = layer;
    input.first_token = round.groups.size() == 1 ? own.first : 0;
    input.tokens = round.tokens;
    input.group_tokens = group_tokens;
    input.hidden = i == 0 ? given : between;
    if (program.route().kind == StepKind::kRouteByTable) input.token_ids = call.token_ids.subspan(own.first, own.count);
    if (program.route().kind == StepKind::kRouteGiven) {
      input.routing = {call.routing.experts.subspan(own.first * top_k, own.count * top_k),
                       call.routing.weights.subspan(own.first * top_k, own.count * top_k)};
    }
    StepOutput output;
    std::vector<int32_t> ids(hands_out_routing ? round.tokens * top_k : 0);
    std::vector<float> weights(ids.size());
    output.expert_ids = absl::MakeSpan(ids);
    output.expert_weights = absl::MakeSpan(weights);
    if (i + 1 < call.layers.size()) {
      output.hidden = between;
    } else if (hands_out_rows) {
      output.hidden = wanted;
    }
    const absl::Status status = executor_->Run(program, *weights_->Layer(layer), input, output, &report.counters);
    report.seconds += SecondsOf(endpoint_->Now() - start);
    AddCollectives(before, group_->totals(), &report);
    MESHSEAL_RETURN_IF_ERROR(status);
    if (hands_out_routing) {
      size_t slot = 0;
      for (const Piece& group : round.groups) {
        std::copy_n(ids.begin() + static_cast<ptrdiff_t>(slot), group.count * top_k,
                    result.expert_ids.begin() + static_cast<ptrdiff_t>(group.first * top_k));
        std::copy_n(weights.begin() + static_cast<ptrdiff_t>(slot), group.count * top_k,
                    result.expert_weights.begin() + static_cast<ptrdiff_t>(group.first * top_k));
        slot += group.count * top_k;
      }
    }
    if (executor_->drains() && i + 1 < call.layers.size()) {
      return Refuse(Reason::kStopped, absl::StrCat("a rank was asked to end; all stopped after layer ", layer));
    }
  }
  if (!sends) return absl::OkStatus();
  return pipeline_->Send(StageOf(plan, call.layers[last]), BytesOf(absl::Span<const float>(between)));
}

absl::Status ResidentRank::CollectReports(std::vector<RunResult>* results) {
  std::vector<WireReport> all(scope().size());
  for (RunResult& result : *results) {
    const WireReport report = ToWire(result.ranks[rank()]);
    MESHSEAL_RETURN_IF_ERROR(scope().AllGather(BytesOf(absl::MakeConstSpan(&report, 1)), BytesIn(absl::MakeSpan(all))));
    for (uint32_t i = 0; i < all.size(); ++i) FromWire(all[i], &result.ranks[scope().members()[i]]);
  }
  return absl::OkStatus();
}

absl::Status ResidentRank::Collect(const LayerCall& call, std::vector<RunResult>* results) {
  MESHSEAL_RETURN_IF_ERROR(CollectReports(results));
  const Plan& plan = plan_->plan();
  const uint32_t first_rank = scope().members().front();
  // One message: bytes of `from`'s that lie in the same place on the scope's first rank.
  const auto collect = [&](uint32_t from, absl::Span<std::byte> bytes) -> absl::Status {
    if (from == first_rank) return absl::OkStatus();
    if (rank() == first_rank) return scope().Receive(from - first_rank, bytes);
    return rank() == from ? scope().Send(0, bytes) : absl::OkStatus();
  };
  for (uint32_t replica = 0; replica < plan.degrees.dp; ++replica) {
    if (scopes() > 1 && replica != at_.dp) continue;  // a scope is a replica
    for (const Round& round : call.bands.RoundsOf(replica)) {
      for (uint32_t group = 0; group < round.groups.size(); ++group) {
        const Piece& rows = round.groups[group];
        for (size_t i = 0; i < call.layers.size(); ++i) {
          RunResult& result = (*results)[i];
          const uint64_t top_k = plan.layer_classes[*ClassOfLayer(plan, call.layers[i])].top_k;
          const uint32_t from = RankOf(plan.degrees, {replica, StageOf(plan, call.layers[i]), 0, 0});
          const uint64_t first = rows.first * top_k;
          const uint64_t count = rows.count * top_k;
          MESHSEAL_RETURN_IF_ERROR(collect(from, BytesIn(absl::MakeSpan(result.expert_ids).subspan(first, count))));
          MESHSEAL_RETURN_IF_ERROR(collect(from, BytesIn(absl::MakeSpan(result.expert_weights).subspan(first, count))));
        }
        const uint32_t from =
            RankOf(plan.degrees, {replica, StageOf(plan, call.layers.back()), 0, 0}) + group * plan.degrees.dense_tp;
        MESHSEAL_RETURN_IF_ERROR(
            collect(from, BytesIn(call.output.subspan(rows.first * plan.hidden, rows.count * plan.hidden))));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ResidentRank::MeetScopes(const LayerCall& call, std::vector<RunResult>* results) {
  std::vector<uint32_t> awaited;
  for (uint32_t other = 0; other < pairs_.size(); ++other) {
    if (pairs_[other] != nullptr && lost_[other].ok()) awaited.push_back(other);
  }
  if (!pairs_.empty()) endpoint_->Come(++meetings_);
  // Another scope that fails has its deadline to find out why, and may have begun later.
  const std::chrono::milliseconds patience = 2 * options_.deadline;
  const std::chrono::nanoseconds until = endpoint_->Now() + patience;
  const std::chrono::milliseconds turn = options_.deadline / kTurns;
  while (true) {
    for (size_t i = 0; i < awaited.size(); ++i) {
      const uint32_t other = awaited[i];
      const uint32_t peer = FirstOfScope(other);
      absl::Status met = endpoint_->AwaitPeer(peer, meetings_, i == 0 ? turn : std::chrono::milliseconds(0));
      if (met.ok()) {
        met = HandOver(*pairs_[other], std::max(other, ScopeOf(rank())), call, results);
      } else if (ReasonOf(met) == Reason::kDeadline) {
        if (endpoint_->Now() < until) continue;
        met = NobodyCame(patience, {peer});
      }
      if (!met.ok()) endpoint_->GiveUpOn(peer);
      lost_[other] = std::move(met);
      awaited.erase(awaited.begin() + static_cast<ptrdiff_t>(i));
      break;
    }
    // The others of the scope wait for its first rank, but never long without a sign of life: one for each turn or
    // hand-over. So nobody of it begins another call, and fails in it, before this one was handed over.
    const uint8_t own = awaited.empty() ? 0 : 1;
    std::vector<uint8_t> all(scope_->size());
    MESHSEAL_RETURN_IF_ERROR(scope_->AllGather(BytesOf(absl::MakeConstSpan(&own, 1)), BytesIn(absl::MakeSpan(all))));
    if (all.front() == 0) return absl::OkStatus();
  }
}

absl::Status ResidentRank::HandOver(Communicator& pair, uint32_t scope, const LayerCall& call,
                                    std::vector<RunResult>* results) {
  const Plan& plan = plan_->plan();
  const uint32_t size = endpoint_->world() / scopes();
  const auto move = [&](absl::Span<std::byte> bytes) {
    return rank() == 0 ? pair.Receive(1, bytes) : pair.Send(0, bytes);
  };
  const Piece& rows = call.bands.RowsOf(scope);
  for (size_t i = 0; i < call.layers.size(); ++i) {
    RunResult& result = (*results)[i];
    std::vector<WireReport> reports;
    for (uint32_t member = 0; member < size; ++member) {
      reports.push_back(ToWire(result.ranks[FirstOfScope(scope) + member]));
    }
    MESHSEAL_RETURN_IF_ERROR(move(BytesIn(absl::MakeSpan(reports))));
    for (uint32_t member = 0; member < size; ++member) {
      FromWire(reports[member], &result.ranks[FirstOfScope(scope) + member]);
    }
    const uint64_t top_k = plan.layer_classes[*ClassOfLayer(plan, call.layers[i])].top_k;
    const uint64_t first = rows.first * top_k;
    const uint64_t count = rows.count * top_k;
    MESHSEAL_RETURN_IF_ERROR(move(BytesIn(absl::MakeSpan(result.expert_ids).subspan(first, count))));
    MESHSEAL_RETURN_IF_ERROR(move(BytesIn(absl::MakeSpan(result.expert_weights).subspan(first, count))));
  }
  return move(BytesIn(call.output.subspan(rows.first * plan.hidden, rows.count * plan.hidden)));
}

}  // namespace meshseal::runtime

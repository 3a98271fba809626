#include "tools/run/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/program/rank_facts.h"
#include "runtime/session/session.h"
#include "schema/mesh_view.h"
#include "schema/plan_words.h"
#include "schema/reason.h"
#include "schema/sealed_plan.h"
#include "schema/status_macros.h"
#include "schema/version.h"
#include "tools/cli/plan_source.h"
#include "tools/cli/program.h"
#include "tools/run/bench_collective.h"
#include "tools/run/bench_work.h"
#include "tools/run/compute_choice.h"
#include "tools/run/load_watch.h"

namespace meshseal::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kSeed = 7;
constexpr uint32_t kWarmCalls = 2;    // on devices the second one is captured as a graph
constexpr uint32_t kMostChecked = 4;  // tokens of a call that are computed again, one by one
// Of the largest magnitude of a token's row: an output that is rounded, or a sum in another order.
constexpr double kRoundedTolerance = 0x1p-7;
constexpr double kFloatTolerance = 1e-5;

// A call's operands and results.
struct Call {
  Phase phase = Phase::kInvalid;
  uint32_t tokens = 0;
  std::vector<float> hidden;
  std::vector<int32_t> token_ids;
  std::vector<int32_t> experts;  // of a given routing
  std::vector<float> weights;
  std::vector<float> output;
  runtime::RunResult result;
};

class Bench {
 public:
  Bench(const BenchFlags& flags, BenchHead head, uint32_t layer, runtime::Session* session)
      : flags_(flags), head_(std::move(head)), layer_(layer), session_(*session), sealed_(session->plan()) {}

  // Prints the row of a number of tokens; what is wrong in it.
  absl::StatusOr<uint64_t> Measure(Phase phase, uint32_t tokens) {
    Call call = CallOf(phase, tokens, 0);
    for (uint32_t i = 0; i < kWarmCalls; ++i) MESHSEAL_RETURN_IF_ERROR(Run(&call).status());
    const Call first = call;
    BenchRow row;
    row.phase = phase;
    row.layer = layer_;
    row.tokens = tokens;
    row.repeats = flags_.repeat;
    std::vector<std::pair<double, size_t>> calls;  // seconds, and which reports
    std::vector<std::vector<runtime::RankReport>> reports;
    for (uint32_t i = 0; i < flags_.repeat; ++i) {
      MESHSEAL_ASSIGN_OR_RETURN(const double seconds, Run(&call));
      row.wrong += DifferentElements(call, first);
      calls.emplace_back(seconds, reports.size());
      reports.push_back(std::move(call.result.ranks));
    }
    std::sort(calls.begin(), calls.end());
    row.least = calls.front().first;
    row.most = calls.back().first;
    const size_t middle = calls.size() / 2;
    row.median = calls.size() % 2 == 1 ? calls[middle].first : (calls[middle - 1].first + calls[middle].first) / 2;
    FillWork(first, reports[calls[middle].second], &row);
    row.collective = CollectiveOf(reports);
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t unlike, CheckTokens(first));
    row.wrong += unlike;
    if (Print("bench", BenchRowText(head_, row, flags_.format)) != 0) {
      return Refuse(Reason::kUsage, "nothing was printed");
    }
    return row.wrong;
  }

 private:
  const Plan& plan() const { return sealed_->plan(); }
  const LayerClass& layer_class() const { return plan().layer_classes[*runtime::ClassOfLayer(plan(), layer_)]; }

  Call CallOf(Phase phase, uint32_t tokens, uint32_t first) const {
    const LayerClass& c = layer_class();
    Call call;
    call.phase = phase;
    call.tokens = tokens;
    call.hidden = NormalNumbers(kSeed, size_t{first + tokens} * plan().hidden);
    call.hidden.erase(call.hidden.begin(), call.hidden.begin() + static_cast<ptrdiff_t>(size_t{first} * plan().hidden));
    call.output.resize(call.hidden.size());
    if (runtime::RouteOf(c) == StepKind::kRouteByTable) {
      for (uint32_t token = first; token < first + tokens; ++token) {
        call.token_ids.push_back(static_cast<int32_t>(token * 7919ULL % c.router.vocabulary));
      }
    }
    if (runtime::RouteOf(c) == StepKind::kRouteGiven) {
      call.experts = DistinctExperts(kSeed, first + tokens, c.top_k, c.experts);
      call.experts.erase(call.experts.begin(), call.experts.begin() + static_cast<ptrdiff_t>(size_t{first} * c.top_k));
      call.weights.assign(call.experts.size(), 1.0F / static_cast<float>(c.top_k));
    }
    return call;
  }

  // Seconds.
  absl::StatusOr<double> Run(Call* call) {
    runtime::RunRequest request;
    request.layer = layer_;
    request.phase = call->phase;
    request.tokens = call->tokens;
    request.hidden = call->hidden;
    request.output = absl::MakeSpan(call->output);
    request.token_ids = call->token_ids;
    request.routing = {call->experts, call->weights};
    const Clock::time_point begin = Clock::now();
    MESHSEAL_RETURN_IF_ERROR(session_.Run(request, &call->result));
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  // Elements of outputs and of routings whose bits differ.
  static uint64_t DifferentElements(const Call& a, const Call& b) {
    uint64_t different = 0;
    for (size_t i = 0; i < a.output.size(); ++i) {
      different += std::memcmp(&a.output[i], &b.output[i], sizeof(float)) != 0 ? 1U : 0U;
    }
    for (size_t i = 0; i < a.result.expert_ids.size(); ++i) {
      different += a.result.expert_ids[i] != b.result.expert_ids[i] ? 1U : 0U;
    }
    return different;
  }

  void FillWork(const Call& call, const std::vector<runtime::RankReport>& reports, BenchRow* row) const {
    const std::vector<RankWork> work = WorkOf(plan(), layer_, call.phase, call.tokens, call.result.expert_ids);
    for (const RankWork& rank : work) {
      row->weight_bytes += rank.weight_bytes;
      row->operations += rank.operations;
    }
    const auto slowest = std::max_element(reports.begin(), reports.end(), [](const auto& a, const auto& b) {
      return a.computing_seconds() < b.computing_seconds();
    });
    row->slowest_rank = static_cast<uint32_t>(slowest - reports.begin());
    row->rank_seconds = slowest->computing_seconds();
    row->rank_weight_bytes = work[row->slowest_rank].weight_bytes;
    row->rank_operations = work[row->slowest_rank].operations;
    for (const runtime::RankReport& report : reports) row->waited = std::max(row->waited, report.waited_seconds);
    if (!head_.limits.has_value()) return;
    const double least = std::max(static_cast<double>(row->weight_bytes) / head_.limits->read_bytes_per_second,
                                  static_cast<double>(row->operations) / head_.limits->operations_per_second);
    row->share = least / row->median;
  }

  // Some tokens again, each alone and through the decode program: no batch, no chunk and no grouping. Counts experts
  // that differ, and elements that are not within the tolerance of the token's largest.
  absl::StatusOr<uint64_t> CheckTokens(const Call& whole) {
    const size_t hidden = plan().hidden;
    const uint32_t top_k = layer_class().top_k;
    const double tolerance = plan().output == Basis::kF32 ? kFloatTolerance : kRoundedTolerance;
    const uint32_t checked = std::min(kMostChecked, whole.tokens);
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < checked; ++i) {
      const auto token = static_cast<uint32_t>(checked == 1 ? 0 : uint64_t{i} * (whole.tokens - 1) / (checked - 1));
      Call alone = CallOf(Phase::kDecode, 1, token);
      MESHSEAL_RETURN_IF_ERROR(Run(&alone).status());
      for (uint32_t j = 0; j < top_k; ++j) {
        wrong += alone.result.expert_ids[j] != whole.result.expert_ids[size_t{token} * top_k + j] ? 1U : 0U;
      }
      double largest = 0;
      for (const float value : alone.output) largest = std::max(largest, std::fabs(static_cast<double>(value)));
      for (size_t h = 0; h < hidden; ++h) {
        const double found = whole.output[token * hidden + h];
        wrong += std::fabs(found - static_cast<double>(alone.output[h])) <= tolerance * largest ? 0U : 1U;
      }
    }
    return wrong;
  }

  const BenchFlags& flags_;
  const BenchHead head_;
  const uint32_t layer_;
  runtime::Session& session_;
  const std::shared_ptr<const SealedPlan> sealed_;
};

// The largest call of a phase: each replica has its own limit.
uint64_t MostTokens(const Plan& plan, Phase phase) {
  const Limits& limits = plan.limits;
  return uint64_t{phase == Phase::kDecode ? limits.decode_tokens : limits.prefill_tokens} * plan.degrees.dp;
}

struct PhaseTokens {
  Phase phase = Phase::kInvalid;
  uint32_t tokens = 0;
};

absl::StatusOr<std::vector<PhaseTokens>> CallsOf(const BenchFlags& flags, const Plan& plan) {
  const bool automatic = flags.phase == "auto";
  const uint64_t decodes = MostTokens(plan, Phase::kDecode);
  const auto phase_of = [&](uint32_t tokens) {
    if (!automatic) return *TermOf<Phase>(flags.phase);
    return tokens <= decodes ? Phase::kDecode : Phase::kPrefill;
  };
  std::vector<uint32_t> counts;
  if (flags.tokens.empty()) {
    const uint64_t most = MostTokens(plan, automatic ? Phase::kPrefill : phase_of(1));
    for (uint64_t count = 1; count <= std::min<uint64_t>(most, UINT32_MAX); count *= 2) {
      counts.push_back(static_cast<uint32_t>(count));
    }
  } else {
    MESHSEAL_ASSIGN_OR_RETURN(counts, TokenCounts(flags.tokens));
  }
  std::vector<PhaseTokens> calls;
  for (const uint32_t tokens : counts) {
    const Phase phase = phase_of(tokens);
    if (tokens > MostTokens(plan, phase)) {
      return Refuse(Reason::kLimit, absl::StrCat(WordOf(phase), " of ", CountText(tokens, "token"),
                                                 ", the plan's limit is ", MostTokens(plan, phase)));
    }
    calls.push_back({phase, tokens});
  }
  return calls;
}

absl::StatusOr<uint32_t> LayerOf(const BenchFlags& flags, const Plan& plan) {
  if (!flags.layer.has_value()) return plan.layer_classes.front().layers.front().first;  // classes are in order
  if (runtime::ClassOfLayer(plan, *flags.layer).has_value()) return *flags.layer;
  return Refuse(Reason::kUsage, absl::StrCat("the plan has no MoE layer ", *flags.layer));
}

}  // namespace

absl::Status RunBench(const BenchFlags& flags) {
  MESHSEAL_ASSIGN_OR_RETURN(const std::string ranks, RanksOf(flags.backend, flags.ranks));
  if (ranks == "mpi") return Refuse(Reason::kUsage, "ranks of a bench are threads of this process, not 'mpi'");
  runtime::SessionOptions options;
  MESHSEAL_ASSIGN_OR_RETURN(options.compute, ComputeOf(flags.backend, ranks, flags.without_management_library));
  MESHSEAL_ASSIGN_OR_RETURN(const Policy policy, flags.policy.Resolve());
  MESHSEAL_ASSIGN_OR_RETURN(const PlanSource source, ReadPlanSource(flags.plan));
  MESHSEAL_ASSIGN_OR_RETURN(SealedPlan opened, SealedPlan::Open(source.file, policy, source.signature));
  MESHSEAL_ASSIGN_OR_RETURN(const std::vector<PhaseTokens> calls, CallsOf(flags, opened.plan()));
  MESHSEAL_ASSIGN_OR_RETURN(const uint32_t layer, LayerOf(flags, opened.plan()));

  const std::string sums = options.compute->SettleSums(opened.plan().reduction);
  BenchHead head;
  head.plan_id = HexOf(opened.id());
  head.version = std::string(Version());
  head.backend = std::string(options.compute->name());
  head.emulated = opened.plan().mesh.emulated || flags.emulate;
  head.ranks = *WorldOf(opened.plan().degrees);
  head.machine = FactsOfMachine();

  if (!flags.weights.empty()) options.weights = {flags.weights};
  options.digests = flags.digests;
  options.unverified_weights = flags.unverified_weights;
  options.emulate = flags.emulate;
  options.poison = false;  // not the layer's work
  std::string loaded;
  MESHSEAL_ASSIGN_OR_RETURN(const std::unique_ptr<runtime::Session> session,
                            LoadWatched(std::move(opened), options, &loaded));
  std::fprintf(stderr, "%s\n", loaded.c_str());
  if (!sums.empty()) std::fprintf(stderr, "sums %s\n", sums.c_str());
  if (ranks == "inproc") {
    MESHSEAL_ASSIGN_OR_RETURN(head.limits, MeasureMachine(head.ranks));
  }
  if (Print("bench", BenchHeadText(head, flags.format)) != 0) return Refuse(Reason::kUsage, "nothing was printed");

  Bench bench(flags, head, layer, session.get());
  uint64_t wrong = 0;
  for (const PhaseTokens& call : calls) {
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t of_call, bench.Measure(call.phase, call.tokens));
    wrong += of_call;
  }
  if (wrong == 0) return absl::OkStatus();
  return Refuse(Reason::kDiffers, absl::StrCat(CountText(wrong, "element"), " of the results wrong"));
}

}  // namespace meshseal::tools

// meshseal-run: run, compare, bench, doctor. Executes sealed plans; no YAML and no compiler inside.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "runtime/program/rank_facts.h"
#include "runtime/session/job_key.h"
#include "runtime/session/session.h"
#include "schema/format_text.h"
#include "schema/load_profile.h"
#include "schema/mesh_view.h"
#include "schema/reason.h"
#include "schema/sealed_plan.h"
#include "schema/status_macros.h"
#include "tools/arrays/array_file.h"
#include "tools/arrays/compare.h"
#include "tools/cli/plan_source.h"
#include "tools/cli/policy_flags.h"
#include "tools/cli/program.h"
#include "tools/cli/whole_file.h"
#include "tools/run/bench.h"
#include "tools/run/compute_choice.h"
#include "tools/run/doctor.h"
#include "tools/run/load_watch.h"
#include "tools/run/rank_launch.h"

namespace meshseal::tools {
namespace {

struct RunFlags {
  std::string plan;
  PolicyFlags policy;
  std::string weights;
  std::string digests;
  bool unverified_weights = false;
  uint32_t load_threads = 0;
  std::string input;
  std::string output;
  std::string routing_output;
  std::string profile;
  std::string token_ids;
  std::string routing;
  std::optional<uint32_t> layer;
  bool stack = false;
  std::string phase = "auto";
  std::string backend = "reference";
  std::string ranks;  // empty: the backend's own
  bool emulate = false;
  bool without_management_library = false;
  std::string job_key;
  bool isolated_network = false;
  bool dry_run = false;
  uint32_t deadline_seconds = 30;
  uint32_t load_deadline_seconds = 600;
  std::vector<uint32_t> rank_tokens;
  std::string error_file;
};

constexpr const char* kWithoutLibraryHelp =
    "use GPUs although the driver's management library does not tell their modes (MIG, ECC, fabric)";
constexpr const char* kBackendHelp = "reference, or cuda where it is built in (`meshseal doctor` says)";

constexpr const char* kRanksHelp =
    "inproc: threads; mpi: processes, by mpirun or srun; of cuda nccl: a GPU each; loopback: one GPU";

// Where a rank's own file name has its number.
constexpr const char* kRankMark = "{rank}";

absl::Status Usage(absl::string_view text) { return Refuse(Reason::kUsage, text); }

absl::Status CheckFlags(const RunFlags& flags) {
  if (flags.ranks == "mpi" && !flags.error_file.empty() && !absl::StrContains(flags.error_file, kRankMark)) {
    return Usage(
        absl::StrCat("--error-file '", flags.error_file, "' is every rank's own: write ", kRankMark, " in it"));
  }
  if (flags.dry_run) return absl::OkStatus();
  if (flags.input.empty() || flags.output.empty()) return Usage("--input and --output name the arrays");
  if (flags.layer.has_value() == flags.stack) return Usage("expected --layer L or --stack, one of them");
  if (flags.stack && !flags.routing_output.empty()) return Usage("--routing-output goes with --layer");
  if (flags.stack && !flags.routing.empty()) return Usage("--routing goes with --layer");
  return absl::OkStatus();
}

// `auto` is decode up to the plan's decode_tokens, prefill above.
Phase PhaseOf(const RunFlags& flags, const Plan& plan, uint64_t tokens) {
  if (flags.phase == "auto") return tokens <= plan.limits.decode_tokens ? Phase::kDecode : Phase::kPrefill;
  return *TermOf<Phase>(flags.phase);
}

struct Hidden {
  uint32_t tokens = 0;
  std::vector<float> values;  // [tokens, hidden]
};

absl::StatusOr<Hidden> ReadHidden(const std::string& spec, const Plan& plan) {
  MESHSEAL_ASSIGN_OR_RETURN(const Array array, ReadArray(spec));
  if (array.shape.size() != 2 || array.shape[1] != plan.hidden || array.shape[0] > UINT32_MAX) {
    return Usage(
        absl::StrCat(spec, ": shape ", ShapeText(array.shape), ", the plan takes [tokens, ", plan.hidden, "]"));
  }
  Hidden hidden;
  hidden.tokens = static_cast<uint32_t>(array.shape[0]);
  MESHSEAL_ASSIGN_OR_RETURN(hidden.values, Float32Values(array));
  return hidden;
}

absl::Status CheckShape(const std::string& spec, const Array& array, const std::vector<uint64_t>& shape) {
  if (array.shape == shape) return absl::OkStatus();
  return Usage(absl::StrCat(spec, ": shape ", ShapeText(array.shape), ", expected ", ShapeText(shape)));
}

// 0 for a layer without experts, which the session refuses.
uint64_t TopKOf(const Plan& plan, uint32_t layer) {
  const std::optional<uint32_t> layer_class = runtime::ClassOfLayer(plan, layer);
  return layer_class.has_value() ? plan.layer_classes[*layer_class].top_k : 0;
}

template <class T>
std::vector<T> ElementsOf(const Array& array) {
  std::vector<T> elements(array.data.size() / sizeof(T));
  if (!elements.empty()) std::memcpy(elements.data(), array.data.data(), array.data.size());
  return elements;
}

// An array of numbers that 32 bits hold, of `shape`.
absl::StatusOr<std::vector<int32_t>> ReadInt32(const std::string& spec, const std::vector<uint64_t>& shape) {
  MESHSEAL_ASSIGN_OR_RETURN(const Array array, ReadArray(spec));
  if (array.dtype != DType::kI32 && array.dtype != DType::kI64) {
    return Usage(absl::StrCat(spec, ": an array of ", DTypeName(array.dtype), ", expected i32 or i64"));
  }
  MESHSEAL_RETURN_IF_ERROR(CheckShape(spec, array, shape));
  if (array.dtype == DType::kI32) return ElementsOf<int32_t>(array);
  std::vector<int32_t> narrow;
  for (const int64_t wide : ElementsOf<int64_t>(array)) {
    if (wide < INT32_MIN || wide > INT32_MAX) return Usage(absl::StrCat(spec, ": ", wide, " needs more than 32 bits"));
    narrow.push_back(static_cast<int32_t>(wide));
  }
  return narrow;
}

// What a caller brings beside hidden states; empty where its flag is not given.
struct CallerRouting {
  std::vector<int32_t> token_ids;
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

absl::StatusOr<CallerRouting> ReadCallerRouting(const RunFlags& flags, const Plan& plan, uint32_t tokens) {
  CallerRouting caller;
  if (!flags.token_ids.empty()) {
    MESHSEAL_ASSIGN_OR_RETURN(caller.token_ids, ReadInt32(flags.token_ids, {tokens}));
  }
  if (flags.routing.empty()) return caller;
  const std::vector<uint64_t> shape = {tokens, TopKOf(plan, *flags.layer)};
  MESHSEAL_ASSIGN_OR_RETURN(caller.experts, ReadInt32(absl::StrCat(flags.routing, ":expert_ids"), shape));
  const std::string spec = absl::StrCat(flags.routing, ":expert_weights");
  MESHSEAL_ASSIGN_OR_RETURN(const Array weights, ReadArray(spec));
  MESHSEAL_RETURN_IF_ERROR(CheckShape(spec, weights, shape));
  MESHSEAL_ASSIGN_OR_RETURN(caller.weights, Float32Values(weights));
  return caller;
}

Array MakeInt32Array(std::vector<uint64_t> shape, const std::vector<int32_t>& values) {
  Array array;
  array.dtype = DType::kI32;
  array.shape = std::move(shape);
  array.data.resize(values.size() * sizeof(int32_t));
  if (!values.empty()) std::memcpy(array.data.data(), values.data(), array.data.size());
  return array;
}

absl::Status WriteRouting(const std::string& path, const std::vector<uint64_t>& shape,
                          const runtime::RunResult& result) {
  return WriteSafetensors(path, {{"expert_ids", MakeInt32Array(shape, result.expert_ids)},
                                 {"expert_weights", MakeFloat32Array(shape, result.expert_weights)}});
}

// What each expert of the layers that ran was given, by layer number, in order: of all that have experts, or of one.
absl::StatusOr<std::string> ProfileText(const RunFlags& flags, const SealedPlan& plan, uint32_t tokens,
                                        const std::vector<runtime::RunResult>& results) {
  LoadProfile profile;
  profile.plan = plan.id();
  profile.tokens = tokens;
  auto result = results.begin();
  for (uint32_t layer = flags.layer.value_or(0); result != results.end(); ++layer) {
    const std::optional<uint32_t> layer_class = runtime::ClassOfLayer(plan.plan(), layer);
    if (!layer_class.has_value()) continue;
    std::vector<uint64_t>& slots = profile.slots[layer];
    slots.resize(plan.plan().layer_classes[*layer_class].experts);
    for (const int32_t expert : result->expert_ids) ++slots[static_cast<size_t>(expert)];
    ++result;
  }
  std::string text = LoadProfileText(profile);
  MESHSEAL_RETURN_IF_ERROR(ParseLoadProfile(flags.profile, text).status());  // as `compile` will
  return text;
}

const char* WeightsStanding(const Plan& plan, const runtime::SessionOptions& options) {
  if (plan.weight_source == WeightSource::kSynthetic) return "synthetic";
  return options.digests.empty() ? "UNVERIFIED" : "verified";
}

void PrintRanks(const SealedPlan& plan, const std::vector<runtime::RunResult>& results) {
  for (uint32_t rank = 0; rank < results.front().ranks.size(); ++rank) {
    runtime::StepCounters counters;
    double seconds = 0;
    for (const runtime::RunResult& result : results) {
      counters.gate_up_slots += result.ranks[rank].counters.gate_up_slots;
      counters.down_slots += result.ranks[rank].counters.down_slots;
      seconds += result.ranks[rank].seconds;
    }
    std::fprintf(stderr, "  rank %u (%s): %llu slots projected up, %llu down, %.1f ms\n", rank,
                 CoordinateText(CoordinateOf(plan.plan().degrees, rank)).c_str(),
                 static_cast<unsigned long long>(counters.gate_up_slots),
                 static_cast<unsigned long long>(counters.down_slots), seconds * 1e3);
  }
}

// Whether the other ranks of a run that failed go on: those of other replicas, where a replica fails alone.
bool OthersGoOn(const absl::Status& status, const std::vector<runtime::RunResult>& results) {
  return !results.empty() && !results.front().replicas.empty() && ReasonOf(status) != Reason::kStopped;
}

// Of a run whose replicas fail alone, for world rank 0 may be gone: that this process's replica ended well.
void PrintReplica(const Plan& plan, uint32_t rank, const std::vector<runtime::RunResult>& results) {
  const Coordinate at = CoordinateOf(plan.degrees, rank);
  if (results.front().replicas.empty() || rank != RankOf(plan.degrees, {at.dp, 0, 0, 0})) return;
  std::fprintf(stderr, "replica %u ended well\n", at.dp);
}

// `plan_id` is written as soon as the plan was opened, `others_go_on` when it was run.
absl::Status RunPlan(const RunFlags& flags, const RankLaunch& launch, std::string* plan_id, bool* others_go_on) {
  runtime::SessionOptions options;
  MESHSEAL_ASSIGN_OR_RETURN(options.compute, ComputeOf(flags.backend, flags.ranks, flags.without_management_library));
  MESHSEAL_ASSIGN_OR_RETURN(const Policy policy, flags.policy.Resolve());
  MESHSEAL_ASSIGN_OR_RETURN(const PlanSource source, ReadPlanSource(flags.plan));
  MESHSEAL_ASSIGN_OR_RETURN(SealedPlan opened, SealedPlan::Open(source.file, policy, source.signature));
  *plan_id = HexOf(opened.id());
  const std::string sums = options.compute->SettleSums(opened.plan().reduction);
  Hidden hidden;
  CallerRouting caller;
  if (!flags.dry_run) {
    MESHSEAL_ASSIGN_OR_RETURN(hidden, ReadHidden(flags.input, opened.plan()));
    if (!flags.profile.empty() && hidden.tokens == 0) return Usage("--profile counts tokens, --input has none");
    MESHSEAL_ASSIGN_OR_RETURN(caller, ReadCallerRouting(flags, opened.plan(), hidden.tokens));
  }

  if (!flags.weights.empty()) options.weights = {flags.weights};
  options.digests = flags.digests;
  options.load_threads = flags.load_threads;
  options.unverified_weights = flags.unverified_weights;
  options.world = launch.world();
  options.drain = StopRequested();
  options.emulate = flags.emulate;
  options.policy = policy;
  if (!flags.job_key.empty()) {
    MESHSEAL_ASSIGN_OR_RETURN(options.job_key, runtime::JobKey::Read(flags.job_key));
  }
  options.isolated_network = flags.isolated_network;
  options.deadline = std::chrono::seconds(flags.deadline_seconds);
  options.load_deadline = std::chrono::seconds(flags.load_deadline_seconds);
  std::string loaded;
  MESHSEAL_ASSIGN_OR_RETURN(const std::unique_ptr<runtime::Session> session,
                            LoadWatched(std::move(opened), options, &loaded));
  if (launch.is_first()) std::fprintf(stderr, "%s\n", loaded.c_str());
  const std::shared_ptr<const SealedPlan> sealed = session->plan();
  const SealedPlan& plan = *sealed;
  const uint32_t world = *WorldOf(plan.plan().degrees);
  if (launch.is_first()) {
    std::fprintf(stderr, "plan %s (%s; weights %s): %u %s, %s over %s%s\n", HexOf(plan.id()).substr(0, 16).c_str(),
                 StandingText(source, plan.signer()).c_str(), WeightsStanding(plan.plan(), options), world,
                 world == 1 ? "rank" : "ranks", flags.backend.c_str(), flags.ranks.c_str(),
                 plan.plan().mesh.emulated || flags.emulate ? ", EMULATED" : "");
    if (!sums.empty()) std::fprintf(stderr, "sums %s\n", sums.c_str());
  }
  if (flags.dry_run) {
    if (launch.is_first()) std::fprintf(stderr, "bound, agreed, reserved and loaded; nothing was run\n");
    return absl::OkStatus();
  }

  const Phase phase = PhaseOf(flags, plan.plan(), hidden.tokens);
  std::vector<float> output(hidden.values.size());
  std::vector<runtime::RunResult> results;
  absl::Status ran;
  if (flags.stack) {
    ran = session->RunStack(
        {phase, hidden.tokens, hidden.values, absl::MakeSpan(output), caller.token_ids, flags.rank_tokens}, &results);
  } else {
    results.emplace_back();
    runtime::RunRequest request;
    request.layer = *flags.layer;
    request.phase = phase;
    request.tokens = hidden.tokens;
    request.hidden = hidden.values;
    request.output = absl::MakeSpan(output);
    request.token_ids = caller.token_ids;
    request.routing = {caller.experts, caller.weights};
    request.group_tokens = flags.rank_tokens;
    ran = session->Run(request, &results.back());
  }
  *others_go_on = OthersGoOn(ran, results);
  MESHSEAL_RETURN_IF_ERROR(ran);
  if (!launch.is_first()) {
    PrintReplica(plan.plan(), launch.rank(), results);
    return absl::OkStatus();
  }
  std::string profile;
  if (!flags.profile.empty()) {
    MESHSEAL_ASSIGN_OR_RETURN(profile, ProfileText(flags, plan, hidden.tokens, results));
  }
  MESHSEAL_RETURN_IF_ERROR(WriteNpy(flags.output, {hidden.tokens, plan.plan().hidden}, output));
  if (!flags.routing_output.empty()) {
    MESHSEAL_RETURN_IF_ERROR(
        WriteRouting(flags.routing_output, {hidden.tokens, TopKOf(plan.plan(), *flags.layer)}, results.front()));
  }
  if (!flags.profile.empty()) MESHSEAL_RETURN_IF_ERROR(WriteWholeFile(flags.profile, {profile}));
  std::fprintf(
      stderr, "%s of %u tokens through %s\n", WordOf(phase), hidden.tokens,
      flags.stack ? absl::StrCat(results.size(), " layers").c_str() : absl::StrCat("layer ", *flags.layer).c_str());
  PrintRanks(plan, results);
  return absl::OkStatus();
}

// For launchers and people: which rank ended, why, and the plan it ran ("" when none was opened).
absl::Status WriteErrorFile(const RunFlags& flags, uint32_t rank, const std::string& plan,
                            const absl::Status& failure) {
  const ReasonRow& row = RowOf(ReasonOf(failure).value_or(Reason::kBug));
  nlohmann::ordered_json json;
  json["version"] = 1;
  json["rank"] = rank;
  json["reason"] = row.slug;
  json["exit_code"] = row.exit_code;
  json["text"] = std::string(failure.message());
  json["plan"] = plan;
  const std::string text = json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  return WriteWholeFile(absl::StrReplaceAll(flags.error_file, {{kRankMark, absl::StrCat(rank)}}), {text, "\n"});
}

// Says why a rank ends; its exit code. The file first: who reads standard error may be gone.
int ReportRank(const RunFlags& flags, uint32_t rank, const std::string& plan, const absl::Status& status) {
  if (!status.ok() && !flags.error_file.empty()) Report("run", WriteErrorFile(flags, rank, plan, status));
  return Report("run", status);
}

int RunAsRank(RunFlags flags) {
  const absl::StatusOr<std::string> ranks = RanksOf(flags.backend, flags.ranks);
  if (!ranks.ok()) return Report("run", ranks.status());
  flags.ranks = *ranks;
  absl::Status status = CheckFlags(flags);
  if (!status.ok()) return Report("run", status);
  const RankLaunch::Waits waits = {std::chrono::seconds(flags.load_deadline_seconds),
                                   std::chrono::seconds(flags.deadline_seconds)};
  std::string plan_id;
  absl::StatusOr<RankLaunch> launch = RankLaunch::Start(
      flags.ranks, waits,
      [&flags, &plan_id](uint32_t rank, const absl::Status& cause) { ReportRank(flags, rank, plan_id, cause); });
  if (!launch.ok()) return Report("run", launch.status());
  if (!launch->identity().empty()) std::fprintf(stderr, "%s\n", launch->identity().c_str());
  bool others_go_on = false;
  status = RunPlan(flags, *launch, &plan_id, &others_go_on);
  const int exit_code = ReportRank(flags, launch->rank(), plan_id, status);
  launch->Finish(status, others_go_on);
  return exit_code;
}

struct CompareFlags {
  std::string array;
  std::string reference;
  double rtol = 0;
};

absl::Status RunCompare(const CompareFlags& flags) {
  MESHSEAL_ASSIGN_OR_RETURN(const Array array, ReadArray(flags.array));
  MESHSEAL_ASSIGN_OR_RETURN(const Array reference, ReadArray(flags.reference));
  MESHSEAL_ASSIGN_OR_RETURN(const Comparison comparison, CompareArrays(array, reference));
  if (Print("compare", absl::StrCat(ComparisonText(comparison), "\n")) != 0) return Usage("no comparison printed");
  if (comparison.ratio <= flags.rtol) return absl::OkStatus();
  return Refuse(Reason::kDiffers, FormatText("%s differs from %s: %g is above the tolerance %g", flags.array,
                                             flags.reference, comparison.ratio, flags.rtol));
}

int Main(int argc, char** argv) {
  Program program("meshseal-run");

  RunFlags run;
  CLI::App& run_command =
      program.Add("run",
                  {"run tiny-ep4.mseal --weights tests/data/tiny-qwen3-moe --unverified-weights --layer 0 "
                   "--input tests/data/tiny-qwen3-moe/recorded/prompt-7.safetensors:layer.0.hidden_in --output y.npy "
                   "--routing-output r.safetensors",
                   "run tiny-ep4.mseal --weights tests/data/tiny-qwen3-moe --unverified-weights --dry-run"},
                  [&run] { return RunAsRank(run); });
  run_command.add_option("PLAN", run.plan, "a sealed plan")->required();
  run.policy.AddTo(run_command);
  run_command.add_option("--weights", run.weights,
                         "the checkpoint: a folder, or a .gguf file; none where it is synthetic");
  run_command.add_option("--digests", run.digests, "the digest list that the plan binds: weights are verified");
  run_command.add_flag("--unverified-weights", run.unverified_weights, "take weights that no digest of the plan binds");
  run_command.add_option("--load-threads", run.load_threads, "threads that read weights; 0: one for each core")
      ->check(CLI::Range(1024));
  run_command.add_option("--input", run.input, "float32 [tokens, hidden]: x.npy or FILE.safetensors:TENSOR");
  run_command.add_option("--output", run.output, "y.npy to write; - is standard output");
  run_command.add_option("--layer", run.layer, "run this layer");
  run_command.add_flag("--stack", run.stack, "run all layers, each on the output of the one before");
  run_command.add_option("--phase", run.phase, "auto: decode up to the plan's decode_tokens, else prefill")
      ->check(CLI::IsMember({"auto", "decode", "prefill"}));
  run_command.add_option("--backend", run.backend, kBackendHelp);
  run_command.add_option("--ranks", run.ranks, kRanksHelp);
  run_command.add_option("--rank-tokens", run.rank_tokens, "tokens of each dense group of each replica: 3,0,5,1")
      ->delimiter(',');
  run_command.add_flag("--emulate", run.emulate, "run on other devices than the plan's; labelled");
  run_command.add_flag("--without-management-library", run.without_management_library, kWithoutLibraryHelp);
  run_command.add_option("--routing-output", run.routing_output, "write expert_ids and expert_weights: r.safetensors");
  run_command.add_option("--profile", run.profile, "write each expert's slots: load.json, for a balanced placement");
  run_command.add_option("--token-ids", run.token_ids, "int32 or int64 [tokens], for layers with a token table: t.npy");
  run_command.add_option("--routing", run.routing,
                         "for a precomputed routing: r.safetensors as --routing-output writes");
  run_command.add_option("--deadline", run.deadline_seconds, "longest wait for a peer in a run, in seconds");
  run_command.add_option("--load-deadline", run.load_deadline_seconds,
                         "longest wait for a peer before it, while weights are read, in seconds");
  run_command.add_option("--error-file", run.error_file, "on failure, write rank, reason and text: e-{rank}.json");
  run_command.add_option("--job-key", run.job_key, "between hosts: file that all ranks have, 32 bytes or more");
  run_command.add_flag("--isolated-network", run.isolated_network, "between hosts: nobody else is on the network")
      ->excludes("--job-key");
  run_command.add_flag("--dry-run", run.dry_run, "bind, agree, reserve and load; run nothing");

  CompareFlags compare;
  CLI::App& compare_command = program.Add(
      "compare",
      {"compare y.npy tests/data/tiny-qwen3-moe/recorded/prompt-7.safetensors:layer.0.hidden_out --rtol 2e-5",
       "compare r.safetensors:expert_ids tests/data/tiny-qwen3-moe/recorded/prompt-7.safetensors:layer.0.expert_ids"},
      [&compare] { return Report("compare", RunCompare(compare)); });
  compare_command.add_option("ARRAY", compare.array, "x.npy or FILE.safetensors:TENSOR")->required();
  compare_command.add_option("REFERENCE", compare.reference, "what it is measured against")->required();
  compare_command.add_option("--rtol", compare.rtol, "largest max|D|/max|ref| that is still equal; 0 if not given");

  BenchFlags bench;
  CLI::App& bench_command = program.Add(
      "bench",
      {"bench tiny-ep4.mseal --weights tests/data/tiny-qwen3-moe --unverified-weights --tokens 1..32*2 --repeat 2",
       "bench tiny-ep4.mseal --weights tests/data/tiny-qwen3-moe --unverified-weights --phase prefill --tokens 8 "
       "--format jsonl"},
      [&bench] { return Report("bench", RunBench(bench)); });
  bench_command.add_option("PLAN", bench.plan, "a sealed plan, whose ranks are threads")->required();
  bench.policy.AddTo(bench_command);
  bench_command.add_option("--weights", bench.weights,
                           "the checkpoint: a folder, or a .gguf file; none where it is synthetic");
  bench_command.add_option("--digests", bench.digests, "the digest list that the plan binds: weights are verified");
  bench_command.add_flag("--unverified-weights", bench.unverified_weights,
                         "take weights that no digest of the plan binds");
  bench_command.add_option("--tokens", bench.tokens,
                           "8, 1,8,64 or 1..4096*2; powers of 2 up to the plan's limit, if not given");
  bench_command.add_option("--phase", bench.phase, "auto: decode up to the plan's decode_tokens, else prefill")
      ->check(CLI::IsMember({"auto", "decode", "prefill"}));
  bench_command.add_option("--layer", bench.layer, "the layer to run; the first with experts, if not given");
  bench_command.add_option("--backend", bench.backend, kBackendHelp);
  bench_command.add_option("--ranks", bench.ranks, kRanksHelp);
  bench_command.add_option("--repeat", bench.repeat, "timed calls of each number of tokens, after two that are not")
      ->check(CLI::Range(1, 100000));
  bench_command.add_flag("--emulate", bench.emulate, "run on other devices than the plan's; labelled");
  bench_command.add_flag("--without-management-library", bench.without_management_library, kWithoutLibraryHelp);
  bench_command
      .add_option("--format", bench.format, "md, csv, or jsonl (versioned, stable), which `simulate --calibrate` reads")
      ->check(CLI::IsMember({"md", "csv", "jsonl"}));

  std::string format = "text";
  CLI::App& doctor_command = program.Add("doctor", {"doctor", "doctor --format json"},
                                         [&format] { return Report("doctor", RunDoctor(format)); });
  doctor_command.add_option("--format", format, "text, or json (versioned, stable)")
      ->check(CLI::IsMember({"text", "json"}));

  return program.Main(argc, argv);
}

}  // namespace
}  // namespace meshseal::tools

int main(int argc, char** argv) { return meshseal::tools::RunMain(meshseal::tools::Main, argc, argv); }

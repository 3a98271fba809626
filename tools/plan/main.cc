// meshseal-plan: keygen, sign, verify, show, diff, simulate. Reads plans, never executes them.
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/checkpoint_listing.h"
#include "schema/hash_tensors.h"
#include "schema/inspect.h"
#include "schema/plan_diff.h"
#include "schema/plan_diff_json.h"
#include "schema/plan_diff_text.h"
#include "schema/plan_json.h"
#include "schema/plan_text.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/seal.h"
#include "schema/sealed_digests.h"
#include "schema/sealed_plan.h"
#include "schema/simulate/simulate.h"
#include "schema/small_file.h"
#include "schema/status_macros.h"
#include "tools/cli/plan_source.h"
#include "tools/cli/policy_flags.h"
#include "tools/cli/program.h"
#include "tools/cli/progress.h"
#include "tools/plan/signing.h"

namespace meshseal::tools {
namespace {

constexpr size_t kMostCalibrationBytes = size_t{64} << 20;

struct VerifyFlags {
  std::string path;
  PolicyFlags policy;
  std::string weights;
  std::string digests;
};

// The checkpoint's bytes against the digest list that the plan binds; what to print.
absl::StatusOr<std::string> VerifyWeights(const VerifyFlags& flags, const Plan& plan) {
  MESHSEAL_ASSIGN_OR_RETURN(const std::string file, ReadDigestsFile(flags.digests));
  MESHSEAL_ASSIGN_OR_RETURN(const SealedDigests digests, SealedDigests::Open(file));
  MESHSEAL_RETURN_IF_ERROR(CheckBound(digests, plan));
  std::vector<RegularFile> files;
  MESHSEAL_ASSIGN_OR_RETURN(const CheckpointListing listing, CheckpointListing::Open(flags.weights, &files));
  ReadingProgress progress;
  MESHSEAL_RETURN_IF_ERROR(VerifyCheckpoint(digests.digests(), plan.hidden, plan.layer_classes, listing, files,
                                            HashingThreads(),
                                            [&progress](const HashProgress& hashed) { progress.Show(hashed); }));
  return absl::StrCat("weights ok: ", digests.digests().tensors.size(), " tensors as in digest list ",
                      HexOf(digests.id()), "\n");
}

int RunVerify(const VerifyFlags& flags) {
  if (flags.weights.empty() != flags.digests.empty()) {
    return Report("verify", Refuse(Reason::kUsage, "--weights and --digests go together"));
  }
  const absl::StatusOr<Policy> policy = flags.policy.Resolve();
  if (!policy.ok()) return Report("verify", policy.status());
  const absl::StatusOr<PlanSource> source = ReadPlanSource(flags.path);
  if (!source.ok()) return Report("verify", source.status());
  const PlanInspection inspection = InspectPlan(source->file, *policy, source->signature);
  if (ReasonOf(inspection.verdict) == Reason::kOutOfMemory) return Report("verify", inspection.verdict);
  std::string text = absl::StrCat(flags.path, ": ", GatesText(inspection), "\n");
  if (!inspection.verdict.ok()) {
    absl::StrAppend(&text, "refused\n");
  } else {
    absl::StrAppend(&text, StandingText(*source, inspection.signer), ", plan id ", inspection.id, "\n");
  }
  if (inspection.signer.has_value()) {
    absl::StrAppend(&text, "key ", KeyIdText(inspection.signer->key_id), ", trusted comment ",
                    QuotedName(inspection.signer->trusted_comment), "\n");
  }
  absl::Status verdict = inspection.verdict;
  if (verdict.ok() && !flags.weights.empty()) {
    const absl::StatusOr<std::string> weights = VerifyWeights(flags, *inspection.plan);
    verdict = weights.status();
    absl::StrAppend(&text, weights.ok() ? *weights : "weights REFUSED\n");
  }
  const int printed = Print("verify", text);
  const int refused = Report("verify", verdict);
  return refused != 0 ? refused : printed;
}

// For those who only look: who signed a plan is asked, and nothing else.
absl::StatusOr<Policy> LookingPolicy(const std::string& trust) {
  Policy policy;
  policy.allow_unsigned_hosts = true;
  MESHSEAL_ASSIGN_OR_RETURN(policy.keyring, ReadTrust(trust));
  return policy;
}

struct InspectedFile {
  PlanSource source;
  PlanInspection inspection;

  std::string standing() const {
    if (!inspection.refused_at.has_value()) return StandingText(source, inspection.signer);
    return absl::StrCat("REFUSED at gate '", std::string(GateName(*inspection.refused_at)), "'");
  }
};

absl::StatusOr<InspectedFile> Inspect(const std::string& path, const Policy& policy) {
  InspectedFile inspected;
  MESHSEAL_ASSIGN_OR_RETURN(inspected.source, ReadPlanSource(path));
  inspected.inspection = InspectPlan(inspected.source.file, policy, inspected.source.signature);
  if (ReasonOf(inspected.inspection.verdict) == Reason::kOutOfMemory) return inspected.inspection.verdict;
  return inspected;
}

struct ShowFlags {
  std::string path;
  std::string trust;
  std::optional<uint32_t> rank;
  std::optional<uint32_t> layer;
  std::string format = "text";
  std::string field;
};

int RunShow(const ShowFlags& flags) {
  const absl::StatusOr<Policy> policy = LookingPolicy(flags.trust);
  if (!policy.ok()) return Report("show", policy.status());
  const absl::StatusOr<InspectedFile> inspected = Inspect(flags.path, *policy);
  if (!inspected.ok()) return Report("show", inspected.status());
  const PlanInspection& inspection = inspected->inspection;
  const bool json = flags.format == "json" || !flags.field.empty();
  const std::string standing = inspected->standing();
  int printed = 0;
  if (inspection.plan.has_value()) {
    const absl::StatusOr<std::string> text =
        json ? PlanJson(*inspection.plan, inspection.id, standing, flags.field)
             : ListPlan(*inspection.plan, inspection.id, standing, {flags.rank, flags.layer});
    if (!text.ok()) return Report("show", text.status());
    printed = Print("show", *text);
  } else if (!json) {
    printed = Print("show", absl::StrCat(flags.path, ": ", GatesText(inspection), "\n"));
  }
  const int refused = Report("show", inspection.verdict);
  return refused != 0 ? refused : printed;
}

struct DiffFlags {
  Both<std::string> paths;
  std::string trust;
  std::string format = "text";
};

PlanFile DescribeFile(const std::string& path, const InspectedFile& inspected) {
  const PlanInspection& inspection = inspected.inspection;
  PlanFile description;
  description.path = path;
  description.id = inspection.id;
  if (!inspection.id.empty()) description.serial = FactsOf(inspected.source.file).serial;
  description.standing = inspected.standing();
  if (inspection.plan.has_value()) {
    description.title = absl::StrCat(inspection.plan->model_name, " on ", inspection.plan->mesh.name);
  }
  return description;
}

int ReportRefused(const std::string& path, const absl::Status& verdict) {
  if (verdict.ok()) return 0;
  const std::string text = absl::StrCat(path, ": ", std::string(verdict.message()));
  return Report("diff", Refuse(ReasonOf(verdict).value_or(Reason::kBug), text));
}

int RunDiff(const DiffFlags& flags) {
  const absl::StatusOr<Policy> policy = LookingPolicy(flags.trust);
  if (!policy.ok()) return Report("diff", policy.status());
  const Both<absl::StatusOr<InspectedFile>> files = {Inspect(flags.paths.a, *policy), Inspect(flags.paths.b, *policy)};
  if (!files.a.ok()) return Report("diff", files.a.status());
  if (!files.b.ok()) return Report("diff", files.b.status());
  const Both<const PlanInspection*> read = {&files.a->inspection, &files.b->inspection};
  std::optional<PlanDiff> diff;
  if (read.a->plan.has_value() && read.b->plan.has_value()) diff = DiffPlans(*read.a->plan, *read.b->plan);
  const Both<PlanFile> described = {DescribeFile(flags.paths.a, *files.a), DescribeFile(flags.paths.b, *files.b)};
  const PlanDiff* found = diff.has_value() ? &*diff : nullptr;
  const int printed =
      Print("diff", flags.format == "json" ? PlanDiffJson(described, found) : PlanDiffText(described, found));
  const int refused_a = ReportRefused(flags.paths.a, read.a->verdict);
  const int refused_b = ReportRefused(flags.paths.b, read.b->verdict);
  if (refused_a != 0) return refused_a;
  if (refused_b != 0) return refused_b;
  if (printed != 0) return printed;
  return diff->relation == PlanRelation::kDifferent ? RowOf(Reason::kDiffers).exit_code : 0;
}

struct SimulateFlags {
  std::string path;
  std::string trust;
  std::string phase;
  std::optional<uint32_t> tokens;
  std::optional<uint32_t> layer;
  std::string calibrate;
  std::string format = "text";
};

absl::Status RunSimulate(const SimulateFlags& flags) {
  MESHSEAL_ASSIGN_OR_RETURN(const Policy policy, LookingPolicy(flags.trust));
  MESHSEAL_ASSIGN_OR_RETURN(const PlanSource source, ReadPlanSource(flags.path));
  MESHSEAL_ASSIGN_OR_RETURN(const SealedPlan plan, SealedPlan::Open(source.file, policy, source.signature));
  std::optional<Calibration> calibration;
  if (!flags.calibrate.empty()) {
    MESHSEAL_ASSIGN_OR_RETURN(const std::string lines, ReadSmallFile(flags.calibrate, "the lines of a bench",
                                                                     kMostCalibrationBytes, Reason::kUsage));
    MESHSEAL_ASSIGN_OR_RETURN(calibration, ParseCalibration(flags.calibrate, lines));
  }
  const Calibration* measured = calibration.has_value() ? &*calibration : nullptr;
  SimulationOptions options;
  options.phase = TermOf<Phase>(flags.phase);
  options.tokens = flags.tokens;
  options.layer = flags.layer;
  const std::string id = HexOf(plan.id());
  MESHSEAL_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(plan.plan(), id, options, measured));
  const std::string text = flags.format == "json" ? SimulationJson(plan.plan(), id, simulation, measured)
                                                  : SimulationText(plan.plan(), id, simulation, measured);
  return Print("simulate", text) == 0 ? absl::OkStatus() : Refuse(Reason::kUsage, "nothing was printed");
}

int Main(int argc, char** argv) {
  Program program("meshseal-plan");

  VerifyFlags verify;
  CLI::App& verify_command =
      program.Add("verify", {"verify tiny-ep4.mseal --min-serial 12", "verify tiny-ep4.mseal --trust keyring"},
                  [&verify] { return RunVerify(verify); });
  verify_command.add_option("PLAN", verify.path, "a sealed plan")->required();
  verify.policy.AddTo(verify_command);
  verify_command.add_option("--weights", verify.weights, "also a checkpoint: every tensor that a step reads is hashed");
  verify_command.add_option("--digests", verify.digests, "the digest list that the plan binds");

  KeygenFlags keygen;
  CLI::App& keygen_command = program.Add("keygen",
                                         {"keygen -p build-key.pub -s build-key.key",
                                          "keygen -p spare.pub -s spare.key --password --password-cost interactive"},
                                         [&keygen] { return Report("keygen", Keygen(keygen)); });
  keygen_command.add_option("-p,--public", keygen.public_path, "the public key to write; minisign reads it")
      ->required();
  keygen_command.add_option("-s,--secret", keygen.secret_path, "the secret key to write; minisign reads it")
      ->required();
  keygen_command.add_flag("--password", keygen.password, "encrypt the secret key; asked for, or a line of stdin");
  keygen_command
      .add_option("--password-cost", keygen.password_cost,
                  "memory for a try of a password: interactive (16 MiB) or sensitive (1 GiB)")
      ->check(CLI::IsMember({"interactive", "sensitive"}));

  SignFlags sign;
  CLI::App& sign_command = program.Add(
      "sign",
      {"sign -s build-key.key tiny-ep4.mseal", "sign -s build-key.key tiny-ep4.mseal --comment 'reviewed, serial 12'"},
      [&sign] { return Report("sign", Sign(sign)); });
  sign_command.add_option("PLAN", sign.plan_path, "a sealed plan; PLAN.minisig is written")->required();
  sign_command
      .add_option("-s,--secret", sign.secret_path, "the secret key; its password is asked for, or a line of stdin")
      ->required();
  sign_command.add_option("--comment", sign.comment, "the trusted comment, which is signed too");

  ShowFlags show;
  CLI::App& show_command =
      program.Add("show", {"show tiny-ep4.mseal --rank 3", "show tiny-ep4.mseal --field /degrees/ep"},
                  [&show] { return RunShow(show); });
  show_command.add_option("PLAN", show.path, "a sealed plan; of a refused one, what can be read is shown")->required();
  AddTrust(show_command, show.trust);
  show_command.add_option("--rank", show.rank, "list this rank's programs");
  show_command.add_option("--layer", show.layer, "list this layer's programs");
  show_command.add_option("--format", show.format, "text, or json (versioned, stable)")
      ->check(CLI::IsMember({"text", "json"}));
  show_command.add_option("--field", show.field,
                          "one field of the json form, as a JSON pointer such as /memory/0/total");

  DiffFlags diff;
  CLI::App& diff_command =
      program.Add("diff", {"diff tiny-ep4.mseal tiny-ep3.mseal", "diff tiny-ep4.mseal tiny-ep3.mseal --format json"},
                  [&diff] { return RunDiff(diff); });
  diff_command.add_option("A", diff.paths.a, "a sealed plan; of a refused one, what can be read is compared")
      ->required();
  diff_command.add_option("B", diff.paths.b, "the plan that would replace it")->required();
  AddTrust(diff_command, diff.trust);
  diff_command.add_option("--format", diff.format, "text, or json (versioned, stable)")
      ->check(CLI::IsMember({"text", "json"}));

  SimulateFlags simulate;
  CLI::App& simulate_command = program.Add(
      "simulate", {"simulate tiny-ep4.mseal", "simulate tiny-ep4.mseal --phase decode --tokens 8 --format json"},
      [&simulate] { return Report("simulate", RunSimulate(simulate)); });
  simulate_command.add_option("PLAN", simulate.path, "a sealed plan; all its ranks are played")->required();
  AddTrust(simulate_command, simulate.trust);
  simulate_command.add_option("--phase", simulate.phase, "decode or prefill; both, if not given")
      ->check(CLI::IsMember({"decode", "prefill"}));
  simulate_command.add_option("--tokens", simulate.tokens, "of each replica; the plan's step and chunk, if not given");
  simulate_command.add_option("--layer", simulate.layer, "this layer's program alone, as bench measures it");
  simulate_command.add_option("--calibrate", simulate.calibrate,
                              "bench.jsonl of `bench --format jsonl`: measured rates in place of the mesh's");
  simulate_command.add_option("--format", simulate.format, "text, or json (versioned, stable)")
      ->check(CLI::IsMember({"text", "json"}));

  return program.Main(argc, argv);
}

}  // namespace
}  // namespace meshseal::tools

int main(int argc, char** argv) { return meshseal::tools::RunMain(meshseal::tools::Main, argc, argv); }

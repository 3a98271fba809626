// meshseal-plan: verify, show, diff. Reads plans, never executes them.
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "schema/inspect.h"
#include "schema/plan_diff.h"
#include "schema/plan_diff_json.h"
#include "schema/plan_diff_text.h"
#include "schema/plan_json.h"
#include "schema/plan_text.h"
#include "schema/reason.h"
#include "schema/seal.h"
#include "schema/sealed_plan.h"
#include "tools/cli/policy_flags.h"
#include "tools/cli/program.h"

namespace meshseal::tools {
namespace {

struct VerifyFlags {
  std::string path;
  PolicyFlags policy;
};

int RunVerify(const VerifyFlags& flags) {
  const absl::StatusOr<Policy> policy = flags.policy.Resolve();
  if (!policy.ok()) return Report("verify", policy.status());
  const absl::StatusOr<std::string> file = ReadPlanFile(flags.path);
  if (!file.ok()) return Report("verify", file.status());
  const PlanInspection inspection = InspectPlan(*file, *policy);
  const std::string outcome =
      inspection.verdict.ok() ? absl::StrCat("sealed, not signed, plan id ", inspection.id) : "refused";
  const int printed = Print("verify", absl::StrCat(flags.path, ": ", GatesText(inspection), "\n", outcome, "\n"));
  const int refused = Report("verify", inspection.verdict);
  return refused != 0 ? refused : printed;
}

std::string StandingOf(const PlanInspection& inspection) {
  if (!inspection.refused_at.has_value()) return "sealed, not signed";
  return absl::StrCat("REFUSED at gate '", std::string(GateName(*inspection.refused_at)), "'");
}

struct ShowFlags {
  std::string path;
  std::optional<uint32_t> rank;
  std::optional<uint32_t> layer;
  std::string format = "text";
  std::string field;
};

int RunShow(const ShowFlags& flags) {
  const absl::StatusOr<std::string> file = ReadPlanFile(flags.path);
  if (!file.ok()) return Report("show", file.status());
  const PlanInspection inspection = InspectPlan(*file, Policy{});
  const bool json = flags.format == "json" || !flags.field.empty();
  const std::string standing = StandingOf(inspection);
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
  std::string format = "text";
};

PlanFile DescribeFile(const std::string& path, const std::string& file, const PlanInspection& inspection) {
  PlanFile description;
  description.path = path;
  description.id = inspection.id;
  if (!inspection.id.empty()) description.serial = FactsOf(file).serial;
  description.standing = StandingOf(inspection);
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
  const Both<absl::StatusOr<std::string>> files = {ReadPlanFile(flags.paths.a), ReadPlanFile(flags.paths.b)};
  if (!files.a.ok()) return Report("diff", files.a.status());
  if (!files.b.ok()) return Report("diff", files.b.status());
  const Both<PlanInspection> read = {InspectPlan(*files.a, Policy{}), InspectPlan(*files.b, Policy{})};
  std::optional<PlanDiff> diff;
  if (read.a.plan.has_value() && read.b.plan.has_value()) diff = DiffPlans(*read.a.plan, *read.b.plan);
  const Both<PlanFile> described = {DescribeFile(flags.paths.a, *files.a, read.a),
                                    DescribeFile(flags.paths.b, *files.b, read.b)};
  const PlanDiff* found = diff.has_value() ? &*diff : nullptr;
  const int printed =
      Print("diff", flags.format == "json" ? PlanDiffJson(described, found) : PlanDiffText(described, found));
  const int refused_a = ReportRefused(flags.paths.a, read.a.verdict);
  const int refused_b = ReportRefused(flags.paths.b, read.b.verdict);
  if (refused_a != 0) return refused_a;
  if (refused_b != 0) return refused_b;
  if (printed != 0) return printed;
  return diff->relation == PlanRelation::kDifferent ? RowOf(Reason::kDiffers).exit_code : 0;
}

int Main(int argc, char** argv) {
  Program program("meshseal-plan");

  VerifyFlags verify;
  CLI::App& verify_command = program.Add("verify", {"verify tiny-ep4.mseal", "verify tiny-ep4.mseal --min-serial 12"},
                                         [&verify] { return RunVerify(verify); });
  verify_command.add_option("PLAN", verify.path, "a sealed plan")->required();
  verify.policy.AddTo(verify_command);

  ShowFlags show;
  CLI::App& show_command =
      program.Add("show", {"show tiny-ep4.mseal --rank 3", "show tiny-ep4.mseal --field /degrees/ep"},
                  [&show] { return RunShow(show); });
  show_command.add_option("PLAN", show.path, "a sealed plan; of a refused one, what can be read is shown")->required();
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
  diff_command.add_option("--format", diff.format, "text, or json (versioned, stable)")
      ->check(CLI::IsMember({"text", "json"}));

  return program.Main(argc, argv);
}

}  // namespace
}  // namespace meshseal::tools

int main(int argc, char** argv) { return meshseal::tools::Main(argc, argv); }

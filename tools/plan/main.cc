// meshseal-plan: verify, show. Reads plans, never executes them.
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "schema/inspect.h"
#include "schema/plan_json.h"
#include "schema/plan_text.h"
#include "schema/reason.h"
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
  const std::string standing =
      inspection.refused_at.has_value()
          ? absl::StrCat("REFUSED at gate '", std::string(GateName(*inspection.refused_at)), "'")
          : "sealed, not signed";
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

  return program.Main(argc, argv);
}

}  // namespace
}  // namespace meshseal::tools

int main(int argc, char** argv) { return meshseal::tools::Main(argc, argv); }

// meshseal-compile: import, check, explain, compile, digest. The only program with a YAML reader in it.
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/check/rules.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/digest.h"
#include "compiler/import/import_model.h"
#include "compiler/text/render.h"
#include "schema/byte_text.h"
#include "schema/executors.h"
#include "schema/format_text.h"
#include "schema/nearest.h"
#include "schema/reason.h"
#include "schema/sealed_plan.h"
#include "tools/cli/program.h"
#include "tools/cli/progress.h"
#include "tools/cli/whole_file.h"

namespace meshseal::tools {
namespace {

constexpr int kRefusedExit = 1;

// Prints diagnostics: text to stderr, JSON to stdout.
void Show(const compiler::Diagnostics& diagnostics, bool json) {
  if (json) {
    std::fputs(compiler::RenderJson(diagnostics).c_str(), stdout);
    return;
  }
  compiler::TextOptions options;
  options.colour = WantsColour(STDERR_FILENO);
  std::fputs(compiler::RenderText(diagnostics, options).c_str(), stderr);
}

struct ImportFlags {
  std::string kind;
  std::vector<std::string> paths;
  bool config_only = false;
  std::string output = "-";
};

int RunImport(const ImportFlags& flags) {
  const bool hf = flags.kind == "hf";
  if (hf && flags.paths.size() != 1) return Report("import", Refuse(Reason::kUsage, "`import hf` takes one folder"));
  if (!hf && flags.config_only) {
    return Report("import", Refuse(Reason::kUsage, "--config-only: a GGUF file has its configuration inside"));
  }
  const absl::StatusOr<compiler::ImportResult> result =
      hf ? compiler::ImportHf(flags.paths[0], flags.config_only) : compiler::ImportGguf(flags.paths);
  if (ReasonOf(result.status()) == Reason::kWeightsLfsPointer) {
    std::fputs("note: --config-only needs no tensor file\n", stderr);
  }
  if (!result.ok()) return Report("import", result.status());
  if (!result->diagnostics.ok()) {
    Show(result->diagnostics, false);
    std::fprintf(stderr, "meshseal import: %zu %s, no manifest written\n", result->diagnostics.size(),
                 result->diagnostics.size() == 1 ? "error" : "errors");
    return kRefusedExit;
  }
  for (const std::string& fact : result->notes) std::fprintf(stderr, "note: not in a file: %s\n", fact.c_str());
  return Report("import", WriteWholeFile(flags.output, {result->text}));
}

struct CheckFlags {
  std::string path;
  std::string weights;
  std::string format = "text";
};

int RunCheck(const CheckFlags& flags) {
  const absl::StatusOr<compiler::CompileResult> result = compiler::CheckDocument(
      flags.path, flags.weights.empty() ? std::nullopt : std::optional<std::string>(flags.weights));
  if (!result.ok()) return Report("check", result.status());
  const bool json = flags.format == "json";
  if (json || !result->diagnostics.ok() || result->diagnostics.has_warnings()) Show(result->diagnostics, json);
  if (!result->diagnostics.ok()) {
    std::fprintf(stderr, "meshseal check: %zu %s in %s\n", result->diagnostics.size(),
                 result->diagnostics.size() == 1 ? "error" : "errors", flags.path.c_str());
    return kRefusedExit;
  }
  return json ? 0 : Print("check", absl::StrCat(flags.path, ": every rule holds\n"));
}

struct ExplainFlags {
  std::string rule;
  bool list = false;
};

std::string RuleList() {
  std::string text;
  for (const compiler::RuleRow& row : compiler::Rules()) {
    AppendFormat(&text, "%-24s %-7s %s\n", row.slug, row.stage, row.promise);
  }
  return text;
}

int RunExplain(const ExplainFlags& flags) {
  if (flags.list == !flags.rule.empty()) {
    return Report("explain", Refuse(Reason::kUsage, "expected a rule, or --list alone"));
  }
  if (flags.list) return Print("explain", RuleList());
  const compiler::RuleRow* row = compiler::FindRule(flags.rule);
  if (row == nullptr) {
    std::vector<absl::string_view> slugs;
    for (const compiler::RuleRow& known : compiler::Rules()) slugs.emplace_back(known.slug);
    const std::optional<absl::string_view> nearest = Nearest(flags.rule, slugs);
    return Report("explain", Refuse(Reason::kUsage,
                                    absl::StrCat("unknown rule '", flags.rule, "'",
                                                 nearest.has_value()
                                                     ? absl::StrCat(". Did you mean '", std::string(*nearest), "'?")
                                                     : "; --list prints them")));
  }
  return Print("explain", absl::StrCat(row->slug, " (stage ", row->stage, ")\n  ", row->promise,
                                       "\n  example: ", row->example, "\n"));
}

struct CompileFlags {
  std::string deployment;
  std::string output;
  std::string model;
  std::string mesh;
  std::string weights;
  std::string digests;
  std::string stop_after = "seal";
  uint64_t serial = 0;
  std::string executor;
  bool find_layout = false;
  bool explain_all = false;
  std::vector<std::pair<std::string, std::optional<uint64_t>>> degrees = {
      {"dp", {}}, {"pp", {}}, {"tp", {}}, {"ep", {}}, {"dense-tp", {}}};
  std::string placement;
  std::string reduction;
};

int RunCompile(const CompileFlags& flags) {
  compiler::CompileRequest request;
  request.deployment = flags.deployment;
  if (!flags.model.empty()) request.model = flags.model;
  if (!flags.mesh.empty()) request.mesh = flags.mesh;
  if (!flags.weights.empty()) request.weights = flags.weights;
  if (!flags.digests.empty()) request.digests = flags.digests;
  for (const auto& [field, value] : flags.degrees) {
    if (value.has_value()) request.overrides.push_back({field, absl::StrCat(*value)});
  }
  if (!flags.placement.empty()) request.overrides.push_back({"placement", flags.placement});
  if (!flags.reduction.empty()) request.overrides.push_back({"reduction", flags.reduction});
  request.serial = flags.serial;
  if (!flags.executor.empty()) request.executor = ExecutorNamed(flags.executor);
  request.find_layout = flags.find_layout;
  request.explain_all = flags.explain_all;
  request.stop_after = *compiler::StageOf(flags.stop_after);
  if (flags.explain_all && !flags.find_layout) {
    return Report("compile", Refuse(Reason::kUsage, "--explain-all is for --auto"));
  }
  // A search alone is asked for where no plan is to be written.
  if (flags.find_layout && flags.output.empty()) request.stop_after = compiler::Stage::kBudget;
  if (request.stop_after == compiler::Stage::kSeal && flags.output.empty()) {
    return Report("compile", Refuse(Reason::kUsage, "-o names the plan to write"));
  }
  const absl::StatusOr<compiler::CompileResult> result = compiler::Compile(request);
  if (!result.ok()) return Report("compile", result.status());
  if (!result->layouts.empty()) {
    if (const int printed = Print("compile", result->layouts); printed != 0) return printed;
  }
  if (!result->diagnostics.ok()) {
    Show(result->diagnostics, false);
    std::fprintf(stderr, "meshseal compile: %zu %s, no plan written\n", result->diagnostics.size(),
                 result->diagnostics.size() == 1 ? "error" : "errors");
    return kRefusedExit;
  }
  if (result->diagnostics.has_warnings()) Show(result->diagnostics, false);
  if (flags.find_layout && flags.output.empty()) return 0;
  if (request.stop_after != compiler::Stage::kSeal) return Print("compile", result->stage_text);
  if (const absl::Status written = WriteWholeFile(flags.output, {result->sealed}); !written.ok()) {
    return Report("compile", written);
  }
  std::fprintf(stderr, "sealed %s: %zu bytes, plan id %s\nnext: meshseal show %s\n", flags.output.c_str(),
               result->sealed.size(), HexOf(FactsOf(result->sealed).plan_id).c_str(), flags.output.c_str());
  return 0;
}

struct DigestFlags {
  std::string model;
  std::string weights;
  std::string output;
  uint64_t segments = 1;
  std::optional<uint64_t> shared_segments;
};

int RunDigest(const DigestFlags& flags) {
  compiler::DigestRequest request;
  request.model = flags.model;
  request.weights = flags.weights;
  request.segments = flags.segments;
  request.shared_segments = flags.shared_segments;
  request.threads = HashingThreads();
  const absl::StatusOr<compiler::DigestResult> result = [&request] {
    ReadingProgress progress;
    return compiler::Digest(request, [&progress](const HashProgress& hashed) { progress.Show(hashed); });
  }();
  if (!result.ok()) return Report("digest", result.status());
  if (!result->diagnostics.ok()) {
    Show(result->diagnostics, false);
    std::fprintf(stderr, "meshseal digest: %zu %s, no digest list written\n", result->diagnostics.size(),
                 result->diagnostics.size() == 1 ? "error" : "errors");
    return kRefusedExit;
  }
  if (const absl::Status written = WriteWholeFile(flags.output, {result->sealed}); !written.ok()) {
    return Report("digest", written);
  }
  const std::string text =
      absl::StrCat("sealed ", flags.output, ": ", result->tensors, " tensors, ", result->leaves, " leaves over ",
                   ByteText(result->bytes), ", digest list id ", HexOf(result->id),
                   "\nnext: meshseal compile DEPLOYMENT --digests ", flags.output, "\n");
  std::fputs(text.c_str(), stderr);
  return 0;
}

int Main(int argc, char** argv) {
  Program program("meshseal-compile");

  ImportFlags import;
  CLI::App& import_command = program.Add(
      "import",
      {"import hf tests/data/tiny-qwen3-moe -o tiny.yaml", "import hf tests/data/tiny-qwen3-moe --config-only"},
      [&import] { return RunImport(import); });
  import_command.add_option("KIND", import.kind, "hf: a folder with config.json; gguf: one file or a split set")
      ->required()
      ->check(CLI::IsMember({"hf", "gguf"}));
  import_command.add_option("PATH", import.paths, "the folder, or the files")->required();
  import_command.add_flag("--config-only", import.config_only, "open no tensor file");
  import_command.add_option("-o,--output", import.output, "the manifest to write; - is standard output");

  CheckFlags check;
  CLI::App& check_command = program.Add(
      "check",
      {"check manifests/deployments/tiny-ep4.yaml", "check manifests/models/tiny-qwen3-moe.yaml --format json"},
      [&check] { return RunCheck(check); });
  check_command.add_option("FILE", check.path, "a deployment, a model or a mesh")->required();
  check_command.add_option("--weights", check.weights, "a checkpoint: its headers are compared, no payload is read");
  check_command.add_option("--format", check.format, "text (to stderr) or json (to stdout)")
      ->check(CLI::IsMember({"text", "json"}));

  ExplainFlags explain;
  CLI::App& explain_command =
      program.Add("explain", {"explain tp-divides-ffn", "explain --list"}, [&explain] { return RunExplain(explain); });
  explain_command.add_option("RULE", explain.rule, "the slug in brackets behind an error");
  explain_command.add_flag("--list", explain.list, "print all rules");

  CompileFlags compile;
  CLI::App& compile_command = program.Add("compile",
                                          {"compile manifests/deployments/tiny-ep4.yaml --serial 12 -o tiny-ep4.mseal",
                                           "compile manifests/deployments/tiny-ep4.yaml --stop-after place"},
                                          [&compile] { return RunCompile(compile); });
  compile_command.add_option("DEPLOYMENT", compile.deployment, "the deployment document")->required();
  compile_command.add_option("-o,--output", compile.output, "the plan to write; - is standard output");
  compile_command.add_option("--model", compile.model, "instead of the deployment's model");
  compile_command.add_option("--mesh", compile.mesh, "instead of the deployment's mesh");
  compile_command.add_option("--weights", compile.weights,
                             "a checkpoint: its headers are compared, no payload is read");
  for (auto& [field, value] : compile.degrees) {
    compile_command.add_option("--" + field, value, "instead of the deployment's degree");
  }
  compile_command.add_option("--digests", compile.digests, "a digest list that the plan binds: see `meshseal digest`");
  compile_command.add_option("--placement", compile.placement,
                             "instead of the deployment's: contiguous, round_robin or balanced:load.json");
  compile_command.add_option("--reduction", compile.reduction, "instead of the deployment's: ordered or fast");
  compile_command.add_flag("--auto", compile.find_layout, "rank all degrees for the mesh; with -o, compile the best");
  compile_command.add_flag("--explain-all", compile.explain_all, "with --auto: also what refuses the others");
  compile_command.add_option("--serial", compile.serial, "number of this plan in its stream, for rollback policy");
  compile_command.add_option("--executor", compile.executor, "refuse what this executor does not execute")
      ->check(CLI::IsMember(ExecutorNames()));
  compile_command
      .add_option("--stop-after", compile.stop_after,
                  absl::StrCat("print a stage and stop: ", absl::StrJoin(compiler::StageNames(), ", ")))
      ->check(CLI::IsMember(compiler::StageNames()));

  DigestFlags digest;
  CLI::App& digest_command = program.Add(
      "digest",
      {"digest manifests/models/tiny-qwen3-moe.yaml --weights tests/data/tiny-qwen3-moe -o tiny.mseal-digests",
       "digest manifests/models/tiny-qwen3-moe.yaml --weights tests/data/tiny-qwen3-moe --segments 2 -o "
       "tiny-2.mseal-digests"},
      [&digest] { return RunDigest(digest); });
  digest_command.add_option("MODEL", digest.model, "the model document")->required();
  digest_command.add_option("--weights", digest.weights, "the checkpoint: every tensor that a step reads is hashed")
      ->required();
  digest_command.add_option("-o,--output", digest.output, "the digest list to write; - is standard output")->required();
  digest_command.add_option("--segments", digest.segments,
                            "parts of every expert's columns; a plan is cut between them");
  digest_command.add_option("--shared-segments", digest.shared_segments,
                            "parts of the shared expert's columns; as many by default");

  return program.Main(argc, argv);
}

}  // namespace
}  // namespace meshseal::tools

int main(int argc, char** argv) { return meshseal::tools::RunMain(meshseal::tools::Main, argc, argv); }

#include "compiler/driver/compile.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/budget/memory_plan.h"
#include "compiler/check/checked_model.h"
#include "compiler/check/tensor_table.h"
#include "compiler/driver/all_degrees.h"
#include "compiler/driver/bind_digests.h"
#include "compiler/driver/degree_help.h"
#include "compiler/driver/document.h"
#include "compiler/driver/executor_advice.h"
#include "compiler/driver/layout_search.h"
#include "compiler/driver/link_advice.h"
#include "compiler/emit/emit.h"
#include "compiler/lowering/plan_draft.h"
#include "compiler/manifest/read_manifest.h"
#include "compiler/placement/placement.h"
#include "schema/byte_text.h"
#include "schema/checkpoint_listing.h"
#include "schema/format_text.h"
#include "schema/load_profile.h"
#include "schema/mesh_view.h"
#include "schema/plan_text.h"
#include "schema/reason.h"
#include "schema/sealed_digests.h"
#include "schema/status_macros.h"
#include "schema/within_memory.h"

namespace meshseal::compiler {
namespace {

constexpr const char* kStageNames[] = {
#define MESHSEAL_STAGE(enumerator, name, result) name,
#include "compiler/driver/stages.def"
#undef MESHSEAL_STAGE
};

// A path in a document is relative to the document.
std::string Beside(const SourceFile& file, const std::string& path) {
  const std::filesystem::path relative(path);
  if (relative.is_absolute()) return path;
  return (std::filesystem::path(file.path()).parent_path() / relative).lexically_normal().string();
}

constexpr absl::string_view kBalanced = "balanced:";

void OverrideDegree(const Override& flag, Span span, Deployment& deployment, Diagnostics& diagnostics) {
  Spanned<uint64_t>* field = flag.field == "dp"   ? &deployment.dp
                             : flag.field == "pp" ? &deployment.pp
                             : flag.field == "tp" ? &deployment.tp
                             : flag.field == "ep" ? &deployment.ep
                                                  : &deployment.dense_tp;
  uint64_t value = 0;
  if (!absl::SimpleAtoi(flag.value, &value)) {
    diagnostics.Error("bad-integer", span,
                      absl::StrCat("--", flag.field, ": expected a whole number, found '", flag.value, "'"));
  } else if (value == 0 || value > kMostRanks) {
    diagnostics.Error("out-of-range", span,
                      absl::StrCat("--", flag.field, ": ", value,
                                   value == 0 ? " is below 1" : absl::StrCat(" is above ", kMostRanks)));
  }
  *field = {value, span};
  deployment.parallel_span = span;
}

void OverrideWord(const Override& flag, Span span, Deployment& deployment, Diagnostics& diagnostics) {
  const absl::string_view word = flag.value;
  if (flag.field == "reduction") {
    const std::optional<Reduction> reduction = TermOf<Reduction>(word);
    if (reduction == Reduction::kOrdered || reduction == Reduction::kFast) {
      deployment.reduction = {*reduction, span};
      deployment.exact_bound = {};
      deployment.exact_segments = {};
      deployment.exact_shared_segments = {};
      return;
    }
    diagnostics.Error("unknown-value", span,
                      absl::StrCat("--reduction: expected ordered or fast, found '", flag.value,
                                   "'; exact has a bound and segments, which the deployment says"));
    return;
  }
  const bool balanced = absl::StartsWith(word, kBalanced) && word.size() > kBalanced.size();
  const std::optional<ExpertPlacement> placement =
      balanced ? ExpertPlacement::kBalanced : TermOf<ExpertPlacement>(word);
  if (!placement.has_value() || (*placement == ExpertPlacement::kBalanced) != balanced) {
    diagnostics.Error(
        "unknown-value", span,
        absl::StrCat("--placement: expected contiguous, round_robin or balanced:FILE, found '", flag.value, "'"));
    return;
  }
  deployment.placement = {*placement, span};
  deployment.profile = {};
  if (!balanced) return;
  std::error_code error;
  const std::filesystem::path profile = std::filesystem::absolute(flag.value.substr(kBalanced.size()), error);
  if (error) {
    diagnostics.Error("profile-is-readable", span, absl::StrCat("there is no working directory: ", error.message()));
  }
  deployment.profile = {profile.string(), span};
}

// The flags as a file of their own, so that messages can point at them.
absl::Status ApplyOverrides(const std::vector<Override>& overrides, Deployment& deployment, CompileResult& result) {
  if (overrides.empty()) return absl::OkStatus();
  std::string line;
  std::vector<std::pair<size_t, size_t>> places;
  for (const Override& flag : overrides) {
    absl::StrAppend(&line, line.empty() ? "--" : " --", flag.field, " ");
    places.emplace_back(line.size(), flag.value.size());
    line += flag.value;
  }
  MESHSEAL_ASSIGN_OR_RETURN(std::unique_ptr<const SourceFile> flags, SourceFile::FromText("(flags)", line));
  for (size_t i = 0; i < overrides.size(); ++i) {
    const Span span = flags->At(places[i].first, places[i].second);
    const bool word = overrides[i].field == "placement" || overrides[i].field == "reduction";
    (word ? OverrideWord : OverrideDegree)(overrides[i], span, deployment, result.diagnostics);
  }
  SetDenseTp(deployment.dense_tp.value, deployment);
  result.files.push_back(std::move(flags));
  return absl::OkStatus();
}

// The load profile that a deployment with balanced experts names.
void ReadProfile(const Document& document, const Spanned<std::string>& path, CompileResult& result, Inputs& inputs) {
  const std::string profile_path = Beside(*document.file, path.value);
  const auto read = [&profile_path]() -> absl::StatusOr<LoadProfileFile> {
    MESHSEAL_RETURN_IF_ERROR(CheckFileName(profile_path));
    return ReadLoadProfile(profile_path);
  };
  absl::StatusOr<LoadProfileFile> file = read();
  if (!file.ok()) {
    result.diagnostics.Error("profile-is-readable", path.span, std::string(file.status().message()));
    return;
  }
  inputs.profile = *std::move(file);
}

// The documents of a deployment that is already read as YAML; nothing when one of them was refused.
absl::StatusOr<std::optional<Inputs>> ReadInputs(const Document& document, const CompileRequest& request,
                                                 CompileResult& result) {
  Inputs inputs;
  Diagnostics& diagnostics = result.diagnostics;
  if (!Is(document, DocumentKind::kDeployment, "deployment", diagnostics)) return std::optional<Inputs>();
  std::optional<Deployment> deployment = ReadDeployment(*document.file, *document.root, diagnostics);
  // What the deployment names can be looked at even when the deployment itself is refused, if only its paths are known.
  if (!deployment.has_value() && !(request.model.has_value() && request.mesh.has_value()))
    return std::optional<Inputs>();
  const auto path_of = [&](const std::optional<std::string>& flag, const auto& named) {
    return flag.has_value() ? *flag : Beside(*document.file, named.value);
  };
  const Deployment named = deployment.value_or(Deployment{});
  MESHSEAL_ASSIGN_OR_RETURN(const Document model,
                            OpenDocument(path_of(request.model, named.model_path), result.files, diagnostics));
  MESHSEAL_ASSIGN_OR_RETURN(const Document mesh,
                            OpenDocument(path_of(request.mesh, named.mesh_path), result.files, diagnostics));
  if (Is(model, DocumentKind::kModel, "model", diagnostics)) {
    if (auto read = ReadManifest(*model.file, *model.root, diagnostics)) inputs.model = std::move(*read);
  }
  if (Is(mesh, DocumentKind::kMesh, "mesh", diagnostics)) {
    if (auto read = ReadMesh(*mesh.file, *mesh.root, diagnostics)) inputs.mesh = std::move(*read);
  }
  if (deployment.has_value()) {
    inputs.deployment = std::move(*deployment);
    MESHSEAL_RETURN_IF_ERROR(ApplyOverrides(request.overrides, inputs.deployment, result));
    const Deployment& d = inputs.deployment;
    if (d.placement.value == ExpertPlacement::kBalanced) ReadProfile(document, d.profile, result, inputs);
  }
  if (!diagnostics.ok()) return std::optional<Inputs>();
  return std::optional<Inputs>(std::move(inputs));
}

std::string PlacementText(const CheckedModel& checked, const Placement& placement) {
  std::string text;
  for (uint32_t rank = 0; rank < placement.rank_slots().size(); ++rank) {
    const Coordinate at = CoordinateOf(placement.degrees(), rank);
    const RankSlot& slot = placement.rank_slots()[rank];
    AppendFormat(&text, "rank %d (%s) node %s slot %d: layers [%d,%d)", rank, CoordinateText(at),
                 checked.mesh().nodes[slot.node].name.value, slot.slot,
                 at.pp == 0 ? 0 : placement.stage_ends()[at.pp - 1], placement.stage_ends()[at.pp]);
    for (const ClassPlacement& owned : placement.classes()) {
      std::vector<uint32_t> experts;
      for (uint32_t expert = 0; expert < owned.owners.shards.size(); ++expert) {
        if (owned.owners.shards[expert].owner == at.ep) experts.push_back(expert);
      }
      for (const ExpertCopy& copy : owned.owners.copies) {
        if (copy.owner == at.ep) experts.push_back(copy.expert);
      }
      std::sort(experts.begin(), experts.end());
      uint32_t first_column = 0;
      for (uint32_t tp = 0; tp < at.tp; ++tp) first_column += owned.ColumnsOf(tp);
      AppendFormat(&text, " experts %s columns [%d,%d)", RangesText(experts), first_column,
                   first_column + owned.ColumnsOf(at.tp));
    }
    text += "\n";
  }
  return text;
}

std::string MemoryText(const MemoryPlan& memory) {
  std::string text;
  for (uint32_t rank = 0; rank < memory.ranks().size(); ++rank) {
    const RankMemory& m = memory.ranks()[rank];
    absl::StrAppend(&text, "rank ", rank, ": ", LinesText(m), ": ", ByteText(m.total), " of ", ByteText(m.budget),
                    "\n");
  }
  return text;
}

// The model against the headers of its checkpoint, once its own rules hold.
absl::Status CheckFiles(const Manifest& model, const std::optional<std::string>& weights, Diagnostics& diagnostics) {
  if (!weights.has_value()) return absl::OkStatus();
  MESHSEAL_ASSIGN_OR_RETURN(const CheckpointListing files, CheckpointListing::Open(*weights));
  CheckTensorTable(model, files, diagnostics);
  return absl::OkStatus();
}

// The digest list that the plan is to bind, and its id in `inputs`.
absl::StatusOr<std::optional<SealedDigests>> ReadDigests(const CompileRequest& request, Inputs& inputs) {
  if (!request.digests.has_value()) return std::nullopt;
  MESHSEAL_ASSIGN_OR_RETURN(const std::string file, ReadDigestsFile(*request.digests));
  MESHSEAL_ASSIGN_OR_RETURN(SealedDigests digests, SealedDigests::Open(file));
  inputs.weights_digest = digests.id();
  return std::optional<SealedDigests>(std::move(digests));
}

// All stages after reading, as far as asked for.
absl::Status RunStages(const Inputs& inputs, const std::optional<SealedDigests>& digests, const CompileRequest& request,
                       CompileResult& result) {
  const std::optional<CheckedModel> checked = Check(inputs, result.diagnostics);
  if (!checked.has_value()) {
    AddDegreeHelp(inputs, result.diagnostics);
    return absl::OkStatus();
  }
  MESHSEAL_RETURN_IF_ERROR(CheckFiles(checked->model(), request.weights, result.diagnostics));
  if (!result.diagnostics.ok()) return absl::OkStatus();
  if (request.stop_after == Stage::kCheck) {
    result.stage_text = "every rule of the check stage holds\n";
    return absl::OkStatus();
  }
  const Placement placement = Place(*checked);
  if (digests.has_value()) CheckDigests(*checked, placement, digests->digests(), result.diagnostics);
  if (!result.diagnostics.ok()) return absl::OkStatus();
  if (request.stop_after == Stage::kPlace) {
    result.stage_text = PlacementText(*checked, placement);
    return absl::OkStatus();
  }
  const std::optional<MemoryPlan> memory = Budget(*checked, placement, result.diagnostics);
  if (!memory.has_value()) {
    AddDegreeHelp(inputs, result.diagnostics);
    return absl::OkStatus();
  }
  WarnOfSlowLinks(*checked, placement, result.diagnostics);
  const PlanDraft draft = Lower(*checked, placement, *memory);
  CheckExecutor(*checked, draft.plan(), request.executor, result.diagnostics);
  if (!result.diagnostics.ok()) return absl::OkStatus();
  if (request.stop_after == Stage::kBudget) {
    result.stage_text = MemoryText(*memory);
    return absl::OkStatus();
  }
  if (request.stop_after == Stage::kLower) {
    MESHSEAL_ASSIGN_OR_RETURN(result.stage_text, ListPlan(draft.plan(), "(none yet)", "not sealed", {}));
    return absl::OkStatus();
  }
  MESHSEAL_ASSIGN_OR_RETURN(result.sealed, Emit(draft, request.serial));
  return absl::OkStatus();
}

constexpr size_t kMostLayouts = 16;  // a screenful

// Searches all layouts and sets the deployment to the best one.
void ChooseLayout(const CompileRequest& request, Inputs& inputs, CompileResult& result) {
  const std::optional<CheckedDocuments> documents = CheckDocuments(inputs, result.diagnostics);
  if (!documents.has_value()) return;
  const LayoutSearch search = FindLayouts(*documents);
  result.layouts = LayoutText(search, kMostLayouts, request.explain_all);
  const Layout& chosen = search.layouts.front();
  Deployment& d = inputs.deployment;
  d.dp.value = chosen.degrees.dp;
  d.pp.value = chosen.degrees.pp;
  d.tp.value = chosen.degrees.tp;
  d.ep.value = chosen.degrees.ep;
  SetDenseTp(chosen.degrees.dense_tp, d);
  d.idle.value = chosen.idle;
}

}  // namespace

std::vector<std::string> StageNames() { return {std::begin(kStageNames), std::end(kStageNames)}; }

std::optional<Stage> StageOf(absl::string_view name) {
  for (size_t i = 0; i < std::size(kStageNames); ++i) {
    if (name == kStageNames[i]) return static_cast<Stage>(i);
  }
  return std::nullopt;
}

absl::StatusOr<CompileResult> Compile(const CompileRequest& request) {
  return WithinMemory([&]() -> absl::StatusOr<CompileResult> {
    CompileResult result;
    MESHSEAL_ASSIGN_OR_RETURN(const Document document,
                              OpenDocument(request.deployment, result.files, result.diagnostics));
    MESHSEAL_ASSIGN_OR_RETURN(std::optional<Inputs> inputs, ReadInputs(document, request, result));
    if (!inputs.has_value()) return result;
    MESHSEAL_ASSIGN_OR_RETURN(const std::optional<SealedDigests> digests, ReadDigests(request, *inputs));
    if (request.find_layout) ChooseLayout(request, *inputs, result);
    if (!result.diagnostics.ok()) return result;
    if (request.stop_after == Stage::kRead) {
      result.stage_text = absl::StrCat("read ", inputs->deployment.name, ": model ", inputs->model.name.value,
                                       ", mesh ", inputs->mesh.name.value, "\n");
      return result;
    }
    MESHSEAL_RETURN_IF_ERROR(RunStages(*inputs, digests, request, result));
    return result;
  });
}

absl::StatusOr<CompileResult> CheckDocument(const std::string& path, const std::optional<std::string>& weights) {
  return WithinMemory([&]() -> absl::StatusOr<CompileResult> {
    CompileResult result;
    MESHSEAL_ASSIGN_OR_RETURN(const Document document, OpenDocument(path, result.files, result.diagnostics));
    if (!document.root.has_value()) return result;
    const std::optional<DocumentKind> kind = KindOf(*document.root, result.diagnostics);
    if (!kind.has_value()) return result;
    switch (*kind) {
      case DocumentKind::kModel:
        if (const auto model = ReadManifest(*document.file, *document.root, result.diagnostics)) {
          CheckManifest(*model, result.diagnostics);
          if (!result.diagnostics.ok()) break;
          MESHSEAL_RETURN_IF_ERROR(CheckFiles(*model, weights, result.diagnostics));
        }
        break;
      case DocumentKind::kMesh:
        if (weights.has_value())
          return Refuse(Reason::kUsage, "--weights is for a model or a deployment, this is a mesh");
        if (const auto mesh = ReadMesh(*document.file, *document.root, result.diagnostics)) {
          CheckMesh(*mesh, result.diagnostics);
        }
        break;
      case DocumentKind::kDeployment: {
        CompileRequest request;
        request.deployment = path;
        request.weights = weights;
        request.stop_after = Stage::kBudget;
        MESHSEAL_ASSIGN_OR_RETURN(const std::optional<Inputs> inputs, ReadInputs(document, request, result));
        if (inputs.has_value()) MESHSEAL_RETURN_IF_ERROR(RunStages(*inputs, std::nullopt, request, result));
        break;
      }
    }
    return result;
  });
}

}  // namespace meshseal::compiler

#include "compiler/driver/compile.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/budget/memory_plan.h"
#include "compiler/check/checked_model.h"
#include "compiler/check/tensor_table.h"
#include "compiler/driver/degree_help.h"
#include "compiler/driver/layout_search.h"
#include "compiler/emit/emit.h"
#include "compiler/lowering/plan_draft.h"
#include "compiler/manifest/read_manifest.h"
#include "compiler/placement/placement.h"
#include "compiler/yaml/yaml.h"
#include "schema/byte_text.h"
#include "schema/checkpoint_listing.h"
#include "schema/mesh_view.h"
#include "schema/plan_text.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::compiler {
namespace {

constexpr const char* kStageNames[] = {
#define MESHSEAL_STAGE(enumerator, name, result) name,
#include "compiler/driver/stages.def"
#undef MESHSEAL_STAGE
};

// A document's file and tree; no tree when the YAML was refused.
struct Document {
  const SourceFile* file = nullptr;
  std::optional<YamlNode> root;
};

absl::StatusOr<Document> Open(const std::string& path, CompileResult& result) {
  Document document;
  MESHSEAL_ASSIGN_OR_RETURN(std::unique_ptr<const SourceFile> file, SourceFile::Read(path));
  document.file = file.get();
  result.files.push_back(std::move(file));
  document.root = ReadYaml(*document.file, result.diagnostics);
  return document;
}

// Whether the document is of `kind`; reports it when it is of another.
bool Is(const Document& document, DocumentKind kind, absl::string_view expected, Diagnostics& diagnostics) {
  if (!document.root.has_value()) return false;
  const std::optional<DocumentKind> found = KindOf(*document.root, diagnostics);
  if (!found.has_value()) return false;
  if (*found == kind) return true;
  diagnostics.Error(
      "document-kind", document.root->span(),
      absl::StrCat("this document is no ", std::string(expected), ": it has no key '", std::string(expected), "'"));
  return false;
}

// A path in a document is relative to the document.
std::string Beside(const SourceFile& file, const std::string& path) {
  const std::filesystem::path relative(path);
  if (relative.is_absolute()) return path;
  return (std::filesystem::path(file.path()).parent_path() / relative).lexically_normal().string();
}

// The flags as a file of their own, so that messages can point at them.
absl::Status ApplyOverrides(const std::vector<Override>& overrides, Deployment& deployment, CompileResult& result) {
  if (overrides.empty()) return absl::OkStatus();
  std::string line;
  std::vector<std::pair<size_t, size_t>> places;
  for (const Override& override_of : overrides) {
    absl::StrAppend(&line, line.empty() ? "--" : " --", override_of.field, " ");
    const std::string value = absl::StrCat(override_of.value);
    places.emplace_back(line.size(), value.size());
    line += value;
  }
  MESHSEAL_ASSIGN_OR_RETURN(std::unique_ptr<const SourceFile> flags, SourceFile::FromText("(flags)", line));
  for (size_t i = 0; i < overrides.size(); ++i) {
    Spanned<uint64_t>* field = overrides[i].field == "dp"   ? &deployment.dp
                               : overrides[i].field == "pp" ? &deployment.pp
                               : overrides[i].field == "tp" ? &deployment.tp
                               : overrides[i].field == "ep" ? &deployment.ep
                                                            : &deployment.dense_tp;
    const Span span = flags->At(places[i].first, places[i].second);
    *field = {overrides[i].value, span};
    deployment.parallel_span = span;
    if (overrides[i].value == 0) {
      result.diagnostics.Error("out-of-range", span, absl::StrCat("--", overrides[i].field, ": 0 is below 1"));
    }
  }
  result.files.push_back(std::move(flags));
  return absl::OkStatus();
}

// The three documents of a deployment that is already read as YAML; nothing when one of them was refused.
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
  MESHSEAL_ASSIGN_OR_RETURN(const Document model, Open(path_of(request.model, named.model_path), result));
  MESHSEAL_ASSIGN_OR_RETURN(const Document mesh, Open(path_of(request.mesh, named.mesh_path), result));
  if (Is(model, DocumentKind::kModel, "model", diagnostics)) {
    if (auto read = ReadManifest(*model.file, *model.root, diagnostics)) inputs.model = std::move(*read);
  }
  if (Is(mesh, DocumentKind::kMesh, "mesh", diagnostics)) {
    if (auto read = ReadMesh(*mesh.file, *mesh.root, diagnostics)) inputs.mesh = std::move(*read);
  }
  if (deployment.has_value()) {
    inputs.deployment = std::move(*deployment);
    MESHSEAL_RETURN_IF_ERROR(ApplyOverrides(request.overrides, inputs.deployment, result));
  }
  if (!diagnostics.ok()) return std::optional<Inputs>();
  return std::optional<Inputs>(std::move(inputs));
}

std::string PlacementText(const CheckedModel& checked, const Placement& placement) {
  std::string text;
  for (uint32_t rank = 0; rank < placement.rank_slots().size(); ++rank) {
    const Coordinate at = CoordinateOf(placement.degrees(), rank);
    const RankSlot& slot = placement.rank_slots()[rank];
    absl::StrAppendFormat(&text, "rank %d (%s) node %s slot %d: layers [%d,%d)", rank, CoordinateText(at),
                          checked.mesh().nodes[slot.node].name.value, slot.slot,
                          at.pp == 0 ? 0 : placement.stage_ends()[at.pp - 1], placement.stage_ends()[at.pp]);
    for (const GroupPlacement& group : placement.groups()) {
      std::vector<uint32_t> experts;
      for (uint32_t expert = 0; expert < group.expert_shards.size(); ++expert) {
        if (group.expert_shards[expert].owner == at.ep) experts.push_back(expert);
      }
      uint32_t first_column = 0;
      for (uint32_t tp = 0; tp < at.tp; ++tp) first_column += group.ColumnsOf(tp);
      absl::StrAppendFormat(&text, " experts %s columns [%d,%d)", RangesText(experts), first_column,
                            first_column + group.ColumnsOf(at.tp));
    }
    text += "\n";
  }
  return text;
}

std::string MemoryText(const MemoryPlan& memory) {
  std::string text;
  for (uint32_t rank = 0; rank < memory.ranks().size(); ++rank) {
    const RankMemory& m = memory.ranks()[rank];
    absl::StrAppend(&text, "rank ", rank, ": weights ", ByteText(m.weights), ", not MoE ", ByteText(m.other), ", work ",
                    ByteText(m.work), ", collective ", ByteText(m.collective), ", sessions ", ByteText(m.sessions),
                    ": ", ByteText(m.total), " of ", ByteText(m.budget), "\n");
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

// All stages after reading, as far as asked for.
absl::Status RunStages(const Inputs& inputs, const CompileRequest& request, CompileResult& result) {
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
  if (request.stop_after == Stage::kPlace) {
    result.stage_text = PlacementText(*checked, placement);
    return absl::OkStatus();
  }
  const std::optional<MemoryPlan> memory = Budget(*checked, placement, result.diagnostics);
  if (!memory.has_value()) {
    AddDegreeHelp(inputs, result.diagnostics);
    return absl::OkStatus();
  }
  if (request.stop_after == Stage::kBudget) {
    result.stage_text = MemoryText(*memory);
    return absl::OkStatus();
  }
  const std::optional<PlanDraft> draft = Lower(*checked, placement, *memory, result.diagnostics);
  if (!draft.has_value()) return absl::OkStatus();
  if (request.stop_after == Stage::kLower) {
    MESHSEAL_ASSIGN_OR_RETURN(result.stage_text, ListPlan(draft->plan(), "(none yet)", "not sealed", {}));
    return absl::OkStatus();
  }
  MESHSEAL_ASSIGN_OR_RETURN(result.sealed, Emit(*draft, request.serial));
  return absl::OkStatus();
}

constexpr size_t kMostLayouts = 16;  // a screenful

// Searches all layouts and sets the deployment to the best one that programs execute, or else to the best one.
void ChooseLayout(const CompileRequest& request, Inputs& inputs, CompileResult& result) {
  CheckManifest(inputs.model, result.diagnostics);
  CheckMesh(inputs.mesh, result.diagnostics);
  if (!result.diagnostics.ok()) return;
  const LayoutSearch search = FindLayouts(inputs);
  result.layouts = LayoutText(search, kMostLayouts, request.explain_all);
  const auto executable = std::find_if(search.layouts.begin(), search.layouts.end(),
                                       [](const Layout& layout) { return layout.executable; });
  const Layout& chosen = executable == search.layouts.end() ? search.layouts.front() : *executable;
  Deployment& d = inputs.deployment;
  d.dp.value = chosen.degrees.dp;
  d.pp.value = chosen.degrees.pp;
  d.tp.value = chosen.degrees.tp;
  d.ep.value = chosen.degrees.ep;
  d.dense_tp.value = chosen.degrees.dense_tp;
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
  CompileResult result;
  MESHSEAL_ASSIGN_OR_RETURN(const Document document, Open(request.deployment, result));
  MESHSEAL_ASSIGN_OR_RETURN(std::optional<Inputs> inputs, ReadInputs(document, request, result));
  if (!inputs.has_value()) return result;
  if (request.find_layout) ChooseLayout(request, *inputs, result);
  if (!result.diagnostics.ok()) return result;
  if (request.stop_after == Stage::kRead) {
    result.stage_text = absl::StrCat("read ", inputs->deployment.name, ": model ", inputs->model.name.value, ", mesh ",
                                     inputs->mesh.name.value, "\n");
    return result;
  }
  MESHSEAL_RETURN_IF_ERROR(RunStages(*inputs, request, result));
  return result;
}

absl::StatusOr<CompileResult> CheckDocument(const std::string& path, const std::optional<std::string>& weights) {
  CompileResult result;
  MESHSEAL_ASSIGN_OR_RETURN(const Document document, Open(path, result));
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
      if (inputs.has_value()) MESHSEAL_RETURN_IF_ERROR(RunStages(*inputs, request, result));
      break;
    }
  }
  return result;
}

}  // namespace meshseal::compiler

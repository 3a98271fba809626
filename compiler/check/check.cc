#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "compiler/check/checked_model.h"
#include "compiler/check/rules.h"

namespace meshseal::compiler {
namespace {

// A row of the table, and the function behind it where the check stage has one.
struct Rule {
  RuleRow row;
  void (*model)(absl::string_view, const Manifest&, Diagnostics&) = nullptr;
  void (*group)(absl::string_view, const Manifest&, const LayerGroup&, Diagnostics&) = nullptr;
  void (*mesh)(absl::string_view, const MeshSpec&, Diagnostics&) = nullptr;
  void (*deployment)(absl::string_view, const Inputs&, Diagnostics&) = nullptr;
};

constexpr Rule kRules[] = {
#define MESHSEAL_READ_RULE(slug, promise, example) {{slug, "read", promise, example, false}},
#define MESHSEAL_FILE_RULE(slug, promise, example) {{slug, "files", promise, example, false}},
#define MESHSEAL_BUDGET_RULE(slug, promise, example) {{slug, "budget", promise, example, true}},
#define MESHSEAL_WARNING_RULE(slug, promise, example) {{slug, "budget", promise, example, false}},
#define MESHSEAL_MODEL_RULE(Function, slug, promise, example) \
  {{slug, "check", promise, example, false}, rules::Function, nullptr, nullptr, nullptr},
#define MESHSEAL_GROUP_RULE(Function, slug, promise, example) \
  {{slug, "check", promise, example, false}, nullptr, rules::Function, nullptr, nullptr},
#define MESHSEAL_MESH_RULE(Function, slug, promise, example) \
  {{slug, "check", promise, example, false}, nullptr, nullptr, rules::Function, nullptr},
#define MESHSEAL_DEPLOYMENT_RULE(Function, slug, promise, example) \
  {{slug, "check", promise, example, false}, nullptr, nullptr, nullptr, rules::Function},
#define MESHSEAL_DEGREE_RULE(Function, slug, promise, example) \
  {{slug, "check", promise, example, true}, nullptr, nullptr, nullptr, rules::Function},
#include "compiler/check/rules.def"
#undef MESHSEAL_DEGREE_RULE
#undef MESHSEAL_DEPLOYMENT_RULE
#undef MESHSEAL_MESH_RULE
#undef MESHSEAL_GROUP_RULE
#undef MESHSEAL_MODEL_RULE
#undef MESHSEAL_BUDGET_RULE
#undef MESHSEAL_WARNING_RULE
#undef MESHSEAL_FILE_RULE
#undef MESHSEAL_READ_RULE
};

// Groups of layers share most of what is written: what is wrong with it is told once.
void AddOnce(Diagnostics found, Diagnostics& diagnostics) {
  std::set<std::tuple<const SourceFile*, uint32_t, uint32_t, std::string, std::string>> told;
  for (Diagnostic& error : found.errors()) {
    if (!told.emplace(error.span.file, error.span.line, error.span.column, error.rule, error.text).second) continue;
    Diagnostic& added = diagnostics.Error(error.rule, error.span, error.text);
    added.notes = std::move(error.notes);
    added.help = std::move(error.help);
  }
}

// The rules over all three documents; whether all hold.
bool CheckTogether(const Inputs& inputs, Diagnostics& diagnostics) {
  Diagnostics found;
  for (const Rule& rule : kRules) {
    if (rule.deployment != nullptr) rule.deployment(rule.row.slug, inputs, found);
  }
  const bool ok = found.ok();
  AddOnce(std::move(found), diagnostics);
  return ok;
}

}  // namespace

absl::Span<const RuleRow> Rules() {
  static const auto* const rows = [] {
    auto* all = new std::vector<RuleRow>;
    for (const Rule& rule : kRules) all->push_back(rule.row);
    return all;
  }();
  return *rows;
}

const RuleRow* FindRule(absl::string_view slug) {
  for (const RuleRow& row : Rules()) {
    if (slug == row.slug) return &row;
  }
  return nullptr;
}

void CheckManifest(const Manifest& model, Diagnostics& diagnostics) {
  Diagnostics found;
  for (const Rule& rule : kRules) {
    if (rule.model != nullptr) rule.model(rule.row.slug, model, found);
    if (rule.group == nullptr) continue;
    for (const LayerGroup& group : model.groups) rule.group(rule.row.slug, model, group, found);
  }
  AddOnce(std::move(found), diagnostics);
}

void CheckMesh(const MeshSpec& mesh, Diagnostics& diagnostics) {
  for (const Rule& rule : kRules) {
    if (rule.mesh != nullptr) rule.mesh(rule.row.slug, mesh, diagnostics);
  }
}

std::optional<CheckedDocuments> CheckDocuments(Inputs inputs, Diagnostics& diagnostics) {
  const size_t before = diagnostics.size();
  CheckManifest(inputs.model, diagnostics);
  CheckMesh(inputs.mesh, diagnostics);
  if (diagnostics.size() != before) return std::nullopt;
  return CheckedDocuments(std::move(inputs));
}

std::optional<CheckedModel> CheckDeployment(CheckedDocuments documents, Diagnostics& diagnostics) {
  if (!CheckTogether(documents.inputs(), diagnostics)) return std::nullopt;
  return CheckedModel(std::move(documents));
}

std::optional<CheckedModel> Check(Inputs inputs, Diagnostics& diagnostics) {
  std::optional<CheckedDocuments> documents = CheckDocuments(inputs, diagnostics);
  if (documents.has_value()) return CheckDeployment(*std::move(documents), diagnostics);
  CheckTogether(inputs, diagnostics);  // all violations are told at once
  return std::nullopt;
}

Degrees CheckedModel::degrees() const {
  const Deployment& d = deployment();
  return {static_cast<uint32_t>(d.dp.value), static_cast<uint32_t>(d.pp.value), static_cast<uint32_t>(d.tp.value),
          static_cast<uint32_t>(d.ep.value), static_cast<uint32_t>(d.dense_tp.value)};
}

}  // namespace meshseal::compiler

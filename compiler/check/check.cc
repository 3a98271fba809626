#include <utility>

#include "compiler/check/checked_model.h"
#include "compiler/check/rules.h"

namespace meshseal::compiler {
namespace {

constexpr RuleRow kRules[] = {
#define MESHSEAL_READ_RULE(slug, promise, example) {slug, "read", promise, example, false},
#define MESHSEAL_BUDGET_RULE(slug, promise, example) {slug, "budget", promise, example, true},
#define MESHSEAL_MODEL_RULE(Function, slug, promise, example) {slug, "check", promise, example, false},
#define MESHSEAL_MESH_RULE(Function, slug, promise, example) {slug, "check", promise, example, false},
#define MESHSEAL_DEPLOYMENT_RULE(Function, slug, promise, example) {slug, "check", promise, example, false},
#define MESHSEAL_DEGREE_RULE(Function, slug, promise, example) {slug, "check", promise, example, true},
#include "compiler/check/rules.def"
#undef MESHSEAL_DEGREE_RULE
#undef MESHSEAL_DEPLOYMENT_RULE
#undef MESHSEAL_MESH_RULE
#undef MESHSEAL_MODEL_RULE
#undef MESHSEAL_BUDGET_RULE
#undef MESHSEAL_READ_RULE
};

}  // namespace

absl::Span<const RuleRow> Rules() { return kRules; }

const RuleRow* FindRule(absl::string_view slug) {
  for (const RuleRow& row : kRules) {
    if (slug == row.slug) return &row;
  }
  return nullptr;
}

#define MESHSEAL_READ_RULE(slug, promise, example)
#define MESHSEAL_BUDGET_RULE(slug, promise, example)

void CheckManifest(const Manifest& model, Diagnostics& diagnostics) {
#define MESHSEAL_MODEL_RULE(Function, slug, promise, example) rules::Function(slug, model, diagnostics);
#define MESHSEAL_MESH_RULE(Function, slug, promise, example)
#define MESHSEAL_DEPLOYMENT_RULE(Function, slug, promise, example)
#define MESHSEAL_DEGREE_RULE(Function, slug, promise, example)
#include "compiler/check/rules.def"
#undef MESHSEAL_DEGREE_RULE
#undef MESHSEAL_DEPLOYMENT_RULE
#undef MESHSEAL_MESH_RULE
#undef MESHSEAL_MODEL_RULE
}

void CheckMesh(const MeshSpec& mesh, Diagnostics& diagnostics) {
#define MESHSEAL_MODEL_RULE(Function, slug, promise, example)
#define MESHSEAL_MESH_RULE(Function, slug, promise, example) rules::Function(slug, mesh, diagnostics);
#define MESHSEAL_DEPLOYMENT_RULE(Function, slug, promise, example)
#define MESHSEAL_DEGREE_RULE(Function, slug, promise, example)
#include "compiler/check/rules.def"
#undef MESHSEAL_DEGREE_RULE
#undef MESHSEAL_DEPLOYMENT_RULE
#undef MESHSEAL_MESH_RULE
#undef MESHSEAL_MODEL_RULE
}

std::optional<CheckedModel> Check(Inputs inputs, Diagnostics& diagnostics) {
  const size_t before = diagnostics.size();
  CheckManifest(inputs.model, diagnostics);
  CheckMesh(inputs.mesh, diagnostics);
#define MESHSEAL_MODEL_RULE(Function, slug, promise, example)
#define MESHSEAL_MESH_RULE(Function, slug, promise, example)
#define MESHSEAL_DEPLOYMENT_RULE(Function, slug, promise, example) rules::Function(slug, inputs, diagnostics);
#define MESHSEAL_DEGREE_RULE MESHSEAL_DEPLOYMENT_RULE
#include "compiler/check/rules.def"
#undef MESHSEAL_DEGREE_RULE
#undef MESHSEAL_DEPLOYMENT_RULE
#undef MESHSEAL_MESH_RULE
#undef MESHSEAL_MODEL_RULE
  if (diagnostics.size() != before) return std::nullopt;
  return CheckedModel(std::move(inputs));
}

#undef MESHSEAL_BUDGET_RULE
#undef MESHSEAL_READ_RULE

Degrees CheckedModel::degrees() const {
  const Deployment& d = deployment();
  return {static_cast<uint32_t>(d.dp.value), static_cast<uint32_t>(d.pp.value), static_cast<uint32_t>(d.tp.value),
          static_cast<uint32_t>(d.ep.value), static_cast<uint32_t>(d.dense_tp.value)};
}

}  // namespace meshseal::compiler

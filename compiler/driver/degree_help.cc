#include "compiler/driver/degree_help.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/budget/memory_plan.h"
#include "compiler/check/checked_model.h"
#include "compiler/check/rules.h"
#include "compiler/driver/all_degrees.h"
#include "compiler/lowering/executable.h"
#include "compiler/placement/placement.h"

namespace meshseal::compiler {
namespace {

constexpr size_t kMostListed = 6;
constexpr uint64_t kMostRanks = 65536;

enum class Verdict : uint8_t { kRefused, kNotBuilt, kExecutable };

// The verdict with dense.tp = tp x ep, or else with the largest of its divisors that holds the check stage's rules; it
// is left in `candidate`. A smaller one needs no less memory and is executed no sooner.
Verdict FindDenseTp(Inputs& candidate) {
  Deployment& d = candidate.deployment;
  for (const uint64_t dense_tp : Divisors(d.tp.value * d.ep.value)) {
    d.dense_tp.value = dense_tp;
    Diagnostics diagnostics;
    const std::optional<CheckedModel> checked = CheckDeployment(candidate, diagnostics);
    if (!checked.has_value()) continue;
    if (!Budget(*checked, Place(*checked), diagnostics).has_value()) return Verdict::kRefused;
    CheckExecutable(*checked, diagnostics);
    return diagnostics.ok() ? Verdict::kExecutable : Verdict::kNotBuilt;
  }
  return Verdict::kRefused;
}

// All (dp, pp, tp, ep) of `world` ranks that hold every rule: those with the dp and pp that were asked for first, then
// by dp, largest first. Where programs execute some of them, only those.
std::vector<std::string> LegalDegrees(const Inputs& inputs, uint64_t world) {
  struct Found {
    std::string text;
    bool asked;
    Verdict verdict;
  };
  std::vector<Found> found;
  Inputs candidate = inputs;
  Deployment& d = candidate.deployment;
  ForAllDegrees(world, d, [&] {
    const Verdict verdict = FindDenseTp(candidate);
    if (verdict == Verdict::kRefused) return;
    const std::string dense =
        d.dense_tp.value == d.tp.value * d.ep.value ? "" : absl::StrCat(" dense.tp=", d.dense_tp.value);
    found.push_back({absl::StrCat("dp=", d.dp.value, " pp=", d.pp.value, " tp=", d.tp.value, " ep=", d.ep.value, dense),
                     d.dp.value == inputs.deployment.dp.value && d.pp.value == inputs.deployment.pp.value, verdict});
  });
  const bool executable =
      std::any_of(found.begin(), found.end(), [](const Found& f) { return f.verdict == Verdict::kExecutable; });
  std::vector<std::string> legal;
  for (const bool asked : {true, false}) {
    for (const Found& f : found) {
      if (f.asked == asked && (!executable || f.verdict == Verdict::kExecutable)) legal.push_back(f.text);
    }
  }
  return legal;
}

}  // namespace

void AddDegreeHelp(const Inputs& inputs, Diagnostics& diagnostics) {
  bool wanted = false;
  for (const Diagnostic& error : diagnostics.errors()) {
    const RuleRow* rule = FindRule(error.rule);
    wanted = wanted || (rule != nullptr && rule->degrees_help);
  }
  if (!wanted) return;
  Diagnostics of_documents;
  CheckManifest(inputs.model, of_documents);
  CheckMesh(inputs.mesh, of_documents);
  if (!of_documents.ok()) return;  // no degrees mend those
  // An emulated mesh takes any world from its slots up: keep the one that was asked for.
  const Deployment& d = inputs.deployment;
  const uint64_t asked = d.dp.value * d.pp.value * d.tp.value * d.ep.value;
  const uint64_t slots = inputs.mesh.SlotCount();
  const uint64_t idle = std::min(d.idle.value, slots - 1);
  const uint64_t world = inputs.mesh.emulated.value && asked <= kMostRanks ? std::max(asked, slots) : slots - idle;
  const std::vector<std::string> legal = LegalDegrees(inputs, world);
  if (legal.empty()) return;
  const size_t listed = std::min(legal.size(), kMostListed);
  std::string help = absl::StrCat(
      "degrees that satisfy every rule on this mesh (", world, inputs.mesh.emulated.value ? " ranks): " : " slots): ",
      absl::StrJoin(legal.begin(), legal.begin() + static_cast<std::ptrdiff_t>(listed), "; "));
  if (listed < legal.size()) absl::StrAppend(&help, "; and ", legal.size() - listed, " more");
  for (Diagnostic& error : diagnostics.errors()) {
    const RuleRow* rule = FindRule(error.rule);
    if (rule != nullptr && rule->degrees_help) error.help = help;
  }
}

}  // namespace meshseal::compiler

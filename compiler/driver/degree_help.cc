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
#include "compiler/placement/placement.h"

namespace meshseal::compiler {
namespace {

constexpr size_t kMostListed = 6;
constexpr uint64_t kMostRanks = 65536;

bool HoldsEveryRule(const Inputs& inputs) {
  Diagnostics diagnostics;
  const std::optional<CheckedModel> checked = Check(inputs, diagnostics);
  return checked.has_value() && Budget(*checked, Place(*checked), diagnostics).has_value();
}

// The divisors of `number`, descending.
std::vector<uint64_t> Divisors(uint64_t number) {
  std::vector<uint64_t> divisors;
  for (uint64_t d = number; d > 0; --d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return divisors;
}

// All (dp, pp, tp, ep) of `world` ranks that hold every rule, largest dp first.
std::vector<std::string> LegalDegrees(const Inputs& inputs, uint64_t world) {
  std::vector<std::string> legal;
  Inputs candidate = inputs;
  Deployment& d = candidate.deployment;
  for (const uint64_t dp : Divisors(world)) {
    for (const uint64_t pp : Divisors(world / dp)) {
      for (const uint64_t tp : Divisors(world / dp / pp)) {
        d.dp.value = dp;
        d.pp.value = pp;
        d.tp.value = tp;
        d.ep.value = world / dp / pp / tp;
        d.dense_tp.value = d.tp.value * d.ep.value;
        if (HoldsEveryRule(candidate)) {
          legal.push_back(absl::StrCat("dp=", dp, " pp=", pp, " tp=", tp, " ep=", d.ep.value));
        }
      }
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
  // An emulated mesh takes any world from its slots up: keep the one that was asked for.
  const Deployment& d = inputs.deployment;
  const uint64_t asked = d.dp.value * d.pp.value * d.tp.value * d.ep.value;
  const uint64_t slots = inputs.mesh.SlotCount();
  const uint64_t world = inputs.mesh.emulated.value && asked <= kMostRanks ? std::max(asked, slots) : slots;
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

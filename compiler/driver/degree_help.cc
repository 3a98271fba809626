#include "compiler/driver/degree_help.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/check/checked_model.h"
#include "compiler/check/rules.h"
#include "compiler/driver/all_degrees.h"
#include "compiler/driver/memory_help.h"

namespace meshseal::compiler {
namespace {

constexpr size_t kMostListed = 6;

// All (dp, pp, tp, ep) of `world` ranks that hold every rule: those with the dp and pp that were asked for first, then
// by dp, largest first.
std::vector<std::string> LegalDegrees(const CheckedDocuments& documents, uint64_t world) {
  std::vector<std::string> asked;
  std::vector<std::string> others;
  const Deployment& as_written = documents.deployment();
  CheckedDocuments candidate = documents;
  Deployment& d = candidate.deployment();
  ForAllDegrees(world, d, [&] {
    if (!FindDenseTp(candidate)) return;
    const bool as_asked = d.dp.value == as_written.dp.value && d.pp.value == as_written.pp.value;
    (as_asked ? asked : others).push_back(DegreesText(d));
  });
  asked.insert(asked.end(), others.begin(), others.end());
  return asked;
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
  const std::optional<CheckedDocuments> documents = CheckDocuments(inputs, of_documents);
  if (!documents.has_value()) return;  // no degrees mend those
  // An emulated mesh takes any world from its slots up: keep the one that was asked for.
  const Deployment& d = inputs.deployment;
  const uint64_t asked = d.dp.value * d.pp.value * d.tp.value * d.ep.value;
  const uint64_t slots = inputs.mesh.SlotCount();
  const uint64_t idle = std::min(d.idle.value, slots - 1);
  const uint64_t world = inputs.mesh.emulated.value && asked <= kMostRanks ? std::max(asked, slots) : slots - idle;
  const std::vector<std::string> legal = LegalDegrees(*documents, world);
  std::string help;
  if (!legal.empty()) {
    const size_t listed = std::min(legal.size(), kMostListed);
    help = absl::StrCat("degrees that satisfy every rule on this mesh (", world,
                        inputs.mesh.emulated.value ? " ranks): " : " slots): ",
                        absl::StrJoin(legal.begin(), legal.begin() + static_cast<std::ptrdiff_t>(listed), "; "));
    if (listed < legal.size()) absl::StrAppend(&help, "; and ", legal.size() - listed, " more");
  }
  std::optional<std::string> of_memory;  // searched once, for the first such error
  for (Diagnostic& error : diagnostics.errors()) {
    const RuleRow* rule = FindRule(error.rule);
    if (rule == nullptr || !rule->degrees_help) continue;
    error.help = help;
    if (error.rule != "memory-fits") continue;
    if (!of_memory.has_value()) of_memory = MemoryHelp(*documents);
    if (!of_memory->empty()) absl::StrAppend(&error.help, help.empty() ? "" : "; ", *of_memory);
  }
}

}  // namespace meshseal::compiler

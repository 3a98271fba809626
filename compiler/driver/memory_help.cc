#include "compiler/driver/memory_help.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/budget/memory_plan.h"
#include "compiler/budget/stored_size.h"
#include "compiler/driver/all_degrees.h"
#include "compiler/placement/placement.h"

namespace meshseal::compiler {
namespace {

constexpr uint64_t kMostTimes = 16;   // of the mesh's own nodes
constexpr uint64_t kMostWorld = 256;  // ranks that a search tries

bool Fits(const CheckedDocuments& candidate) {
  Diagnostics diagnostics;
  const std::optional<CheckedModel> checked = CheckDeployment(candidate, diagnostics);
  return checked.has_value() && Budget(*checked, Place(*checked), diagnostics).has_value();
}

// Whether one replica of `world` ranks fits somehow; the degrees are left in `candidate`.
bool FindWorld(uint64_t world, CheckedDocuments& candidate) {
  Deployment& d = candidate.deployment();
  d.dp.value = 1;
  for (const uint64_t pp : Divisors(world)) {
    for (const uint64_t tp : Divisors(world / pp)) {
      d.pp.value = pp;
      d.tp.value = tp;
      d.ep.value = world / pp / tp;
      if (FindDenseTp(candidate)) return true;
    }
  }
  return false;
}

// The mesh with all of its nodes `times` times, islands likewise.
MeshSpec Repeated(const MeshSpec& mesh, uint64_t times) {
  MeshSpec repeated = mesh;
  for (uint64_t copy = 1; copy < times; ++copy) {
    const auto renamed = [copy](const Spanned<std::string>& name) {
      return Spanned<std::string>{absl::StrCat(name.value, "#", copy), name.span};
    };
    for (NodeSpec node : mesh.nodes) {
      node.name = renamed(node.name);
      node.identity.clear();
      repeated.nodes.push_back(std::move(node));
    }
    for (IslandSpec island : mesh.islands) {
      for (Spanned<std::string>& node : island.nodes) node = renamed(node);
      repeated.islands.push_back(std::move(island));
    }
  }
  if (!repeated.between_islands.has_value()) repeated.between_islands = mesh.islands.front().link;
  return repeated;
}

// A world that is too small for the experts alone is not searched: what they take, over what the largest device has.
uint64_t FewestRanks(const CheckedDocuments& documents) {
  StoredSize sizes;
  uint64_t bytes = 0;
  for (const LayerGroup& group : documents.model().groups) {
    const uint64_t columns = group.moe.intermediate_size.value;
    const uint64_t layer =
        sizes.Mul(group.moe.experts.value, sizes.Layer(documents.model(), group.moe, columns, 0).per_expert);
    for (const LayerRange& range : group.layers) bytes = sizes.Add(bytes, sizes.Mul(layer, range.last - range.first));
  }
  uint64_t largest = 1;
  for (const DeviceKindSpec& kind : documents.mesh().device_kinds) largest = std::max(largest, kind.usable.value);
  return sizes.overflowed() ? kMostWorld + 1 : std::max(uint64_t{1}, bytes / largest);
}

std::string SmallestWorld(const CheckedDocuments& documents) {
  const MeshSpec& mesh = documents.mesh();
  if (mesh.emulated.value || !mesh.assign.empty()) return "";  // a slot is no amount of memory there
  CheckedDocuments candidate = documents;
  Deployment& d = candidate.deployment();
  const uint64_t slots = mesh.SlotCount();
  const uint64_t fewest = FewestRanks(documents);
  for (uint64_t world = fewest; world <= std::min(slots, kMostWorld); ++world) {
    d.idle.value = slots - world;
    if (FindWorld(world, candidate)) {
      return absl::StrCat("the smallest world that fits has ", world, " of the ", slots, " slots: ", DegreesText(d));
    }
  }
  d.idle.value = 0;
  for (uint64_t times = 2; times <= kMostTimes && times * slots <= kMostWorld; ++times) {
    if (times * slots < fewest) continue;
    Inputs inputs = candidate.inputs();
    inputs.mesh = Repeated(mesh, times);
    Diagnostics diagnostics;
    std::optional<CheckedDocuments> repeated = CheckDocuments(std::move(inputs), diagnostics);
    if (repeated.has_value() && FindWorld(times * slots, *repeated)) {
      return absl::StrCat("no world of this mesh fits; ", times, " times its nodes would, ", times * slots,
                          " slots: ", DegreesText(repeated->deployment()));
    }
  }
  return "";
}

// One rank a stage, with layers in proportion to what its device has.
std::string UnevenStages(const CheckedDocuments& documents) {
  const MeshSpec& mesh = documents.mesh();
  if (mesh.emulated.value || !mesh.assign.empty()) return "";
  const uint64_t slots = mesh.SlotCount();
  const uint64_t layers = documents.model().layers.value;
  std::vector<uint64_t> memory;  // per slot
  for (size_t node = 0; node < mesh.nodes.size(); ++node) {
    memory.insert(memory.end(), mesh.nodes[node].slots.value, mesh.KindOfNode(node).usable.value);
  }
  const bool differ = std::adjacent_find(memory.begin(), memory.end(), std::not_equal_to<>()) != memory.end();
  if (!differ || slots > layers) return "";
  const double all = static_cast<double>(std::accumulate(memory.begin(), memory.end(), uint64_t{0}));
  std::vector<uint64_t> stages;
  uint64_t end = 0;
  double share = 0;
  for (const uint64_t bytes : memory) {
    share += static_cast<double>(bytes) / all;
    const auto next = static_cast<uint64_t>(share * static_cast<double>(layers) + 0.5);
    if (next <= end) return "";
    stages.push_back(std::min(next, layers) - end);
    end += stages.back();
  }
  CheckedDocuments candidate = documents;
  Deployment& d = candidate.deployment();
  d.dp.value = d.tp.value = d.ep.value = 1;
  d.pp.value = slots;
  SetDenseTp(1, d);
  d.idle.value = 0;
  d.stages = Spanned<std::vector<uint64_t>>{stages, {}};
  if (!Fits(candidate)) return "";
  return absl::StrCat("stages in proportion to the devices' memory fit: ", DegreesText(d), ", stages: [",
                      absl::StrJoin(stages, ", "), "]");
}

}  // namespace

std::string DegreesText(const Deployment& d) {
  const std::string dense =
      d.dense_tp.value == d.tp.value * d.ep.value ? "" : absl::StrCat(" dense.tp=", d.dense_tp.value);
  return absl::StrCat("dp=", d.dp.value, " pp=", d.pp.value, " tp=", d.tp.value, " ep=", d.ep.value, dense);
}

bool FindDenseTp(CheckedDocuments& candidate) {
  Deployment& d = candidate.deployment();
  const std::optional<RankTokensSpec> rank_tokens = d.rank_tokens;
  for (const uint64_t dense_tp : Divisors(d.tp.value * d.ep.value)) {
    d.rank_tokens = rank_tokens;
    SetDenseTp(dense_tp, d);
    Diagnostics diagnostics;
    const std::optional<CheckedModel> checked = CheckDeployment(candidate, diagnostics);
    if (!checked.has_value()) continue;
    const bool fits = Budget(*checked, Place(*checked), diagnostics).has_value();
    d.rank_tokens = rank_tokens;
    return fits;
  }
  d.rank_tokens = rank_tokens;
  return false;
}

std::string MemoryHelp(const CheckedDocuments& documents) {
  const std::string world = SmallestWorld(documents);
  const std::string stages = UnevenStages(documents);
  return absl::StrCat(world, !world.empty() && !stages.empty() ? "; " : "", stages);
}

}  // namespace meshseal::compiler

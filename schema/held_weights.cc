#include "schema/held_weights.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/checked_math.h"
#include "schema/meaning/rules.h"
#include "schema/mesh_view.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal {
namespace {

// The rules of the meaning gate that a plan must keep for its owners to be compared.
absl::Status CheckOwners(const Plan& plan, const char* which) {
  struct Rule {
    const char* slug;
    meaning::Fault (*check)(const Plan&, const SealFacts&);
  };
  constexpr Rule kRules[] = {
      {"terms-are-known", meaning::TermsAreKnown},
      {"degrees-make-world", meaning::DegreesMakeWorld},
      {"ranks-have-slots", meaning::RanksHaveSlots},
      {"stages-cover-layers", meaning::StagesCoverLayers},
      {"layers-are-covered-once", meaning::LayersAreCoveredOnce},
      {"sizes-are-sane", meaning::SizesAreSane},
      {"tensors-are-complete", meaning::TensorsAreComplete},
      {"layout-is-said", meaning::LayoutIsSaid},
      {"scales-fit-dtypes", meaning::ScalesFitDTypes},
      {"blocks-fill-rows", meaning::BlocksFillRows},
      {"experts-are-owned-once", meaning::ExpertsAreOwnedOnce},
      {"copies-are-apart", meaning::CopiesAreApart},
      {"columns-are-owned-once", meaning::ColumnsAreOwnedOnce},
      {"segments-keep-blocks", meaning::SegmentsKeepBlocks},
  };
  for (const Rule& rule : kRules) {
    if (const meaning::Fault fault = rule.check(plan, SealFacts{})) {
      return Refuse(Reason::kMeaning, absl::StrCat("plan ", which, ": [", rule.slug, "] ", *fault));
    }
  }
  return absl::OkStatus();
}

absl::Status TooLarge(const char* which, const LayerClass& c) {
  return Refuse(Reason::kMeaning, absl::StrCat("plan ", which, ": the weights of layer ", c.layers.front().first,
                                               " are more bytes than 64 bits hold"));
}

bool IsCut(const meaning::RoleFacts& facts) { return IsCut(facts.outputs) || IsCut(facts.inputs); }

// Bytes of all of a tensor, or of one expert's: with these columns.
std::optional<uint64_t> BytesWith(const Plan& plan, const LayerClass& c, const TensorClass& tensor, uint64_t columns,
                                  uint64_t shared_columns) {
  const meaning::RoleFacts& facts = *meaning::FactsOf(tensor.role);
  return StoredBytes(tensor, meaning::ExtentOf(facts.outputs, plan, c, columns, shared_columns),
                     meaning::ExtentOf(facts.inputs, plan, c, columns, shared_columns));
}

std::optional<uint64_t> WholeBytes(const Plan& plan, const LayerClass& c, const TensorClass& tensor) {
  return BytesWith(plan, c, tensor, c.intermediate, c.shared_expert.width);
}

// Scales of the whole matrix, which lie on every rank that reads it.
uint64_t UncutBytes(const TensorClass& tensor) {
  uint64_t bytes = 0;
  for (const SideTensor& side : tensor.sides) {
    if (!meaning::HasBlock(side)) bytes += *SideBytes(tensor, side, 1, 1);
  }
  return bytes;
}

// Needs tensors whose WholeBytes there are.
void AddTensor(const Plan& plan, const LayerClass& c, const TensorClass& tensor, LayerBytes* bytes) {
  const meaning::RoleFacts& facts = *meaning::FactsOf(tensor.role);
  const TensorScope scope = ScopeOf(facts);
  uint64_t& uncut = scope == TensorScope::kExperts  ? bytes->expert
                    : scope == TensorScope::kShared ? bytes->shared
                                                    : bytes->replicated;
  uncut += IsCut(facts) ? UncutBytes(tensor) : *WholeBytes(plan, c, tensor);
  if (IsCut(facts)) bytes->cut.push_back(&tensor);
}

// Whether every sum below stays inside 64 bits: all ranks with all layers, each as large as one of `c`.
bool Fits(const Plan& plan, const LayerClass& c) {
  std::optional<uint64_t> layer = 0;
  for (const TensorClass& tensor : c.tensors) {
    const auto one = WholeBytes(plan, c, tensor);
    const bool of_experts = meaning::FactsOf(tensor.role)->per_expert;
    const auto all = one.has_value() ? CheckedMul(*one, of_experts ? c.experts : 1) : std::nullopt;
    layer = layer.has_value() && all.has_value() ? CheckedAdd(*layer, *all) : std::nullopt;
  }
  const auto replica = layer.has_value() ? CheckedMul(*layer, plan.layers) : std::nullopt;
  return replica.has_value() && CheckedMul(*replica, *WorldOf(plan.degrees)).has_value();
}

absl::StatusOr<ClassView> ViewOf(const Plan& plan, const LayerClass& c, const char* which) {
  if (!Fits(plan, c)) return TooLarge(which, c);
  ClassView view;
  view.layer_class = &c;
  for (const TensorClass& tensor : c.tensors) AddTensor(plan, c, tensor, &view.bytes);
  view.holders.resize(c.experts);
  for (uint32_t ep = 0; ep < plan.degrees.ep; ++ep) view.experts.emplace_back();
  for (uint32_t expert = 0; expert < c.experts; ++expert) view.holders[expert] = {c.expert_shards[expert].owner};
  for (const ExpertCopy& copy : c.expert_copies) view.holders[copy.expert].push_back(copy.owner);
  for (uint32_t expert = 0; expert < c.experts; ++expert) {
    std::sort(view.holders[expert].begin(), view.holders[expert].end());
    for (const uint32_t ep : view.holders[expert]) Append(expert, expert + 1, &view.experts[ep]);
  }
  for (uint32_t tp = 0; tp < plan.degrees.tp; ++tp) {
    const Interval columns = ColumnsOf(c, tp);
    view.columns.push_back(columns);
    view.expert_bytes.push_back(view.bytes.expert +
                                ColumnBytes(plan, c, view.bytes, TensorScope::kExperts, Count(columns)));
    for (uint32_t ep = 0; ep < plan.degrees.ep; ++ep) {
      const Interval shared = SharedColumnsOf(c, plan.degrees, tp, ep);
      view.shared.push_back(shared);
      const uint64_t of_columns = ColumnBytes(plan, c, view.bytes, TensorScope::kShared, Count(shared));
      view.shared_bytes.push_back(Count(shared) == 0 ? 0 : view.bytes.shared + of_columns);
    }
  }
  return view;
}

bool SameAtoms(const Plan& plan_a, const LayerClass& ca, const TensorClass& a, const Plan& plan_b, const LayerClass& cb,
               const TensorClass& b) {
  const meaning::RoleFacts& facts_a = *meaning::FactsOf(a.role);
  const meaning::RoleFacts& facts_b = *meaning::FactsOf(b.role);
  if (facts_a.outputs != facts_b.outputs || facts_a.inputs != facts_b.inputs) return false;
  if (a.name != b.name || a.dtype != b.dtype || a.shape != b.shape || a.layout != b.layout) return false;
  if (a.rotation != b.rotation || a.sides != b.sides) return false;
  const auto extent = [](const Plan& plan, const LayerClass& c, ShapeAxis axis) {
    return meaning::ExtentOf(axis, plan, c, c.intermediate, c.shared_expert.width);
  };
  return std::all_of(a.shape.begin(), a.shape.end(),
                     [&](ShapeAxis axis) { return extent(plan_a, ca, axis) == extent(plan_b, cb, axis); });
}

}  // namespace

uint64_t ColumnBytes(const Plan& plan, const LayerClass& c, const LayerBytes& of_layer, TensorScope scope,
                     uint64_t columns) {
  if (columns == 0) return 0;
  uint64_t bytes = 0;
  for (const TensorClass* tensor : of_layer.cut) {
    if (ScopeOf(*meaning::FactsOf(tensor->role)) != scope) continue;
    bytes += *BytesWith(plan, c, *tensor, columns, columns) - UncutBytes(*tensor);
  }
  return bytes;
}

absl::StatusOr<PlanView> ViewOf(const Plan& plan, const char* which) {
  MESHSEAL_RETURN_IF_ERROR(CheckOwners(plan, which));
  PlanView view;
  view.plan = &plan;
  view.class_of.resize(plan.layers);
  for (size_t i = 0; i < plan.layer_classes.size(); ++i) {
    MESHSEAL_ASSIGN_OR_RETURN(ClassView of_class, ViewOf(plan, plan.layer_classes[i], which));
    view.classes.push_back(std::move(of_class));
    for (const LayerRange& range : plan.layer_classes[i].layers) {
      for (uint32_t layer = range.first; layer < range.last; ++layer) view.class_of[layer] = i;
    }
  }
  for (uint32_t pp = 0; pp < plan.degrees.pp; ++pp) view.stage_of.resize(plan.stage_ends[pp], pp);
  return view;
}

LayerBytes CommonBytes(const Plan& plan_a, const LayerClass& ca, const Plan& plan_b, const LayerClass& cb) {
  LayerBytes common;
  std::map<std::string, const TensorClass*> by_name;  // names are unique: tensors-are-complete
  for (const TensorClass& tensor : ca.tensors) by_name.emplace(tensor.name, &tensor);
  for (const TensorClass& tensor : cb.tensors) {
    const auto found = by_name.find(tensor.name);
    if (found == by_name.end() || !SameAtoms(plan_a, ca, *found->second, plan_b, cb, tensor)) continue;
    AddTensor(plan_b, cb, tensor, &common);
  }
  return common;
}

}  // namespace meshseal

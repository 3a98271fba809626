#include "schema/plan_text.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/byte_text.h"
#include "schema/executors.h"
#include "schema/mesh_view.h"
#include "schema/plan_text_parts.h"
#include "schema/plan_words.h"
#include "schema/reason.h"

namespace meshseal {

std::string RangesText(const std::vector<uint32_t>& ascending) {
  const Intervals intervals = IntervalsOf(ascending);
  return intervals.empty() ? "none" : absl::StrJoin(intervals, "+", [](std::string* out, const Interval& interval) {
    absl::StrAppend(out, IntervalText(interval));
  });
}

std::string MoreText(size_t more, const char* what) {
  return absl::StrCat("and ", more, " more ", what, ": --rank and --layer show one, --format json has them all\n");
}

namespace {

// Everything here may be called for a plan that the meaning gate refused, so every index is looked up with care.
// That of all programs, or of each phase. Phases of a plan that no gate refuses have one each.
std::string AlgorithmsText(const Plan& plan) {
  std::vector<std::string> of_phases;
  std::vector<std::string> algorithms;
  const auto add = [](std::string text, std::vector<std::string>* texts) {
    if (std::count(texts->begin(), texts->end(), text) == 0) texts->push_back(std::move(text));
  };
  for (const LayerClass& c : plan.layer_classes) {
    for (const Program& program : c.programs) {
      add(absl::StrCat(WordOf(program.phase), " ", WordOf(program.reduce_algorithm)), &of_phases);
      add(std::string(WordOf(program.reduce_algorithm)), &algorithms);
    }
  }
  if (algorithms.empty()) return "none";
  return absl::StrJoin(algorithms.size() > 1 ? of_phases : algorithms, ", ");
}

std::string NumericsText(const Plan& plan) {
  std::string text = absl::StrCat("reduction ", WordOf(plan.reduction), " (", AlgorithmsText(plan), ")");
  if (plan.reduction == Reduction::kExact) {
    absl::StrAppend(&text, " of addends below ", NumberText(plan.exact_bound));
  }
  return absl::StrCat(text, ", output ", WordOf(plan.output), ", numerics ", WordOf(plan.numerics));
}

std::string DenseText(const Plan& plan) {
  const Degrees& d = plan.degrees;
  const uint64_t ranks = uint64_t{d.tp} * d.ep;
  const uint64_t dense_dp = d.dense_tp == 0 ? 0 : ranks / d.dense_tp;
  return absl::StrCat("dense tp=", d.dense_tp, " dp=", dense_dp,
                      dense_dp > 1 ? ": dense groups bring different tokens, which are gathered" : "");
}

void AppendModel(const Plan& plan, std::string* text) {
  absl::StrAppend(text, "model ", Shown(plan.model_name), " (", Shown(plan.model_family),
                  "): ", CountText(plan.layers, "layer"), ", hidden ", plan.hidden);
  const Attention& attention = plan.attention;
  if (attention.heads > 0) {
    absl::StrAppend(text, ", ", CountText(attention.heads, "head"), " and ", attention.kv_heads, " KV of ",
                    attention.head_dim, " (KV heads ", WordOf(plan.kv_heads), ")");
  }
  const OtherWeights& other = plan.other_weights;
  absl::StrAppend(text, "; not MoE ", ByteText(other.layers), " over all layers, ", ByteText(other.first), " first, ",
                  ByteText(other.last), " last\n");
}

void AppendLimits(const Plan& plan, std::string* text) {
  const Limits& limits = plan.limits;
  absl::StrAppend(text, "limits decode ", CountText(limits.decode_tokens, "token"), " (buckets ",
                  absl::StrJoin(limits.decode_buckets, ","), "), prefill ", limits.prefill_tokens, " in chunks of ",
                  limits.prefill_chunk, ", ", CountText(limits.sessions, "session"), " of ",
                  ByteText(limits.per_session_bytes), "\n");
  if (limits.rank_decode_tokens != limits.decode_tokens || limits.rank_prefill_tokens != limits.prefill_chunk) {
    absl::StrAppend(text, "  of a dense group: decode ", limits.rank_decode_tokens, ", prefill ",
                    limits.rank_prefill_tokens, "\n");
  }
  absl::StrAppend(text, "weights ", WordOf(plan.weight_source));
  if (plan.weight_source == WeightSource::kSynthetic) absl::StrAppend(text, " from seed ", plan.weight_seed);
  absl::StrAppend(text,
                  BindsWeights(plan) ? absl::StrCat(", bound by digest list ", HexOf(plan.weights_digest))
                                     : ", not bound by digest",
                  "; repack ", WordOf(limits.repack), "; experts placed ", WordOf(plan.expert_placement),
                  "; failure scope ", WordOf(plan.failure_scope), "; ",
                  CountText(plan.ignored_tensors.size(), "ignored pattern"), "\n");
}

// "executors reference: all of it; cuda: not repacked weights".
void AppendExecutors(const Plan& plan, std::string* text) {
  std::vector<std::string> parts;
  for (const ExecutorKind executor : kExecutors) {
    const std::vector<ExecutionGap> gaps = GapsOf(plan, executor);
    const auto name = [](std::string* out, const ExecutionGap& gap) { absl::StrAppend(out, Shown(gap.what)); };
    parts.push_back(absl::StrCat(NameOf(executor), ": ",
                                 gaps.empty() ? "all of it" : absl::StrCat("not ", absl::StrJoin(gaps, ", ", name))));
  }
  absl::StrAppend(text, "executors ", absl::StrJoin(parts, "; "), "\n");
}

void AppendHead(const Plan& plan, absl::string_view id, absl::string_view standing, uint32_t world, std::string* text) {
  const Degrees& d = plan.degrees;
  absl::StrAppend(text, "plan \"", Shown(plan.model_name), " on ", Shown(plan.mesh.name), "\" id ", id, "  format ",
                  kPlanFormatMajor, ".", kPlanFormatMinor, "  ", standing, "\n");
  absl::StrAppend(text, "mesh dp=", d.dp, " pp=", d.pp, " tp=", d.tp, " ep=", d.ep, " world=", world, "  ",
                  DenseText(plan), plan.mesh.emulated ? "  EMULATED: ranks share slots" : "", "\n");
  absl::StrAppend(text, NumericsText(plan), "\n");
  absl::StrAppend(text, "deployment ", Shown(plan.deployment_name), " from");
  for (const SourceDocument& source : plan.sources) {
    absl::StrAppend(text, " ", Shown(source.name), " ", HexOf(source.digest).substr(0, 12));
  }
  absl::StrAppend(text, "  made by meshseal ", Shown(plan.compiler_version), "\n");
  AppendModel(plan, text);
  AppendLimits(plan, text);
  AppendExecutors(plan, text);
}

bool Holds(const LayerClass& c, uint32_t layer) {
  return std::any_of(c.layers.begin(), c.layers.end(),
                     [layer](const LayerRange& range) { return layer >= range.first && layer < range.last; });
}

// The classes that a listing is about.
std::vector<const LayerClass*> ClassesOf(const Plan& plan, const std::optional<uint32_t>& layer) {
  std::vector<const LayerClass*> classes;
  for (const LayerClass& c : plan.layer_classes) {
    if (!layer.has_value() || Holds(c, *layer)) classes.push_back(&c);
  }
  return classes;
}

void AppendWhole(const Plan& plan, uint32_t world, const std::vector<const LayerClass*>& classes, std::string* text) {
  AppendMesh(plan, world, text);
  AppendLayerClasses(plan, classes, text);
  AppendOwners(plan, classes, text);
  AppendMemory(plan, text);
  AppendPrices(plan, text);
  absl::StrAppend(text, "programs\n");
  AppendPrograms(plan, classes, text);
}

void AppendRank(const Plan& plan, uint32_t rank, const std::vector<const LayerClass*>& classes,
                const std::optional<uint32_t>& layer, std::string* text) {
  const Coordinate at = CoordinateOf(plan.degrees, rank);
  const Interval stage = StageOf(plan, at.pp);
  const uint64_t ranks = uint64_t{plan.degrees.tp} * plan.degrees.ep;
  absl::StrAppend(text, "rank ", rank, " (", CoordinateText(at), ") ", PlaceText(plan, rank), ", ", StageText(stage),
                  "\n");
  if (at.pp > 0 && stage.first > 0) {
    absl::StrAppend(text, "  takes over from rank ", rank - ranks, " after layer ", stage.first - 1, "\n");
  }
  if (at.pp + 1 < plan.degrees.pp && stage.last > 0) {
    absl::StrAppend(text, "  hands over to rank ", rank + ranks, " after layer ", stage.last - 1, "\n");
  }
  AppendRankMemory(plan, rank, text);
  for (const LayerClass* c : classes) {
    const Intervals wanted = layer.has_value() ? Intervals{{*layer, *layer + 1}} : LayersOf(*c);
    const Intervals layers = Intersection(wanted, {stage});
    if (layers.empty()) {
      if (layer.has_value()) absl::StrAppend(text, "  layer ", *layer, " is on another stage\n");
      continue;
    }
    AppendHoldings(plan, *c, at, layers, layer, text);
    AppendRankPrograms(plan, *c, rank, layers, text);
  }
}

}  // namespace

absl::StatusOr<std::string> ListPlan(const Plan& plan, absl::string_view id, absl::string_view standing,
                                     const ListingOptions& options) {
  const uint32_t world = WorldOf(plan.degrees).value_or(0);
  if (options.rank.has_value() && *options.rank >= world) {
    return Refuse(Reason::kUsage, absl::StrCat("the plan has no rank ", *options.rank, ", its world is ", world));
  }
  const std::vector<const LayerClass*> classes = ClassesOf(plan, options.layer);
  if (options.layer.has_value() && classes.empty()) {
    return Refuse(Reason::kUsage, absl::StrCat("the plan has no MoE layer ", *options.layer));
  }
  std::string text;
  AppendHead(plan, id, standing, world, &text);
  if (world == 0) return text;
  if (options.rank.has_value()) {
    AppendRank(plan, *options.rank, classes, options.layer, &text);
  } else {
    AppendWhole(plan, world, classes, &text);
  }
  return text;
}

}  // namespace meshseal

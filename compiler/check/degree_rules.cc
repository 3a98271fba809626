// Rules over parallel degrees: against the mesh, the layers, the experts and the heads.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/check/rules.h"

namespace meshseal::compiler::rules {
namespace {

// Each degree is at most 65536, so the product fits 64 bits.
uint64_t World(const Deployment& d) { return d.dp.value * d.pp.value * d.tp.value * d.ep.value; }

uint64_t GroupSize(const Deployment& d) { return d.tp.value * d.ep.value; }

std::string DegreesText(const Deployment& d) {
  return absl::StrCat("dp=", d.dp.value, " x pp=", d.pp.value, " x tp=", d.tp.value, " x ep=", d.ep.value);
}

// The fewest redundant copies with which ep divides the experts of all layers, if any number does.
std::optional<uint64_t> FewestCopies(const Manifest& model, uint64_t ep) {
  const uint64_t copies = (ep - model.groups.front().moe.experts.value % ep) % ep;
  for (const LayerGroup& group : model.groups) {
    if ((group.moe.experts.value + copies) % ep != 0) return std::nullopt;
  }
  return copies;
}

}  // namespace

void DegreesFillMesh(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const Deployment& d = inputs.deployment;
  const uint64_t slots = inputs.mesh.SlotCount();
  // 65536^4 is 2^64: only that one product wraps, to 0.
  const uint64_t world = World(d);
  if (world == 0 || world > kMostRanks) {
    diagnostics.Error(rule, d.parallel_span, absl::StrCat(DegreesText(d), " is more than ", kMostRanks, " ranks"));
    return;
  }
  const bool emulated = inputs.mesh.emulated.value;
  const uint64_t idle = d.idle.value;
  if (emulated ? idle == 0 && world >= slots : world + idle == slots) return;
  diagnostics
      .Error(
          rule, d.parallel_span,
          absl::StrCat(DegreesText(d), " is ", world, " ranks", idle == 0 ? "" : absl::StrCat(" and ", idle, " idle"),
                       ", the mesh has ", slots, " slots", emulated ? " and each takes at least one" : ""))
      .notes.push_back({inputs.mesh.nodes_span, absl::StrCat("mesh '", inputs.mesh.name.value, "'")});
}

void DenseTpDividesGroup(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const Deployment& d = inputs.deployment;
  const uint64_t group = GroupSize(d);
  if (group % d.dense_tp.value != 0) {
    diagnostics.Error(rule, d.dense_tp.span,
                      absl::StrCat("dense.tp ", d.dense_tp.value,
                                   " does not divide the expert group of tp x ep = ", group, " ranks"));
  }
}

void RankTokensFit(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const Deployment& d = inputs.deployment;
  const uint64_t group = GroupSize(d);
  if (group % d.dense_tp.value != 0) return;  // a rule of its own
  const uint64_t parts = group / d.dense_tp.value;
  if (parts == 1) {
    if (!d.rank_tokens.has_value()) return;
    diagnostics
        .Error(rule, d.rank_tokens->span,
               absl::StrCat("rank_tokens is for ranks that bring different tokens, dense.tp ", d.dense_tp.value,
                            " is the whole expert group"))
        .notes.push_back({d.dense_tp.span, "all ranks of the group see the same tokens"});
    return;
  }
  if (!d.rank_tokens.has_value()) {
    diagnostics
        .Error(
            rule, d.dense_tp.span,
            absl::StrCat("dense.tp ", d.dense_tp.value, " lets the ranks of an expert group bring different tokens in ",
                         parts, " parts, and limits.rank_tokens does not say how many"))
        .notes.push_back({d.decode_tokens.span, "the limits are of the whole expert group"});
    return;
  }
  const auto check = [&](const Spanned<uint64_t>& rank, const Spanned<uint64_t>& all, const char* rank_name,
                         const char* name) {
    const uint64_t most = rank.value * parts;
    if (rank.value > all.value) {
      diagnostics
          .Error(rule, rank.span, absl::StrCat(rank_name, " ", rank.value, " is more than ", name, " ", all.value))
          .notes.push_back({all.span, "the tokens of the whole expert group"});
    } else if (most < all.value) {
      diagnostics
          .Error(rule, all.span,
                 absl::StrCat(name, " ", all.value, " is more than ", parts, " x ", rank_name, " ", rank.value, " = ",
                              most))
          .notes.push_back({rank.span, "the most that one rank brings"});
    }
  };
  check(d.rank_tokens->decode, d.decode_tokens, "rank_tokens.decode", "decode_tokens");
  check(d.rank_tokens->prefill, d.prefill_chunk, "rank_tokens.prefill", "prefill_chunk");
}

void GatherCarriesRouting(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const Deployment& d = inputs.deployment;
  if (GroupSize(d) == d.dense_tp.value) return;
  for (const LayerGroup& group : inputs.model.groups) {
    const RouterSpec& router = group.moe.router;
    const bool given = router.scoring.value == Scoring::kPrecomputed;
    if (!given && router.token_table_layers.value.empty()) continue;
    diagnostics
        .Error(rule, d.dense_tp.span,
               absl::StrCat("dense.tp ", d.dense_tp.value,
                            " lets ranks bring different tokens: their hidden states are "
                            "gathered, ",
                            given ? "a precomputed routing is not" : "their ids for the token table are not"))
        .notes.push_back({given ? router.scoring.span : router.token_table_layers.span, "what the layers route by"});
    return;
  }
}

void StagesCoverLayers(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const Deployment& d = inputs.deployment;
  const uint64_t layers = inputs.model.layers.value;
  if (d.pp.value > layers) {
    diagnostics
        .Error(rule, d.pp.span,
               absl::StrCat("pipeline degree ", d.pp.value, " leaves stages empty: there are ", layers, " layers"))
        .notes.push_back({inputs.model.layers.span, "a stage holds at least one layer"});
  }
  if (!d.stages.has_value()) return;
  const std::vector<uint64_t>& stages = d.stages->value;
  if (stages.size() != d.pp.value) {
    diagnostics
        .Error(rule, d.stages->span,
               absl::StrCat("stages lists ", stages.size(), " stages, the pipeline degree is ", d.pp.value))
        .notes.push_back({d.pp.span, "one entry for each"});
  }
  uint64_t sum = 0;
  for (const uint64_t stage : stages) sum += stage;
  if (sum != layers) {
    diagnostics.Error(rule, d.stages->span, absl::StrCat("stages hold ", sum, " layers, the model has ", layers))
        .notes.push_back({inputs.model.layers.span, "every layer belongs to one stage"});
  }
}

void EpDividesExperts(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const Deployment& d = inputs.deployment;
  const uint64_t ep = d.ep.value;
  const uint64_t copies = d.redundant_experts.value;
  const std::optional<uint64_t> whole = FewestCopies(inputs.model, ep);
  for (const LayerGroup& group : inputs.model.groups) {
    const uint64_t experts = group.moe.experts.value;
    const uint64_t slots = experts + copies;
    if (ep > slots) {
      diagnostics
          .Error(rule, d.ep.span,
                 absl::StrCat("expert-parallel degree ", ep, " leaves ranks without an expert: there are ", slots))
          .notes.push_back({group.moe.experts.span, "every rank owns at least one expert"});
    } else if (slots % ep != 0 && !d.uneven_experts) {
      const std::string sum =
          copies == 0 ? absl::StrCat("experts ", experts)
                      : absl::StrCat("the ", slots, " of ", experts, " experts and ", copies, " redundant copies");
      diagnostics.Error(rule, d.ep.span, absl::StrCat("expert-parallel degree ", ep, " does not divide ", sum))
          .notes.push_back({group.moe.experts.span,
                            absl::StrCat(slots, " experts over ", ep, " ranks leaves ", slots % ep,
                                         " over; placement.uneven: allow gives the first ranks ", slots / ep + 1,
                                         " and the others ", slots / ep,
                                         whole.has_value() ? absl::StrCat("; redundant_experts: ", *whole,
                                                                          " gives each ", (experts + *whole) / ep)
                                                           : "")});
    }
  }
}

void CopiesHaveRanks(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const Spanned<uint64_t>& copies = inputs.deployment.redundant_experts;
  const uint64_t ep = inputs.deployment.ep.value;
  for (const LayerGroup& group : inputs.model.groups) {
    const uint64_t most = group.moe.experts.value * (ep - 1);
    if (copies.value <= most) continue;
    diagnostics
        .Error(rule, copies.span,
               absl::StrCat("redundant_experts ", copies.value, ", at most ", most, " copies of ",
                            group.moe.experts.value, " experts have a rank of their own"))
        .notes.push_back({inputs.deployment.ep.span, absl::StrCat("ep ", ep, ": a rank holds an expert at most once")});
  }
}

void TpDividesFfn(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const uint64_t tp = inputs.deployment.tp.value;
  for (const LayerGroup& group : inputs.model.groups) {
    const Spanned<uint64_t>& columns = group.moe.intermediate_size;
    if (tp > columns.value) {
      diagnostics
          .Error(rule, inputs.deployment.tp.span,
                 absl::StrCat("tensor-parallel degree ", tp, " leaves ranks without a column: intermediate_size is ",
                              columns.value))
          .notes.push_back({columns.span, "every rank owns at least one column"});
    } else if (columns.value % tp != 0 && !inputs.deployment.uneven_cuts) {
      diagnostics
          .Error(rule, inputs.deployment.tp.span,
                 absl::StrCat("tensor-parallel degree ", tp, " does not divide intermediate_size ", columns.value))
          .notes.push_back({columns.span, absl::StrCat(columns.value, " columns over ", tp, " ranks leaves ",
                                                       columns.value % tp, " over")});
    }
  }
}

void HeadsFitDenseTp(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  if (!inputs.model.attention.has_value()) return;
  const uint64_t heads = inputs.model.attention->heads.value;
  const uint64_t dense_tp = inputs.deployment.dense_tp.value;
  if (heads % dense_tp == 0) return;
  diagnostics
      .Error(rule, inputs.deployment.dense_tp.span,
             absl::StrCat("dense.tp ", dense_tp, " does not divide heads ", heads))
      .notes.push_back({inputs.model.attention->heads.span,
                        absl::StrCat(heads, " heads over ", dense_tp, " ranks leaves ", heads % dense_tp, " over")});
}

void KvHeadsFitDenseTp(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  if (!inputs.model.attention.has_value()) return;
  const Spanned<uint64_t>& kv_heads = inputs.model.attention->kv_heads;
  const Spanned<uint64_t>& dense_tp = inputs.deployment.dense_tp;
  if (kv_heads.value % dense_tp.value == 0) return;
  if (inputs.deployment.kv_heads == KvHeads::kReplicate) {
    if (dense_tp.value % kv_heads.value == 0) return;
    diagnostics
        .Error(rule, dense_tp.span,
               absl::StrCat("dense.tp ", dense_tp.value, " is no multiple of kv_heads ", kv_heads.value,
                            ", so they cannot be replicated whole"))
        .notes.push_back({kv_heads.span, "each rank holds whole KV heads"});
    return;
  }
  diagnostics
      .Error(rule, dense_tp.span,
             absl::StrCat("dense.tp ", dense_tp.value, " does not divide kv_heads ", kv_heads.value))
      .notes.push_back({kv_heads.span, dense_tp.value % kv_heads.value == 0
                                           ? absl::StrCat("dense.kv_heads: replicate gives each KV head to ",
                                                          dense_tp.value / kv_heads.value, " ranks, charged whole")
                                           : absl::StrCat(kv_heads.value, " KV heads over ", dense_tp.value,
                                                          " ranks leaves ", kv_heads.value % dense_tp.value, " over")});
}

void TransportCarriesGroup(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  if (!inputs.mesh.transport_ranks.has_value()) return;
  const std::vector<uint64_t>& sizes = inputs.mesh.transport_ranks->value;
  const uint64_t group = GroupSize(inputs.deployment);
  if (group == 1 || std::find(sizes.begin(), sizes.end(), group) != sizes.end()) return;
  diagnostics
      .Error(rule, inputs.deployment.parallel_span,
             absl::StrCat("an expert group of tp x ep = ", group, " ranks, the mesh's collectives take ",
                          absl::StrJoin(sizes, ", ")))
      .notes.push_back(
          {inputs.mesh.transport_ranks->span, absl::StrCat("backend ", WordOf(inputs.mesh.transport.value))});
}

}  // namespace meshseal::compiler::rules

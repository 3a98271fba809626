// Rules over a deployment with its model and mesh: degrees against dimensions, limits against each other.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/check/rules.h"
#include "schema/checked_math.h"

namespace meshseal::compiler::rules {
namespace {

constexpr uint64_t kMostRanks = 65536;

// Each degree is at most 65536, so the product fits 64 bits.
uint64_t World(const Deployment& d) { return d.dp.value * d.pp.value * d.tp.value * d.ep.value; }

uint64_t GroupSize(const Deployment& d) { return d.tp.value * d.ep.value; }

std::string DegreesText(const Deployment& d) {
  return absl::StrCat("dp=", d.dp.value, " x pp=", d.pp.value, " x tp=", d.tp.value, " x ep=", d.ep.value);
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
  const bool fits = inputs.mesh.emulated.value ? world >= slots : world == slots;
  if (fits) return;
  diagnostics
      .Error(rule, d.parallel_span,
             absl::StrCat(DegreesText(d), " is ", world, " ranks, the mesh has ", slots, " slots",
                          inputs.mesh.emulated.value ? " and each takes at least one" : ""))
      .notes.push_back({inputs.mesh.nodes_span, absl::StrCat("mesh '", inputs.mesh.name.value, "'")});
}

void DenseTpDividesGroup(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const Deployment& d = inputs.deployment;
  const uint64_t group = GroupSize(d);
  if (group % d.dense_tp.value != 0) {
    diagnostics.Error(rule, d.dense_tp.span,
                      absl::StrCat("dense.tp ", d.dense_tp.value,
                                   " does not divide the expert group of tp x ep = ", group, " ranks"));
  } else if (d.dense_tp.value != group) {
    diagnostics.Error("not-yet-built", d.dense_tp.span,
                      absl::StrCat("dense.tp ", d.dense_tp.value, " below tp x ep = ", group,
                                   " (different tokens inside an expert group) is not built in this version"));
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
  const uint64_t ep = inputs.deployment.ep.value;
  const uint64_t experts = inputs.model.experts.value;
  if (ep > experts) {
    diagnostics
        .Error(rule, inputs.deployment.ep.span,
               absl::StrCat("expert-parallel degree ", ep, " leaves ranks without an expert: there are ", experts))
        .notes.push_back({inputs.model.experts.span, "every rank owns at least one expert"});
  } else if (experts % ep != 0 && !inputs.deployment.uneven_experts) {
    diagnostics
        .Error(rule, inputs.deployment.ep.span,
               absl::StrCat("expert-parallel degree ", ep, " does not divide experts ", experts))
        .notes.push_back(
            {inputs.model.experts.span, absl::StrCat(experts, " experts over ", ep, " ranks leaves ", experts % ep,
                                                     " over; placement.uneven: allow gives the first ranks ",
                                                     experts / ep + 1, " and the others ", experts / ep)});
  }
}

void TpDividesFfn(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const uint64_t tp = inputs.deployment.tp.value;
  const uint64_t columns = inputs.model.intermediate_size.value;
  if (tp > columns) {
    diagnostics
        .Error(rule, inputs.deployment.tp.span,
               absl::StrCat("tensor-parallel degree ", tp, " leaves ranks without a column: intermediate_size is ",
                            columns))
        .notes.push_back({inputs.model.intermediate_size.span, "every rank owns at least one column"});
  } else if (columns % tp != 0 && !inputs.deployment.uneven_cuts) {
    diagnostics
        .Error(rule, inputs.deployment.tp.span,
               absl::StrCat("tensor-parallel degree ", tp, " does not divide intermediate_size ", columns))
        .notes.push_back({inputs.model.intermediate_size.span,
                          absl::StrCat(columns, " columns over ", tp, " ranks leaves ", columns % tp, " over")});
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
  if (inputs.deployment.kv_heads == KvHeadsPolicy::kReplicate) {
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

void LimitsAreCoherent(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const Deployment& d = inputs.deployment;
  uint64_t last = 0;
  for (const uint64_t bucket : d.decode_buckets.value) {
    if (bucket <= last) {
      diagnostics.Error(rule, d.decode_buckets.span,
                        absl::StrCat("decode_buckets do not ascend: ", bucket, " after ", last));
    }
    last = bucket;
  }
  if (last != d.decode_tokens.value) {
    diagnostics
        .Error(rule, d.decode_buckets.span,
               absl::StrCat("the last decode bucket is ", last, ", decode_tokens is ", d.decode_tokens.value))
        .notes.push_back({d.decode_tokens.span, "the largest bucket takes the largest step"});
  }
  if (d.prefill_chunk.value > d.prefill_tokens.value) {
    diagnostics
        .Error(rule, d.prefill_chunk.span,
               absl::StrCat("prefill_chunk ", d.prefill_chunk.value, " is larger than prefill_tokens ",
                            d.prefill_tokens.value))
        .notes.push_back({d.prefill_tokens.span, "a prefill is cut into chunks"});
  }
}

}  // namespace meshseal::compiler::rules

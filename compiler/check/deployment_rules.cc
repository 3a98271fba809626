// Rules over a deployment with its model and mesh that no other degrees would mend: limits, reduction, formats, slots.
#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/check/exact_sum.h"
#include "compiler/check/grain.h"
#include "compiler/check/role.h"
#include "compiler/check/rules.h"

namespace meshseal::compiler::rules {
namespace {

constexpr double kLargestHalf = 65504;  // the largest finite float16

// The outputs that are summed for one output element of the group's layers.
uint64_t Addends(const MoeSpec& moe) { return moe.experts_per_token.value + (moe.shared_expert.has_value() ? 1 : 0); }

}  // namespace

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

void SharedExpertIsPlaced(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const Deployment& d = inputs.deployment;
  const SharedExpertSpec* shared = nullptr;
  for (const LayerGroup& group : inputs.model.groups) {
    if (group.moe.shared_expert.has_value()) shared = &*group.moe.shared_expert;
  }
  if (shared != nullptr && !d.shared_expert.has_value()) {
    diagnostics
        .Error(rule, d.parallel_span,
               "the deployment does not say where the shared expert lies: shared_expert: split, or owner")
        .notes.push_back({shared->span, "whole on every rank, it would be summed once for each"});
  } else if (shared == nullptr && d.shared_expert.has_value()) {
    diagnostics.Error(rule, d.shared_expert->span, "shared_expert is placed, and the model has none");
  }
}

void BasisFitsWeights(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const auto check = [&](const Spanned<Basis>& basis, const char* projection, std::initializer_list<TensorRole> roles) {
    for (const LayerGroup& group : inputs.model.groups) {
      for (const TensorRole role : roles) {
        const TensorSpec* tensor = group.moe.FindTensor(role);
        if (tensor == nullptr) continue;
        const bool rotated = basis.value == Basis::kRotated;
        if (rotated != tensor->rotation.has_value()) {
          diagnostics
              .Error(rule, basis.span,
                     absl::StrCat("activation_basis.", projection, " is ", WordOf(basis.value), ", tensor '",
                                  WordOf(role), rotated ? "' is not rotated" : "' is rotated"))
              .notes.push_back({rotated ? tensor->role.span : tensor->rotation->span,
                                "both sides of a product are rotated, or neither"});
        }
        const uint64_t length = ExtentOf(RowOf(role).inputs, inputs.model, group.moe);
        if (basis.value == Basis::kQ8 && length % kQ8Block != 0) {
          diagnostics
              .Error(rule, basis.span,
                     absl::StrCat("activation_basis.", projection, " q8 has blocks of ", kQ8Block, ", ",
                                  WordOf(RowOf(role).inputs), " is ", length))
              .notes.push_back({tensor->role.span, absl::StrCat("tensor '", WordOf(role), "'")});
        }
      }
    }
  };
  check(inputs.deployment.gate_up_basis, "gate_up", {TensorRole::kGate, TensorRole::kUp, TensorRole::kGateUp});
  check(inputs.deployment.down_basis, "down", {TensorRole::kDown});
  constexpr TensorRole kWithBasis[] = {TensorRole::kGate, TensorRole::kUp, TensorRole::kGateUp, TensorRole::kDown};
  for (const LayerGroup& group : inputs.model.groups) {
    for (const TensorSpec& tensor : group.moe.tensors) {
      const bool has_basis =
          std::find(std::begin(kWithBasis), std::end(kWithBasis), tensor.role.value) != std::end(kWithBasis);
      if (has_basis || !tensor.rotation.has_value()) continue;
      diagnostics.Error(rule, tensor.rotation->span,
                        absl::StrCat("tensor '", WordOf(tensor.role.value),
                                     "' is rotated, and no activation_basis rotates what it is multiplied with"));
    }
  }
}

void ExactSumsFit(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const Deployment& d = inputs.deployment;
  if (d.reduction.value != Reduction::kExact) return;
  if (d.exact_bound.value < 1) {
    diagnostics.Error(rule, d.exact_bound.span, "exact.bound must be at least 1: every addend is below it");
    return;
  }
  const uint64_t segments = d.exact_segments.value;
  if (segments % d.tp.value != 0) {
    diagnostics
        .Error(rule, d.exact_segments.span,
               absl::StrCat("exact.segments ", segments, " is no multiple of tp ", d.tp.value))
        .notes.push_back({d.tp.span, "a rank's columns are whole segments"});
  }
  if (d.shared_expert.has_value()) {
    const bool split = d.shared_expert->value == SharedPlacement::kSplit;
    const uint64_t parts = split ? d.tp.value * d.ep.value : d.tp.value;
    const uint64_t shared = SharedSegments(d).value;
    if (shared % parts != 0) {
      diagnostics
          .Error(rule, SharedSegments(d).span,
                 absl::StrCat(shared, " segments of the shared expert are no multiple of the ", parts,
                              " ranks that it is cut over"))
          .notes.push_back({d.shared_expert->span, "a rank's columns of the shared expert are whole segments"});
    }
  } else if (d.exact_shared_segments.has_value()) {
    diagnostics.Error(rule, d.exact_shared_segments->span,
                      "exact.shared_segments is said, and no layer has a shared expert");
  }
  for (const LayerGroup& group : inputs.model.groups) {
    const int fraction = ExactFractionBits(group.moe, d);
    if (fraction >= 1) continue;
    diagnostics
        .Error(rule, d.exact_bound.span,
               absl::StrCat("exact.bound ", d.exact_bound.value, " with ", ExactAddends(group.moe, d),
                            " addends leaves no bit of ", kFixedPointBits, " behind the point"))
        .notes.push_back({d.exact_segments.span, "addends are slots times segments, and those of the shared expert"});
  }
}

void OutputHoldsSums(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const Deployment& d = inputs.deployment;
  if (d.output_dtype.value != Basis::kF16) return;
  for (const LayerGroup& group : inputs.model.groups) {
    if (group.moe.residual.value == Residual::kAdd) {
      diagnostics
          .Error(rule, d.output_dtype.span,
                 absl::StrCat("output_dtype f16 ends at ", kLargestHalf, ", and nothing bounds the residual"))
          .notes.push_back({group.moe.residual.span, "the residual is added to the sum"});
    } else if (d.reduction.value != Reduction::kExact) {
      diagnostics
          .Error(rule, d.output_dtype.span,
                 absl::StrCat("output_dtype f16 ends at ", kLargestHalf, ", and nothing bounds the sum of ",
                              Addends(group.moe), " outputs; write bf16, or an exact reduction with a bound"))
          .notes.push_back({group.moe.router.scale.span, "the routed scale is in every addend"});
    } else if (const uint64_t addends = ExactAddends(group.moe, d);
               d.exact_bound.value * static_cast<double>(addends) > kLargestHalf) {
      diagnostics
          .Error(rule, d.output_dtype.span,
                 absl::StrCat("output_dtype f16 ends at ", kLargestHalf, ", a sum of ", addends, " addends below ",
                              d.exact_bound.value, " may reach ", d.exact_bound.value * static_cast<double>(addends)))
          .notes.push_back({d.exact_bound.span, "the bound"});
    }
  }
}

void ProfileFitsModel(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  if (!inputs.profile.has_value()) return;
  const LoadProfile& profile = inputs.profile->profile;
  const Span span = inputs.deployment.profile.span;
  std::set<uint32_t> missing;  // from the profile
  std::set<uint32_t> others;   // layers of the profile that are not MoE
  for (const auto& [layer, counts] : profile.slots) others.insert(layer);
  for (const LayerGroup& group : inputs.model.groups) {
    const Spanned<uint64_t>& experts = group.moe.experts;
    const Spanned<uint64_t>& top_k = group.moe.experts_per_token;
    for (const LayerRange& range : group.layers) {
      for (uint32_t layer = range.first; layer < range.last; ++layer) {
        const auto found = profile.slots.find(layer);
        if (found == profile.slots.end()) {
          missing.insert(layer);
          continue;
        }
        others.erase(layer);
        const std::vector<uint64_t>& counts = found->second;
        if (counts.size() != experts.value) {
          diagnostics
              .Error(rule, span,
                     absl::StrCat("layer ", layer, ": the profile counts ", counts.size(), " experts, the model has ",
                                  experts.value))
              .notes.push_back({experts.span, "one count for each"});
          continue;
        }
        // Below 2^63: the profile's counts and tokens, the experts and experts_per_token all have their limits.
        const uint64_t slots = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
        if (slots == profile.tokens * top_k.value) continue;
        diagnostics
            .Error(rule, span,
                   absl::StrCat("layer ", layer, ": the profile counts ", slots, " slots, expected ",
                                profile.tokens * top_k.value, ": ", profile.tokens, " tokens with ", top_k.value,
                                " experts each"))
            .notes.push_back({top_k.span, "a token takes a slot of each expert that it selects"});
      }
    }
  }
  const auto report = [&](const std::set<uint32_t>& layers, absl::string_view what) {
    if (layers.empty()) return;
    const std::string more = layers.size() == 1 ? "" : absl::StrCat(" and ", layers.size() - 1, " more");
    diagnostics.Error(rule, span, absl::StrCat("layer ", *layers.begin(), more, ": ", what))
        .notes.push_back({inputs.model.moe_layers.span, "the MoE layers"});
  };
  report(missing, "the profile has no counts, and it is a MoE layer");
  report(others, "the profile has counts, and it is no MoE layer");
}

void AssignNamesSlots(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const MeshSpec& mesh = inputs.mesh;
  if (mesh.assign.empty()) return;
  const Deployment& d = inputs.deployment;
  const uint64_t world = d.dp.value * d.pp.value * d.tp.value * d.ep.value;
  if (mesh.assign.size() != world) {
    diagnostics
        .Error(rule, mesh.assign_span,
               absl::StrCat("assign places ", mesh.assign.size(), " ranks, the degrees make ", world))
        .notes.push_back({d.parallel_span, "the degrees"});
  }
  std::map<std::string, const NodeSpec*> nodes;
  for (const NodeSpec& node : mesh.nodes) nodes.emplace(node.name.value, &node);
  std::map<std::pair<std::string, uint64_t>, Span> taken;
  for (const AssignSpec& row : mesh.assign) {
    const auto found = nodes.find(row.node.value);
    if (found == nodes.end()) {
      diagnostics.Error(rule, row.node.span, absl::StrCat("there is no node '", row.node.value, "'"));
      continue;
    }
    const NodeSpec* node = found->second;
    if (row.slot.value >= node->slots.value) {
      diagnostics
          .Error(rule, row.slot.span,
                 absl::StrCat("node '", row.node.value, "' has slots 0 to ", node->slots.value - 1, ", found ",
                              row.slot.value))
          .notes.push_back({node->slots.span, "slots count from 0 on every node"});
    }
    const auto [other, inserted] = taken.emplace(std::make_pair(row.node.value, row.slot.value), row.span);
    if (inserted || mesh.emulated.value) continue;
    diagnostics
        .Error(rule, row.span, absl::StrCat("two ranks on slot ", row.slot.value, " of node '", row.node.value, "'"))
        .notes.push_back({other->second, "the other one"});
  }
}

}  // namespace meshseal::compiler::rules

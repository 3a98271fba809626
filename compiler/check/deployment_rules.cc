// Rules over a deployment with its model and mesh that no other degrees would mend: limits, reduction, formats, slots.
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/check/grain.h"
#include "compiler/check/role.h"
#include "compiler/check/rules.h"

namespace meshseal::compiler::rules {
namespace {

constexpr double kLargestHalf = 65504;  // the largest finite float16
constexpr int kFixedPointBits = 62;     // of an int64 whose sum must not overflow

// Whole bits that `value` > 0 needs: the exponent of the next power of two.
int BitsFor(double value) { return static_cast<int>(std::ceil(std::log2(value))); }

// The most addends of one output element of the group's layers.
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
}

void ExactSumsFit(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics) {
  const Deployment& d = inputs.deployment;
  if (d.reduction.value != Reduction::kExact) return;
  if (d.exact_bound.value <= 0) {
    diagnostics.Error(rule, d.exact_bound.span, "exact.bound must be above 0: every addend is below it");
    return;
  }
  const uint64_t segments = d.exact_segments.value;
  if (segments % d.tp.value != 0) {
    diagnostics
        .Error(rule, d.exact_segments.span,
               absl::StrCat("exact.segments ", segments, " is no multiple of tp ", d.tp.value))
        .notes.push_back({d.tp.span, "a rank's columns are whole segments"});
  }
  for (const LayerGroup& group : inputs.model.groups) {
    const double addends = static_cast<double>(Addends(group.moe)) * static_cast<double>(segments);
    const int fraction = kFixedPointBits - BitsFor(d.exact_bound.value) - BitsFor(addends);
    if (fraction >= 0) continue;
    diagnostics
        .Error(rule, d.exact_bound.span,
               absl::StrCat("exact.bound ", d.exact_bound.value, " with ", addends, " addends needs ",
                            kFixedPointBits - fraction, " bits, there are ", kFixedPointBits))
        .notes.push_back({d.exact_segments.span, "addends are slots times segments"});
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
    } else if (d.exact_bound.value * static_cast<double>(Addends(group.moe)) > kLargestHalf) {
      diagnostics
          .Error(rule, d.output_dtype.span,
                 absl::StrCat("output_dtype f16 ends at ", kLargestHalf, ", a sum of ", Addends(group.moe),
                              " outputs below ", d.exact_bound.value, " may reach ",
                              d.exact_bound.value * static_cast<double>(Addends(group.moe))))
          .notes.push_back({d.exact_bound.span, "the bound"});
    }
  }
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
  std::map<std::pair<std::string, uint64_t>, Span> taken;
  for (const AssignSpec& row : mesh.assign) {
    const NodeSpec* node = nullptr;
    for (const NodeSpec& each : mesh.nodes) {
      if (each.name.value == row.node.value) node = &each;
    }
    if (node == nullptr) {
      diagnostics.Error(rule, row.node.span, absl::StrCat("there is no node '", row.node.value, "'"));
      continue;
    }
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

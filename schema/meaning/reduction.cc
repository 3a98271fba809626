// Rules on the sum over an expert group: how its bytes move, and the fixed point of an exact one.
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "schema/checked_math.h"
#include "schema/meaning/rules.h"
#include "schema/meaning/shape_facts.h"

namespace meshseal::meaning {
namespace {

constexpr int kFixedPointBits = 62;                     // of an int64 whose sums must not overflow
constexpr uint64_t kExchangeSaves = uint64_t{1} << 20;  // bytes that a second round of messages must spare a rank

// The exponent of the smallest power of two that is not below `value`, finite and above 0; nothing is rounded.
int BitsFor(double value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  return fraction > 0.5 ? exponent : exponent - 1;
}

// The most addends of one element: of each slot a segment, of the shared expert likewise, of the down bias one a slot.
uint64_t AddendsOf(const LayerClass& c) {
  const uint64_t bias = FindTensor(c, TensorRole::kDownBias) != nullptr ? c.top_k : 0;
  return uint64_t{c.top_k} * c.segment_ends.size() + c.shared_expert.segment_ends.size() + bias;
}

// Whether a sum in rank order of `tokens` tokens is made of slices that are exchanged, summed and gathered, because
// that brings each rank so much less than all addends do: of n ranks' addends, 2(n - 1)/n instead of n - 1. Of two
// ranks that is the same.
bool IsExchanged(const Plan& plan, uint32_t tokens) {
  const uint64_t ranks = GroupSize(plan.degrees);
  if (ranks <= 2) return false;
  const uint64_t least = CeilDiv(kExchangeSaves * ranks, kAddendBytes * (ranks - 1) * (ranks - 2));
  return uint64_t{tokens} * plan.hidden >= least;
}

ReduceAlgorithm AlgorithmOf(const Plan& plan, uint32_t tokens) {
  if (plan.reduction != Reduction::kOrdered) return ReduceAlgorithm::kTransport;
  const bool exchanged = Gathers(plan.degrees) || IsExchanged(plan, tokens);
  return exchanged ? ReduceAlgorithm::kExchangeThenSum : ReduceAlgorithm::kGatherThenSum;
}

}  // namespace

Fault AlgorithmFitsReduction(const Plan& plan, const SealFacts&) {
  for (const LayerClass& c : plan.layer_classes) {
    for (const Program& program : c.programs) {
      const ReduceAlgorithm expected = AlgorithmOf(plan, program.max_tokens);
      if (program.reduce_algorithm == expected) continue;
      return absl::StrCat("layer ", c.layers.front().first, " ", WordOf(program.phase), ": reduction ",
                          WordOf(plan.reduction), " has the algorithm '", WordOf(program.reduce_algorithm),
                          "', expected '", WordOf(expected), "'");
    }
  }
  if (plan.output == Basis::kF32 || plan.output == Basis::kBf16 || plan.output == Basis::kF16) return std::nullopt;
  return absl::StrCat("the output is ", WordOf(plan.output), ", expected f32, bf16 or f16");
}

Fault NumericsFollowReduction(const Plan& plan, const SealFacts&) {
  const Numerics expected = plan.reduction == Reduction::kExact ? Numerics::kReference1 : Numerics::kBackendOwn;
  if (plan.numerics == expected) return std::nullopt;
  return absl::StrCat("reduction ", WordOf(plan.reduction), " has the numerics '", WordOf(plan.numerics),
                      "', expected '", WordOf(expected), "'");
}

Fault ExactBitsFit(const Plan& plan, const SealFacts&) {
  const bool exact = plan.reduction == Reduction::kExact;
  const double bound = plan.exact_bound;
  if (exact ? !std::isfinite(bound) || bound <= 0 : bound != 0 || std::signbit(bound)) {
    return absl::StrCat("a bound of ", plan.exact_bound, " for a reduction ", WordOf(plan.reduction));
  }
  for (const LayerClass& c : plan.layer_classes) {
    // Below 2^42 addends, so the conversion is exact.
    const int expected =
        exact ? kFixedPointBits - BitsFor(plan.exact_bound) - BitsFor(static_cast<double>(AddendsOf(c))) : 0;
    if (exact && (expected < 1 || expected > kFixedPointBits)) {
      return absl::StrCat("a bound of ", plan.exact_bound, " and ", AddendsOf(c), " addends leave ", expected,
                          " fraction bits, expected 1 to ", kFixedPointBits);
    }
    if (static_cast<int64_t>(c.fraction_bits) != expected) {
      return absl::StrCat("layer ", c.layers.front().first, " has ", c.fraction_bits, " fraction bits, derived are ",
                          expected);
    }
  }
  return std::nullopt;
}

}  // namespace meshseal::meaning

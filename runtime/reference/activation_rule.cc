#include "runtime/reference/activation_rule.h"

#include <cstddef>

#include "runtime/numerics/activation_value.h"
#include "runtime/program/rank_facts.h"

namespace meshseal::runtime {

void Activate(const Activation& rule, absl::Span<const float> products, absl::Span<float> out) {
  const bool gated = HasGate(rule.kind);
  const absl::Span<const float> up = products.subspan(gated ? out.size() : 0);
  for (size_t c = 0; c < out.size(); ++c) {
    out[c] = Activated(rule, gated ? products[c] : 0, up[c]);
  }
}

}  // namespace meshseal::runtime

// The shared expert's activations, by its own rule.
#include <cstdint>

#include "runtime/program/rank_facts.h"
#include "runtime/reference/activation_rule.h"
#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::SharedActivation(const SharedActivationArgs& args) {
  const uint64_t columns = args.shared_columns;
  const uint64_t products = HasGate(args.activation.kind) ? 2 * columns : columns;
  for (uint32_t token = 0; token < args.shape.tokens; ++token) {
    Activate(args.activation, RowOf(args.gate_up, token, products), RowOf(args.out, token, columns));
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime

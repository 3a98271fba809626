// What selects experts without scoring all of them: a token table, or the caller. Nothing of it is believed.
#ifndef MESHSEAL_RUNTIME_BACKEND_ROUTING_CHECKS_H_
#define MESHSEAL_RUNTIME_BACKEND_ROUTING_CHECKS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/backend/step_args.h"

namespace meshseal::runtime {

// Why `selected`, the experts of one token, are not different experts of a layer with `experts`: "expert 9 of 8",
// "expert 3 twice". Nothing when they are.
std::optional<std::string> FaultOfSelected(absl::Span<const int64_t> selected, uint32_t experts);

// Ids of tokens `first_token` and on, below `vocabulary`. Reason kUsage, naming the token.
absl::Status CheckTokenIds(absl::Span<const int32_t> ids, uint32_t vocabulary, uint64_t first_token);

// A routing of whole tokens, `top_k` slots each, by the caller: different experts of the layer's `experts`, and finite
// weights. Reason kUsage, naming the token.
absl::Status CheckGivenRouting(const Routing& routing, uint32_t top_k, uint32_t experts, uint64_t first_token);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_BACKEND_ROUTING_CHECKS_H_

// The closed vocabularies of a plan: each is a list of (enumerator, wire value, word). The word is what a manifest
// writes and what a listing prints; the wire value is what the FlatBuffer stores; 0 is never valid.
// Rows are appended; a value is never reused.
#ifndef MESHSEAL_SCHEMA_TERMS_H_
#define MESHSEAL_SCHEMA_TERMS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace meshseal {

// How router logits become scores (facts about families: see manifests/README.md).
#define MESHSEAL_SCORING(X) X(kSoftmax, 1, "softmax")
// Whether the softmax is taken before or after the top-k.
#define MESHSEAL_ROUTE_ORDER(X) X(kScoreThenTopK, 1, "score_then_topk") X(kTopKThenScore, 2, "topk_then_score")
// What happens to the chosen scores before the routed scale.
#define MESHSEAL_RENORMALIZE(X) X(kNone, 1, "none") X(kSum, 2, "sum")
// Where the routing weight is multiplied in.
#define MESHSEAL_WEIGHT_POINT(X) X(kOutput, 1, "output")
#define MESHSEAL_ACTIVATION_KIND(X) X(kSwiGlu, 1, "swiglu")
#define MESHSEAL_RESIDUAL(X) X(kNone, 1, "none") X(kAdd, 2, "add")
// The number format an operand is rounded to before a product; products accumulate at least in float32.
#define MESHSEAL_BASIS(X) X(kF32, 1, "f32") X(kBf16, 2, "bf16")
#define MESHSEAL_WEIGHT_SOURCE(X) X(kSafetensors, 1, "safetensors")
#define MESHSEAL_PHASE(X) X(kDecode, 1, "decode") X(kPrefill, 2, "prefill")
#define MESHSEAL_REDUCTION(X) X(kOrdered, 1, "ordered")
// How `ordered` moves its bytes.
#define MESHSEAL_REDUCE_ALGORITHM(X) X(kGatherThenSum, 1, "all-gather + rank-order sum")
#define MESHSEAL_GROUP_KIND(X) X(kExpert, 1, "expert_group")
#define MESHSEAL_COLLECTIVE_OP(X) X(kSum, 1, "sum")
#define MESHSEAL_NUMERICS(X) X(kBackendOwn, 1, "backend's own")
#define MESHSEAL_FAILURE_SCOPE(X) X(kWorld, 1, "world") X(kReplica, 2, "replica")
#define MESHSEAL_MEMORY_KIND(X) X(kDiscrete, 1, "discrete") X(kUnified, 2, "unified") X(kHost, 3, "host")
#define MESHSEAL_TRANSPORT(X) X(kInproc, 1, "inproc") X(kMpi, 2, "mpi") X(kNccl, 3, "nccl")
// What a tensor is for; the closed list of the manifest.
#define MESHSEAL_TENSOR_ROLE(X) X(kRouter, 1, "router") X(kGate, 2, "gate") X(kUp, 3, "up") X(kDown, 4, "down")
// The named axes of a tensor's shape, in the file's order, slowest first.
#define MESHSEAL_SHAPE_AXIS(X) X(kHidden, 1, "hidden") X(kIntermediate, 2, "intermediate") X(kExperts, 3, "experts")
// What the rows of a value stand for.
#define MESHSEAL_VALUE_ORDER(X)                                                               \
  X(kToken, 1, "token")       /* one row per token */                                         \
  X(kSlot, 2, "slot")         /* row token*k + j */                                           \
  X(kRow, 3, "row")           /* grouped by local expert, each group padded to whole tiles */ \
  X(kRouting, 4, "routing")   /* per slot: expert id and weight */                            \
  X(kGrouping, 5, "grouping") /* the permutation between slots and rows */
// What the columns of a value stand for; `columns` are the rank's own columns of the intermediate axis.
#define MESHSEAL_VALUE_WIDTH(X) \
  X(kHidden, 1, "hidden") X(kColumns, 2, "columns") X(kTwoColumns, 3, "2*columns") X(kIndex, 4, "index")
#define MESHSEAL_ROW_SET(X) X(kAll, 1, "all") X(kOwned, 2, "owned")
// Per mesh axis: the same bits on all its ranks, cut along the columns, or an addend of the true value.
#define MESHSEAL_AXIS_PLACEMENT(X) X(kReplicated, 1, "R") X(kSplitColumns, 2, "S(col)") X(kAddend, 3, "P")

struct Term {
  uint8_t value;
  const char* word;
};

// Terms<E>() is the list behind enumeration E.
template <class E>
absl::Span<const Term> Terms();

#define MESHSEAL_TERM_ENUMERATOR(enumerator, value, word) enumerator = value,
#define MESHSEAL_TERM_ROW(enumerator, value, word) Term{value, word},
#define MESHSEAL_DEFINE_TERMS(Type, LIST)                                     \
  enum class Type : uint8_t { kInvalid = 0, LIST(MESHSEAL_TERM_ENUMERATOR) }; \
  template <>                                                                 \
  inline absl::Span<const Term> Terms<Type>() {                               \
    static constexpr Term kRows[] = {LIST(MESHSEAL_TERM_ROW)};                \
    return kRows;                                                             \
  }

MESHSEAL_DEFINE_TERMS(Scoring, MESHSEAL_SCORING)
MESHSEAL_DEFINE_TERMS(RouteOrder, MESHSEAL_ROUTE_ORDER)
MESHSEAL_DEFINE_TERMS(Renormalize, MESHSEAL_RENORMALIZE)
MESHSEAL_DEFINE_TERMS(WeightPoint, MESHSEAL_WEIGHT_POINT)
MESHSEAL_DEFINE_TERMS(ActivationKind, MESHSEAL_ACTIVATION_KIND)
MESHSEAL_DEFINE_TERMS(Residual, MESHSEAL_RESIDUAL)
MESHSEAL_DEFINE_TERMS(Basis, MESHSEAL_BASIS)
MESHSEAL_DEFINE_TERMS(WeightSource, MESHSEAL_WEIGHT_SOURCE)
MESHSEAL_DEFINE_TERMS(Phase, MESHSEAL_PHASE)
MESHSEAL_DEFINE_TERMS(Reduction, MESHSEAL_REDUCTION)
MESHSEAL_DEFINE_TERMS(ReduceAlgorithm, MESHSEAL_REDUCE_ALGORITHM)
MESHSEAL_DEFINE_TERMS(GroupKind, MESHSEAL_GROUP_KIND)
MESHSEAL_DEFINE_TERMS(CollectiveOp, MESHSEAL_COLLECTIVE_OP)
MESHSEAL_DEFINE_TERMS(Numerics, MESHSEAL_NUMERICS)
MESHSEAL_DEFINE_TERMS(FailureScope, MESHSEAL_FAILURE_SCOPE)
MESHSEAL_DEFINE_TERMS(MemoryKind, MESHSEAL_MEMORY_KIND)
MESHSEAL_DEFINE_TERMS(Transport, MESHSEAL_TRANSPORT)
MESHSEAL_DEFINE_TERMS(TensorRole, MESHSEAL_TENSOR_ROLE)
MESHSEAL_DEFINE_TERMS(ShapeAxis, MESHSEAL_SHAPE_AXIS)
MESHSEAL_DEFINE_TERMS(ValueOrder, MESHSEAL_VALUE_ORDER)
MESHSEAL_DEFINE_TERMS(ValueWidth, MESHSEAL_VALUE_WIDTH)
MESHSEAL_DEFINE_TERMS(RowSet, MESHSEAL_ROW_SET)
MESHSEAL_DEFINE_TERMS(AxisPlacement, MESHSEAL_AXIS_PLACEMENT)

#undef MESHSEAL_DEFINE_TERMS
#undef MESHSEAL_TERM_ROW
#undef MESHSEAL_TERM_ENUMERATOR

// The word of a term; "invalid" for a value outside its list.
template <class E>
const char* WordOf(E term) {
  for (const Term& row : Terms<E>()) {
    if (row.value == static_cast<uint8_t>(term)) return row.word;
  }
  return "invalid";
}

// The term a word names, if any.
template <class E>
std::optional<E> TermOf(absl::string_view word) {
  for (const Term& row : Terms<E>()) {
    if (word == row.word) return static_cast<E>(row.value);
  }
  return std::nullopt;
}

// Whether a wire value is a row of its list.
template <class E>
bool IsKnown(E term) {
  for (const Term& row : Terms<E>()) {
    if (row.value == static_cast<uint8_t>(term)) return true;
  }
  return false;
}

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_TERMS_H_

// The closed vocabularies of a plan: each is a list of (enumerator, wire value, word) and the enumeration that it
// makes. The word is what a manifest writes and what a listing prints; the wire value is what the FlatBuffer stores; 0
// is never valid. Rows are appended; a value is never reused. A manifest and a plan may use every row; which of them
// this version executes is said in executors.cc.
//
// No Abseil here: device code reads it. What looks words up is terms.h.
#ifndef MESHSEAL_SCHEMA_VOCABULARIES_H_
#define MESHSEAL_SCHEMA_VOCABULARIES_H_

#include <cstdint>

namespace meshseal {

// How router logits become scores (facts about families: see manifests/README.md).
#define MESHSEAL_SCORING(X)                                                                              \
  X(kSoftmax, 1, "softmax")                                                                              \
  X(kSigmoid, 2, "sigmoid")                                                                              \
  X(kSqrtSoftplus, 3, "sqrt_softplus")                                                                   \
  X(kSparsemixer, 4, "sparsemixer") /* one expert after the other, each by a softmax over near logits */ \
  X(kPrecomputed, 5, "precomputed") /* the caller brings expert ids and weights */
// Whether the softmax is taken before or after the top-k.
#define MESHSEAL_ROUTE_ORDER(X) X(kScoreThenTopK, 1, "score_then_topk") X(kTopKThenScore, 2, "topk_then_score")
// What happens to the chosen scores before the routed scale.
#define MESHSEAL_RENORMALIZE(X)                                        \
  X(kNone, 1, "none")                                                  \
  X(kSum, 2, "sum")            /* divided by their sum */              \
  X(kSumPlus, 3, "sum_plus")   /* divided by their sum plus a guard */ \
  X(kSumFloor, 4, "sum_floor") /* divided by their sum, at least a guard */
// Where the routing weight is multiplied in.
#define MESHSEAL_WEIGHT_POINT(X)                        \
  X(kOutput, 1, "output")         /* what down gives */ \
  X(kActivation, 2, "activation") /* what down reads */ \
  X(kInput, 3, "input")           /* what gate and up read */
// What a group of experts is worth when groups are kept.
#define MESHSEAL_GROUP_SCORE(X) X(kMax, 1, "max") X(kTop2Sum, 2, "top2_sum")
#define MESHSEAL_ACTIVATION_KIND(X)                                                               \
  X(kSwiGlu, 1, "swiglu")                                                                         \
  X(kGeGlu, 2, "geglu")                                                                           \
  X(kRelu2, 3, "relu2")                    /* relu(up)^2, no gate */                              \
  X(kSwiGluOai, 4, "swiglu_oai")           /* gate and up clamped, up + 1, sigmoid(alpha gate) */ \
  X(kSwiGluPreclamp, 5, "swiglu_preclamp") /* gate and up clamped before silu */
#define MESHSEAL_SHARED_GATE(X) X(kNone, 1, "none") X(kSigmoid, 2, "sigmoid")
// How the shared expert lies on the ranks of an expert group.
#define MESHSEAL_SHARED_PLACEMENT(X)                          \
  X(kSplit, 1, "split") /* cut over all ranks of the group */ \
  X(kOwner, 2, "owner") /* on ep coordinate 0, cut over its tp ranks */
// How KV heads lie on more dense ranks than there are.
#define MESHSEAL_KV_HEADS(X) X(kCut, 1, "cut") X(kReplicate, 2, "replicate") /* whole ones on several ranks */
// How stored weights become the form that a backend computes with, and what is there twice meanwhile.
#define MESHSEAL_REPACK(X)                                      \
  X(kNone, 1, "none")          /* they are used as stored */    \
  X(kByExpert, 2, "by_expert") /* one expert after the other */ \
  X(kByTensor, 3, "by_tensor") /* all experts of a layer at once */
// Whether a device's memory corrects errors.
#define MESHSEAL_ECC(X) X(kAny, 1, "any") X(kOn, 2, "on") X(kOff, 3, "off")
#define MESHSEAL_RESIDUAL(X) X(kNone, 1, "none") X(kAdd, 2, "add")
// The number format an operand is rounded to before a product; products accumulate at least in float32.
#define MESHSEAL_BASIS(X)                                        \
  X(kF32, 1, "f32")                                              \
  X(kBf16, 2, "bf16")                                            \
  X(kF16, 3, "f16")                                              \
  X(kQ8, 4, "q8")           /* blocks of 32 with a scale each */ \
  X(kRotated, 5, "rotated") /* blocks rotated as the weights' blocks are */
#define MESHSEAL_WEIGHT_SOURCE(X) X(kSafetensors, 1, "safetensors") X(kGguf, 2, "gguf") X(kSynthetic, 3, "synthetic")
#define MESHSEAL_PHASE(X) X(kDecode, 1, "decode") X(kPrefill, 2, "prefill")
#define MESHSEAL_REDUCTION(X)                            \
  X(kOrdered, 1, "ordered") /* float32, in rank order */ \
  X(kFast, 2, "fast")       /* as the transport likes */ \
  X(kExact, 3, "exact")     /* fixed point: any order, same bits */
#define MESHSEAL_EXPERT_PLACEMENT(X) \
  X(kContiguous, 1, "contiguous") X(kRoundRobin, 2, "round_robin") X(kBalanced, 3, "balanced")
// How a collective moves its bytes. Slices that were exchanged and summed are gathered, unless it is a reduce-scatter.
#define MESHSEAL_REDUCE_ALGORITHM(X)                              \
  X(kGatherThenSum, 1, "all-gather + rank-order sum")             \
  X(kExchangeThenSum, 2, "all-to-all of slices + rank-order sum") \
  X(kTransport, 3, "as the transport does")
#define MESHSEAL_GROUP_KIND(X) X(kExpert, 1, "expert_group")
#define MESHSEAL_COLLECTIVE_OP(X) X(kSum, 1, "sum") X(kReduceScatter, 2, "reduce-scatter")
// The tensors that belong to a weight.
#define MESHSEAL_SIDE_KIND(X) X(kScale, 1, "scale") X(kScale2, 2, "scale_2") X(kInputScale, 3, "input_scale")
// Which of an expert's copies computes a slot: the same choice on every rank.
#define MESHSEAL_COPY_CHOICE(X) X(kTokenModCopies, 1, "token mod copies")
// What decides the bits of values. reference-1: float64 products in column order, a segment at a time, rounded once;
// all else as the reference backend does it.
#define MESHSEAL_NUMERICS(X) X(kBackendOwn, 1, "backend's own") X(kReference1, 2, "reference-1")
#define MESHSEAL_FAILURE_SCOPE(X) X(kWorld, 1, "world") X(kReplica, 2, "replica")
#define MESHSEAL_MEMORY_KIND(X) X(kDiscrete, 1, "discrete") X(kUnified, 2, "unified") X(kHost, 3, "host")
#define MESHSEAL_TRANSPORT(X) X(kInproc, 1, "inproc") X(kMpi, 2, "mpi") X(kNccl, 3, "nccl")
// What a tensor is for; the closed list of the manifest.
#define MESHSEAL_TENSOR_ROLE(X)          \
  X(kRouter, 1, "router")                \
  X(kGate, 2, "gate")                    \
  X(kUp, 3, "up")                        \
  X(kDown, 4, "down")                    \
  X(kRouterBias, 5, "router_bias")       \
  X(kSelectionBias, 6, "selection_bias") \
  X(kTokenTable, 7, "token_table")       \
  X(kGateUp, 8, "gate_up")               \
  X(kGateBias, 9, "gate_bias")           \
  X(kUpBias, 10, "up_bias")              \
  X(kGateUpBias, 11, "gate_up_bias")     \
  X(kDownBias, 12, "down_bias")          \
  X(kSharedGate, 13, "shared_gate")      \
  X(kSharedUp, 14, "shared_up")          \
  X(kSharedGateUp, 15, "shared_gate_up") \
  X(kSharedDown, 16, "shared_down")      \
  X(kSharedExpertGate, 17, "shared_expert_gate")
// The named axes of a tensor's shape, in the file's order, slowest first.
#define MESHSEAL_SHAPE_AXIS(X)                      \
  X(kHidden, 1, "hidden")                           \
  X(kIntermediate, 2, "intermediate")               \
  X(kExperts, 3, "experts")                         \
  X(kTwoIntermediate, 4, "2*intermediate")          \
  X(kShared, 5, "shared") /* shared width */        \
  X(kTwoShared, 6, "2*shared")                      \
  X(kTokenIds, 7, "vocabulary") /* a token table */ \
  X(kTopK, 8, "experts_per_token")                  \
  X(kOne, 9, "1")
// How the rows of a fused gate_up tensor alternate.
#define MESHSEAL_GATE_UP_LAYOUT(X) X(kHalves, 1, "halves") X(kInterleaved, 2, "interleaved")
#define MESHSEAL_SCALE_APPLIES(X) X(kMultiply, 1, "multiply") X(kDivide, 2, "divide")
// Whose rows a gate_up tensor's scale blocks count: the fused tensor's, or each half's own.
#define MESHSEAL_SCALE_OF(X) X(kFused, 1, "fused") X(kHalf, 2, "half")
// What the rows of a value stand for.
#define MESHSEAL_VALUE_ORDER(X)                                                               \
  X(kToken, 1, "token")       /* one row per token */                                         \
  X(kSlot, 2, "slot")         /* row token*k + j */                                           \
  X(kRow, 3, "row")           /* grouped by local expert, each group padded to whole tiles */ \
  X(kRouting, 4, "routing")   /* per slot: expert id and weight */                            \
  X(kGrouping, 5, "grouping") /* the permutation between slots and rows */                    \
  X(kShared, 6, "shared")     /* one row per token, of the shared expert's branch */          \
  X(kTokenId, 7, "token id")  /* one vocabulary index per token */
// What the columns of a value stand for; `columns` are the rank's own columns of the intermediate axis.
#define MESHSEAL_VALUE_WIDTH(X)  \
  X(kHidden, 1, "hidden")        \
  X(kColumns, 2, "columns")      \
  X(kTwoColumns, 3, "2*columns") \
  X(kIndex, 4, "index") X(kSharedColumns, 5, "shared columns") X(kTwoSharedColumns, 6, "2*shared columns")
// Which rows there are: of all tokens of the expert group, of owned slots, or of the rank's own tokens.
#define MESHSEAL_ROW_SET(X) X(kAll, 1, "all") X(kOwned, 2, "owned") X(kPart, 3, "part")
// Per mesh axis: the same bits on all its ranks, cut along the columns, an addend of the true value, or only there at
// coordinate 0.
#define MESHSEAL_AXIS_PLACEMENT(X) \
  X(kReplicated, 1, "R") X(kSplitColumns, 2, "S(col)") X(kAddend, 3, "P") X(kOnlyFirst, 4, "only(0)")

// Every vocabulary: X(Type, LIST).
#define MESHSEAL_VOCABULARIES(X)                \
  X(Scoring, MESHSEAL_SCORING)                  \
  X(RouteOrder, MESHSEAL_ROUTE_ORDER)           \
  X(Renormalize, MESHSEAL_RENORMALIZE)          \
  X(WeightPoint, MESHSEAL_WEIGHT_POINT)         \
  X(GroupScore, MESHSEAL_GROUP_SCORE)           \
  X(ActivationKind, MESHSEAL_ACTIVATION_KIND)   \
  X(SharedGate, MESHSEAL_SHARED_GATE)           \
  X(SharedPlacement, MESHSEAL_SHARED_PLACEMENT) \
  X(ExpertPlacement, MESHSEAL_EXPERT_PLACEMENT) \
  X(GateUpLayout, MESHSEAL_GATE_UP_LAYOUT)      \
  X(ScaleApplies, MESHSEAL_SCALE_APPLIES)       \
  X(ScaleOf, MESHSEAL_SCALE_OF)                 \
  X(SideKind, MESHSEAL_SIDE_KIND)               \
  X(CopyChoice, MESHSEAL_COPY_CHOICE)           \
  X(KvHeads, MESHSEAL_KV_HEADS)                 \
  X(Repack, MESHSEAL_REPACK)                    \
  X(Ecc, MESHSEAL_ECC)                          \
  X(Residual, MESHSEAL_RESIDUAL)                \
  X(Basis, MESHSEAL_BASIS)                      \
  X(WeightSource, MESHSEAL_WEIGHT_SOURCE)       \
  X(Phase, MESHSEAL_PHASE)                      \
  X(Reduction, MESHSEAL_REDUCTION)              \
  X(ReduceAlgorithm, MESHSEAL_REDUCE_ALGORITHM) \
  X(GroupKind, MESHSEAL_GROUP_KIND)             \
  X(CollectiveOp, MESHSEAL_COLLECTIVE_OP)       \
  X(Numerics, MESHSEAL_NUMERICS)                \
  X(FailureScope, MESHSEAL_FAILURE_SCOPE)       \
  X(MemoryKind, MESHSEAL_MEMORY_KIND)           \
  X(Transport, MESHSEAL_TRANSPORT)              \
  X(TensorRole, MESHSEAL_TENSOR_ROLE)           \
  X(ShapeAxis, MESHSEAL_SHAPE_AXIS)             \
  X(ValueOrder, MESHSEAL_VALUE_ORDER)           \
  X(ValueWidth, MESHSEAL_VALUE_WIDTH)           \
  X(RowSet, MESHSEAL_ROW_SET)                   \
  X(AxisPlacement, MESHSEAL_AXIS_PLACEMENT)

#define MESHSEAL_TERM_ENUMERATOR(enumerator, value, word) enumerator = value,
#define MESHSEAL_TERM_ENUMERATION(Type, LIST) \
  enum class Type : uint8_t { kInvalid = 0, LIST(MESHSEAL_TERM_ENUMERATOR) };
MESHSEAL_VOCABULARIES(MESHSEAL_TERM_ENUMERATION)
#undef MESHSEAL_TERM_ENUMERATION
#undef MESHSEAL_TERM_ENUMERATOR

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_VOCABULARIES_H_

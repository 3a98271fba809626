// What a user wrote, as typed values that keep their place: the model, the mesh, the deployment.
// Made by read_manifest.h; nothing here has been checked against anything else yet.
#ifndef MESHSEAL_COMPILER_MANIFEST_MANIFEST_H_
#define MESHSEAL_COMPILER_MANIFEST_MANIFEST_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/text/source.h"
#include "schema/dtype.h"
#include "schema/load_profile.h"
#include "schema/plan.h"
#include "schema/terms.h"

namespace meshseal::compiler {

// Attention heads; absent for `{kind: other}`, to which no head rule applies.
struct AttentionSpec {
  Spanned<uint64_t> heads;
  Spanned<uint64_t> kv_heads;
  Spanned<uint64_t> head_dim;
};

// Groups of neighbouring experts of which the best are kept; the others can never be selected.
struct RouterGroupsSpec {
  Span span;
  Spanned<uint64_t> count;
  Spanned<uint64_t> keep;
  Spanned<GroupScore> score;
};

struct RouterSpec {
  Span span;
  Spanned<Scoring> scoring;
  Spanned<double> epsilon;  // of sparsemixer; 0 otherwise
  Spanned<RouteOrder> order;
  Spanned<Renormalize> renormalize;
  Spanned<double> guard;  // of sum_plus and sum_floor; 0 otherwise
  Spanned<double> scale;
  Spanned<bool> logit_bias;      // a tensor is added to the logits
  Spanned<bool> selection_bias;  // a tensor is added to what selection looks at, never to the weights
  std::optional<RouterGroupsSpec> groups;
  Spanned<WeightPoint> weight_applied;
  Spanned<Basis> input_dtype;
  // Layers whose expert ids come from a table over token ids. In a LayerGroup: all of its layers, or none.
  Spanned<std::vector<LayerRange>> token_table_layers;
  Spanned<uint64_t> vocabulary;  // rows of the table; 0 without one
};

struct ActivationSpec {
  Spanned<ActivationKind> kind;
  std::optional<Spanned<double>> alpha;  // of swiglu_oai
  std::optional<Spanned<double>> limit;  // of swiglu_oai and swiglu_preclamp
};

// One merged MLP that every token passes.
struct SharedExpertSpec {
  Span span;
  Spanned<uint64_t> width;  // of all shared experts together
  Spanned<SharedGate> gate;
  std::optional<ActivationSpec> activation;  // absent: that of the experts
};

// Rows and columns of a weight that share one scale.
struct ScaleBlock {
  uint64_t rows = 0;
  uint64_t columns = 0;
  friend bool operator==(const ScaleBlock&, const ScaleBlock&) = default;
};

// A tensor of scales that belongs to a weight.
struct SideTensorSpec {
  Span span;
  Spanned<std::string> name;
  Spanned<DType> dtype;
  std::optional<Spanned<ScaleBlock>> block;  // absent: one scale for each matrix
  Spanned<ScaleApplies> applies;
  std::optional<Spanned<ScaleOf>> of;  // of a gate_up tensor whose scale blocks have several rows
};

struct TensorSpec {
  Spanned<TensorRole> role;
  Spanned<std::string> name;
  Spanned<DType> dtype;
  Spanned<std::vector<ShapeAxis>> shape;
  std::optional<Spanned<GateUpLayout>> layout;
  std::optional<Spanned<uint64_t>> rotation;  // elements of a rotated block
  std::optional<SideTensorSpec> scale;
  std::optional<SideTensorSpec> scale_2;
  std::optional<SideTensorSpec> input_scale;  // of the activations; no product of ours reads it
};

// What the layers of a group have in common.
struct MoeSpec {
  Spanned<uint64_t> experts;
  Spanned<uint64_t> experts_per_token;
  Spanned<uint64_t> intermediate_size;
  RouterSpec router;
  ActivationSpec activation;
  Spanned<bool> gated;
  std::optional<SharedExpertSpec> shared_expert;
  Spanned<Residual> residual;
  std::vector<TensorSpec> tensors;

  // Null where no row has the role.
  const TensorSpec* FindTensor(TensorRole role) const;
};

// All MoE layers for which the same is written.
struct LayerGroup {
  std::vector<LayerRange> layers;  // ascending, disjoint, not touching
  MoeSpec moe;
};

// What is not MoE, in bytes of a replica: on the first stage, spread over all layers, on the last stage.
struct OtherWeightsSpec {
  Spanned<uint64_t> first;
  Spanned<uint64_t> layers;
  Spanned<uint64_t> last;
};

// One row of what the model's author authorises.
struct CollectiveSpec {
  Span span;
  Spanned<std::string> after;
  Spanned<std::string> op;
  Spanned<std::string> over;
};

struct Manifest {
  const SourceFile* file = nullptr;
  Spanned<std::string> name;
  Spanned<std::string> family;
  Spanned<uint64_t> hidden_size;
  Spanned<uint64_t> layers;
  std::optional<AttentionSpec> attention;
  OtherWeightsSpec other_weights;
  Spanned<uint64_t> mtp_layers;  // blocks after the last layer that predict further tokens; not planned

  Spanned<std::vector<LayerRange>> moe_layers;
  std::vector<LayerGroup> groups;  // by first layer; at least one
  // Every further list of layers in the document: of overrides, of a token table, of expert counts.
  std::vector<Spanned<std::vector<LayerRange>>> layer_lists;

  Spanned<WeightSource> source;
  uint64_t seed = 0;  // of synthetic weights
  Span tensors_span;
  std::vector<Spanned<std::string>> ignored;

  Span collectives_span;
  std::vector<CollectiveSpec> collectives;
};

struct DeviceKindSpec {
  Spanned<std::string> name;
  Spanned<uint64_t> memory;  // bytes; of a `host` kind: of the whole node
  Spanned<MemoryKind> memory_kind;
  Spanned<uint64_t> usable;                // bytes seen free on a unified device; all of it on the others
  Spanned<uint64_t> communicator_reserve;  // bytes that the transport takes on each device
  // What pricing reads; absent where the document does not say.
  std::optional<Spanned<uint64_t>> bandwidth;  // of its memory, bytes per second
  std::optional<Spanned<uint64_t>> bf16;       // floating-point operations per second
  std::optional<Spanned<uint64_t>> fp8;
  std::optional<Spanned<uint64_t>> sm;  // compute capability, 90 for 9.0
  std::optional<Spanned<uint64_t>> shared_memory_per_block;
  // What a bound device is compared with.
  Spanned<Ecc> ecc = {Ecc::kAny, {}};
  Spanned<bool> peer_access;  // those of one node read each other's memory
  Spanned<bool> fabric;       // those of one island are of one NVLink fabric
};

struct NodeSpec {
  Spanned<std::string> name;
  Spanned<std::string> kind;
  Spanned<uint64_t> slots;
  std::vector<Spanned<std::string>> identity;  // physical devices in slot order; empty: any
  Span identity_span;
};

// Where a rank runs, by name.
struct AssignSpec {
  Span span;
  Spanned<std::string> node;
  Spanned<uint64_t> slot;
};

struct LinkSpec {
  Spanned<uint64_t> bandwidth;  // bytes per second
  Spanned<uint64_t> latency;    // nanoseconds
};

// Nodes joined by fast links.
struct IslandSpec {
  Span span;
  std::vector<Spanned<std::string>> nodes;
  LinkSpec link;
};

struct MeshSpec {
  const SourceFile* file = nullptr;
  Spanned<std::string> name;
  std::vector<DeviceKindSpec> device_kinds;
  Span nodes_span;
  std::vector<NodeSpec> nodes;
  Span islands_span;
  std::vector<IslandSpec> islands;
  std::optional<LinkSpec> between_islands;
  std::vector<AssignSpec> assign;  // in rank order; empty: ranks fill slots in node order
  Span assign_span;
  Spanned<Transport> transport;
  std::optional<Spanned<std::vector<uint64_t>>> transport_ranks;  // absent: any
  std::optional<Spanned<std::string>> version_min;                // of the transport's library, such as 2.28.9
  std::optional<Spanned<std::string>> version_max;
  Spanned<bool> capturable;  // captured programs can hold its collectives
  Spanned<bool> emulated;

  uint64_t SlotCount() const;
  // Null for an unknown name; `devices-are-known` says so.
  const DeviceKindSpec* FindKind(absl::string_view kind_name) const;
  // Of a mesh that holds `devices-are-known`.
  const DeviceKindSpec& KindOfNode(size_t node) const { return *FindKind(nodes[node].kind.value); }
};

// The most tokens that one dense group brings to a step.
struct RankTokensSpec {
  Span span;
  Spanned<uint64_t> decode;
  Spanned<uint64_t> prefill;
};

inline constexpr uint64_t kMostRanks = 65536;  // of a world, and of each degree

struct Deployment {
  const SourceFile* file = nullptr;
  std::string name;  // the file's base name without its ending
  Spanned<std::string> model_path;
  Spanned<std::string> mesh_path;

  Span parallel_span;
  Spanned<uint64_t> dp;
  Spanned<uint64_t> pp;
  Spanned<uint64_t> tp;
  Spanned<uint64_t> ep;
  Spanned<uint64_t> dense_tp;
  Spanned<uint64_t> idle;  // slots of the mesh without a rank
  KvHeads kv_heads = KvHeads::kCut;

  Span placement_span;
  Spanned<ExpertPlacement> placement;
  Spanned<std::string> profile;  // of balanced: a file of loads
  Spanned<uint64_t> redundant_experts;
  bool uneven_experts = false;
  bool uneven_cuts = false;
  std::optional<Spanned<SharedPlacement>> shared_expert;
  std::optional<Spanned<std::vector<uint64_t>>> stages;  // layers per stage; absent: balanced

  Spanned<uint64_t> decode_tokens;
  Spanned<std::vector<uint64_t>> decode_buckets;
  Spanned<uint64_t> prefill_tokens;
  Spanned<uint64_t> prefill_chunk;
  std::optional<RankTokensSpec> rank_tokens;
  Spanned<uint64_t> sessions;
  Spanned<uint64_t> per_session;
  Spanned<uint64_t> headroom;
  Spanned<uint64_t> capture;  // bytes a rank for captured programs
  Spanned<Repack> repack = {Repack::kNone, {}};
  Spanned<uint64_t> repacked;  // bytes a rank that repacked forms take beside the weights as stored

  Spanned<Reduction> reduction;
  Spanned<double> exact_bound;                             // of exact: every addend is below it
  Spanned<uint64_t> exact_segments;                        // of exact: canonical column segments
  std::optional<Spanned<uint64_t>> exact_shared_segments;  // and those of the shared expert, where they are others
  Spanned<Basis> gate_up_basis;
  Spanned<Basis> down_basis;
  Spanned<Basis> output_dtype;
  Spanned<FailureScope> failure_scope;
};

// The documents of one compilation.
struct Inputs {
  Manifest model;
  MeshSpec mesh;
  Deployment deployment;
  std::optional<LoadProfileFile> profile;  // exactly where experts are balanced
  Sha256Digest weights_digest{};           // id of the digest list to bind; all zeros: none
};

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_MANIFEST_MANIFEST_H_

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
#include "schema/plan.h"
#include "schema/terms.h"

namespace meshseal::compiler {

// Attention heads; absent for `{kind: other}`, to which no head rule applies.
struct Attention {
  Spanned<uint64_t> heads;
  Spanned<uint64_t> kv_heads;
  Spanned<uint64_t> head_dim;
};

struct RouterSpec {
  Span span;
  Spanned<Scoring> scoring;
  Spanned<RouteOrder> order;
  Spanned<Renormalize> renormalize;
  Spanned<double> scale;
  Spanned<WeightPoint> weight_applied;
  Spanned<Basis> input_dtype;
};

struct TensorSpec {
  Spanned<TensorRole> role;
  Spanned<std::string> name;
  Spanned<DType> dtype;
  Spanned<std::vector<ShapeAxis>> shape;
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
  std::optional<Attention> attention;
  Spanned<uint64_t> other_weights;  // bytes per replica of what is not MoE

  Spanned<std::vector<LayerRange>> moe_layers;
  Spanned<uint64_t> experts;
  Spanned<uint64_t> experts_per_token;
  Spanned<uint64_t> intermediate_size;
  RouterSpec router;
  Spanned<ActivationKind> activation;
  Spanned<Residual> residual;

  Spanned<WeightSource> source;
  Span tensors_span;
  std::vector<TensorSpec> tensors;
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
};

struct NodeSpec {
  Spanned<std::string> name;
  Spanned<std::string> kind;
  Spanned<uint64_t> slots;
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
  Spanned<Transport> transport;
  std::optional<Spanned<std::vector<uint64_t>>> transport_ranks;  // absent: any
  Spanned<bool> emulated;

  uint64_t SlotCount() const;
  // Null for an unknown name; `devices-are-known` says so.
  const DeviceKindSpec* FindKind(absl::string_view kind_name) const;
  // Of a mesh that holds `devices-are-known`.
  const DeviceKindSpec& KindOfNode(size_t node) const { return *FindKind(nodes[node].kind.value); }
};

enum class KvHeadsPolicy : uint8_t { kCut, kReplicate };

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
  KvHeadsPolicy kv_heads = KvHeadsPolicy::kCut;

  bool uneven_experts = false;
  bool uneven_cuts = false;
  std::optional<Spanned<std::vector<uint64_t>>> stages;  // layers per stage; absent: balanced

  Spanned<uint64_t> decode_tokens;
  Spanned<std::vector<uint64_t>> decode_buckets;
  Spanned<uint64_t> prefill_tokens;
  Spanned<uint64_t> prefill_chunk;
  Spanned<uint64_t> sessions;
  Spanned<uint64_t> per_session;
  Spanned<uint64_t> headroom;

  Spanned<Reduction> reduction;
  Spanned<Basis> gate_up_basis;
  Spanned<Basis> down_basis;
  Spanned<Basis> output_dtype;
  Spanned<FailureScope> failure_scope;
};

// The three documents of one compilation.
struct Inputs {
  Manifest model;
  MeshSpec mesh;
  Deployment deployment;
};

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_MANIFEST_MANIFEST_H_

// The content of a plan as plain C++: what the compiler fills in, what the writer turns into a FlatBuffer, and what a
// SealedPlan hands out, immutable, after all gates. The executor reads this, never FlatBuffer memory.
//
// A plan says nothing per rank that follows from a rule: rank r of the world has the coordinate (dp, pp, tp, ep) of
// mesh_view.h; ep gives its experts (`ExpertShard`), tp its column segments (`ColumnShard`), pp its layers.
// All sizes are bytes, all layer, expert and rank numbers start at 0, ranges are half-open.
#ifndef MESHSEAL_SCHEMA_PLAN_H_
#define MESHSEAL_SCHEMA_PLAN_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "schema/dtype.h"
#include "schema/rules.h"
#include "schema/sha256.h"
#include "schema/step.h"
#include "schema/terms.h"

namespace meshseal {

inline constexpr uint16_t kPlanFormatMajor = 0;
inline constexpr uint16_t kPlanFormatMinor = 6;

// A line of one of the plan's source documents.
struct Origin {
  uint32_t source = 0;  // index into Plan::sources
  uint32_t line = 0;    // from 1
  friend bool operator==(const Origin&, const Origin&) = default;
};

// A document the plan was compiled from: base name and the digest of its bytes.
struct SourceDocument {
  std::string name;
  Sha256Digest digest{};
  friend bool operator==(const SourceDocument&, const SourceDocument&) = default;
};

// Parallel degrees; world = dp * pp * tp * ep. `dense_tp` is the tensor degree of what is not MoE.
struct Degrees {
  uint32_t dp = 0;
  uint32_t pp = 0;
  uint32_t tp = 0;
  uint32_t ep = 0;
  uint32_t dense_tp = 0;
  friend bool operator==(const Degrees&, const Degrees&) = default;
};

struct DeviceKind {
  std::string name;
  MemoryKind memory_kind = MemoryKind::kInvalid;
  uint64_t memory_bytes = 0;        // per device; for kHost of the whole node, shared by its slots
  uint64_t usable_bytes = 0;        // of memory_bytes, what a process can get
  uint64_t communicator_bytes = 0;  // what the transport takes for each rank that has peers
  uint64_t bandwidth = 0;           // of its memory, bytes per second; 0: the mesh does not say
  uint64_t bf16_rate = 0;           // floating-point operations per second; 0: the mesh does not say
  // What a device is compared with when it is bound.
  uint32_t compute_capability = 0;  // 90 for 9.0; 0: the mesh does not say
  uint64_t shared_memory = 0;       // bytes that a block of threads can have; 0: the mesh does not say
  Ecc ecc = Ecc::kAny;
  bool peer_access = false;  // those of one node read each other's memory
  bool fabric = false;       // those of one island are of one NVLink fabric
  friend bool operator==(const DeviceKind&, const DeviceKind&) = default;
};

struct Node {
  std::string name;
  uint32_t device_kind = 0;           // index into Mesh::device_kinds
  uint32_t slots = 0;                 // devices, or sets of cores for kHost
  uint32_t island = 0;                // number of its domain of fast links
  std::vector<std::string> identity;  // of its physical devices in slot order; empty: any
  friend bool operator==(const Node&, const Node&) = default;
};

// Where a rank runs.
struct RankSlot {
  uint32_t node = 0;  // index into Mesh::nodes
  uint32_t slot = 0;  // below that node's `slots`
  friend bool operator==(const RankSlot&, const RankSlot&) = default;
};

// What joins ranks; all 0: the mesh does not say.
struct Link {
  uint64_t bandwidth = 0;  // bytes per second that a rank receives
  uint64_t latency = 0;    // nanoseconds
  friend bool operator==(const Link&, const Link&) = default;
};

struct Mesh {
  std::string name;
  bool emulated = false;  // several ranks may share a slot
  Transport transport = Transport::kInvalid;
  std::string transport_version_min;  // such as 2.28.9; empty: any
  std::string transport_version_max;
  bool capturable = false;  // a captured program can hold a collective of it
  std::vector<DeviceKind> device_kinds;
  std::vector<Node> nodes;
  std::vector<RankSlot> rank_slots;  // one per world rank
  std::vector<Link> island_links;    // inside each island, by its number; empty: the mesh does not say
  Link between_islands;              // where there are several and their links are known
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

struct Limits {
  uint32_t decode_tokens = 0;            // most tokens of one decode step, of the whole expert group
  std::vector<uint32_t> decode_buckets;  // ascending; the last is decode_tokens
  uint32_t prefill_tokens = 0;           // most tokens of one prefill call
  uint32_t prefill_chunk = 0;            // it runs in chunks of at most this many
  // The most that one dense group brings to a step; the limits above where the expert group is one dense group.
  uint32_t rank_decode_tokens = 0;
  uint32_t rank_prefill_tokens = 0;
  uint32_t sessions = 0;
  uint64_t per_session_bytes = 0;
  uint64_t headroom_bytes = 0;  // per device, never used
  uint64_t capture_bytes = 0;   // per rank, of captured programs
  Repack repack = Repack::kInvalid;
  uint64_t repacked_bytes = 0;  // per rank, what repacked forms take beside the weights as stored
  friend bool operator==(const Limits&, const Limits&) = default;
};

// Heads of the attention; all 0 where the model does not say.
struct Attention {
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  friend bool operator==(const Attention&, const Attention&) = default;
};

// What is not MoE, in bytes of a replica: on the first stage, spread over all layers, on the last stage.
struct OtherWeights {
  uint64_t first = 0;
  uint64_t layers = 0;
  uint64_t last = 0;
  friend bool operator==(const OtherWeights&, const OtherWeights&) = default;
};

// One merged MLP that every token passes; width 0: there is none.
struct SharedExpert {
  uint32_t width = 0;
  SharedGate gate = SharedGate::kInvalid;
  Activation activation;
  SharedPlacement placement = SharedPlacement::kInvalid;
  // One past the last column of each part: of the group's ranks tp-major (split), or of the tp ranks (owner).
  std::vector<uint32_t> part_ends;
  // The canonical column segments of its width, ascending. A part is whole ones; one, unless the sum is exact.
  std::vector<uint32_t> segment_ends;
  friend bool operator==(const SharedExpert&, const SharedExpert&) = default;
};

// A tensor of scales that belongs to a weight. `block` is what shares one scale: rows (outputs) and columns (inputs) of
// the matrix; 0 x 0: all of it.
struct SideTensor {
  SideKind kind = SideKind::kInvalid;
  DType dtype = DType::kInvalid;
  std::string name;
  uint32_t block_rows = 0;
  uint32_t block_columns = 0;
  ScaleApplies applies = ScaleApplies::kInvalid;
  ScaleOf of = ScaleOf::kInvalid;  // of a fused tensor whose blocks have several rows; invalid otherwise
  friend bool operator==(const SideTensor&, const SideTensor&) = default;
};

// One tensor class of a layer class. `name` is the checkpoint's own name with {layer} and, for a tensor per expert,
// {expert}; `shape` names its axes in the file's order, slowest first.
struct TensorClass {
  TensorRole role = TensorRole::kInvalid;
  DType dtype = DType::kInvalid;
  std::string name;
  std::vector<ShapeAxis> shape;
  GateUpLayout layout = GateUpLayout::kInvalid;  // of fused gate and up; invalid otherwise
  uint32_t rotation = 0;                         // elements of a rotated block; 0: not rotated
  std::vector<SideTensor> sides;                 // by kind
  friend bool operator==(const TensorClass&, const TensorClass&) = default;
};

// A value of a program: a matrix whose row and column meaning, dtype and placement per mesh axis are typed.
struct Value {
  ValueOrder order = ValueOrder::kInvalid;
  ValueWidth width = ValueWidth::kInvalid;
  RowSet rows = RowSet::kInvalid;
  AxisPlacement tp = AxisPlacement::kInvalid;
  AxisPlacement ep = AxisPlacement::kInvalid;
  bool weighted = false;     // the routing weight is already in it
  bool fixed_point = false;  // int64 elements, fraction_bits of them behind the point; else float32, or int32 indices
  friend bool operator==(const Value&, const Value&) = default;
};

// The one collective: sum of the addends over a group; a reduce-scatter leaves each rank the rows of its own tokens.
struct Collective {
  CollectiveOp op = CollectiveOp::kInvalid;
  GroupKind group = GroupKind::kInvalid;
  bool over_tp = false;  // the axes summed over are exactly those on which its input is an addend
  bool over_ep = false;
  friend bool operator==(const Collective&, const Collective&) = default;
};

struct Step {
  StepKind kind = StepKind::kInvalid;
  std::vector<uint32_t> inputs;         // value numbers
  std::vector<uint32_t> outputs;        // value numbers
  std::vector<uint32_t> tensors;        // indices into LayerClass::tensors
  std::vector<Collective> collectives;  // one for kCollective, none otherwise
  Origin origin;
  friend bool operator==(const Step&, const Step&) = default;
};

// A byte interval of the work arena that holds one value.
struct Buffer {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

// The work arena of all ranks that own `experts` experts, `columns` columns of them and `shared_columns` of the shared
// expert: one buffer per value.
struct WorkLayout {
  uint32_t experts = 0;
  uint32_t columns = 0;
  uint32_t shared_columns = 0;
  uint64_t grouped_rows = 0;  // proven capacity of scatter, in rows, whole tiles; 0 where nothing is scattered
  uint64_t arena_bytes = 0;
  std::vector<Buffer> buffers;
  friend bool operator==(const WorkLayout&, const WorkLayout&) = default;
};

struct Program {
  Phase phase = Phase::kInvalid;
  uint32_t max_tokens = 0;  // of one step, of the whole expert group
  uint32_t tile_rows = 0;   // scatter pads each expert's rows to a multiple of it
  uint32_t index_bits = 0;  // 32, or 64 where a value has more than 2^31 - 1 elements on some rank
  ReduceAlgorithm reduce_algorithm = ReduceAlgorithm::kInvalid;  // how its collective moves its bytes
  std::vector<Value> values;
  std::vector<Step> steps;
  std::vector<WorkLayout> layouts;
  friend bool operator==(const Program&, const Program&) = default;
};

struct LayerRange {
  uint32_t first = 0;
  uint32_t last = 0;  // one past
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

// Where an expert lives: which ep coordinate, and its number among that rank's experts.
struct ExpertShard {
  uint32_t owner = 0;
  uint32_t local = 0;
  friend bool operator==(const ExpertShard&, const ExpertShard&) = default;
};

// A further copy of an expert. Copy 0 is its ExpertShard, the others follow in the order of this list.
struct ExpertCopy {
  uint32_t expert = 0;
  uint32_t owner = 0;
  uint32_t local = 0;
  friend bool operator==(const ExpertCopy&, const ExpertCopy&) = default;
};

// Slots that a measured load gives to experts, and to the busiest rank of the ep axis: with experts in equal contiguous
// parts, and as placed. An expert's copies share its slots; a share is rounded up.
struct LoadBalance {
  std::vector<uint64_t> slots;  // per expert; empty: nothing was measured
  uint64_t busiest_contiguous = 0;
  uint64_t busiest = 0;
  friend bool operator==(const LoadBalance&, const LoadBalance&) = default;
};

// All layers with the same shapes, router, owners and programs.
struct LayerClass {
  std::vector<LayerRange> layers;  // ascending, disjoint
  uint32_t experts = 0;
  uint32_t top_k = 0;
  uint32_t intermediate = 0;
  Router router;
  Activation activation;
  SharedExpert shared_expert;
  Residual residual = Residual::kInvalid;
  Basis gate_up_basis = Basis::kInvalid;
  Basis down_basis = Basis::kInvalid;
  std::vector<TensorClass> tensors;
  std::vector<ExpertShard> expert_shards;  // one per expert
  std::vector<ExpertCopy> expert_copies;   // ascending by owner, then local
  LoadBalance load;
  std::vector<uint32_t> segment_ends;     // the canonical column segments of the intermediate axis, ascending
  std::vector<uint32_t> tp_segment_ends;  // per tp coordinate: one past its last segment
  uint32_t fraction_bits = 0;             // of the fixed point of an exact sum; 0 for another reduction
  std::vector<Program> programs;          // decode, prefill
  friend bool operator==(const LayerClass&, const LayerClass&) = default;
};

// What a rank needs, in bytes. Weights are loaded before the first step, so staging and work share the arena:
// total = weights + other + repacked + max(staging, decode_work, prefill_work) + collective + communicator + capture +
// sessions, and must fit `budget`.
struct RankMemory {
  uint64_t weights = 0;       // owned atoms as stored, router and tables
  uint64_t other = 0;         // its share of what is not MoE
  uint64_t repacked = 0;      // what repacked forms take beside them
  uint64_t staging = 0;       // what is there twice while weights are repacked
  uint64_t decode_work = 0;   // the largest work arena of a decode program
  uint64_t prefill_work = 0;  // and of a prefill program
  uint64_t collective = 0;    // buffers of the one collective and of the gather
  uint64_t communicator = 0;  // what the transport takes
  uint64_t capture = 0;
  uint64_t sessions = 0;  // per-session state
  uint64_t total = 0;
  uint64_t budget = 0;  // memory - headroom of its device, at most what is usable; shared by the device's ranks
  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};

// What one step of a phase is predicted to cost: a model, not a measurement, and nothing that a rank relies on.
struct StepPrice {
  uint32_t tokens = 0;
  uint64_t weight_bytes = 0;   // read by the busiest rank of each stage, summed over stages
  uint64_t operations = 0;     // floating-point, of the same ranks
  uint64_t link_bytes = 0;     // that a rank receives inside an island
  uint64_t between_bytes = 0;  // and between islands
  uint64_t messages = 0;       // network operations one after the other
  uint64_t nanoseconds = 0;
  friend bool operator==(const StepPrice&, const StepPrice&) = default;
};

struct Plan {
  std::string compiler_version;
  Sha256Digest schema_fingerprint{};
  std::string model_name;
  std::string model_family;
  std::string deployment_name;
  std::vector<SourceDocument> sources;  // deployment, model, mesh and, where experts are balanced, the load profile

  Mesh mesh;
  Degrees degrees;
  std::vector<uint32_t> stage_ends;  // per pp coordinate: one past its last layer
  uint32_t layers = 0;
  uint32_t hidden = 0;
  Attention attention;
  KvHeads kv_heads = KvHeads::kInvalid;
  OtherWeights other_weights;

  Limits limits;
  ExpertPlacement expert_placement = ExpertPlacement::kInvalid;
  CopyChoice copy_choice = CopyChoice::kInvalid;
  Reduction reduction = Reduction::kInvalid;
  double exact_bound = 0;  // of an exact sum: every addend is below it; 0 for another reduction
  Basis output = Basis::kInvalid;
  Numerics numerics = Numerics::kInvalid;
  FailureScope failure_scope = FailureScope::kInvalid;

  WeightSource weight_source = WeightSource::kInvalid;
  uint64_t weight_seed = 0;                  // of synthetic weights; 0 otherwise
  std::vector<std::string> ignored_tensors;  // patterns of checkpoint tensors that no step reads
  std::vector<LayerClass> layer_classes;
  std::vector<RankMemory> memory;  // one per world rank
  std::vector<StepPrice> prices;   // decode, prefill; empty where the mesh does not state its rates
  Sha256Digest execution_fingerprint{};
  Sha256Digest weights_digest{};  // id of the digest list that weights are verified with; all zeros: none is bound

  friend bool operator==(const Plan&, const Plan&) = default;
};

// Whether loading verifies weights.
inline bool BindsWeights(const Plan& plan) { return plan.weights_digest != Sha256Digest{}; }

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_PLAN_H_

#include "schema/plan_codec.h"

#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plan_generated.h"
#include "schema/flat_payload.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema_fingerprint.h"

namespace meshseal {
namespace {

using flatbuffers::Offset;
using flatbuffers::Vector;

constexpr size_t kUsualSize = 16384;  // of a plan, in bytes

wire::Digest Pack(const Sha256Digest& digest) { return PackDigest<wire::Digest>(digest); }

class Encoder : private FlatWriter {
 public:
  // Not `whole`: without what decides no computation.
  Encoder(size_t expected, bool whole) : FlatWriter(expected), whole_(whole) {}

  // Valid as long as the encoder. Called once.
  absl::string_view Encode(const Plan& plan) {
    wire::FinishPlanBuffer(builder_, Pack(plan));
    return Finished();
  }

 private:
  // A vector of tables.
  template <class Wire, class T>
  Offset<Vector<Offset<Wire>>> Tables(const std::vector<T>& items) {
    std::vector<Offset<Wire>> packed;
    packed.reserve(items.size());
    for (const T& item : items) packed.push_back(Pack(item));
    return builder_.CreateVector(packed);
  }

  Offset<wire::SourceDocument> Pack(const SourceDocument& source) {
    const auto name = Text(source.name);
    const wire::Digest digest = meshseal::Pack(source.digest);
    return wire::CreateSourceDocument(builder_, name, &digest);
  }

  Offset<wire::DeviceKind> Pack(const DeviceKind& kind) {
    return wire::CreateDeviceKind(builder_, Text(kind.name), Wire(kind.memory_kind), kind.memory_bytes,
                                  kind.usable_bytes, kind.communicator_bytes, kind.bandwidth, kind.bf16_rate,
                                  kind.compute_capability, kind.shared_memory, Wire(kind.ecc), kind.peer_access,
                                  kind.fabric);
  }

  Offset<wire::Node> Pack(const Node& node) {
    const auto name = Text(node.name);
    const auto identity = Texts(node.identity);
    return wire::CreateNode(builder_, name, node.device_kind, node.slots, node.island, identity);
  }

  static wire::LinkStruct Pack(const Link& link) { return wire::LinkStruct(link.bandwidth, link.latency); }

  Offset<wire::Mesh> Pack(const Mesh& mesh) {
    const auto name = Text(mesh.name);
    const auto kinds = Tables<wire::DeviceKind>(mesh.device_kinds);
    const auto nodes = Tables<wire::Node>(mesh.nodes);
    const auto slots = Structs<wire::RankSlotStruct>(
        mesh.rank_slots, [](const RankSlot& s) { return wire::RankSlotStruct(s.node, s.slot); });
    const auto version_min = Text(mesh.transport_version_min);
    const auto version_max = Text(mesh.transport_version_max);
    const auto links = Structs<wire::LinkStruct>(mesh.island_links, [](const Link& link) { return Pack(link); });
    const wire::LinkStruct between = Pack(mesh.between_islands);
    return wire::CreateMesh(builder_, name, mesh.emulated, Wire(mesh.transport), kinds, nodes, slots, version_min,
                            version_max, links, &between, mesh.capturable);
  }

  Offset<wire::Limits> Pack(const Limits& limits) {
    const auto buckets = builder_.CreateVector(limits.decode_buckets);
    return wire::CreateLimits(builder_, limits.decode_tokens, buckets, limits.prefill_tokens, limits.prefill_chunk,
                              limits.sessions, limits.per_session_bytes, limits.headroom_bytes,
                              limits.rank_decode_tokens, limits.rank_prefill_tokens, limits.capture_bytes,
                              Wire(limits.repack), limits.repacked_bytes);
  }

  static wire::ActivationStruct Pack(const Activation& activation) {
    return wire::ActivationStruct(Wire(activation.kind), activation.alpha, activation.limit);
  }

  Offset<wire::Router> Pack(const Router& router) {
    const RouterGroups& g = router.groups;
    const wire::RouterGroupsStruct groups(g.count, g.keep, Wire(g.score));
    return wire::CreateRouter(builder_, Wire(router.scoring), Wire(router.order), Wire(router.renormalize),
                              Wire(router.weight_applied), Wire(router.input), router.scale, router.epsilon,
                              router.guard, &groups, router.vocabulary);
  }

  Offset<wire::SharedExpert> Pack(const SharedExpert& shared) {
    const auto ends = builder_.CreateVector(shared.part_ends);
    const auto segments = builder_.CreateVector(shared.segment_ends);
    const wire::ActivationStruct activation = Pack(shared.activation);
    return wire::CreateSharedExpert(builder_, shared.width, Wire(shared.gate), &activation, Wire(shared.placement),
                                    ends, segments);
  }

  Offset<wire::SideTensor> Pack(const SideTensor& side) {
    return wire::CreateSideTensor(builder_, Wire(side.kind), Wire(side.dtype), Text(side.name), side.block_rows,
                                  side.block_columns, Wire(side.applies), Wire(side.of));
  }

  Offset<wire::TensorClass> Pack(const TensorClass& tensor) {
    const auto name = Text(tensor.name);
    std::vector<uint8_t> shape;
    for (const ShapeAxis axis : tensor.shape) shape.push_back(Wire(axis));
    const auto axes = builder_.CreateVector(shape);
    const auto sides = Tables<wire::SideTensor>(tensor.sides);
    return wire::CreateTensorClass(builder_, Wire(tensor.role), Wire(tensor.dtype), name, axes, Wire(tensor.layout),
                                   tensor.rotation, sides);
  }

  Offset<wire::LoadBalance> Pack(const LoadBalance& load) {
    return wire::CreateLoadBalance(builder_, builder_.CreateVector(load.slots), load.busiest_contiguous, load.busiest);
  }

  Offset<wire::Step> Pack(const Step& step) {
    const auto inputs = builder_.CreateVector(step.inputs);
    const auto outputs = builder_.CreateVector(step.outputs);
    const auto tensors = builder_.CreateVector(step.tensors);
    const auto collectives = Structs<wire::CollectiveStruct>(step.collectives, [](const Collective& c) {
      return wire::CollectiveStruct(Wire(c.op), Wire(c.group), c.over_tp ? 1 : 0, c.over_ep ? 1 : 0);
    });
    const wire::OriginStruct origin =
        whole_ ? wire::OriginStruct(step.origin.source, step.origin.line) : wire::OriginStruct();
    return wire::CreateStep(builder_, Wire(step.kind), inputs, outputs, tensors, collectives, &origin);
  }

  Offset<wire::WorkLayout> Pack(const WorkLayout& layout) {
    const auto buffers = Structs<wire::BufferStruct>(
        layout.buffers, [](const Buffer& b) { return wire::BufferStruct(b.offset, b.bytes); });
    return wire::CreateWorkLayout(builder_, layout.experts, layout.columns, layout.grouped_rows, layout.arena_bytes,
                                  buffers, layout.shared_columns);
  }

  Offset<wire::Program> Pack(const Program& program) {
    const auto values = Structs<wire::ValueStruct>(program.values, [](const Value& v) {
      return wire::ValueStruct(Wire(v.order), Wire(v.width), Wire(v.rows), Wire(v.tp), Wire(v.ep), v.weighted ? 1 : 0,
                               v.fixed_point ? 1 : 0);
    });
    const auto steps = Tables<wire::Step>(program.steps);
    const auto layouts = Tables<wire::WorkLayout>(program.layouts);
    return wire::CreateProgram(builder_, Wire(program.phase), program.max_tokens, program.tile_rows, values, steps,
                               layouts, program.index_bits, Wire(program.reduce_algorithm));
  }

  Offset<wire::LayerClass> Pack(const LayerClass& c) {
    const auto layers = Structs<wire::LayerRangeStruct>(
        c.layers, [](const LayerRange& r) { return wire::LayerRangeStruct(r.first, r.last); });
    const auto router = Pack(c.router);
    const auto tensors = Tables<wire::TensorClass>(c.tensors);
    const auto experts = Structs<wire::ExpertShardStruct>(
        c.expert_shards, [](const ExpertShard& e) { return wire::ExpertShardStruct(e.owner, e.local); });
    const auto segments = builder_.CreateVector(c.segment_ends);
    const auto tp_segments = builder_.CreateVector(c.tp_segment_ends);
    const auto programs = Tables<wire::Program>(c.programs);
    const auto shared = Pack(c.shared_expert);
    const auto copies = Structs<wire::ExpertCopyStruct>(
        c.expert_copies, [](const ExpertCopy& e) { return wire::ExpertCopyStruct(e.expert, e.owner, e.local); });
    const auto load = Pack(c.load);
    const wire::ActivationStruct activation = Pack(c.activation);
    return wire::CreateLayerClass(builder_, layers, c.experts, c.top_k, c.intermediate, router, &activation,
                                  Wire(c.residual), Wire(c.gate_up_basis), Wire(c.down_basis), tensors, experts,
                                  segments, tp_segments, programs, shared, copies, load, c.fraction_bits);
  }

  Offset<wire::Plan> Pack(const Plan& plan) {
    static const Plan kNothing;
    const Plan& told = whole_ ? plan : kNothing;  // what decides no computation
    const auto compiler_version = Text(told.compiler_version);
    const auto model_name = Text(told.model_name);
    const auto model_family = Text(told.model_family);
    const auto deployment_name = Text(told.deployment_name);
    const auto sources = Tables<wire::SourceDocument>(told.sources);
    const auto mesh = Pack(told.mesh);
    const auto stages = builder_.CreateVector(plan.stage_ends);
    const auto limits = Pack(plan.limits);
    const auto ignored = Texts(plan.ignored_tensors);
    const auto classes = Tables<wire::LayerClass>(plan.layer_classes);
    const auto memory = Structs<wire::RankMemoryStruct>(told.memory, [](const RankMemory& m) {
      return wire::RankMemoryStruct(m.weights, m.other, m.repacked, m.staging, m.decode_work, m.prefill_work,
                                    m.collective, m.communicator, m.capture, m.sessions, m.total, m.budget);
    });
    const auto prices = Structs<wire::StepPriceStruct>(told.prices, [](const StepPrice& p) {
      return wire::StepPriceStruct(p.tokens, p.weight_bytes, p.operations, p.link_bytes, p.between_bytes, p.messages,
                                   p.nanoseconds);
    });
    const wire::Digest schema = meshseal::Pack(plan.schema_fingerprint);
    const wire::Digest execution = meshseal::Pack(told.execution_fingerprint);
    const wire::Digest weights = meshseal::Pack(told.weights_digest);
    const Degrees& d = plan.degrees;
    const wire::DegreesStruct degrees(d.dp, d.pp, d.tp, d.ep, d.dense_tp);
    const wire::AttentionStruct attention(plan.attention.heads, plan.attention.kv_heads, plan.attention.head_dim);
    const OtherWeights& o = told.other_weights;
    const wire::OtherWeightsStruct other(o.first, o.layers, o.last);
    return wire::CreatePlan(builder_, kPlanFormatMajor, kPlanFormatMinor, compiler_version, &schema, model_name,
                            model_family, deployment_name, sources, mesh, &degrees, stages, plan.layers, plan.hidden,
                            &other, limits, Wire(plan.reduction), Wire(plan.output), Wire(plan.numerics),
                            Wire(plan.failure_scope), Wire(plan.weight_source), ignored, classes, memory, &execution,
                            &attention, Wire(plan.kv_heads), Wire(plan.expert_placement), Wire(plan.copy_choice),
                            plan.exact_bound, plan.weight_seed, prices, &weights);
  }

  const bool whole_;
};

// Copies a verified buffer out. The verifier leaves two things to us: vectors of 8-byte structs may be misaligned, and
// tables may share children, so that a small buffer unfolds into a huge plan. Both end the reading with a fault.
class Decoder : public FlatReader {
 public:
  explicit Decoder(size_t payload_size) : FlatReader(payload_size) {}

  Plan Decode(const wire::Plan& from) {
    Plan plan;
    plan.compiler_version = Text(from.compiler_version());
    plan.schema_fingerprint = Unpack(*from.schema_fingerprint());
    plan.model_name = Text(from.model_name());
    plan.model_family = Text(from.model_family());
    plan.deployment_name = Text(from.deployment_name());
    plan.sources = Tables<SourceDocument>(from.sources());
    plan.mesh = Unpack(*from.mesh());
    const wire::DegreesStruct& d = *from.degrees();
    plan.degrees = {d.dp(), d.pp(), d.tp(), d.ep(), d.dense_tp()};
    plan.stage_ends = Scalars(from.stage_ends());
    plan.layers = from.layers();
    plan.hidden = from.hidden();
    const wire::AttentionStruct& attention = *from.attention();
    plan.attention = {attention.heads(), attention.kv_heads(), attention.head_dim()};
    plan.kv_heads = static_cast<KvHeads>(from.kv_heads());
    const wire::OtherWeightsStruct& other = *from.other_weights();
    plan.other_weights = {other.first(), other.layers(), other.last()};
    plan.limits = Unpack(*from.limits());
    plan.expert_placement = static_cast<ExpertPlacement>(from.expert_placement());
    plan.copy_choice = static_cast<CopyChoice>(from.copy_choice());
    plan.reduction = static_cast<Reduction>(from.reduction());
    plan.exact_bound = from.exact_bound();
    plan.output = static_cast<Basis>(from.output());
    plan.numerics = static_cast<Numerics>(from.numerics());
    plan.failure_scope = static_cast<FailureScope>(from.failure_scope());
    plan.weight_source = static_cast<WeightSource>(from.weight_source());
    plan.weight_seed = from.weight_seed();
    plan.ignored_tensors = Texts(from.ignored_tensors());
    plan.layer_classes = Tables<LayerClass>(from.layer_classes());
    plan.memory = Structs<RankMemory>(from.memory(), [](const wire::RankMemoryStruct& m) {
      return RankMemory{m.weights(),    m.other(),        m.repacked(), m.staging(),  m.decode_work(), m.prefill_work(),
                        m.collective(), m.communicator(), m.capture(),  m.sessions(), m.total(),       m.budget()};
    });
    plan.prices = Structs<StepPrice>(from.prices(), [](const wire::StepPriceStruct& p) {
      return StepPrice{p.tokens(),        p.weight_bytes(), p.operations(), p.link_bytes(),
                       p.between_bytes(), p.messages(),     p.nanoseconds()};
    });
    plan.execution_fingerprint = Unpack(*from.execution_fingerprint());
    plan.weights_digest = Unpack(*from.weights_digest());
    return plan;
  }

 private:
  template <class T, class Wire>
  std::vector<T> Tables(const Vector<Offset<Wire>>* from) {
    return TablesBy<T>(from, [this](const Wire& item) { return Unpack(item); });
  }

  static Sha256Digest Unpack(const wire::Digest& from) { return UnpackDigest(from); }

  SourceDocument Unpack(const wire::SourceDocument& from) { return {Text(from.name()), Unpack(*from.digest())}; }

  DeviceKind Unpack(const wire::DeviceKind& from) {
    return {Text(from.name()),         static_cast<MemoryKind>(from.memory_kind()),
            from.memory_bytes(),       from.usable_bytes(),
            from.communicator_bytes(), from.bandwidth(),
            from.bf16_rate(),          from.compute_capability(),
            from.shared_memory(),      static_cast<Ecc>(from.ecc()),
            from.peer_access(),        from.fabric()};
  }

  static Link Unpack(const wire::LinkStruct& from) { return {from.bandwidth(), from.latency()}; }

  Node Unpack(const wire::Node& from) {
    return {Text(from.name()), from.device_kind(), from.slots(), from.island(), Texts(from.identity())};
  }

  Mesh Unpack(const wire::Mesh& from) {
    Mesh mesh;
    mesh.name = Text(from.name());
    mesh.emulated = from.emulated();
    mesh.transport = static_cast<Transport>(from.transport());
    mesh.transport_version_min = Text(from.transport_version_min());
    mesh.transport_version_max = Text(from.transport_version_max());
    mesh.device_kinds = Tables<DeviceKind>(from.device_kinds());
    mesh.nodes = Tables<Node>(from.nodes());
    mesh.rank_slots = Structs<RankSlot>(from.rank_slots(), [](const wire::RankSlotStruct& s) {
      return RankSlot{s.node(), s.slot()};
    });
    mesh.island_links = Structs<Link>(from.island_links(), [](const wire::LinkStruct& link) { return Unpack(link); });
    mesh.between_islands = Unpack(*from.between_islands());
    mesh.capturable = from.capturable();
    return mesh;
  }

  Limits Unpack(const wire::Limits& from) {
    return {from.decode_tokens(), Scalars(from.decode_buckets()),     from.prefill_tokens(),
            from.prefill_chunk(), from.rank_decode_tokens(),          from.rank_prefill_tokens(),
            from.sessions(),      from.per_session_bytes(),           from.headroom_bytes(),
            from.capture_bytes(), static_cast<Repack>(from.repack()), from.repacked_bytes()};
  }

  static Activation Unpack(const wire::ActivationStruct& from) {
    return {static_cast<ActivationKind>(from.kind()), from.alpha(), from.limit()};
  }

  static Router Unpack(const wire::Router& from) {
    const wire::RouterGroupsStruct& groups = *from.groups();
    return {static_cast<Scoring>(from.scoring()),
            from.epsilon(),
            static_cast<RouteOrder>(from.order()),
            static_cast<Renormalize>(from.renormalize()),
            from.guard(),
            {groups.count(), groups.keep(), static_cast<GroupScore>(groups.score())},
            static_cast<WeightPoint>(from.weight_applied()),
            static_cast<Basis>(from.input()),
            from.scale(),
            from.vocabulary()};
  }

  SharedExpert Unpack(const wire::SharedExpert& from) {
    return {from.width(),
            static_cast<SharedGate>(from.gate()),
            Unpack(*from.activation()),
            static_cast<SharedPlacement>(from.placement()),
            Scalars(from.part_ends()),
            Scalars(from.segment_ends())};
  }

  SideTensor Unpack(const wire::SideTensor& from) {
    return {static_cast<SideKind>(from.kind()),
            static_cast<DType>(from.dtype()),
            Text(from.name()),
            from.block_rows(),
            from.block_columns(),
            static_cast<ScaleApplies>(from.applies()),
            static_cast<ScaleOf>(from.of())};
  }

  TensorClass Unpack(const wire::TensorClass& from) {
    TensorClass tensor;
    tensor.role = static_cast<TensorRole>(from.role());
    tensor.dtype = static_cast<DType>(from.dtype());
    tensor.name = Text(from.name());
    for (const uint8_t axis : Scalars(from.shape())) tensor.shape.push_back(static_cast<ShapeAxis>(axis));
    tensor.layout = static_cast<GateUpLayout>(from.layout());
    tensor.rotation = from.rotation();
    tensor.sides = Tables<SideTensor>(from.sides());
    return tensor;
  }

  LoadBalance Unpack(const wire::LoadBalance& from) {
    return {Scalars(from.slots()), from.busiest_contiguous(), from.busiest()};
  }

  Step Unpack(const wire::Step& from) {
    Step step;
    step.kind = static_cast<StepKind>(from.kind());
    step.inputs = Scalars(from.inputs());
    step.outputs = Scalars(from.outputs());
    step.tensors = Scalars(from.tensors());
    step.collectives = Structs<Collective>(from.collectives(), [](const wire::CollectiveStruct& c) {
      return Collective{static_cast<CollectiveOp>(c.op()), static_cast<GroupKind>(c.group()), c.over_tp() != 0,
                        c.over_ep() != 0};
    });
    step.origin = {from.origin()->source(), from.origin()->line()};
    return step;
  }

  WorkLayout Unpack(const wire::WorkLayout& from) {
    return {from.experts(),
            from.columns(),
            from.shared_columns(),
            from.grouped_rows(),
            from.arena_bytes(),
            Structs<Buffer>(from.buffers(), [](const wire::BufferStruct& b) {
              return Buffer{b.offset(), b.bytes()};
            })};
  }

  Program Unpack(const wire::Program& from) {
    Program program;
    program.phase = static_cast<Phase>(from.phase());
    program.max_tokens = from.max_tokens();
    program.tile_rows = from.tile_rows();
    program.index_bits = from.index_bits();
    program.reduce_algorithm = static_cast<ReduceAlgorithm>(from.reduce_algorithm());
    program.values = Structs<Value>(from.values(), [](const wire::ValueStruct& v) {
      return Value{static_cast<ValueOrder>(v.order()),
                   static_cast<ValueWidth>(v.width()),
                   static_cast<RowSet>(v.rows()),
                   static_cast<AxisPlacement>(v.tp()),
                   static_cast<AxisPlacement>(v.ep()),
                   v.weighted() != 0,
                   v.fixed_point() != 0};
    });
    program.steps = Tables<Step>(from.steps());
    program.layouts = Tables<WorkLayout>(from.layouts());
    return program;
  }

  LayerClass Unpack(const wire::LayerClass& from) {
    LayerClass c;
    c.layers = Structs<LayerRange>(from.layers(), [](const wire::LayerRangeStruct& r) {
      return LayerRange{r.first(), r.last()};
    });
    c.experts = from.experts();
    c.top_k = from.top_k();
    c.intermediate = from.intermediate();
    c.router = Unpack(*from.router());
    c.activation = Unpack(*from.activation());
    c.shared_expert = Unpack(*from.shared_expert());
    c.residual = static_cast<Residual>(from.residual());
    c.gate_up_basis = static_cast<Basis>(from.gate_up_basis());
    c.down_basis = static_cast<Basis>(from.down_basis());
    c.tensors = Tables<TensorClass>(from.tensors());
    c.expert_shards = Structs<ExpertShard>(from.expert_shards(), [](const wire::ExpertShardStruct& e) {
      return ExpertShard{e.owner(), e.local()};
    });
    c.expert_copies = Structs<ExpertCopy>(from.expert_copies(), [](const wire::ExpertCopyStruct& e) {
      return ExpertCopy{e.expert(), e.owner(), e.local()};
    });
    c.load = Unpack(*from.load());
    c.segment_ends = Scalars(from.segment_ends());
    c.tp_segment_ends = Scalars(from.tp_segment_ends());
    c.fraction_bits = from.fraction_bits();
    c.programs = Tables<Program>(from.programs());
    return c;
  }
};

}  // namespace

std::string EncodePlan(const Plan& plan) { return std::string(Encoder(kUsualSize, true).Encode(plan)); }

std::string EncodeExecution(const Plan& plan) { return std::string(Encoder(kUsualSize, false).Encode(plan)); }

absl::StatusOr<Plan> DecodePlan(absl::string_view payload) {
  MESHSEAL_RETURN_IF_ERROR(
      VerifyPayload(payload, [](flatbuffers::Verifier& verifier) { return wire::VerifyPlanBuffer(verifier); }));
  const wire::Plan& root = *wire::GetPlan(payload.data());
  if (root.format_major() != kPlanFormatMajor || root.format_minor() != kPlanFormatMinor) {
    return Refuse(Reason::kPlanFormat,
                  absl::StrCat("plan format ", root.format_major(), ".", root.format_minor(), ", this version reads ",
                               kPlanFormatMajor, ".", kPlanFormatMinor, "; compile the plan again"));
  }
  Decoder decoder(payload.size());
  Plan plan = decoder.Decode(root);
  MESHSEAL_RETURN_IF_ERROR(decoder.fault());
  if (plan.schema_fingerprint != SchemaFingerprint()) {
    return Refuse(Reason::kPlanFormat,
                  absl::StrCat("plan of schema ", HexOf(plan.schema_fingerprint).substr(0, 16), ", this version has ",
                               HexOf(SchemaFingerprint()).substr(0, 16), "; compile the plan again"));
  }
  Encoder encoder(payload.size() + kUsualSize, true);  // the builder keeps its own notes in the same buffer
  MESHSEAL_RETURN_IF_ERROR(CheckCanonical(payload, encoder.Encode(plan)));
  return plan;
}

const Sha256Digest& SchemaFingerprint() {
  static const Sha256Digest kFingerprint = *DigestFromHex(MESHSEAL_SCHEMA_FINGERPRINT);
  return kFingerprint;
}

}  // namespace meshseal

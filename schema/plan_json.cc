#include "schema/plan_json.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schema/memory_lines.h"
#include "schema/ordered_json.h"
#include "schema/plan_words.h"
#include "schema/reason.h"

namespace meshseal {
namespace {

// Raised when a field's meaning changes or it goes away.
constexpr int kPlanJsonVersion = 3;

// A word that is only there where something else is: null without it.
template <class E>
Json Optional(E term) {
  return term == E::kInvalid ? Json() : Json(WordOf(term));
}

// The shortest number that is the same float.
Json Of(float value) {
  double shortest = value;
  (void)absl::SimpleAtod(NumberText(value), &shortest);  // what NumberText writes is a number
  return shortest;
}

// A rate that the mesh may leave out: null without it.
Json Stated(uint64_t rate) { return rate == 0 ? Json() : Json(rate); }

Json Of(const Link& link) {
  return link == Link{} ? Json() : Json{{"bandwidth", link.bandwidth}, {"latency_ns", link.latency}};
}

Json Of(const Mesh& mesh) {
  return {{"name", mesh.name},
          {"emulated", mesh.emulated},
          {"transport", WordOf(mesh.transport)},
          {"transport_version", {{"min", mesh.transport_version_min}, {"max", mesh.transport_version_max}}},
          {"capturable", mesh.capturable},
          {"device_kinds", List(mesh.device_kinds,
                                [](const DeviceKind& kind) {
                                  return Json{{"name", kind.name},
                                              {"memory_kind", WordOf(kind.memory_kind)},
                                              {"memory_bytes", kind.memory_bytes},
                                              {"usable_bytes", kind.usable_bytes},
                                              {"communicator_bytes", kind.communicator_bytes},
                                              {"bandwidth", Stated(kind.bandwidth)},
                                              {"bf16_rate", Stated(kind.bf16_rate)},
                                              {"compute_capability", Stated(kind.compute_capability)},
                                              {"shared_memory", Stated(kind.shared_memory)},
                                              {"ecc", WordOf(kind.ecc)},
                                              {"peer_access", kind.peer_access},
                                              {"fabric", kind.fabric}};
                                })},
          {"nodes", List(mesh.nodes,
                         [](const Node& node) {
                           return Json{{"name", node.name},
                                       {"device_kind", node.device_kind},
                                       {"slots", node.slots},
                                       {"island", node.island},
                                       {"identity", node.identity}};
                         })},
          {"rank_slots", List(mesh.rank_slots,
                              [](const RankSlot& slot) {
                                return Json{{"node", slot.node}, {"slot", slot.slot}};
                              })},
          {"island_links", List(mesh.island_links, [](const Link& link) { return Of(link); })},
          {"between_islands", Of(mesh.between_islands)}};
}

Json Of(const Limits& limits) {
  return {{"decode_tokens", limits.decode_tokens},
          {"decode_buckets", limits.decode_buckets},
          {"prefill_tokens", limits.prefill_tokens},
          {"prefill_chunk", limits.prefill_chunk},
          {"rank_decode_tokens", limits.rank_decode_tokens},
          {"rank_prefill_tokens", limits.rank_prefill_tokens},
          {"sessions", limits.sessions},
          {"per_session_bytes", limits.per_session_bytes},
          {"headroom_bytes", limits.headroom_bytes},
          {"capture_bytes", limits.capture_bytes},
          {"repack", WordOf(limits.repack)},
          {"repacked_bytes", limits.repacked_bytes}};
}

Json Of(const Value& value) {
  return {{"order", WordOf(value.order)},    {"width", WordOf(value.width)}, {"rows", WordOf(value.rows)},
          {"tp", WordOf(value.tp)},          {"ep", WordOf(value.ep)},       {"weighted", value.weighted},
          {"fixed_point", value.fixed_point}};
}

Json Of(const Step& step) {
  const StepRow* row = FindStep(step.kind);
  return {{"kind", row == nullptr ? "invalid" : row->mnemonic},
          {"inputs", step.inputs},
          {"outputs", step.outputs},
          {"tensors", step.tensors},
          {"collectives", List(step.collectives,
                               [](const Collective& collective) {
                                 return Json{{"op", WordOf(collective.op)},
                                             {"group", WordOf(collective.group)},
                                             {"over_tp", collective.over_tp},
                                             {"over_ep", collective.over_ep}};
                               })},
          {"origin", {{"source", step.origin.source}, {"line", step.origin.line}}}};
}

Json Of(const WorkLayout& layout) {
  return {{"experts", layout.experts},
          {"columns", layout.columns},
          {"shared_columns", layout.shared_columns},
          {"grouped_rows", layout.grouped_rows},
          {"arena_bytes", layout.arena_bytes},
          {"buffers", List(layout.buffers, [](const Buffer& buffer) {
             return Json{{"offset", buffer.offset}, {"bytes", buffer.bytes}};
           })}};
}

Json Of(const Program& program) {
  return {{"phase", WordOf(program.phase)},
          {"max_tokens", program.max_tokens},
          {"tile_rows", program.tile_rows},
          {"index_bits", program.index_bits},
          {"reduce_algorithm", WordOf(program.reduce_algorithm)},
          {"values", List(program.values, [](const Value& value) { return Of(value); })},
          {"steps", List(program.steps, [](const Step& step) { return Of(step); })},
          {"layouts", List(program.layouts, [](const WorkLayout& layout) { return Of(layout); })}};
}

Json Of(const TensorClass& tensor) {
  return {{"role", WordOf(tensor.role)},
          {"name", tensor.name},
          {"dtype", std::string(DTypeName(tensor.dtype))},
          {"shape", List(tensor.shape, [](ShapeAxis axis) { return Json(WordOf(axis)); })},
          {"layout", Optional(tensor.layout)},
          {"rotation", tensor.rotation},
          {"sides", List(tensor.sides, [](const SideTensor& side) {
             return Json{{"kind", WordOf(side.kind)},
                         {"name", side.name},
                         {"dtype", std::string(DTypeName(side.dtype))},
                         {"block", {{"rows", side.block_rows}, {"columns", side.block_columns}}},
                         {"applies", Optional(side.applies)},
                         {"of", Optional(side.of)}};
           })}};
}

Json Of(const Router& router) {
  return {{"scoring", WordOf(router.scoring)},
          {"epsilon", Of(router.epsilon)},
          {"order", WordOf(router.order)},
          {"renormalize", WordOf(router.renormalize)},
          {"guard", Of(router.guard)},
          {"groups",
           {{"count", router.groups.count}, {"keep", router.groups.keep}, {"score", Optional(router.groups.score)}}},
          {"weight_applied", WordOf(router.weight_applied)},
          {"input_dtype", WordOf(router.input)},
          {"scale", Of(router.scale)},
          {"vocabulary", router.vocabulary}};
}

Json Of(const Activation& activation) {
  return {{"kind", Optional(activation.kind)}, {"alpha", Of(activation.alpha)}, {"limit", Of(activation.limit)}};
}

Json Of(const SharedExpert& shared) {
  return {{"width", shared.width},
          {"gate", Optional(shared.gate)},
          {"activation", Of(shared.activation)},
          {"placement", Optional(shared.placement)},
          {"part_ends", shared.part_ends},
          {"segment_ends", shared.segment_ends}};
}

Json Of(const LoadBalance& load) {
  return {{"slots", load.slots}, {"busiest_contiguous", load.busiest_contiguous}, {"busiest", load.busiest}};
}

Json Of(const LayerClass& c) {
  return {{"layers", List(c.layers,
                          [](const LayerRange& range) {
                            return Json{{"first", range.first}, {"last", range.last}};
                          })},
          {"experts", c.experts},
          {"top_k", c.top_k},
          {"intermediate", c.intermediate},
          {"router", Of(c.router)},
          {"activation", Of(c.activation)},
          {"shared_expert", Of(c.shared_expert)},
          {"residual", WordOf(c.residual)},
          {"gate_up_basis", WordOf(c.gate_up_basis)},
          {"down_basis", WordOf(c.down_basis)},
          {"tensors", List(c.tensors, [](const TensorClass& tensor) { return Of(tensor); })},
          {"expert_shards", List(c.expert_shards,
                                 [](const ExpertShard& shard) {
                                   return Json{{"owner", shard.owner}, {"local", shard.local}};
                                 })},
          {"expert_copies", List(c.expert_copies,
                                 [](const ExpertCopy& copy) {
                                   return Json{{"expert", copy.expert}, {"owner", copy.owner}, {"local", copy.local}};
                                 })},
          {"load", Of(c.load)},
          {"segment_ends", c.segment_ends},
          {"tp_segment_ends", c.tp_segment_ends},
          {"fraction_bits", c.fraction_bits},
          {"programs", List(c.programs, [](const Program& program) { return Of(program); })}};
}

Json Of(const RankMemory& memory) {
  Json json = Json::object();
  for (const MemoryLine& line : kMemoryLines) json[line.field] = memory.*line.bytes;
  return json;
}

Json Of(const StepPrice& price) {
  return {{"tokens", price.tokens},          {"weight_bytes", price.weight_bytes},   {"operations", price.operations},
          {"link_bytes", price.link_bytes},  {"between_bytes", price.between_bytes}, {"messages", price.messages},
          {"nanoseconds", price.nanoseconds}};
}

Json Of(const Plan& plan) {
  const Degrees& d = plan.degrees;
  const OtherWeights& other = plan.other_weights;
  return {
      {"compiler_version", plan.compiler_version},
      {"schema_fingerprint", HexOf(plan.schema_fingerprint)},
      {"execution_fingerprint", HexOf(plan.execution_fingerprint)},
      {"model_name", plan.model_name},
      {"model_family", plan.model_family},
      {"deployment_name", plan.deployment_name},
      {"sources", List(plan.sources,
                       [](const SourceDocument& source) {
                         return Json{{"name", source.name}, {"sha256", HexOf(source.digest)}};
                       })},
      {"degrees", {{"dp", d.dp}, {"pp", d.pp}, {"tp", d.tp}, {"ep", d.ep}, {"dense_tp", d.dense_tp}}},
      {"mesh", Of(plan.mesh)},
      {"stage_ends", plan.stage_ends},
      {"layers", plan.layers},
      {"hidden", plan.hidden},
      {"attention",
       {{"heads", plan.attention.heads}, {"kv_heads", plan.attention.kv_heads}, {"head_dim", plan.attention.head_dim}}},
      {"kv_heads", WordOf(plan.kv_heads)},
      {"other_weights_bytes", {{"first", other.first}, {"layers", other.layers}, {"last", other.last}}},
      {"limits", Of(plan.limits)},
      {"expert_placement", WordOf(plan.expert_placement)},
      {"copy_choice", WordOf(plan.copy_choice)},
      {"reduction", WordOf(plan.reduction)},
      {"exact_bound", plan.exact_bound},
      {"output_dtype", WordOf(plan.output)},
      {"numerics", WordOf(plan.numerics)},
      {"failure_scope", WordOf(plan.failure_scope)},
      {"weight_source", WordOf(plan.weight_source)},
      {"weight_seed", plan.weight_seed},
      {"weights_digest", BindsWeights(plan) ? Json(HexOf(plan.weights_digest)) : Json(nullptr)},
      {"ignored_tensors", plan.ignored_tensors},
      {"layer_classes", List(plan.layer_classes, [](const LayerClass& c) { return Of(c); })},
      {"memory", List(plan.memory, [](const RankMemory& memory) { return Of(memory); })},
      {"prices", List(plan.prices, [](const StepPrice& price) { return Of(price); })}};
}

}  // namespace

absl::StatusOr<std::string> PlanJson(const Plan& plan, absl::string_view id, absl::string_view standing,
                                     absl::string_view field) {
  Json json = {{"version", kPlanJsonVersion},
               {"id", std::string(id)},
               {"standing", std::string(standing)},
               {"format", absl::StrCat(kPlanFormatMajor, ".", kPlanFormatMinor)}};
  json.update(Of(plan));
  const auto dump = [](const Json& value) {
    // Names of a refused plan may be any bytes.
    return absl::StrCat(value.dump(2, ' ', false, Json::error_handler_t::replace), "\n");
  };
  if (field.empty()) return dump(json);
  try {
    return dump(json.at(Json::json_pointer(std::string(field))));
  } catch (const Json::exception&) {
    return Refuse(Reason::kUsage, absl::StrCat("the plan has no field '", std::string(field), "'"));
  }
}

}  // namespace meshseal

#include "schema/plan_json.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "schema/reason.h"

namespace meshseal {
namespace {

using Json = nlohmann::ordered_json;

// Raised when a field's meaning changes or it goes away.
constexpr int kJsonVersion = 1;

// A list of Json(item) of each item.
template <class T, class F>
Json List(const std::vector<T>& items, F make) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(make(item));
  return list;
}

Json Of(const Mesh& mesh) {
  return {{"name", mesh.name},
          {"emulated", mesh.emulated},
          {"transport", WordOf(mesh.transport)},
          {"device_kinds", List(mesh.device_kinds,
                                [](const DeviceKind& kind) {
                                  return Json{{"name", kind.name},
                                              {"memory_kind", WordOf(kind.memory_kind)},
                                              {"memory_bytes", kind.memory_bytes},
                                              {"usable_bytes", kind.usable_bytes},
                                              {"communicator_bytes", kind.communicator_bytes}};
                                })},
          {"nodes", List(mesh.nodes,
                         [](const Node& node) {
                           return Json{{"name", node.name}, {"device_kind", node.device_kind}, {"slots", node.slots}};
                         })},
          {"rank_slots", List(mesh.rank_slots, [](const RankSlot& slot) {
             return Json{{"node", slot.node}, {"slot", slot.slot}};
           })}};
}

Json Of(const Limits& limits) {
  return {{"decode_tokens", limits.decode_tokens},
          {"decode_buckets", limits.decode_buckets},
          {"prefill_tokens", limits.prefill_tokens},
          {"prefill_chunk", limits.prefill_chunk},
          {"sessions", limits.sessions},
          {"per_session_bytes", limits.per_session_bytes},
          {"headroom_bytes", limits.headroom_bytes}};
}

Json Of(const Value& value) {
  return {{"order", WordOf(value.order)}, {"width", WordOf(value.width)}, {"rows", WordOf(value.rows)},
          {"tp", WordOf(value.tp)},       {"ep", WordOf(value.ep)},       {"weighted", value.weighted}};
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
          {"values", List(program.values, [](const Value& value) { return Of(value); })},
          {"steps", List(program.steps, [](const Step& step) { return Of(step); })},
          {"layouts", List(program.layouts, [](const WorkLayout& layout) { return Of(layout); })}};
}

Json Of(const TensorClass& tensor) {
  return {{"role", WordOf(tensor.role)},
          {"name", tensor.name},
          {"dtype", std::string(DTypeName(tensor.dtype))},
          {"shape", List(tensor.shape, [](ShapeAxis axis) { return Json(WordOf(axis)); })}};
}

Json Of(const LayerClass& c) {
  return {{"layers", List(c.layers,
                          [](const LayerRange& range) {
                            return Json{{"first", range.first}, {"last", range.last}};
                          })},
          {"experts", c.experts},
          {"top_k", c.top_k},
          {"intermediate", c.intermediate},
          {"router",
           {{"scoring", WordOf(c.router.scoring)},
            {"order", WordOf(c.router.order)},
            {"renormalize", WordOf(c.router.renormalize)},
            {"weight_applied", WordOf(c.router.weight_applied)},
            {"input_dtype", WordOf(c.router.input)},
            {"scale", c.router.scale}}},
          {"activation", WordOf(c.activation)},
          {"residual", WordOf(c.residual)},
          {"gate_up_basis", WordOf(c.gate_up_basis)},
          {"down_basis", WordOf(c.down_basis)},
          {"tensors", List(c.tensors, [](const TensorClass& tensor) { return Of(tensor); })},
          {"expert_shards", List(c.expert_shards,
                                 [](const ExpertShard& shard) {
                                   return Json{{"owner", shard.owner}, {"local", shard.local}};
                                 })},
          {"segment_ends", c.segment_ends},
          {"tp_segment_ends", c.tp_segment_ends},
          {"programs", List(c.programs, [](const Program& program) { return Of(program); })}};
}

Json Of(const RankMemory& memory) {
  return {{"weights", memory.weights},       {"other", memory.other},       {"work", memory.work},
          {"collective", memory.collective}, {"sessions", memory.sessions}, {"total", memory.total},
          {"budget", memory.budget}};
}

Json Of(const Plan& plan) {
  const Degrees& d = plan.degrees;
  return {{"compiler_version", plan.compiler_version},
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
          {"other_weights_bytes", plan.other_weights_bytes},
          {"limits", Of(plan.limits)},
          {"reduction", WordOf(plan.reduction)},
          {"reduce_algorithm", WordOf(plan.reduce_algorithm)},
          {"output_dtype", WordOf(plan.output)},
          {"numerics", WordOf(plan.numerics)},
          {"failure_scope", WordOf(plan.failure_scope)},
          {"weight_source", WordOf(plan.weight_source)},
          {"ignored_tensors", plan.ignored_tensors},
          {"layer_classes", List(plan.layer_classes, [](const LayerClass& c) { return Of(c); })},
          {"memory", List(plan.memory, [](const RankMemory& memory) { return Of(memory); })}};
}

}  // namespace

absl::StatusOr<std::string> PlanJson(const Plan& plan, absl::string_view id, absl::string_view standing,
                                     absl::string_view field) {
  Json json = {{"version", kJsonVersion},
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

#include "schema/plan_diff_json.h"

#include "absl/strings/str_cat.h"
#include "schema/memory_lines.h"
#include "schema/ordered_json.h"

namespace meshseal {
namespace {

// Raised when a field's meaning changes or it goes away.
constexpr int kDiffJsonVersion = 2;

const char* RelationWord(PlanRelation relation) {
  switch (relation) {
    case PlanRelation::kSame:
      return "same";
    case PlanRelation::kOrigin:
      return "same_but_origin";
    case PlanRelation::kDifferent:
      break;
  }
  return "different";
}

template <class T>
Json Nullable(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json();
}

Json Of(const PlanFile& file) {
  return {{"path", file.path},
          {"id", file.id.empty() ? Json() : Json(file.id)},
          {"serial", Nullable(file.serial)},
          {"standing", file.standing},
          {"title", file.title.empty() ? Json() : Json(file.title)}};
}

Json Of(const FieldChanges& changes) {
  return List(changes, [](const FieldChange& change) {
    return Json{{"field", change.field}, {"a", change.a}, {"b", change.b}};
  });
}

Json Of(const Interval& interval) { return {{"first", interval.first}, {"last", interval.last}}; }

Json Of(const Intervals& intervals) {
  return List(intervals, [](const Interval& interval) { return Of(interval); });
}

Json Of(const WeightBytes& bytes) {
  return {{"kept", bytes.kept}, {"dropped", bytes.dropped}, {"received", bytes.received}};
}

Json Of(const std::optional<RankMemory>& memory) {
  if (!memory.has_value()) return Json();
  Json json = Json::object();
  for (const MemoryLine& line : kMemoryLines) json[line.field] = (*memory).*line.bytes;
  return json;
}

Json Place(const SlotMoves& slot) { return {{"node", slot.node}, {"slot", slot.slot}, {"nth", slot.nth}}; }

Json Of(const PlanMoves& moves, const SlotMoves& slot) {
  Json json = Place(slot);
  json["rank"] = {{"a", Nullable(slot.rank.a)}, {"b", Nullable(slot.rank.b)}};
  json["weights"] = Of(slot.weights);
  json["replicated"] = Of(slot.replicated);
  json["from_checkpoint"] = slot.from_checkpoint;
  json["sent"] = slot.sent;
  json["sources"] = List(slot.sources, [&moves](const MoveSource& source) {
    Json place = Place(moves.slots[source.slot]);
    place["bytes"] = source.bytes;
    return place;
  });
  json["unlisted_sources"] = {{"slots", slot.unlisted_sources}, {"bytes", slot.unlisted_bytes}};
  json["holdings"] = List(slot.holdings, [](const Holding& holding) {
    return Json{{"layers", Of(holding.layers)},
                {"experts", {{"a", Of(holding.experts.a)}, {"b", Of(holding.experts.b)}}},
                {"columns", {{"a", Of(holding.columns.a)}, {"b", Of(holding.columns.b)}}},
                {"shared_columns", {{"a", Of(holding.shared_columns.a)}, {"b", Of(holding.shared_columns.b)}}}};
  });
  json["memory"] = {{"a", Of(slot.memory.a)}, {"b", Of(slot.memory.b)}};
  return json;
}

Json Of(const absl::StatusOr<PlanMoves>& moves) {
  if (!moves.ok()) return Json();
  return {{"same_weights", moves->same_weights},
          {"weights", Of(moves->weights)},
          {"replicated", Of(moves->replicated)},
          {"from_checkpoint", moves->from_checkpoint},
          {"slots", List(moves->slots, [&moves](const SlotMoves& slot) { return Of(*moves, slot); })}};
}

}  // namespace

std::string PlanDiffJson(const Both<PlanFile>& files, const PlanDiff* diff) {
  Json json = {{"version", kDiffJsonVersion},
               {"a", Of(files.a)},
               {"b", Of(files.b)},
               {"relation", diff == nullptr ? "unknown" : RelationWord(diff->relation)}};
  if (diff != nullptr) {
    json["same_execution"] = diff->same_execution;
    json["origin"] = Of(diff->origin);
    json["plan"] = Of(diff->plan);
    json["mesh"] = Of(diff->mesh);
    json["limits"] = Of(diff->limits);
    json["numerics"] = Of(diff->numerics);
    json["weights"] = Of(diff->weights);
    json["layers"] = List(diff->layers, [](const LayerChanges& layers) {
      return Json{{"layers", Of(layers.layers)}, {"changes", Of(layers.changes)}};
    });
    json["prices"] = Of(diff->prices);
    json["moves"] = Of(diff->moves);
    json["moves_unknown"] = diff->moves.ok() ? Json() : Json(std::string(diff->moves.status().message()));
    json["largest_rank"] = {{"a", Nullable(diff->largest_rank.a)}, {"b", Nullable(diff->largest_rank.b)}};
  }
  // Names of a refused plan may be any bytes.
  return absl::StrCat(json.dump(2, ' ', false, Json::error_handler_t::replace), "\n");
}

}  // namespace meshseal

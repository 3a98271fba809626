// What changes when plan A is replaced by plan B, as values: for a reviewer (plan_diff_text.h) and for scripts
// (plan_diff_json.h). Either plan may be one that a gate refused: what does not add up is compared as it stands.
#ifndef MESHSEAL_SCHEMA_PLAN_DIFF_H_
#define MESHSEAL_SCHEMA_PLAN_DIFF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/plan.h"
#include "schema/plan_moves.h"

namespace meshseal {

// One field that differs: its dotted name as in plan_json.h, and both values in the words of a listing. "none" where a
// plan does not have it.
struct FieldChange {
  std::string field;
  std::string a;
  std::string b;
  friend bool operator==(const FieldChange&, const FieldChange&) = default;
};

using FieldChanges = std::vector<FieldChange>;

// Layers whose shapes, router, tensors or programs differ, all in the same way.
struct LayerChanges {
  Intervals layers;
  FieldChanges changes;
};

enum class PlanRelation : uint8_t {
  kSame,       // equal in every field
  kOrigin,     // but for compiler version, documents and the lines that steps come from
  kDifferent,  // in what is executed, or where
};

struct PlanDiff {
  PlanRelation relation = PlanRelation::kSame;
  bool same_execution = false;  // the ranks' execution fingerprints are equal
  FieldChanges origin;
  FieldChanges plan;  // names, degrees, layers, attention, placement
  FieldChanges mesh;
  FieldChanges limits;
  FieldChanges numerics;
  FieldChanges weights;              // source, seed, digest list, ignored tensors, bytes that are not MoE
  std::vector<LayerChanges> layers;  // ascending by first layer
  FieldChanges prices;               // what the compiler predicted: nothing that a rank relies on
  // Who holds what, and memory; the refusal when a plan does not say it coherently.
  absl::StatusOr<PlanMoves> moves;
  Both<std::optional<uint32_t>> largest_rank;  // by total memory, the lowest of equals
};

PlanDiff DiffPlans(const Plan& a, const Plan& b);

// What is known of the file that a plan was read from.
struct PlanFile {
  std::string path;
  std::string id;                  // 64 digits; empty for a file without a whole header
  std::optional<uint64_t> serial;  // of a file with one
  std::string standing;            // "sealed, not signed", or the gate that refused
  std::string title;               // "model on mesh"; empty when no plan could be read
};

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_PLAN_DIFF_H_

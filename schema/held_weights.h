// Who holds which weights under a plan, and their bytes; a part of plan_moves.
#ifndef MESHSEAL_SCHEMA_HELD_WEIGHTS_H_
#define MESHSEAL_SCHEMA_HELD_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/intervals.h"
#include "schema/plan.h"
#include "schema/rank_part.h"

namespace meshseal {

// Bytes of one layer's weights, by who holds them.
struct LayerBytes {
  uint64_t replicated = 0;                // every rank of the stage
  uint64_t expert = 0;                    // of an expert, every rank that holds columns of it
  uint64_t shared = 0;                    // of the shared expert, likewise
  std::vector<const TensorClass*> cut{};  // what else there is goes by columns
};

// One layer class of one plan: who holds which part.
struct ClassView {
  const LayerClass* layer_class = nullptr;
  std::vector<Intervals> experts;              // per ep coordinate
  std::vector<std::vector<uint32_t>> holders;  // per expert: the ep coordinates with a copy of it, ascending
  std::vector<Interval> columns;               // per tp coordinate
  std::vector<Interval> shared;                // per rank of the expert group; [0,0) for none
  std::vector<uint64_t> expert_bytes;          // per tp coordinate: of one expert
  std::vector<uint64_t> shared_bytes;          // per rank of the expert group
  LayerBytes bytes;
};

struct PlanView {
  const Plan* plan = nullptr;
  std::vector<ClassView> classes;
  std::vector<std::optional<size_t>> class_of;  // per layer
  std::vector<uint32_t> stage_of;               // per layer

  std::optional<size_t> ClassAt(uint32_t layer) const {
    return layer < class_of.size() ? class_of[layer] : std::nullopt;
  }
};

// Reason kMeaning, naming plan and rule, when the plan says nothing coherent about who owns what, or when a sum of
// bytes needs more than 64 bits.
absl::StatusOr<PlanView> ViewOf(const Plan& plan, const char* which);

// What a run of columns takes: of one expert, or of the shared expert. Cuts keep blocks whole, so runs add up.
uint64_t ColumnBytes(const Plan& plan, const LayerClass& c, const LayerBytes& of_layer, TensorScope scope,
                     uint64_t columns);

// Bytes of the tensors that are the same in both layer classes.
LayerBytes CommonBytes(const Plan& plan_a, const LayerClass& ca, const Plan& plan_b, const LayerClass& cb);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_HELD_WEIGHTS_H_

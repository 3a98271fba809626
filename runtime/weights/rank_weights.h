// The atoms that one rank owns, in one block of memory, as stored.
#ifndef MESHSEAL_RUNTIME_WEIGHTS_RANK_WEIGHTS_H_
#define MESHSEAL_RUNTIME_WEIGHTS_RANK_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/memory/arena.h"
#include "runtime/weights/weight_files.h"
#include "runtime/weights/weight_matrix.h"
#include "schema/plan.h"
#include "schema/sealed_plan.h"

namespace meshseal::runtime {

// One expert's columns on this rank: C of the layer's intermediate axis, H is the hidden size.
struct ExpertWeights {
  WeightMatrix gate;  // [C, H]
  WeightMatrix up;    // [C, H]
  WeightMatrix down;  // [H, C]
};

// One layer's weights on this rank.
struct LayerWeights {
  WeightMatrix router;                 // [E, H], E experts of the layer; whole on every rank, like its biases
  WeightMatrix router_bias;            // [1, E]; without columns where the layer has none
  WeightMatrix selection_bias;         // likewise
  std::vector<ExpertWeights> experts;  // by local number
};

// Move-only. Reserve, then Load once; from then on immutable and safe to share between threads.
class RankWeights {
 public:
  // Memory for what `rank` of the plan's world owns, exactly what its memory plan charges. Reasons:
  // kOutOfMemory, kNotBuilt for a dtype that is not decoded here, kBug where the atoms do not add up to the
  // charge.
  static absl::StatusOr<RankWeights> Reserve(const SealedPlan& plan, uint32_t rank);

  // Reads the owned atoms and nothing else, of the plan that was reserved for. Reasons: those of WeightFiles::Read.
  absl::Status Load(const SealedPlan& plan, const WeightFiles& files);

  // The weights of a layer that has experts and lies in this rank's stage; null for any other.
  const LayerWeights* Layer(uint32_t layer) const;

  uint64_t resident_bytes() const { return memory_.bytes().size(); }

 private:
  // A matrix and where it comes from. The places are in the order of the memory, so that a load walks it
  // once.
  struct Atom {
    uint32_t layer = 0;
    uint32_t expert = 0;       // global
    uint32_t layer_class = 0;  // index into the plan's
    uint32_t tensor = 0;       // index into the class's
    WeightFiles::Block block;
    uint64_t offset = 0;  // in memory_
    uint64_t bytes = 0;
  };

  RankWeights() = default;

  // Gives the atom the next bytes of the memory and returns its matrix.
  absl::StatusOr<WeightMatrix> Place(const TensorClass& tensor, Atom atom);

  Arena memory_;
  uint64_t placed_ = 0;
  std::vector<Atom> atoms_;
  uint32_t first_layer_ = 0;
  std::vector<LayerWeights> layers_;  // of the stage; no experts where the layer has none
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_WEIGHTS_RANK_WEIGHTS_H_

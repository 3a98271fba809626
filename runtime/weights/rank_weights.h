// The atoms that one rank owns, in one block of memory: as stored, or where the plan says so the experts' quantised
// matrices repacked (formats/repacked.h), in as many bytes.
#ifndef MESHSEAL_RUNTIME_WEIGHTS_RANK_WEIGHTS_H_
#define MESHSEAL_RUNTIME_WEIGHTS_RANK_WEIGHTS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/formats/repacked.h"
#include "runtime/weights/weight_files.h"
#include "runtime/weights/weight_matrix.h"
#include "runtime/weights/weight_memory.h"
#include "schema/plan.h"
#include "schema/sealed_plan.h"

namespace meshseal::runtime {

// One expert's columns on this rank: C of the layer's intermediate axis, H is the hidden size. What the layer does not
// have is empty().
struct ExpertWeights {
  WeightMatrix gate;       // [C, H]
  WeightMatrix up;         // [C, H]
  WeightMatrix down;       // [H, C]
  WeightMatrix gate_bias;  // [1, C]
  WeightMatrix up_bias;    // [1, C]
  WeightMatrix down_bias;  // [1, H], whole; added by tp coordinate 0 alone
};

// This rank's columns of the shared expert, S of them; empty() where it has none.
struct SharedWeights {
  WeightMatrix gate;         // [S, H]
  WeightMatrix up;           // [S, H]
  WeightMatrix down;         // [H, S]
  WeightMatrix expert_gate;  // [1, H], whole on every rank
};

// One layer's weights on this rank.
struct LayerWeights {
  WeightMatrix router;                 // [E, H], E experts of the layer; whole on every rank, like its biases
  WeightMatrix router_bias;            // [1, E]
  WeightMatrix selection_bias;         // [1, E]
  WeightMatrix token_table;            // [V, k] of i32 or i64: expert ids of each token id
  std::vector<ExpertWeights> experts;  // by local number
  SharedWeights shared;
};

// How far a load is, over all ranks that share it; may be read at any time.
struct LoadProgress {
  std::atomic<uint64_t> bytes{0};  // read so far
  std::atomic<uint64_t> total{0};  // of all ranks that have reserved
};

// Move-only. Reserve, then Load once; from then on immutable and safe to share between threads. The plan must live
// longer.
class RankWeights {
 public:
  // Memory for what `rank` of the plan's world owns, exactly what its memory plan charges, from `reserve`. Reasons:
  // those of `reserve`; kBug where the atoms do not add up to the charge.
  using ReserveMemory = absl::FunctionRef<absl::StatusOr<std::unique_ptr<WeightMemory>>(uint64_t bytes)>;
  static absl::StatusOr<RankWeights> Reserve(const SealedPlan& plan, uint32_t rank,
                                             ReserveMemory reserve = ReserveHostWeights);

  // Reads the owned atoms and nothing else, and verifies the very bytes that it keeps or repacks, with `threads`
  // threads, this one among them, each of which has room for the largest piece that is repacked; progress may be null.
  // Reasons: those of WeightFiles::Read and Verify; kWeightsTensor for a scale that is no number, with its tensor and
  // place; kOutOfMemory, kDevice.
  absl::Status Load(const WeightFiles& files, uint32_t threads, LoadProgress* progress);

  // Views of the memory above, of a layer that has experts and lies in this rank's stage; null for any other.
  const LayerWeights* Layer(uint32_t layer) const;

  uint64_t resident_bytes() const { return memory_->bytes().size(); }

 private:
  class Placing;

  // A matrix of a piece that is repacked: where in the stored bytes it begins, and where in memory_ its planes lie.
  struct RepackedMatrix {
    uint64_t at = 0;
    StoredBlocks stored;  // without data
    std::array<uint64_t, kMostPlanes> offsets = {};
  };

  // A part of a tensor and its place in memory_, or those of its planes. They stand in the plan's order.
  struct Piece {
    Atom atom;
    uint64_t offset = 0;
    uint64_t bytes = 0;                    // as stored
    std::vector<RepackedMatrix> repacked;  // empty: it lies as stored
  };

  RankWeights() = default;

  // Reads and verifies a piece, and puts it in its place. `stored`: as many bytes as the largest piece that is repacked
  // has.
  absl::Status LoadPiece(const WeightFiles& files, const Piece& piece, absl::Span<std::byte> stored,
                         WeightPlacer& placer) const;

  std::unique_ptr<WeightMemory> memory_;
  std::vector<Piece> pieces_;
  uint32_t first_layer_ = 0;
  std::vector<LayerWeights> layers_;  // of the stage; no experts where the layer has none
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_WEIGHTS_RANK_WEIGHTS_H_

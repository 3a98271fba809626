// Random model, mesh and deployment documents over the whole manifest language, legal by construction, with what they
// declare: what a plan of them must hold. Sizes are made from degrees and block sizes; nothing here asks the compiler.
#ifndef MESHSEAL_TESTS_PROPERTIES_RANDOM_DEPLOYMENT_H_
#define MESHSEAL_TESTS_PROPERTIES_RANDOM_DEPLOYMENT_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "schema/dtype.h"
#include "schema/plan.h"
#include "schema/terms.h"

namespace meshseal::properties {

// The same numbers from the same seed with every compiler and library.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}

  uint64_t Next();
  uint32_t Below(uint32_t end) { return static_cast<uint32_t>(Next() % end); }  // end > 0
  uint32_t Between(uint32_t first, uint32_t last) { return first + Below(last - first + 1); }
  bool Chance(uint32_t percent) { return Below(100) < percent; }
  template <class T>
  T Pick(const std::vector<T>& choices) {
    return choices[Below(static_cast<uint32_t>(choices.size()))];
  }

 private:
  uint64_t state_;
};

struct DeclaredSide {
  SideKind kind = SideKind::kInvalid;
  DType dtype = DType::kInvalid;
  uint32_t rows = 0;  // of the matrix that share a scale; 0 x 0: all of it
  uint32_t columns = 0;
  ScaleApplies applies = ScaleApplies::kInvalid;
  ScaleOf of = ScaleOf::kInvalid;
};

struct DeclaredTensor {
  TensorRole role = TensorRole::kInvalid;
  DType dtype = DType::kInvalid;
  std::vector<ShapeAxis> shape;
  std::string name;
  GateUpLayout layout = GateUpLayout::kInvalid;
  uint32_t rotation = 0;
  std::vector<DeclaredSide> sides;
};

struct DeclaredRouter {
  std::string scoring;  // words of the manifest
  std::string epsilon;  // text of a parameter; empty: none
  std::string order;
  std::string renormalize;
  std::string guard;
  std::string scale;
  bool logit_bias = false;
  bool selection_bias = false;
  uint32_t groups = 0;  // 0: none
  uint32_t keep = 0;
  std::string group_score;
  std::string weight_applied;
  std::string input_dtype;
};

struct DeclaredShared {
  uint32_t width = 0;  // 0: none
  bool gate = false;
  std::string activation;  // `same`, or a map
};

// What is written for some layers.
struct DeclaredLayers {
  uint32_t experts = 0;
  uint32_t top_k = 0;
  uint32_t intermediate = 0;
  DeclaredRouter router;
  std::string activation;  // the map
  bool gated = false;
  DeclaredShared shared;
  bool token_table = false;
  std::vector<DeclaredTensor> rows;  // of weights.tensors, whether these layers read them or not

  // The rows that these layers read.
  std::vector<DeclaredTensor> Tensors() const;
};

struct RandomDeployment {
  uint64_t seed = 0;
  std::string model;  // texts of the documents
  std::string mesh;
  std::string deployment;
  std::string profile;  // of balanced experts; empty: none

  Degrees degrees;
  uint32_t hidden = 0;
  uint32_t layers = 0;
  std::vector<uint32_t> stage_layers;
  std::vector<DeclaredLayers> kinds;           // of layers
  std::vector<std::optional<size_t>> kind_of;  // per layer; nothing: no MoE layer
  std::vector<std::vector<uint64_t>> loads;    // per layer, of balanced experts
  uint32_t vocabulary = 0;                     // of the token table
  OtherWeights other_weights;
  ExpertPlacement placement = ExpertPlacement::kInvalid;
  uint32_t copies = 0;  // redundant experts of each layer
  bool uneven_experts = false;
  bool uneven_cuts = false;
  SharedPlacement shared_placement = SharedPlacement::kInvalid;
  uint32_t decode_tokens = 0;
  uint32_t prefill_chunk = 0;
  uint32_t rank_decode_tokens = 0;
  uint32_t rank_prefill_tokens = 0;
  Reduction reduction = Reduction::kInvalid;
  uint32_t segments = 0;         // of an exact reduction
  uint32_t shared_segments = 0;  // and of its shared expert
  bool residual = false;
  bool q8_down = false;

  bool Gathers() const { return degrees.dense_tp < degrees.tp * degrees.ep; }
};

RandomDeployment MakeRandomDeployment(uint64_t seed);

// Columns that a cut of the intermediate axis, or of the shared width, must keep together.
uint32_t ColumnUnit(const DeclaredLayers& layers, bool shared, bool q8_down);

// Writes the documents into `folder`; the path of the deployment's.
std::string WriteDocuments(const RandomDeployment& random, const std::filesystem::path& folder);

}  // namespace meshseal::properties

#endif  // MESHSEAL_TESTS_PROPERTIES_RANDOM_DEPLOYMENT_H_

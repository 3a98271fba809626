// The families of models that can be imported: one row each. A row says which facts of a checkpoint's configuration
// make its router, its experts and its layers, what its tensors are called, and which of them are not MoE. Facts come
// from the families' public code and configurations; what a row fixes is fixed there too.
#ifndef MESHSEAL_COMPILER_IMPORT_FAMILIES_H_
#define MESHSEAL_COMPILER_IMPORT_FAMILIES_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/terms.h"

namespace meshseal::compiler {

// How a weight matrix is stored.
enum class Storage : uint8_t {
  kPlain,      // f32, f16, bf16, or a block type of GGUF
  kFp8Block,   // f8_e4m3 with a scale for each block of rows and columns
  kFp8Tensor,  // f8_e4m3 with one scale
  kNvfp4,      // 4-bit codes, f8_e4m3 scales of 16, one f32 scale
  kMxfp4,      // 4-bit codes, power-of-two scales of 32
};

// What decides a tensor's dtype where no file does.
enum class StoredAs : uint8_t {
  kModel,   // the model's dtype
  kF32,     // always f32
  kI64,     // always i64
  kWeight,  // as the quantisation says; the model's dtype without one
};

// One tensor of a layer, or of one of its experts. `name` follows the family's block prefix.
struct TensorRow {
  TensorRole role = TensorRole::kInvalid;
  const char* name = "";
  ShapeAxis axes[3] = {ShapeAxis::kInvalid, ShapeAxis::kInvalid, ShapeAxis::kInvalid};  // the file's; short ones first
  StoredAs stored = StoredAs::kModel;
  GateUpLayout layout = GateUpLayout::kInvalid;  // of the gate_up roles
};

// The names one way of storing a family has. Rows that a model does not read (no shared expert, no bias) are passed
// over.
struct TensorLayout {
  const char* what = "";
  absl::Span<const Storage> storages;  // of the experts
  absl::Span<const TensorRow> roles;
};

// Which layers have experts.
enum class LayerRule : uint8_t {
  kAll,
  kFirstDense,    // first_k_dense_replace, moe_layer_freq, mlp_layer_types
  kSparseStep,    // decoder_sparse_step, mlp_only_layers
  kInterleave,    // interleave_moe_layer_step, or the list moe_layers
  kPeriodOffset,  // expert_layer_period, expert_layer_offset
};

// Whether the chosen scores are divided by their sum.
enum class NormRule : uint8_t {
  kNever,
  kAlways,
  kKey,       // norm_topk_prob says
  kKeyFalse,  // norm_topk_prob must be false: the public implementations disagree on true
};

enum class BiasRule : uint8_t { kNone, kAlways, kUseRoutingBias };

// The dtype of the router's product; f32 in every family whose router is stored so.
enum class RouterInput : uint8_t { kModel, kF32, kRouterWeight };

struct RouterRule {
  Scoring scoring = Scoring::kInvalid;
  const char* scoring_word = nullptr;  // what scoring_func must be where it stands
  bool scoring_stated = false;         // and whether it must stand
  RouteOrder order = RouteOrder::kScoreThenTopK;
  NormRule norm = NormRule::kNever;
  Renormalize renormalize = Renormalize::kSum;  // where they are divided
  double guard = 0;
  bool scaled = false;                        // routed_scaling_factor
  GroupScore groups = GroupScore::kInvalid;   // n_group and topk_group
  BiasRule selection_bias = BiasRule::kNone;  // and topk_method, where it stands, is noaux_tc
  bool logit_bias = false;
  bool token_table = false;  // num_hash_layers, or the hash_moe layers of mlp_layer_types
  WeightPoint weight = WeightPoint::kOutput;
  RouterInput input = RouterInput::kModel;
};

enum class SharedRule : uint8_t {
  kNone,
  kCount,  // n_shared_experts times the experts' width, plain addition
  kWidth,  // shared_expert_intermediate_size, behind a sigmoid gate
  kOne,    // one of the experts' width, plain addition
};

enum class AttentionRule : uint8_t {
  kHeads,   // head_dim, or hidden_size over the heads
  kLatent,  // every head has keys of its own, of qk_nope_head_dim + qk_rope_head_dim
  kOther,   // layers without such heads, or a cache that no head rule describes
};

// What GGUF files of a family say beside the fields that all of them have.
struct GgufRule {
  const char* architecture = nullptr;  // several families may share one: expert_gating_func tells them apart
  bool gating_stated = false;          // expert_gating_func must stand
  NormRule norm = NormRule::kNever;    // kKey: expert_weights_norm
  bool groups_stated = false;          // expert_group_count and expert_group_used_count must stand
  bool one_width = false;              // feed_forward_length where expert_feed_forward_length does not stand
};

struct Family {
  const char* name = "";                           // the manifest's label
  absl::Span<const char* const> model_types = {};  // of config.json
  const char* text_config = nullptr;               // the map that holds the language model's fields
  GgufRule gguf = {};
  const char* experts_key = "num_experts";
  const char* experts_alias = nullptr;  // what stands for it where it is absent
  const char* width_key = "moe_intermediate_size";
  const char* mtp_key = nullptr;  // the number of extra blocks
  bool mtp_from_files = false;    // config.json does not say which of them were released
  AttentionRule attention = AttentionRule::kHeads;
  LayerRule layers = LayerRule::kAll;
  RouterRule router = {};
  SharedRule shared = SharedRule::kNone;
  ActivationKind activation = ActivationKind::kSwiGlu;
  double alpha = 0;             // of swiglu_oai
  bool expert_bias = false;     // gate, up and down add a bias
  const char* dtype = nullptr;  // the model's dtype where config.json does not say; null: it must

  const char* layer = "model.layers.{layer}.";  // before the names of a layer's tensors
  const char* block = "mlp.";                   // and of its MoE block
  absl::Span<const TensorLayout> layouts = {};
  const char* fp8_scale = "_scale_inv";  // appended to the weight's name; with '.' in place of the name's last part
  const char* fp8_scale_dtype = "f32";
  absl::Span<const char* const> ignored = {};  // tensors that are not MoE
  const char* mtp_block = nullptr;  // where extra blocks are numbered on their own; null: after the last layer
  const char* mtp_ignored = nullptr;
};

absl::Span<const Family> Families();

// What a GGUF file of any family calls its tensors, and what of it is not MoE.
absl::Span<const TensorLayout> GgufLayouts();
absl::Span<const char* const> GgufIgnored();
inline constexpr const char* kGgufLayer = "blk.{layer}.";

// The row of a config.json's model_type; null when there is none.
const Family* FamilyOfModelType(absl::string_view model_type);

// All words, each once, in the order of the rows.
std::vector<absl::string_view> ModelTypes();
std::vector<absl::string_view> Architectures();

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_IMPORT_FAMILIES_H_

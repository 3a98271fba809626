#include "tests/properties/random_deployment.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace meshseal::properties {
namespace {

// Elements of one block of a type whose scales are inside; 1 for all others.
uint32_t BlockElements(DType dtype) {
  switch (dtype) {
    case DType::kMxfp4:
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kIq4Nl:
      return 32;
    case DType::kNvfp4:
      return 64;
    case DType::kQ4K:
    case DType::kQ5K:
    case DType::kQ6K:
    case DType::kQ2K:
    case DType::kQ3K:
    case DType::kIq2Xxs:
    case DType::kIq4Xs:
      return 256;
    default:
      return 1;
  }
}

const DeclaredSide* ScaleWithBlock(const DeclaredTensor& tensor) {
  for (const DeclaredSide& side : tensor.sides) {
    if (side.kind == SideKind::kScale && side.rows > 0) return &side;
  }
  return nullptr;
}

// Elements of the input axis that the files cannot hold a part of. FP8 tiles may be cut at an edge.
uint32_t WholeInputs(const DeclaredTensor& tensor) {
  const DeclaredSide* scale = ScaleWithBlock(tensor);
  uint32_t unit = BlockElements(tensor.dtype);
  if (scale != nullptr) unit = tensor.dtype == DType::kF8E4M3 ? 1 : scale->columns;
  return std::lcm(unit, std::max(tensor.rotation, 1u));
}

// Elements of a cut input axis, and of a cut output axis, that stay together.
uint32_t InputUnit(const DeclaredTensor& tensor) {
  const DeclaredSide* scale = ScaleWithBlock(tensor);
  return std::lcm(scale != nullptr ? scale->columns : BlockElements(tensor.dtype), std::max(tensor.rotation, 1u));
}

uint32_t OutputUnit(const DeclaredTensor& tensor) {
  const DeclaredSide* scale = ScaleWithBlock(tensor);
  if (scale == nullptr) return 1;
  // Interleaved: two rows of the fused tensor are one column.
  const bool pairs = tensor.layout == GateUpLayout::kInterleaved && scale->rows % 2 == 0;
  return pairs ? scale->rows / 2 : scale->rows;
}

bool IsSharedMatrix(TensorRole role) {
  return role == TensorRole::kSharedGate || role == TensorRole::kSharedUp || role == TensorRole::kSharedGateUp ||
         role == TensorRole::kSharedDown;
}

bool IsRoutedMatrix(TensorRole role) {
  return role == TensorRole::kGate || role == TensorRole::kUp || role == TensorRole::kGateUp ||
         role == TensorRole::kDown;
}

bool IsDown(TensorRole role) { return role == TensorRole::kDown || role == TensorRole::kSharedDown; }

bool IsPerExpert(TensorRole role) {
  return IsRoutedMatrix(role) || role == TensorRole::kGateBias || role == TensorRole::kUpBias ||
         role == TensorRole::kGateUpBias || role == TensorRole::kDownBias;
}

bool IsFused(TensorRole role) {
  return role == TensorRole::kGateUp || role == TensorRole::kGateUpBias || role == TensorRole::kSharedGateUp;
}

std::string Quoted(const std::string& text) { return absl::StrCat("\"", text, "\""); }
std::string Word(DType dtype) { return std::string(DTypeName(dtype)); }

// "[0-3, 5]"
std::string RangesText(const std::vector<uint32_t>& layers) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < layers.size();) {
    size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    parts.push_back(end == i + 1 ? absl::StrCat(layers[i]) : absl::StrCat(layers[i], "-", layers[end - 1]));
    i = end;
  }
  return absl::StrCat("[", absl::StrJoin(parts, ", "), "]");
}

std::string SideText(const DeclaredTensor& tensor, const DeclaredSide& side) {
  const std::string key = WordOf(side.kind);
  std::string text =
      absl::StrCat("{name: ", Quoted(absl::StrCat(tensor.name, "_", key)), ", dtype: ", Word(side.dtype));
  if (side.rows > 0) absl::StrAppend(&text, ", block: [", side.rows, ", ", side.columns, "]");
  absl::StrAppend(&text, ", applies: ", WordOf(side.applies));
  if (side.of != ScaleOf::kInvalid) absl::StrAppend(&text, ", of: ", WordOf(side.of));
  return absl::StrCat(text, "}");
}

// The fields of a row; `none` where a field that may be absent is.
std::map<std::string, std::string> FieldsOf(const DeclaredTensor& tensor) {
  std::vector<std::string> axes;
  for (const ShapeAxis axis : tensor.shape) axes.emplace_back(WordOf(axis));
  std::map<std::string, std::string> fields = {
      {"name", Quoted(tensor.name)},
      {"dtype", Word(tensor.dtype)},
      {"shape", absl::StrCat("[", absl::StrJoin(axes, ", "), "]")},
      {"layout", tensor.layout == GateUpLayout::kInvalid ? "none" : WordOf(tensor.layout)},
      {"rotation", tensor.rotation == 0 ? "none" : absl::StrCat("{block: ", tensor.rotation, "}")},
      {"scale", "none"},
      {"scale_2", "none"},
      {"input_scale", "none"}};
  for (const DeclaredSide& side : tensor.sides) fields[WordOf(side.kind)] = SideText(tensor, side);
  return fields;
}

std::string FieldsText(const std::map<std::string, std::string>& fields) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : fields) parts.push_back(absl::StrCat(key, ": ", value));
  return absl::StrCat("{", absl::StrJoin(parts, ", "), "}");
}

std::map<std::string, std::string> FieldsOf(const DeclaredRouter& router) {
  const std::string guard = router.guard;
  return {
      {"scoring", router.epsilon.empty() ? router.scoring : absl::StrCat("{sparsemixer: {eps: ", router.epsilon, "}}")},
      {"order", router.order},
      {"renormalize",
       guard.empty() ? router.renormalize : absl::StrCat("{", router.renormalize, ": {guard: ", guard, "}}")},
      {"scale", router.scale},
      {"logit_bias", router.logit_bias ? "tensor" : "none"},
      {"selection_bias", router.selection_bias ? "tensor" : "none"},
      {"groups", router.groups == 0 ? "none"
                                    : absl::StrCat("{count: ", router.groups, ", keep: ", router.keep,
                                                   ", score: ", router.group_score, "}")},
      {"weight_applied", router.weight_applied},
      {"input_dtype", router.input_dtype}};
}

std::string SharedText(const DeclaredShared& shared) {
  if (shared.width == 0) return "none";
  return absl::StrCat("{width: ", shared.width, ", gate: ", shared.gate ? "sigmoid" : "none",
                      ", activation: ", shared.activation, "}");
}

std::vector<uint32_t> DivisorsOf(uint32_t number) {
  std::vector<uint32_t> divisors;
  for (uint32_t d = 1; d <= number; ++d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return divisors;
}

// Makes one deployment; the members are filled in the order in which choices depend on each other.
class Maker {
 public:
  explicit Maker(uint64_t seed) : dice_(seed * 0x9E3779B97F4A7C15u + 1) { made_.seed = seed; }

  RandomDeployment Make() {
    ChooseDegrees();
    ChooseLayers();
    ChooseReduction();
    ChooseBase();
    ChooseOverrides();
    ChooseExperts();
    ChooseSizes();
    ChooseTokens();
    WriteModel();
    WriteMesh();
    WriteDeployment();
    return std::move(made_);
  }

 private:
  uint32_t Group() const { return made_.degrees.tp * made_.degrees.ep; }

  void ChooseDegrees() {
    Degrees& d = made_.degrees;
    do {
      d.dp = dice_.Pick<uint32_t>({1, 1, 1, 2, 3});
      d.pp = dice_.Pick<uint32_t>({1, 1, 2, 3, 4});
      d.tp = dice_.Pick<uint32_t>({1, 1, 2, 2, 3, 4});
      d.ep = dice_.Pick<uint32_t>({1, 2, 2, 3, 4, 4, 5, 8, 16});
    } while (d.dp * d.pp * d.tp * d.ep > 96);
    d.dense_tp = dice_.Chance(65) ? Group() : dice_.Pick(DivisorsOf(Group()));
  }

  void ChooseLayers() {
    const uint32_t pp = made_.degrees.pp;
    made_.layers = dice_.Between(pp, pp + 7);
    stages_listed_ = dice_.Chance(40);
    made_.stage_layers.assign(pp, 0);
    for (uint32_t layer = 0; layer < made_.layers; ++layer) {
      const uint32_t stage = layer < pp ? layer : stages_listed_ ? dice_.Below(pp) : layer % pp;
      ++made_.stage_layers[stage];
    }
    all_layers_ = dice_.Chance(40);
    for (uint32_t layer = 0; layer < made_.layers; ++layer) {
      if (all_layers_ || dice_.Chance(70)) moe_layers_.push_back(layer);
    }
    if (moe_layers_.empty()) moe_layers_.push_back(dice_.Below(made_.layers));
    made_.kind_of.assign(made_.layers, std::nullopt);
  }

  void ChooseReduction() {
    made_.reduction =
        dice_.Pick<Reduction>({Reduction::kOrdered, Reduction::kOrdered, Reduction::kFast, Reduction::kExact});
    made_.uneven_cuts = dice_.Chance(30);
    made_.residual = dice_.Chance(40);
    if (made_.reduction == Reduction::kExact) made_.segments = made_.degrees.tp * dice_.Pick<uint32_t>({1, 1, 2, 4});
    gate_up_basis_ = dice_.Pick<std::string>({"f32", "bf16", "bf16", "q8", "rotated"});
    down_basis_ = dice_.Pick<std::string>({"f32", "bf16", "bf16", "q8", "rotated"});
    made_.q8_down = down_basis_ == "q8";
    source_ = dice_.Pick<WeightSource>(
        {WeightSource::kSafetensors, WeightSource::kSafetensors, WeightSource::kGguf, WeightSource::kSynthetic});
  }

  // --- tensors ---

  DType Float() { return dice_.Pick<DType>({DType::kF32, DType::kF16, DType::kBf16, DType::kBf16}); }

  DeclaredSide Side(SideKind kind, DType dtype, uint32_t rows, uint32_t columns) {
    return {kind,
            dtype,
            rows,
            columns,
            dice_.Chance(80) ? ScaleApplies::kMultiply : ScaleApplies::kDivide,
            ScaleOf::kInvalid};
  }

  // A weight's dtype with its side tensors.
  void ChooseFormat(DeclaredTensor& tensor) {
    tensor.sides.clear();
    std::vector<DType> choices = {DType::kF32, DType::kF16, DType::kBf16, DType::kMxfp4, DType::kNvfp4};
    if (source_ != WeightSource::kGguf) choices.insert(choices.end(), {DType::kF8E4M3, DType::kF8E4M3, DType::kF8E4M3});
    if (source_ != WeightSource::kSafetensors) {
      choices.insert(choices.end(), {DType::kQ8_0, DType::kQ4_0, DType::kQ4K, DType::kQ5K, DType::kQ6K, DType::kQ2K,
                                     DType::kQ3K, DType::kIq2Xxs, DType::kIq4Nl, DType::kIq4Xs});
    }
    tensor.dtype = dice_.Pick(choices);
    const bool in_blocks = source_ == WeightSource::kGguf;
    if (tensor.dtype == DType::kF8E4M3) {
      const auto block = dice_.Pick<std::pair<uint32_t, uint32_t>>(
          {{0, 0}, {1, 16}, {16, 16}, {8, 32}, {24, 8}, {3, 5}, {32, 64}, {128, 128}});
      tensor.sides.push_back(Side(SideKind::kScale, dice_.Pick<DType>({DType::kF32, DType::kBf16, DType::kF8E8M0}),
                                  block.first, block.second));
      if (dice_.Chance(30)) {
        tensor.sides.push_back(Side(SideKind::kInputScale, dice_.Pick<DType>({DType::kF32, DType::kBf16}), 0, 0));
      }
    } else if (tensor.dtype == DType::kMxfp4 && !in_blocks) {
      tensor.sides.push_back(Side(SideKind::kScale, dice_.Pick<DType>({DType::kU8, DType::kF8E8M0}), 1, 32));
    } else if (tensor.dtype == DType::kNvfp4) {
      if (!in_blocks) tensor.sides.push_back(Side(SideKind::kScale, DType::kF8E4M3, 1, 16));
      if (!in_blocks || dice_.Chance(50)) tensor.sides.push_back(Side(SideKind::kScale2, DType::kF32, 0, 0));
      if (dice_.Chance(30)) tensor.sides.push_back(Side(SideKind::kInputScale, DType::kF32, 0, 0));
    }
    for (DeclaredSide& side : tensor.sides) {
      if (!IsFused(tensor.role) || side.rows <= 1) continue;
      const bool alternate = tensor.layout == GateUpLayout::kInterleaved;
      side.of = alternate || dice_.Chance(50) ? ScaleOf::kFused : ScaleOf::kHalf;
    }
  }

  DeclaredTensor MakeRow(TensorRole role, ShapeAxis outputs, ShapeAxis inputs) {
    DeclaredTensor tensor;
    tensor.role = role;
    if (IsFused(role)) tensor.layout = dice_.Chance(50) ? GateUpLayout::kHalves : GateUpLayout::kInterleaved;
    if (IsRoutedMatrix(role) || IsSharedMatrix(role)) {
      ChooseFormat(tensor);
      const std::string& basis = IsDown(role) ? down_basis_ : gate_up_basis_;
      if (IsRoutedMatrix(role) && basis == "rotated") tensor.rotation = dice_.Pick<uint32_t>({16, 32});
    } else {
      tensor.dtype = Float();
    }
    if (inputs == ShapeAxis::kInvalid) {
      tensor.shape = {outputs};
    } else if (MayBeTransposed(tensor) && dice_.Chance(25)) {
      tensor.shape = {inputs, outputs};
    } else {
      tensor.shape = {outputs, inputs};
    }
    const bool per_expert = IsPerExpert(role);
    const bool stacked = per_expert && dice_.Chance(50);
    if (stacked) tensor.shape.insert(tensor.shape.begin(), ShapeAxis::kExperts);
    tensor.name = absl::StrCat("blocks.{layer}.", per_expert && !stacked ? "experts.{expert}." : "", WordOf(role));
    return tensor;
  }

  static bool MayBeTransposed(const DeclaredTensor& tensor) {
    return BlockElements(tensor.dtype) == 1 && tensor.rotation == 0;
  }

  void AddGateAndUp(DeclaredLayers& layers, bool shared, bool fused) {
    const ShapeAxis one = shared ? ShapeAxis::kShared : ShapeAxis::kIntermediate;
    const ShapeAxis two = shared ? ShapeAxis::kTwoShared : ShapeAxis::kTwoIntermediate;
    if (layers.gated && fused) {
      layers.rows.push_back(MakeRow(shared ? TensorRole::kSharedGateUp : TensorRole::kGateUp, two, ShapeAxis::kHidden));
      return;
    }
    if (layers.gated) {
      layers.rows.push_back(MakeRow(shared ? TensorRole::kSharedGate : TensorRole::kGate, one, ShapeAxis::kHidden));
    }
    layers.rows.push_back(MakeRow(shared ? TensorRole::kSharedUp : TensorRole::kUp, one, ShapeAxis::kHidden));
  }

  std::string Activation(bool gated) {
    if (!gated) return "{kind: relu2}";
    return dice_.Pick<std::string>({"{kind: swiglu}", "{kind: swiglu}", "{kind: geglu}",
                                    "{kind: swiglu_oai, alpha: 1.702, limit: 7.0}",
                                    "{kind: swiglu_preclamp, limit: 10.0}"});
  }

  // --- model ---

  void ChooseRouter(DeclaredLayers& base) {
    DeclaredRouter& router = base.router;
    router.scoring = dice_.Pick<std::string>(
        {"softmax", "softmax", "sigmoid", "sigmoid", "sqrt_softplus", "sparsemixer", "precomputed"});
    // The caller's ids are those of all tokens, which a group that gathers does not have.
    if (made_.Gathers() && router.scoring == "precomputed") router.scoring = "sigmoid";
    const bool own_rule = router.scoring == "sparsemixer" || router.scoring == "precomputed";
    if (router.scoring == "sparsemixer") router.epsilon = "0.01";
    router.order = !own_rule && dice_.Chance(30) ? "topk_then_score" : "score_then_topk";
    const bool late = router.order == "topk_then_score";
    router.renormalize = "none";
    if (!own_rule && !(late && router.scoring == "softmax")) {
      router.renormalize = dice_.Pick<std::string>({"none", "sum", "sum_plus", "sum_floor"});
      if (router.renormalize == "sum_plus" || router.renormalize == "sum_floor") router.guard = "1.0e-20";
    }
    router.scale = dice_.Pick<std::string>({"1.0", "2.5", "0.125"});
    if (router.scoring == "precomputed") router.scale = "1.0";  // it is taken as it is
    router.logit_bias = router.scoring != "precomputed" && dice_.Chance(30);
    router.selection_bias = !own_rule && !late && dice_.Chance(40);
    wants_groups_ = !own_rule && !late && dice_.Chance(40);
    wants_table_ = !own_rule && !late && !made_.Gathers() && dice_.Chance(25);
    router.weight_applied = "output";
  }

  void ChooseBase() {
    DeclaredLayers& base = base_;
    ChooseRouter(base);
    base.top_k = base.router.scoring == "sparsemixer" ? 2 : dice_.Pick<uint32_t>({1, 2, 2, 3, 4, 6, 8});
    base.gated = dice_.Chance(85);
    base.activation = Activation(base.gated);
    if (base.router.scoring != "precomputed") {
      DeclaredTensor router = MakeRow(TensorRole::kRouter, ShapeAxis::kExperts, ShapeAxis::kHidden);
      base.rows.push_back(router);
    }
    const DeclaredTensor* router = base.rows.empty() ? nullptr : &base.rows.front();
    const bool may_narrow = router == nullptr || router->dtype == DType::kBf16;
    base.router.input_dtype = may_narrow && dice_.Chance(60) ? "bf16" : "f32";
    constexpr ShapeAxis kVector = ShapeAxis::kInvalid;
    if (base.router.logit_bias) base.rows.push_back(MakeRow(TensorRole::kRouterBias, ShapeAxis::kExperts, kVector));
    if (base.router.selection_bias) {
      base.rows.push_back(MakeRow(TensorRole::kSelectionBias, ShapeAxis::kExperts, kVector));
    }
    if (wants_table_) ChooseTable();
    AddGateAndUp(base, false, dice_.Chance(50));
    base.rows.push_back(MakeRow(TensorRole::kDown, ShapeAxis::kHidden, ShapeAxis::kIntermediate));
    if (base.gated && dice_.Chance(15)) {
      base.rows.push_back(MakeRow(TensorRole::kGateBias, ShapeAxis::kIntermediate, kVector));
      base.rows.push_back(MakeRow(TensorRole::kUpBias, ShapeAxis::kIntermediate, kVector));
    } else if (base.gated && dice_.Chance(15)) {
      base.rows.push_back(MakeRow(TensorRole::kGateUpBias, ShapeAxis::kTwoIntermediate, kVector));
    } else if (!base.gated && dice_.Chance(20)) {
      base.rows.push_back(MakeRow(TensorRole::kUpBias, ShapeAxis::kIntermediate, kVector));
    }
    const bool down_bias = dice_.Chance(20);
    if (down_bias) base.rows.push_back(MakeRow(TensorRole::kDownBias, ShapeAxis::kHidden, kVector));
    if (!down_bias && dice_.Chance(20)) base.router.weight_applied = "activation";
    if (base.top_k == 1 && dice_.Chance(50)) base.router.weight_applied = "input";
    if (dice_.Chance(40)) ChooseShared(base);
  }

  void ChooseTable() {
    made_.vocabulary = dice_.Between(2, 5000);
    for (const uint32_t layer : moe_layers_) {
      if (dice_.Chance(50)) table_layers_.push_back(layer);
    }
    // A selection bias needs a layer that reads it.
    if (base_.router.selection_bias && table_layers_.size() == moe_layers_.size()) table_layers_.pop_back();
    if (table_layers_.empty()) {
      made_.vocabulary = 0;
      return;
    }
    DeclaredTensor table;
    table.role = TensorRole::kTokenTable;
    table.dtype = dice_.Chance(50) ? DType::kI32 : DType::kI64;
    table.shape = {ShapeAxis::kTokenIds, ShapeAxis::kTopK};
    table.name = "blocks.{layer}.token_table";
    base_.rows.push_back(table);
  }

  void ChooseShared(DeclaredLayers& base) {
    base.shared.width = 1;  // the width itself follows from the cuts
    base.shared.gate = dice_.Chance(40);
    base.shared.activation = dice_.Chance(60) ? "same" : Activation(base.gated);
    made_.shared_placement = dice_.Chance(50) ? SharedPlacement::kSplit : SharedPlacement::kOwner;
    AddGateAndUp(base, true, dice_.Chance(50));
    base.rows.push_back(MakeRow(TensorRole::kSharedDown, ShapeAxis::kHidden, ShapeAxis::kShared));
    if (base.shared.gate) {
      DeclaredTensor gate = MakeRow(TensorRole::kSharedExpertGate, ShapeAxis::kOne, ShapeAxis::kHidden);
      if (dice_.Chance(40)) gate.shape = {ShapeAxis::kHidden};
      base.rows.push_back(gate);
    }
  }

  // Up to two sets of layers with fields of their own.
  void ChooseOverrides() {
    kinds_ = {base_};
    override_of_.assign(made_.layers, 0);
    if (moe_layers_.size() < 2 || !dice_.Chance(45)) return;
    if (base_.router.scoring == "precomputed") return;  // its scale, in which sets differ at least, is 1
    const uint32_t count = dice_.Between(1, 2);
    for (uint32_t i = 1; i <= count; ++i) {
      // The first MoE layer stays as the document says, so that each of its rows is read.
      std::vector<uint32_t> layers;
      for (const uint32_t layer : moe_layers_) {
        if (layer != moe_layers_.front() && override_of_[layer] == 0 && dice_.Chance(40)) layers.push_back(layer);
      }
      if (layers.empty()) continue;
      for (const uint32_t layer : layers) override_of_[layer] = kinds_.size();
      override_layers_.push_back(layers);
      kinds_.push_back(Overridden());
    }
  }

  DeclaredLayers Overridden() {
    DeclaredLayers kind = base_;
    kind.router.scale = "0.5";
    if (dice_.Chance(30) && base_.router.scoring != "sparsemixer" && base_.top_k > 1) --kind.top_k;
    if (kind.shared.width > 0 && dice_.Chance(30)) kind.shared = {};
    if (dice_.Chance(40)) kind.activation = Activation(kind.gated);
    const bool apart = std::any_of(kind.rows.begin(), kind.rows.end(),
                                   [](const DeclaredTensor& t) { return t.role == TensorRole::kGate; });
    const bool fuses = apart && dice_.Chance(25);
    for (DeclaredTensor& tensor : kind.rows) {
      // Fields that differ are those of a row that these layers read.
      const bool read = tensor.role == TensorRole::kDown || (IsRoutedMatrix(tensor.role) && !fuses) ||
                        (IsSharedMatrix(tensor.role) && kind.shared.width > 0);
      if (!read || !dice_.Chance(40)) continue;
      ChooseFormat(tensor);
      const size_t last = tensor.shape.size() - 1;
      const bool transposed = IsDown(tensor.role) == (tensor.shape[last] == ShapeAxis::kHidden);
      if (transposed && !MayBeTransposed(tensor)) std::swap(tensor.shape[last], tensor.shape[last - 1]);
    }
    if (fuses) kind.rows.push_back(MakeRow(TensorRole::kGateUp, ShapeAxis::kTwoIntermediate, ShapeAxis::kHidden));
    return kind;
  }

  void ChooseExperts() {
    const uint32_t ep = made_.degrees.ep;
    const uint32_t wanted = std::max(base_.top_k, 1u);
    made_.placement = dice_.Pick<ExpertPlacement>({ExpertPlacement::kContiguous, ExpertPlacement::kContiguous,
                                                   ExpertPlacement::kRoundRobin, ExpertPlacement::kBalanced});
    made_.uneven_experts = dice_.Chance(30);
    if (made_.uneven_experts) {
      experts_.push_back(std::max(ep, wanted) + dice_.Below(9));
      if (dice_.Chance(30)) experts_.push_back(std::max(ep, wanted) + dice_.Below(9));
      if (ep > 1 && dice_.Chance(40)) made_.copies = dice_.Between(1, std::min(6u, experts_.front() * (ep - 1)));
    } else {
      // Experts and copies together are divided by ep.
      const uint32_t over = ep > 1 && dice_.Chance(40) ? dice_.Between(1, ep) : 0;
      const uint32_t rows = (std::max(wanted, 2u) + over + ep - 1) / ep;
      made_.copies = over;
      experts_.push_back(ep * (rows + dice_.Below(3)) - over);
      if (dice_.Chance(30)) experts_.push_back(experts_.front() + ep * dice_.Between(1, 2));
    }
    // A rank holds an expert at most once.
    for (const uint32_t experts : experts_) made_.copies = std::min(made_.copies, experts * (ep - 1));
    experts_of_.assign(made_.layers, 0);
    if (experts_.size() > 1) {
      for (const uint32_t layer : moe_layers_) experts_of_[layer] = dice_.Chance(40) ? 1 : 0;
    }
    if (!wants_groups_) return;
    uint32_t common = experts_.front();
    for (const uint32_t experts : experts_) common = std::gcd(common, experts);
    const uint32_t count = dice_.Pick(DivisorsOf(common));
    uint32_t smallest = experts_.front() / count;
    for (const uint32_t experts : experts_) smallest = std::min(smallest, experts / count);
    const uint32_t least = (wanted + smallest - 1) / smallest;
    for (DeclaredLayers& kind : kinds_) {
      kind.router.groups = count;
      kind.router.keep = least;
      kind.router.group_score = smallest < 2 ? "max" : "top2_sum";
    }
    const uint32_t keep = dice_.Between(least, count);
    const bool by_max = dice_.Chance(50);
    for (DeclaredLayers& kind : kinds_) {
      kind.router.keep = keep;
      if (by_max) kind.router.group_score = "max";
    }
  }

  // A width that `parts` ranks, and segments if there are any, can cut.
  uint32_t Width(const DeclaredLayers& kind, bool shared, uint32_t parts, uint32_t segments) {
    const uint32_t unit = ColumnUnit(kind, shared, made_.q8_down);
    uint32_t whole = made_.q8_down && !shared ? 32 : 1;
    for (const DeclaredTensor& tensor : kind.rows) {
      if (shared ? tensor.role == TensorRole::kSharedDown : tensor.role == TensorRole::kDown) {
        whole = std::lcm(whole, WholeInputs(tensor));
      }
      // Of halves of one tensor with common scale blocks, the border is between blocks if anything is cut.
      const DeclaredSide* scale = ScaleWithBlock(tensor);
      const bool fused = tensor.role == (shared ? TensorRole::kSharedGateUp : TensorRole::kGateUp);
      if (fused && scale != nullptr && scale->of == ScaleOf::kFused && tensor.layout == GateUpLayout::kHalves &&
          parts > 1) {
        whole = std::lcm(whole, scale->rows);
      }
    }
    const uint32_t most = std::max(parts, segments);
    if (parts > 1 && !made_.uneven_cuts) return std::lcm(unit, whole) * most * dice_.Between(1, 2);
    const uint32_t least = unit * (most - 1) + 1 + dice_.Below(2 * unit);
    return (least + whole - 1) / whole * whole;
  }

  void ChooseSizes() {
    uint32_t unit = gate_up_basis_ == "q8" ? 32 : 1;
    for (const DeclaredLayers& kind : kinds_) {
      for (const DeclaredTensor& tensor : kind.rows) {
        const bool reads_hidden = (IsRoutedMatrix(tensor.role) || IsSharedMatrix(tensor.role)) && !IsDown(tensor.role);
        if (reads_hidden) unit = std::lcm(unit, WholeInputs(tensor));
      }
    }
    made_.hidden = unit * (unit < 32 ? dice_.Between(1, 64 / unit + 2) : dice_.Between(1, 2));
    const uint32_t tp = made_.degrees.tp;
    const bool split = made_.shared_placement == SharedPlacement::kSplit;
    const uint32_t parts = split ? Group() : tp;
    if (made_.reduction == Reduction::kExact && made_.shared_placement != SharedPlacement::kInvalid) {
      made_.shared_segments = parts * dice_.Pick<uint32_t>({1, 2, 3});
    }
    for (DeclaredLayers& kind : kinds_) {
      kind.intermediate = Width(kind, false, tp, made_.segments);
      if (kind.shared.width > 0) kind.shared.width = Width(kind, true, parts, made_.shared_segments);
    }
    // Layers for which the same is written, as the document groups them.
    std::map<std::tuple<size_t, uint32_t, bool>, size_t> seen;
    for (const uint32_t layer : moe_layers_) {
      const bool table = std::find(table_layers_.begin(), table_layers_.end(), layer) != table_layers_.end();
      const auto [at, inserted] =
          seen.emplace(std::make_tuple(override_of_[layer], experts_[experts_of_[layer]], table), made_.kinds.size());
      if (inserted) {
        made_.kinds.push_back(kinds_[override_of_[layer]]);
        made_.kinds.back().experts = experts_[experts_of_[layer]];
        made_.kinds.back().token_table = table;
      }
      made_.kind_of[layer] = at->second;
    }
    made_.loads.assign(made_.layers, {});
  }

  void ChooseTokens() {
    made_.decode_tokens = dice_.Pick<uint32_t>({1, 2, 3, 5, 8, 17, 64});
    made_.prefill_chunk = dice_.Pick<uint32_t>({1, 2, 3, 4, 7, 33, 128, 512});
    made_.rank_decode_tokens = made_.decode_tokens;
    made_.rank_prefill_tokens = made_.prefill_chunk;
    if (!made_.Gathers()) return;
    const uint32_t bringers = Group() / made_.degrees.dense_tp;
    const auto part_of = [&](uint32_t tokens) { return dice_.Between((tokens + bringers - 1) / bringers, tokens); };
    made_.rank_decode_tokens = part_of(made_.decode_tokens);
    made_.rank_prefill_tokens = part_of(made_.prefill_chunk);
  }

  // --- texts ---

  std::string Bytes() {
    return absl::StrCat(dice_.Between(0, 2000), dice_.Pick<std::string>({"B", "KiB", "MiB", "MB"}));
  }

  static uint64_t ValueOf(const std::string& bytes) {
    uint64_t value = 0;
    size_t at = 0;
    while (bytes[at] >= '0' && bytes[at] <= '9') value = value * 10 + static_cast<uint64_t>(bytes[at++] - '0');
    const std::string unit = bytes.substr(at);
    if (unit == "KiB") return value << 10;
    if (unit == "MiB") return value << 20;
    if (unit == "MB") return value * 1000000;
    return value;
  }

  std::string OtherWeights() {
    const std::string layers = Bytes();
    made_.other_weights.layers = ValueOf(layers);
    if (dice_.Chance(50)) return layers;
    const std::string first = Bytes();
    const std::string last = Bytes();
    made_.other_weights.first = ValueOf(first);
    made_.other_weights.last = ValueOf(last);
    return absl::StrCat("{first: ", first, ", layers: ", layers, ", last: ", last, "}");
  }

  std::string Attention() {
    if (dice_.Chance(30)) return "{kind: other}";
    const uint32_t dense = made_.degrees.dense_tp;
    uint32_t kv_heads = dense * dice_.Between(1, 3);
    if (dice_.Chance(40)) {
      kv_heads = dice_.Pick(DivisorsOf(dense));
      replicate_heads_ = kv_heads < dense || dice_.Chance(50);
    }
    return absl::StrCat("{heads: ", std::lcm(kv_heads, dense) * dice_.Between(1, 3), ", kv_heads: ", kv_heads,
                        ", head_dim: ", dice_.Pick<uint32_t>({8, 64, 128}), "}");
  }

  std::string Experts() const {
    std::vector<uint32_t> others;
    for (const uint32_t layer : moe_layers_) {
      if (experts_of_[layer] == 1) others.push_back(layer);
    }
    if (others.empty()) return absl::StrCat(experts_.front());
    std::string text = absl::StrCat("{default: ", experts_.front());
    for (const uint32_t layer : others) absl::StrAppend(&text, ", ", layer, ": ", experts_[1]);
    return absl::StrCat(text, "}");
  }

  void WriteModel() {
    const DeclaredLayers& base = kinds_.front();
    std::string& out = made_.model;
    absl::StrAppend(&out, "meshseal: 1\nmodel:\n  name: random\n  family: random\n  hidden_size: ", made_.hidden,
                    "\n  layers: ", made_.layers, "\n  attention: ", Attention(), "\n  other_weights: ", OtherWeights(),
                    "\n");
    absl::StrAppend(&out, "moe:\n  layers: ", all_layers_ ? "all" : RangesText(moe_layers_), "\n  experts: ", Experts(),
                    "\n  experts_per_token: ", base.top_k, "\n  intermediate_size: ", base.intermediate,
                    "\n  router:\n");
    for (const auto& [key, value] : FieldsOf(base.router)) absl::StrAppend(&out, "    ", key, ": ", value, "\n");
    absl::StrAppend(&out, "    token_table: ",
                    table_layers_.empty()
                        ? "none"
                        : absl::StrCat("{layers: ", RangesText(table_layers_), ", vocabulary: ", made_.vocabulary, "}"),
                    "\n  activation: ", base.activation, "\n  gated: ", base.gated ? "true" : "false",
                    "\n  shared_expert: ", SharedText(base.shared), "\n  residual: ", made_.residual ? "add" : "none",
                    "\nweights:\n  source: ",
                    source_ == WeightSource::kSynthetic ? "{synthetic: {seed: 7}}" : WordOf(source_), "\n  tensors:\n");
    for (const DeclaredTensor& tensor : base.rows) {
      auto fields = FieldsOf(tensor);
      for (auto at = fields.begin(); at != fields.end();) at = at->second == "none" ? fields.erase(at) : std::next(at);
      absl::StrAppend(&out, "    ", WordOf(tensor.role), ": ", FieldsText(fields), "\n");
    }
    absl::StrAppend(&out, "  ignored: [\"embed.*\"]\n");
    if (!override_layers_.empty()) absl::StrAppend(&out, "overrides:\n");
    for (size_t i = 0; i < override_layers_.size(); ++i) {
      absl::StrAppend(&out, "  - ", OverrideText(base, kinds_[i + 1], override_layers_[i]), "\n");
    }
    absl::StrAppend(&out, "collectives:\n  - {after: combine, op: sum, over: expert_group}\n");
  }

  static std::string OverrideText(const DeclaredLayers& base, const DeclaredLayers& kind,
                                  const std::vector<uint32_t>& layers) {
    std::string text = absl::StrCat("{layers: ", RangesText(layers));
    if (kind.top_k != base.top_k) absl::StrAppend(&text, ", experts_per_token: ", kind.top_k);
    if (kind.intermediate != base.intermediate) absl::StrAppend(&text, ", intermediate_size: ", kind.intermediate);
    if (kind.activation != base.activation) absl::StrAppend(&text, ", activation: ", kind.activation);
    const std::string shared = SharedText(kind.shared);
    if (shared != SharedText(base.shared)) absl::StrAppend(&text, ", shared_expert: ", shared);
    std::map<std::string, std::string> router;
    const auto base_router = FieldsOf(base.router);
    for (const auto& [key, value] : FieldsOf(kind.router)) {
      if (value != base_router.at(key)) router[key] = value;
    }
    if (!router.empty()) absl::StrAppend(&text, ", router: ", FieldsText(router));
    std::map<std::string, std::string> rows;
    for (const DeclaredTensor& tensor : kind.rows) {
      const auto of_base = std::find_if(base.rows.begin(), base.rows.end(),
                                        [&](const DeclaredTensor& other) { return other.role == tensor.role; });
      std::map<std::string, std::string> fields = FieldsOf(tensor);
      if (of_base != base.rows.end()) {
        for (const auto& [key, value] : FieldsOf(*of_base)) {
          if (fields[key] == value) fields.erase(key);
        }
      }
      if (!fields.empty()) rows[WordOf(tensor.role)] = FieldsText(fields);
    }
    if (!rows.empty()) absl::StrAppend(&text, ", tensors: ", FieldsText(rows));
    return absl::StrCat(text, "}");
  }

  void WriteMesh() {
    const Degrees& d = made_.degrees;
    const uint32_t world = d.dp * d.pp * d.tp * d.ep;
    const bool emulated = dice_.Chance(15);
    idle_ = !emulated && dice_.Chance(15) ? dice_.Between(1, 3) : 0;
    const uint32_t slots = emulated ? dice_.Between(1, world) : world + idle_;
    std::vector<uint32_t> nodes;
    for (uint32_t left = slots; left > 0; left -= nodes.back()) nodes.push_back(dice_.Between(1, std::min(left, 16u)));
    std::string& out = made_.mesh;
    absl::StrAppend(&out, "meshseal: 1\nmesh:\n  name: random\n  device_kinds:\n");
    const uint32_t kinds = dice_.Between(1, 2);
    const bool rates = dice_.Chance(50);
    for (uint32_t kind = 0; kind < kinds; ++kind) {
      const std::string memory_kind = dice_.Pick<std::string>({"discrete", "unified", "host"});
      absl::StrAppend(&out, "    k", kind, ": {memory: 4096TiB, memory_kind: ", memory_kind,
                      memory_kind == "unified" ? ", usable: 4000TiB" : "",
                      rates ? ", bandwidth: 4800GB/s, bf16: 989TFLOP/s, fp8: 1978TFLOP/s" : "",
                      dice_.Chance(50) ? ", communicator_reserve: 392MiB" : "",
                      memory_kind == "host" ? "" : DeviceFacts(), "}\n");
    }
    absl::StrAppend(&out, "  nodes:\n");
    for (size_t node = 0; node < nodes.size(); ++node) {
      std::vector<std::string> identity;
      for (uint32_t slot = 0; slot < nodes[node]; ++slot) identity.push_back(absl::StrCat("D-", node, "-", slot));
      absl::StrAppend(&out, "    - {name: n", node, ", devices: {kind: k", dice_.Below(kinds), ", count: ", nodes[node],
                      "}", dice_.Chance(20) ? absl::StrCat(", identity: [", absl::StrJoin(identity, ", "), "]") : "",
                      "}\n");
    }
    WriteIslands(nodes.size());
    WriteAssign(nodes, world, emulated);
    const auto transport = dice_.Pick<std::string>({"inproc", "mpi", "nccl"});
    absl::StrAppend(&out, "  collectives: {backend: ", transport,
                    transport == "nccl" && dice_.Chance(50) ? ", capturable: true" : "",
                    dice_.Chance(30) ? ", version: {min: \"2.9\", max: \"2.28.9\"}" : "",
                    ", ranks: ", dice_.Chance(70) ? "any" : absl::StrCat("[", Group(), "]"), "}\n");
    if (emulated) absl::StrAppend(&out, "  emulated: true\n");
  }

  // What a bound device is compared with.
  std::string DeviceFacts() {
    std::string facts;
    if (dice_.Chance(30)) absl::StrAppend(&facts, ", sm: 90, shared_memory_per_block: 227KiB");
    if (dice_.Chance(30)) absl::StrAppend(&facts, ", ecc: ", dice_.Pick<std::string>({"any", "on", "off"}));
    if (dice_.Chance(30)) absl::StrAppend(&facts, ", peer_access: true");
    if (dice_.Chance(30)) absl::StrAppend(&facts, ", fabric: true");
    return facts;
  }

  void WriteIslands(size_t nodes) {
    std::vector<std::vector<std::string>> islands;
    for (size_t node = 0; node < nodes; ++node) {
      if (islands.empty() || dice_.Chance(40)) islands.emplace_back();
      islands.back().push_back(absl::StrCat("n", node));
    }
    std::string& out = made_.mesh;
    absl::StrAppend(&out, "  islands:\n");
    for (const std::vector<std::string>& island : islands) {
      absl::StrAppend(&out, "    - {nodes: [", absl::StrJoin(island, ", "),
                      "], link: {bandwidth: 450GB/s, latency: 3us}}\n");
    }
    if (islands.size() > 1) absl::StrAppend(&out, "  between_islands: {bandwidth: 50GB/s, latency: 10us}\n");
  }

  void WriteAssign(const std::vector<uint32_t>& nodes, uint32_t world, bool emulated) {
    if (!dice_.Chance(25)) return;
    std::vector<std::string> slots;
    for (size_t node = 0; node < nodes.size(); ++node) {
      for (uint32_t slot = 0; slot < nodes[node]; ++slot) {
        slots.push_back(absl::StrCat("{node: n", node, ", slot: ", slot, "}"));
      }
    }
    for (size_t i = slots.size(); i > 1; --i) std::swap(slots[i - 1], slots[dice_.Below(static_cast<uint32_t>(i))]);
    std::vector<std::string> ranks;
    for (uint32_t rank = 0; rank < world; ++rank) ranks.push_back(slots[emulated ? rank % slots.size() : rank]);
    absl::StrAppend(&made_.mesh, "  assign: [", absl::StrJoin(ranks, ", "), "]\n");
  }

  // Counts as a run would report them: each token's experts are distinct.
  void WriteProfile() {
    const uint32_t tokens = dice_.Between(1, 40);
    std::vector<std::string> layers;
    for (const uint32_t layer : moe_layers_) {
      const DeclaredLayers& kind = made_.kinds[*made_.kind_of[layer]];
      std::vector<uint64_t>& counts = made_.loads[layer];
      counts.assign(kind.experts, 0);
      const uint32_t skew = dice_.Between(1, kind.experts);
      for (uint32_t token = 0; token < tokens; ++token) {
        std::set<uint32_t> chosen;
        while (chosen.size() < kind.top_k) {
          chosen.insert(dice_.Chance(50) ? dice_.Below(skew) : dice_.Below(kind.experts));
        }
        for (const uint32_t expert : chosen) ++counts[expert];
      }
      layers.push_back(absl::StrCat("\"", layer, "\": [", absl::StrJoin(counts, ", "), "]"));
    }
    made_.profile = absl::StrCat("{\"version\": 1, \"plan\": \"", std::string(64, 'a'), "\", \"tokens\": ", tokens,
                                 ", \"layers\": {", absl::StrJoin(layers, ", "), "}}\n");
  }

  void WriteDeployment() {
    const Degrees& d = made_.degrees;
    std::string& out = made_.deployment;
    absl::StrAppend(&out, "meshseal: 1\ndeployment:\n  model: model.yaml\n  mesh: mesh.yaml\n  parallel: {dp: ", d.dp,
                    ", pp: ", d.pp, ", tp: ", d.tp, ", ep: ", d.ep, idle_ > 0 ? absl::StrCat(", idle: ", idle_) : "",
                    ", dense: {tp: ", d.dense_tp, replicate_heads_ ? ", kv_heads: replicate" : "", "}}\n");
    const bool balanced = made_.placement == ExpertPlacement::kBalanced;
    if (balanced) WriteProfile();
    absl::StrAppend(&out,
                    "  placement: {experts: ", balanced ? "{balanced: {profile: load.json}}" : WordOf(made_.placement),
                    ", uneven: ", made_.uneven_experts ? "allow" : "refuse",
                    made_.copies > 0 ? absl::StrCat(", redundant_experts: ", made_.copies) : "",
                    made_.uneven_cuts ? ", uneven_cuts: allow" : "", "}\n");
    if (made_.shared_placement != SharedPlacement::kInvalid) {
      absl::StrAppend(&out, "  shared_expert: ", WordOf(made_.shared_placement), "\n");
    }
    absl::StrAppend(
        &out,
        "  stages: ", stages_listed_ ? absl::StrCat("[", absl::StrJoin(made_.stage_layers, ", "), "]") : "balanced",
        "\n  limits: {decode_tokens: ", made_.decode_tokens, ", decode_buckets: [",
        made_.decode_tokens > 1 ? "1, " : "", made_.decode_tokens,
        "], prefill_tokens: ", made_.prefill_chunk + dice_.Below(100), ", prefill_chunk: ", made_.prefill_chunk,
        made_.Gathers() ? absl::StrCat(", rank_tokens: {decode: ", made_.rank_decode_tokens,
                                       ", prefill: ", made_.rank_prefill_tokens, "}")
                        : "",
        ", sessions: ", dice_.Between(1, 5), ", per_session: ", Bytes(), "}\n  headroom: ", Bytes(), "\n");
    if (dice_.Chance(30)) absl::StrAppend(&out, "  capture: ", Bytes(), "\n");
    if (dice_.Chance(40)) {
      absl::StrAppend(&out, "  repack: ",
                      dice_.Pick<std::string>({"none", "{by: expert, kept: 3MiB}", "{by: tensor, kept: 0B}"}), "\n");
    }
    const bool exact = made_.reduction == Reduction::kExact;
    const uint32_t bound = dice_.Pick<uint32_t>({1, 3, 16, 1000});
    const std::string shared = absl::StrCat(", shared_segments: ", made_.shared_segments);
    absl::StrAppend(&out, "  reduction: ",
                    exact ? absl::StrCat("{exact: {bound: ", bound, ", segments: ", made_.segments,
                                         made_.shared_segments > 0 ? shared : "", "}}")
                          : WordOf(made_.reduction),
                    "\n  activation_basis: {gate_up: ", gate_up_basis_, ", down: ", down_basis_, "}\n  output_dtype: ",
                    exact && !made_.residual && bound < 1000 ? dice_.Pick<std::string>({"f16", "bf16"})
                                                             : dice_.Pick<std::string>({"f32", "bf16"}),
                    "\n  failure_scope: ", dice_.Chance(50) ? "world" : "replica", "\n");
  }

  Dice dice_;
  RandomDeployment made_;
  WeightSource source_ = WeightSource::kInvalid;
  std::vector<uint32_t> moe_layers_;
  std::vector<uint32_t> table_layers_;
  bool all_layers_ = false;
  bool stages_listed_ = false;
  bool wants_groups_ = false;
  bool wants_table_ = false;
  bool replicate_heads_ = false;
  uint32_t idle_ = 0;
  std::string gate_up_basis_;
  std::string down_basis_;
  DeclaredLayers base_;
  std::vector<DeclaredLayers> kinds_;                   // of the document, then of each override
  std::vector<size_t> override_of_;                     // per layer: index into kinds_
  std::vector<std::vector<uint32_t>> override_layers_;  // of each override
  std::vector<uint32_t> experts_;                       // the default, and another count
  std::vector<size_t> experts_of_;                      // per layer: index into experts_
};

}  // namespace

uint64_t Dice::Next() {
  state_ += 0x9E3779B97F4A7C15u;
  uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  return mixed ^ (mixed >> 31);
}

std::vector<DeclaredTensor> DeclaredLayers::Tensors() const {
  const auto has = [&](TensorRole role) {
    return std::any_of(rows.begin(), rows.end(), [&](const DeclaredTensor& row) { return row.role == role; });
  };
  std::vector<DeclaredTensor> read;
  for (const DeclaredTensor& row : rows) {
    const TensorRole role = row.role;
    if (role == TensorRole::kSelectionBias && token_table) continue;
    if (role == TensorRole::kTokenTable && !token_table) continue;
    if ((IsSharedMatrix(role) || role == TensorRole::kSharedExpertGate) && shared.width == 0) continue;
    // A fused row stands for both.
    if ((role == TensorRole::kGate || role == TensorRole::kUp) && has(TensorRole::kGateUp)) continue;
    read.push_back(row);
  }
  std::sort(read.begin(), read.end(), [](const DeclaredTensor& a, const DeclaredTensor& b) { return a.role < b.role; });
  return read;
}

RandomDeployment MakeRandomDeployment(uint64_t seed) { return Maker(seed).Make(); }

uint32_t ColumnUnit(const DeclaredLayers& layers, bool shared, bool q8_down) {
  uint32_t unit = q8_down ? 32 : 1;
  for (const DeclaredTensor& tensor : layers.Tensors()) {
    const bool matrix = shared ? IsSharedMatrix(tensor.role) : IsRoutedMatrix(tensor.role);
    if (matrix) unit = std::lcm(unit, IsDown(tensor.role) ? InputUnit(tensor) : OutputUnit(tensor));
  }
  return unit;
}

std::string WriteDocuments(const RandomDeployment& random, const std::filesystem::path& folder) {
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
  };
  write("model.yaml", random.model);
  write("mesh.yaml", random.mesh);
  write("deployment.yaml", random.deployment);
  if (!random.profile.empty()) write("load.json", random.profile);
  return (folder / "deployment.yaml").string();
}

}  // namespace meshseal::properties

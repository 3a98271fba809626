#include "compiler/import/bind_tensors.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "compiler/import/write_manifest.h"
#include "schema/checked_math.h"
#include "schema/nearest.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/tensor_name.h"

namespace meshseal::compiler {
namespace {

constexpr ScaleBlock kMxfp4Block = {1, 32};
constexpr ScaleBlock kNvfp4Block = {1, 16};

bool IsPlain(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16; }

bool IsRoutedMatrix(TensorRole role) {
  return role == TensorRole::kGate || role == TensorRole::kUp || role == TensorRole::kGateUp ||
         role == TensorRole::kDown;
}

bool IsExpertBias(TensorRole role) {
  return role == TensorRole::kGateBias || role == TensorRole::kUpBias || role == TensorRole::kGateUpBias ||
         role == TensorRole::kDownBias;
}

bool IsShared(TensorRole role) {
  return role == TensorRole::kSharedGate || role == TensorRole::kSharedUp || role == TensorRole::kSharedGateUp ||
         role == TensorRole::kSharedDown;
}

// Whether a layer reads the role.
bool IsRead(TensorRole role, const Family& family, const MoeSpec& moe, bool tabled) {
  if (role == TensorRole::kRouterBias) return moe.router.logit_bias.value;
  if (role == TensorRole::kSelectionBias) return moe.router.selection_bias.value && !tabled;
  if (role == TensorRole::kTokenTable) return tabled;
  if (IsExpertBias(role)) return family.expert_bias;
  if (IsShared(role)) return moe.shared_expert.has_value();
  if (role == TensorRole::kSharedExpertGate) {
    return moe.shared_expert.has_value() && moe.shared_expert->gate.value == SharedGate::kSigmoid;
  }
  return true;
}

// The name of a tensor beside `weight`: ".scale" takes the place of its last part, "_scale" is appended.
std::string Beside(absl::string_view weight, absl::string_view suffix) {
  if (suffix[0] == '.') weight = absl::StripSuffix(weight, ".weight");
  return absl::StrCat(weight, suffix);
}

SideTensorSpec Side(std::string name, DType dtype, std::optional<ScaleBlock> block) {
  SideTensorSpec side;
  side.name.value = std::move(name);
  side.dtype.value = dtype;
  if (block.has_value()) side.block = Spanned<ScaleBlock>{*block, {}};
  side.applies.value = ScaleApplies::kMultiply;
  return side;
}

// Where the scales of 4-bit codes with power-of-two scales lie.
std::string Mxfp4ScaleName(absl::string_view weight) {
  if (absl::EndsWith(weight, "_blocks")) return absl::StrCat(absl::StripSuffix(weight, "_blocks"), "_scales");
  return Beside(weight, ".scale");
}

template <class T>
bool HoldTheSame(const std::optional<Spanned<T>>& a, const std::optional<Spanned<T>>& b) {
  return a.has_value() == b.has_value() && (!a.has_value() || a->value == b->value);
}

bool AreStoredAlike(const std::optional<SideTensorSpec>& a, const std::optional<SideTensorSpec>& b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() == b.has_value();
  return a->name.value == b->name.value && a->dtype.value == b->dtype.value && HoldTheSame(a->block, b->block) &&
         a->applies.value == b->applies.value && HoldTheSame(a->of, b->of);
}

// Whether one row of a manifest says both.
bool AreStoredAlike(const TensorSpec& a, const TensorSpec& b) {
  return a.name.value == b.name.value && a.dtype.value == b.dtype.value && a.shape.value == b.shape.value &&
         HoldTheSame(a.layout, b.layout) && HoldTheSame(a.rotation, b.rotation) && AreStoredAlike(a.scale, b.scale) &&
         AreStoredAlike(a.scale_2, b.scale_2) && AreStoredAlike(a.input_scale, b.input_scale);
}

class Binder {
 public:
  Binder(const TensorNames& names, const std::optional<Quantization>& quantization, ModelFacts& facts)
      : names_(names),
        quantization_(quantization),
        facts_(facts),
        family_(*facts.family),
        is_gguf_(facts.manifest.source.value == WeightSource::kGguf),
        layer_prefix_(is_gguf_ ? kGgufLayer : family_.layer),
        block_prefix_(is_gguf_ ? kGgufLayer : absl::StrCat(family_.layer, family_.block)) {
    if (names.listing != nullptr) {
      for (const ListedTensor& tensor : names.listing->tensors()) known_.push_back({tensor.name, &tensor});
    } else if (names.index != nullptr) {
      for (const SafetensorsIndex::Entry& entry : names.index->entries) known_.push_back({entry.name, nullptr});
    }
    used_.resize(known_.size());
  }

  absl::Status Run() {
    if (facts_.layers_from_tensors) MESHSEAL_RETURN_IF_ERROR(ReadMoeLayers());
    layers_ = LayersOf(facts_.manifest.moe_layers.value);
    for (const LayerRange& range : moe().router.token_table_layers.value) {
      for (uint32_t layer = range.first; layer < range.last; ++layer) tabled_.insert(layer);
    }
    ChooseLayout();
    MESHSEAL_RETURN_IF_ERROR(ReadExpertCounts());
    MESHSEAL_RETURN_IF_ERROR(BindLayers());
    MESHSEAL_RETURN_IF_ERROR(CoverTheRest());
    GroupLayers();
    return absl::OkStatus();
  }

 private:
  // A tensor of the checkpoint; `listed` is null where only names are known.
  struct Known {
    absl::string_view name;
    const ListedTensor* listed;
  };

  const MoeSpec& moe() const { return facts_.manifest.groups[0].moe; }

  absl::Status RefuseTensor(absl::string_view name, absl::string_view text) const {
    return Refuse(Reason::kImport, absl::StrCat(names_.place, ": tensor ", QuotedName(name), " ", text));
  }

  std::optional<size_t> Find(absl::string_view name) const {
    const auto at = std::lower_bound(known_.begin(), known_.end(), name,
                                     [](const Known& known, absl::string_view wanted) { return known.name < wanted; });
    if (at == known_.end() || at->name != name) return std::nullopt;
    return static_cast<size_t>(at - known_.begin());
  }

  // "; the nearest is 'NAME'", among the names of the same layer, or of none where `name` is of none.
  std::string NearestText(absl::string_view name) const {
    const absl::string_view start = absl::string_view(layer_prefix_).substr(0, layer_prefix_.find('{'));
    absl::string_view prefix;
    if (absl::StartsWith(name, start)) {
      const size_t dot = name.find('.', start.size());
      prefix = name.substr(0, dot == absl::string_view::npos ? name.size() : dot + 1);
    }
    std::vector<absl::string_view> near;
    for (const Known& known : known_) {
      if (known.name == name || !absl::StartsWith(known.name, prefix)) continue;
      if (prefix.empty() && absl::StartsWith(known.name, start)) continue;
      near.push_back(known.name);
    }
    const std::optional<absl::string_view> nearest = Nearest(name, near);
    return nearest.has_value() ? absl::StrCat("; the nearest is ", QuotedName(*nearest)) : "";
  }

  // A role's place in an error: "the role 'gate'".
  static std::string RoleText(const TensorRow& row) { return absl::StrCat("the role '", WordOf(row.role), "'"); }

  std::string PatternOf(const TensorRow& row) const { return absl::StrCat(block_prefix_, row.name); }

  // MoE layers are those with a router.
  absl::Status ReadMoeLayers() {
    std::vector<uint32_t> layers;
    const TensorLayout& layout = GgufLayouts()[0];
    for (uint32_t layer = 0; layer < facts_.manifest.layers.value; ++layer) {
      for (const TensorRow& row : layout.roles) {
        if (row.role == TensorRole::kRouter && Find(TensorName(PatternOf(row), layer, 0)).has_value())
          layers.push_back(layer);
      }
    }
    if (layers.empty()) return Refuse(Reason::kImport, absl::StrCat(names_.place, ": none of the layers has a router"));
    facts_.manifest.moe_layers.value = RangesOf(layers);
    facts_.manifest.groups[0].layers = facts_.manifest.moe_layers.value;
    return absl::OkStatus();
  }

  // The layout of which most names are known; without names, the first that may hold what the configuration says.
  void ChooseLayout() {
    const absl::Span<const TensorLayout> layouts = is_gguf_ ? GgufLayouts() : family_.layouts;
    layout_ = &layouts[0];
    if (known_.empty()) {
      for (const TensorLayout& layout : layouts) {
        for (const TensorRow& row : layout.roles) {
          if (row.role != TensorRole::kDown) continue;
          const Storage storage = quantization_->FormOf(TensorName(PatternOf(row), layers_[0], 0), true).storage;
          if (std::find(layout.storages.begin(), layout.storages.end(), storage) == layout.storages.end()) continue;
          layout_ = &layout;
          return;
        }
      }
      return;
    }
    size_t most = 0;
    for (const TensorLayout& layout : layouts) {
      size_t found = 0;
      for (const TensorRow& row : layout.roles) {
        if (Find(TensorName(PatternOf(row), layers_[0], 0)).has_value()) ++found;
      }
      if (found > most) {
        most = found;
        layout_ = &layout;
      }
    }
  }

  // The number of experts of each layer, from the routers; they agree with the configuration in at least one layer.
  absl::Status ReadExpertCounts() {
    const uint64_t stated = moe().experts.value;
    experts_.assign(layers_.size(), stated);
    if (names_.listing == nullptr) return absl::OkStatus();
    std::string name;
    for (const TensorRow& row : layout_->roles) {
      if (row.role != TensorRole::kRouter) continue;
      for (size_t i = 0; i < layers_.size(); ++i) {
        name = TensorName(PatternOf(row), layers_[i], 0);
        const std::optional<size_t> at = Find(name);
        if (!at.has_value()) continue;  // BindLayers says so
        const std::vector<uint64_t>& shape = known_[*at].listed->shape;
        // Another shape is not one of this role; the comparison with the manifest says so.
        if (shape.size() != 2 || shape[1] != facts_.manifest.hidden_size.value || shape[0] == 0) continue;
        if (shape[0] > kMaxSize) return RefuseTensor(name, absl::StrCat("has ", shape[0], " experts"));
        experts_[i] = shape[0];
      }
    }
    if (std::find(experts_.begin(), experts_.end(), stated) == experts_.end()) {
      return RefuseTensor(name, absl::StrCat("has ", experts_.back(), " experts; the configuration says ", stated,
                                             ", which no layer has"));
    }
    return absl::OkStatus();
  }

  TensorSpec Bare(const TensorRow& row, DType dtype) const {
    TensorSpec spec;
    spec.role.value = row.role;
    spec.name.value = PatternOf(row);
    spec.dtype.value = dtype;
    for (const ShapeAxis axis : row.axes) {
      if (axis != ShapeAxis::kInvalid) spec.shape.value.push_back(axis);
    }
    if (row.layout != GateUpLayout::kInvalid) spec.layout = Spanned<GateUpLayout>{row.layout, {}};
    return spec;
  }

  // Scale blocks of several rows in a fused tensor: no family says whose rows they count.
  absl::Status ExpectNotFused(const TensorRow& row, absl::string_view name) const {
    if (row.role != TensorRole::kGateUp) return absl::OkStatus();
    return RefuseTensor(name,
                        "holds gate and up with scale blocks of several rows, and nothing says whose rows they count");
  }

  // As the configuration has it.
  absl::StatusOr<TensorSpec> FromConfig(const TensorRow& row, absl::string_view name) const {
    if (row.stored == StoredAs::kF32) return Bare(row, DType::kF32);
    if (row.stored == StoredAs::kI64) return Bare(row, DType::kI64);
    StoredForm form;
    if (row.stored == StoredAs::kWeight) form = quantization_->FormOf(name, IsRoutedMatrix(row.role));
    if (form.storage == Storage::kPlain) {
      if (!facts_.dtype.has_value()) {
        return Refuse(Reason::kImport,
                      absl::StrCat(quantization_->config_file(), ": torch_dtype: absent; it is needed as the dtype of ",
                                   RoleText(row)));
      }
      return Bare(row, *facts_.dtype);
    }
    TensorSpec spec = Bare(row, DType::kF8E4M3);
    const std::string& weight = spec.name.value;
    if (form.storage == Storage::kFp8Block) {
      MESHSEAL_RETURN_IF_ERROR(ExpectNotFused(row, name));
      spec.scale =
          Side(Beside(weight, family_.fp8_scale), *DTypeFromName(family_.fp8_scale_dtype), quantization_->fp8_block());
    } else if (form.storage == Storage::kFp8Tensor) {
      spec.scale = Side(Beside(weight, "_scale"), DType::kF32, std::nullopt);
    } else if (form.storage == Storage::kMxfp4) {
      spec.dtype.value = DType::kMxfp4;
      const bool blocks = absl::EndsWith(weight, "_blocks");
      spec.scale = Side(Mxfp4ScaleName(weight), blocks ? DType::kU8 : DType::kF8E8M0, kMxfp4Block);
    } else {
      spec.dtype.value = DType::kNvfp4;
      spec.scale = Side(Beside(weight, "_scale"), DType::kF8E4M3, kNvfp4Block);
      spec.scale_2 = Side(Beside(weight, "_scale_2"), DType::kF32, std::nullopt);
    }
    if (form.input_scale) spec.input_scale = Side(Beside(weight, ".input_scale"), DType::kF32, std::nullopt);
    return spec;
  }

  // The dtype of the tensor called `pattern` in this place; nothing when there is none.
  std::optional<DType> DTypeAt(absl::string_view pattern, uint32_t layer, uint32_t expert) const {
    const std::optional<size_t> at = Find(TensorName(pattern, layer, expert));
    if (!at.has_value()) return std::nullopt;
    return known_[*at].listed->dtype;
  }

  // As the files have it.
  absl::StatusOr<TensorSpec> FromFiles(const TensorRow& row, const ListedTensor& tensor, uint32_t layer,
                                       uint32_t expert) const {
    const DType dtype = tensor.dtype;
    const auto refuse_dtype = [&](absl::string_view expected) {
      return RefuseTensor(tensor.name, absl::StrCat("has dtype ", DTypeName(dtype), ", ", RoleText(row), " expects ",
                                                    std::string(expected)));
    };
    TensorSpec spec = Bare(row, dtype);
    if (row.stored == StoredAs::kI64) {
      if (dtype != DType::kI32 && dtype != DType::kI64) return refuse_dtype("i32 or i64");
      return spec;
    }
    if (IsPlain(dtype)) return spec;
    if (row.stored != StoredAs::kWeight && row.role != TensorRole::kRouter) return refuse_dtype("f32, f16 or bf16");
    const std::string& weight = spec.name.value;
    const auto side_at = [&](const std::string& pattern,
                             std::optional<ScaleBlock> block) -> std::optional<SideTensorSpec> {
      const std::optional<DType> found = DTypeAt(pattern, layer, expert);
      if (!found.has_value()) return std::nullopt;
      return Side(pattern, *found, block);
    };
    if (is_gguf_) {
      if (!IsWeightDType(dtype)) return refuse_dtype("a block type that manifests name");
      if (dtype == DType::kNvfp4) {
        spec.scale_2 = side_at(Beside(weight, ".scale"), std::nullopt);
        spec.input_scale = side_at(Beside(weight, ".input_scale"), std::nullopt);
      }
      return spec;
    }
    if (row.stored != StoredAs::kWeight) return refuse_dtype("f32, f16 or bf16");
    const auto no_scale = [&](absl::string_view names) {
      return RefuseTensor(
          tensor.name, absl::StrCat("has dtype ", DTypeName(dtype), " and no scale: there is no ", std::string(names)));
    };
    const auto at_place = [&](const std::string& pattern) { return QuotedName(TensorName(pattern, layer, expert)); };
    if (dtype == DType::kF8E4M3) {
      const std::string blocks = Beside(weight, family_.fp8_scale);
      const std::string whole = Beside(weight, "_scale");
      if (DTypeAt(blocks, layer, expert).has_value()) {
        MESHSEAL_RETURN_IF_ERROR(ExpectNotFused(row, tensor.name));
        if (!quantization_->fp8_block().has_value()) {
          return RefuseTensor(
              tensor.name, absl::StrCat("has scale blocks, and ", quantization_->place(), " has no weight_block_size"));
        }
        spec.scale = side_at(blocks, quantization_->fp8_block());
        return spec;
      }
      const std::optional<size_t> scale = Find(TensorName(whole, layer, expert));
      if (!scale.has_value()) return no_scale(absl::StrCat(at_place(blocks), " and no ", at_place(whole)));
      if (ElementsOf(known_[*scale].listed->shape) != uint64_t{1}) {
        return RefuseTensor(known_[*scale].name, "has several scales for one matrix, and nothing says how they lie");
      }
      spec.scale = side_at(whole, std::nullopt);
      spec.input_scale = side_at(Beside(weight, ".input_scale"), std::nullopt);
      return spec;
    }
    if (dtype != DType::kU8 && dtype != DType::kI8) return refuse_dtype("a plain, 8-bit or packed 4-bit type");
    const std::string power_scale = Mxfp4ScaleName(weight);
    const std::string scale = Beside(weight, "_scale");
    if (DTypeAt(power_scale, layer, expert).has_value()) {
      spec.dtype.value = DType::kMxfp4;
      spec.scale = side_at(power_scale, kMxfp4Block);
      return spec;
    }
    if (DTypeAt(scale, layer, expert) != DType::kF8E4M3) {
      return no_scale(absl::StrCat(at_place(power_scale), " and no ", at_place(scale), " of dtype f8_e4m3"));
    }
    spec.dtype.value = DType::kNvfp4;
    spec.scale = side_at(scale, kNvfp4Block);
    spec.scale_2 = side_at(Beside(weight, "_scale_2"), std::nullopt);
    if (!spec.scale_2.has_value()) return no_scale(at_place(Beside(weight, "_scale_2")));
    spec.input_scale = side_at(Beside(weight, ".input_scale"), std::nullopt);
    return spec;
  }

  // Marks a tensor that a role reads.
  absl::Status Use(absl::string_view name, const TensorRow& row) {
    const std::optional<size_t> at = Find(name);
    if (!at.has_value()) {
      return RefuseTensor(name, absl::StrCat("of ", RoleText(row), " is missing", NearestText(name)));
    }
    used_[*at] = true;
    return absl::OkStatus();
  }

  // One tensor of a role: of a layer, or of one expert. `first` is that of the layer's expert 0, or null.
  absl::StatusOr<TensorSpec> Bind(const TensorRow& row, uint32_t layer, uint32_t expert, const TensorSpec* first) {
    const std::string name = TensorName(PatternOf(row), layer, expert);
    if (known_.empty()) return FromConfig(row, name);
    MESHSEAL_RETURN_IF_ERROR(Use(name, row));
    const ListedTensor* listed = known_[*Find(name)].listed;
    TensorSpec spec;
    if (listed != nullptr) {
      MESHSEAL_ASSIGN_OR_RETURN(spec, FromFiles(row, *listed, layer, expert));
    } else if (first != nullptr && !experts_apart_) {
      spec = *first;
    } else {
      MESHSEAL_ASSIGN_OR_RETURN(spec, FromConfig(row, name));
    }
    for (const std::optional<SideTensorSpec>* side : {&spec.scale, &spec.scale_2, &spec.input_scale}) {
      if (side->has_value()) MESHSEAL_RETURN_IF_ERROR(Use(TensorName((*side)->name.value, layer, expert), row));
    }
    return spec;
  }

  absl::Status BindLayers() {
    experts_apart_ = quantization_.has_value() && quantization_->TellsExpertsApart();
    const bool look_at_all = !known_.empty() || experts_apart_;
    const uint64_t experts = std::accumulate(experts_.begin(), experts_.end(), uint64_t{0});
    if (experts_apart_ && experts > kMostImportedExperts) {
      return Refuse(Reason::kImport,
                    absl::StrCat(names_.place, ": ", experts, " experts in all layers together, expected ", "at most ",
                                 kMostImportedExperts));
    }
    for (const TensorRow& row : layout_->roles) {
      const bool per_expert = absl::StrContains(row.name, "{expert}");
      std::vector<std::optional<TensorSpec>> specs(layers_.size());
      bool read = false;
      for (size_t i = 0; i < layers_.size(); ++i) {
        if (!IsRead(row.role, family_, moe(), tabled_.count(layers_[i]) != 0)) continue;
        read = true;
        MESHSEAL_ASSIGN_OR_RETURN(specs[i], Bind(row, layers_[i], 0, nullptr));
        for (uint32_t expert = 1; per_expert && look_at_all && expert < experts_[i]; ++expert) {
          MESHSEAL_ASSIGN_OR_RETURN(const TensorSpec other, Bind(row, layers_[i], expert, &*specs[i]));
          if (AreStoredAlike(other, *specs[i])) continue;
          return RefuseTensor(TensorName(PatternOf(row), layers_[i], expert),
                              absl::StrCat("is stored as ", DTypeName(other.dtype.value), ", that of expert 0 as ",
                                           DTypeName(specs[i]->dtype.value), ", or with other scales"));
        }
      }
      if (!read) continue;
      // A layer that does not read the role says of it what the first one that does says.
      const auto first = std::find_if(specs.begin(), specs.end(), [](const auto& spec) { return spec.has_value(); });
      for (std::optional<TensorSpec>& spec : specs) {
        if (!spec.has_value()) spec = **first;
      }
      rows_.push_back(std::move(specs));
    }
    return absl::OkStatus();
  }

  // The number of the extra block a tensor belongs to.
  std::optional<uint64_t> MtpBlockOf(absl::string_view name) const {
    const bool own = !is_gguf_ && family_.mtp_block != nullptr;
    const std::string pattern = own ? family_.mtp_block : layer_prefix_;
    const absl::string_view start = absl::string_view(pattern).substr(0, pattern.find('{'));
    if (!absl::StartsWith(name, start)) return std::nullopt;
    const absl::string_view rest = name.substr(start.size());
    const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    uint64_t number = 0;
    if (digits == 0 || digits == rest.size() || !absl::SimpleAtoi(rest.substr(0, digits), &number)) return std::nullopt;
    if (own) return number;
    const uint64_t layers = facts_.manifest.layers.value;
    return number >= layers ? std::optional<uint64_t>(number - layers) : std::nullopt;
  }

  void Ignore(std::string pattern) { facts_.manifest.ignored.push_back({std::move(pattern), {}}); }

  // The patterns of `count` extra blocks.
  void IgnoreMtp(uint64_t count) {
    if (count == 0) return;
    if (!is_gguf_ && family_.mtp_ignored != nullptr) return Ignore(family_.mtp_ignored);
    for (uint64_t block = 0; block < count; ++block) {
      Ignore(absl::StrCat(
          absl::StrReplaceAll(layer_prefix_, {{"{layer}", absl::StrCat(facts_.manifest.layers.value + block)}}), "*"));
    }
  }

  absl::Status CoverTheRest() {
    const absl::Span<const char* const> patterns = is_gguf_ ? GgufIgnored() : family_.ignored;
    Manifest& manifest = facts_.manifest;
    if (known_.empty()) {
      for (const char* pattern : patterns) Ignore(pattern);
      IgnoreMtp(manifest.mtp_layers.value);
      return absl::OkStatus();
    }
    std::set<uint64_t> mtp_blocks;
    bool beside_mtp = false;  // something that belongs to no one block
    std::vector<bool> matched(patterns.size());
    uint64_t other = 0;
    for (size_t i = 0; i < known_.size(); ++i) {
      const Known& known = known_[i];
      if (used_[i]) continue;
      if (const std::optional<uint64_t> block = MtpBlockOf(known.name)) {
        mtp_blocks.insert(*block);
        continue;
      }
      if (!is_gguf_ && family_.mtp_ignored != nullptr && MatchesPattern(family_.mtp_ignored, known.name)) {
        beside_mtp = true;
        continue;
      }
      const auto pattern = std::find_if(patterns.begin(), patterns.end(),
                                        [&](const char* one) { return MatchesPattern(one, known.name); });
      if (pattern == patterns.end()) {
        return RefuseTensor(known.name, absl::StrCat("is read by no role of the family ", family_.name,
                                                     " and is none of what it ignores", NearestText(known.name)));
      }
      matched[static_cast<size_t>(pattern - patterns.begin())] = true;
      if (known.listed == nullptr) continue;
      const std::optional<uint64_t> sum = CheckedAdd(other, known.listed->bytes);
      if (!sum.has_value()) return RefuseTensor(known.name, "makes the sum of all sizes larger than 64 bits");
      other = *sum;
    }
    manifest.other_weights.layers.value = other;
    for (size_t i = 0; i < patterns.size(); ++i) {
      if (matched[i]) Ignore(patterns[i]);
    }
    const uint64_t blocks = mtp_blocks.size();
    if (blocks != 0 && (*mtp_blocks.rbegin() != blocks - 1 || blocks > kMostImportedMtpLayers ||
                        (facts_.mtp_stated && blocks != manifest.mtp_layers.value))) {
      return Refuse(Reason::kImport,
                    absl::StrCat(names_.place, ": extra blocks after the layers: ", blocks,
                                 ", the last of them number ", *mtp_blocks.rbegin(), "; the configuration says ",
                                 facts_.mtp_stated ? absl::StrCat(manifest.mtp_layers.value) : "nothing"));
    }
    manifest.mtp_layers.value = blocks;
    IgnoreMtp(blocks);
    if (blocks == 0 && beside_mtp) Ignore(family_.mtp_ignored);
    return absl::OkStatus();
  }

  // Layers of which the same is to be written make one group.
  void GroupLayers() {
    std::vector<LayerGroup> groups;
    std::map<std::string, size_t> group_of;
    for (size_t i = 0; i < layers_.size(); ++i) {
      MoeSpec own = moe();
      own.experts.value = experts_[i];
      if (tabled_.count(layers_[i]) == 0) {
        own.router.token_table_layers.value.clear();
        own.router.vocabulary.value = 0;
      }
      own.tensors.clear();
      for (const auto& specs : rows_) own.tensors.push_back(*specs[i]);
      // A product of stored f32 weights is not narrowed.
      const bool f32 = own.FindTensor(TensorRole::kRouter)->dtype.value == DType::kF32;
      const bool follows = family_.router.input == RouterInput::kRouterWeight && !is_gguf_;
      if (f32) own.router.input_dtype.value = Basis::kF32;
      if (!f32 && follows) own.router.input_dtype.value = Basis::kBf16;
      const auto [at, inserted] = group_of.emplace(MoeLine(own), groups.size());
      if (inserted) groups.push_back({{}, std::move(own)});
      std::vector<LayerRange>& ranges = groups[at->second].layers;
      if (!ranges.empty() && ranges.back().last == layers_[i]) {
        ++ranges.back().last;
      } else {
        ranges.push_back({layers_[i], layers_[i] + 1});
      }
    }
    facts_.manifest.groups = std::move(groups);
  }

  const TensorNames& names_;
  const std::optional<Quantization>& quantization_;
  ModelFacts& facts_;
  const Family& family_;
  const bool is_gguf_;
  const std::string layer_prefix_;  // "model.layers.{layer}."
  const std::string block_prefix_;  // "model.layers.{layer}.mlp."

  std::vector<Known> known_;  // sorted by name
  std::vector<bool> used_;    // by roles
  const TensorLayout* layout_ = nullptr;
  std::vector<uint32_t> layers_;   // the MoE layers
  std::set<uint32_t> tabled_;      // those with a token table
  bool experts_apart_ = false;     // whether the configuration may store experts in different ways
  std::vector<uint64_t> experts_;  // of each MoE layer
  std::vector<std::vector<std::optional<TensorSpec>>> rows_;  // per role that is read: of each MoE layer
};

}  // namespace

absl::Status BindTensors(const TensorNames& names, const std::optional<Quantization>& quantization, ModelFacts& facts) {
  return Binder(names, quantization, facts).Run();
}

}  // namespace meshseal::compiler

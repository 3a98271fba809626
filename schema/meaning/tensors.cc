// Rules on tensors: which there are, their axes and names, and how they are stored.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/meaning/rules.h"
#include "schema/meaning/shape_facts.h"

namespace meshseal::meaning {
namespace {

using Axes = std::vector<ShapeAxis>;

std::string Quoted(const TensorClass& tensor) { return absl::StrCat("tensor '", tensor.name, "'"); }
std::string Word(DType dtype) { return std::string(DTypeName(dtype)); }

// Runs `check` on every tensor and its role's facts until one has a fault. Needs tensors-are-complete.
template <class F>
Fault ForEachTensor(const Plan& plan, F check) {
  for (const LayerClass& c : plan.layer_classes) {
    for (const TensorClass& tensor : c.tensors) {
      if (Fault fault = check(c, tensor, *FactsOf(tensor.role))) return absl::StrCat(Quoted(tensor), *fault);
    }
  }
  return std::nullopt;
}

enum class Need : uint8_t { kNever, kMay, kMust };

Need MustIf(bool read) { return read ? Need::kMust : Need::kNever; }
Need MayIf(bool read) { return read ? Need::kMay : Need::kNever; }

// Whether the class's steps read a tensor of this role.
Need NeedOf(const LayerClass& c, TensorRole role) {
  const auto has = [&c](TensorRole other) { return FindTensor(c, other) != nullptr; };
  const bool scores = c.router.scoring != Scoring::kPrecomputed;
  const bool fused = has(TensorRole::kGateUp);
  const bool shared = c.shared_expert.width > 0;
  const bool shared_fused = has(TensorRole::kSharedGateUp);
  const bool bias_fused = has(TensorRole::kGateUpBias);
  const bool gated = IsGated(c);
  switch (role) {
    case TensorRole::kRouter:
      return MustIf(scores);
    case TensorRole::kRouterBias:
      return MayIf(scores);
    case TensorRole::kSelectionBias:
      return MayIf(scores && !has(TensorRole::kTokenTable));
    case TensorRole::kTokenTable:
      return MayIf(scores);
    case TensorRole::kGate:
      return MayIf(!fused);
    case TensorRole::kUp:
      return MustIf(!fused);
    case TensorRole::kGateUp:
      return Need::kMay;
    case TensorRole::kDown:
      return Need::kMust;
    // Gate's and up's biases belong together.
    case TensorRole::kGateBias:
      return !bias_fused && gated && has(TensorRole::kUpBias) ? Need::kMust : MayIf(!bias_fused && gated);
    case TensorRole::kUpBias:
      return !bias_fused && has(TensorRole::kGateBias) ? Need::kMust : MayIf(!bias_fused);
    case TensorRole::kGateUpBias:
      return MayIf(gated);
    case TensorRole::kDownBias:
      return Need::kMay;
    case TensorRole::kSharedGate:
      return MayIf(shared && !shared_fused);
    case TensorRole::kSharedUp:
      return MustIf(shared && !shared_fused);
    case TensorRole::kSharedGateUp:
      return MayIf(shared);
    case TensorRole::kSharedDown:
      return MustIf(shared);
    case TensorRole::kSharedExpertGate:
      return MustIf(shared && c.shared_expert.gate == SharedGate::kSigmoid);
    case TensorRole::kInvalid:
      break;
  }
  return Need::kNever;
}

bool IsStacked(const TensorClass& tensor, const RoleFacts& facts) {
  return facts.per_expert && !tensor.shape.empty() && tensor.shape.front() == ShapeAxis::kExperts;
}

bool AxesFit(const TensorClass& tensor, const RoleFacts& facts) {
  Axes axes = tensor.shape;
  if (IsStacked(tensor, facts)) axes.erase(axes.begin());
  if (facts.inputs == ShapeAxis::kInvalid) return axes == Axes{facts.outputs};
  if (axes == Axes{facts.outputs, facts.inputs}) return true;
  if (facts.role == TensorRole::kTokenTable) return false;
  if (facts.outputs == ShapeAxis::kOne && axes == Axes{facts.inputs}) return true;
  return axes == Axes{facts.inputs, facts.outputs};
}

bool DTypeFits(DType dtype, const RoleFacts& facts) {
  if (facts.role == TensorRole::kTokenTable) return dtype == DType::kI32 || dtype == DType::kI64;
  if (facts.weight) return IsWeightDType(dtype);
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16;
}

size_t Occurrences(const std::string& text, const char* part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

Fault CheckName(const std::string& name, size_t by_expert, size_t moe_layers, std::set<absl::string_view>& names) {
  const size_t experts = Occurrences(name, "{expert}");
  const size_t layers = Occurrences(name, "{layer}");
  if (experts != by_expert) {
    return absl::StrCat("the name of tensor '", name, "' has {expert} ", experts, " times, expected ", by_expert);
  }
  if (layers > 1 || (layers == 0 && moe_layers > 1)) {
    return absl::StrCat("the name of tensor '", name, "' has {layer} ", layers, " times, expected 1");
  }
  if (Occurrences(name, "{layer}{expert}") + Occurrences(name, "{expert}{layer}") > 0) {
    return absl::StrCat("the numbers in the name of tensor '", name, "' run together");
  }
  if (!names.insert(name).second) return absl::StrCat("two roles read tensor '", name, "'");
  return std::nullopt;
}

Fault CheckTensors(const LayerClass& c, size_t moe_layers) {
  std::set<absl::string_view> names;
  TensorRole before = TensorRole::kInvalid;
  for (const TensorClass& tensor : c.tensors) {
    const RoleFacts* facts = FactsOf(tensor.role);
    if (facts == nullptr || tensor.role <= before) {
      return absl::StrCat(Quoted(tensor), " has role ", WordOf(tensor.role), " after ", WordOf(before),
                          ", roles ascend");
    }
    before = tensor.role;
    if (!DTypeFits(tensor.dtype, *facts)) {
      return absl::StrCat(Quoted(tensor), " has dtype ", Word(tensor.dtype), ", which role ", WordOf(tensor.role),
                          " does not read");
    }
    if (!AxesFit(tensor, *facts)) {
      return absl::StrCat(Quoted(tensor), " has other axes than role ", WordOf(tensor.role), " reads");
    }
    const size_t by_expert = facts->per_expert && !IsStacked(tensor, *facts) ? 1 : 0;
    if (Fault fault = CheckName(tensor.name, by_expert, moe_layers, names)) return fault;
    // One of each kind, as the kinds ascend.
    SideKind side_before = SideKind::kInvalid;
    for (const SideTensor& side : tensor.sides) {
      if (side.kind <= side_before) {
        return absl::StrCat(Quoted(tensor), " has side ", WordOf(side.kind), " after ", WordOf(side_before),
                            ", kinds ascend");
      }
      side_before = side.kind;
      if (Fault fault = CheckName(side.name, by_expert, moe_layers, names)) return fault;
    }
  }
  for (const Term& term : Terms<TensorRole>()) {
    const auto role = static_cast<TensorRole>(term.value);
    const Need need = NeedOf(c, role);
    const TensorClass* tensor = FindTensor(c, role);
    if (tensor == nullptr && need == Need::kMust) return absl::StrCat("there is no tensor of role ", term.word);
    if (tensor != nullptr && need == Need::kNever) {
      return absl::StrCat(Quoted(*tensor), " has role ", term.word, ", which no step reads");
    }
  }
  return std::nullopt;
}

// What a side tensor must be for its weight's format.
struct SideFormat {
  enum class Presence : uint8_t { kNone, kMay, kMust } presence = Presence::kNone;
  std::vector<DType> dtypes;
  enum class Block : uint8_t { kNone, kAny, kExact } block = Block::kNone;
  uint32_t block_columns = 0;  // of an exact block, which has one row
};

SideFormat FormatOf(DType dtype, bool in_blocks, SideKind kind) {
  using Presence = SideFormat::Presence;
  using Block = SideFormat::Block;
  const SideFormat none;
  switch (dtype) {
    case DType::kF8E4M3:
      if (kind == SideKind::kScale) {
        return {Presence::kMust, {DType::kF32, DType::kBf16, DType::kF8E8M0}, Block::kAny, 0};
      }
      if (kind == SideKind::kInputScale) return {Presence::kMay, {DType::kF32, DType::kBf16}, Block::kNone, 0};
      return none;
    case DType::kMxfp4:
      if (in_blocks || kind != SideKind::kScale) return none;
      return {Presence::kMust, {DType::kU8, DType::kF8E8M0}, Block::kExact, 32};
    case DType::kNvfp4:
      if (kind == SideKind::kScale) {
        return in_blocks ? none : SideFormat{Presence::kMust, {DType::kF8E4M3}, Block::kExact, 16};
      }
      if (kind == SideKind::kScale2) {
        return {in_blocks ? Presence::kMay : Presence::kMust, {DType::kF32}, Block::kNone, 0};
      }
      return {Presence::kMay, {DType::kF32}, Block::kNone, 0};
    default:
      return none;
  }
}

bool BlockFits(const SideFormat& format, const SideTensor& side) {
  if ((side.block_rows == 0) != (side.block_columns == 0)) return false;
  switch (format.block) {
    case SideFormat::Block::kNone:
      return !HasBlock(side);
    case SideFormat::Block::kAny:
      return true;
    case SideFormat::Block::kExact:
      return side.block_rows == 1 && side.block_columns == format.block_columns;
  }
  return false;
}

Fault CheckSide(const TensorClass& tensor, const RoleFacts& facts, const SideTensor& side, const SideFormat& format) {
  const std::string what = absl::StrCat(", its ", WordOf(side.kind));
  if (std::find(format.dtypes.begin(), format.dtypes.end(), side.dtype) == format.dtypes.end()) {
    return absl::StrCat(" is ", Word(tensor.dtype), what, " is ", Word(side.dtype));
  }
  if (!BlockFits(format, side)) {
    return absl::StrCat(" is ", Word(tensor.dtype), what, " has blocks of ", side.block_rows, "x", side.block_columns);
  }
  // Several rows of a fused tensor: whose, has to be said, and interleaved ones are of both halves.
  const bool ambiguous = facts.fused && side.block_rows > 1;
  const bool split_pairs = side.of == ScaleOf::kHalf && tensor.layout == GateUpLayout::kInterleaved;
  if ((side.of != ScaleOf::kInvalid) != ambiguous || split_pairs) {
    return absl::StrCat(what, " has blocks of ", side.block_rows, " rows of ",
                        side.of == ScaleOf::kInvalid ? "nobody" : WordOf(side.of));
  }
  return std::nullopt;
}

Fault CheckSides(const TensorClass& tensor, const RoleFacts& facts, bool in_blocks) {
  for (const Term& term : Terms<SideKind>()) {
    const auto kind = static_cast<SideKind>(term.value);
    const SideFormat format = FormatOf(tensor.dtype, in_blocks, kind);
    const SideTensor* side = FindSide(tensor, kind);
    if (side == nullptr) {
      if (format.presence == SideFormat::Presence::kMust) {
        return absl::StrCat(" is ", Word(tensor.dtype), " without ", term.word);
      }
      continue;
    }
    if (format.presence == SideFormat::Presence::kNone) {
      return absl::StrCat(" is ", Word(tensor.dtype), ", which has no ", term.word);
    }
    if (Fault fault = CheckSide(tensor, facts, *side, format)) return fault;
  }
  return std::nullopt;
}

Fault CheckBlocks(const TensorClass& tensor, const RoleFacts& facts, uint64_t length) {
  if (facts.inputs == ShapeAxis::kInvalid) {
    if (tensor.rotation == 0) return std::nullopt;
    return std::string(" is a vector and rotated");
  }
  if (tensor.rotation == 1) return std::string(" is rotated in blocks of 1");
  const auto check = [length](uint64_t block, const char* what) -> Fault {
    if (block <= 1 || length % block == 0) return std::nullopt;
    return absl::StrCat(" has rows of ", length, ", no whole number of ", what, " of ", block);
  };
  const DTypeRow& dtype = *FindDType(tensor.dtype);
  const SideTensor* scale = FindSide(tensor, SideKind::kScale);
  const bool tiled = scale != nullptr && HasBlock(*scale);
  // Blocks whose scales are apart have that tensor's width; float8 tiles may be cut at the edge.
  if (dtype.packed_bits == 0 || !tiled) {
    if (Fault fault = check(dtype.block_elements, "blocks")) return fault;
  } else if (tensor.dtype != DType::kF8E4M3) {
    if (Fault fault = check(scale->block_columns, "scale blocks")) return fault;
  }
  if (Fault fault = check(tensor.rotation, "rotated blocks")) return fault;
  const bool transposed = tensor.shape.back() != facts.inputs;
  if (transposed && (dtype.block_elements > 1 || tensor.rotation > 0)) {
    return absl::StrCat(" has blocks along ", WordOf(tensor.shape.back()), ", its product contracts over ",
                        WordOf(facts.inputs));
  }
  return std::nullopt;
}

// The operand of the product that reads the tensor.
Fault CheckBasis(const TensorClass& tensor, Basis basis, uint64_t length) {
  if ((basis == Basis::kRotated) != (tensor.rotation > 0)) {
    return absl::StrCat(tensor.rotation > 0 ? " is" : " is not", " rotated, what it is multiplied with is ",
                        WordOf(basis));
  }
  if (basis == Basis::kQ8 && length % kQ8Block != 0) {
    return absl::StrCat(" has rows of ", length, ", no whole number of q8 blocks of ", kQ8Block);
  }
  return std::nullopt;
}

}  // namespace

Fault TensorsAreComplete(const Plan& plan, const SealFacts&) {
  size_t moe_layers = 0;
  for (const LayerClass& c : plan.layer_classes) {
    for (const LayerRange& range : c.layers) moe_layers += range.last - range.first;
  }
  for (const LayerClass& c : plan.layer_classes) {
    if (Fault fault = CheckTensors(c, moe_layers)) return fault;
  }
  return std::nullopt;
}

Fault LayoutIsSaid(const Plan& plan, const SealFacts&) {
  return ForEachTensor(plan, [](const LayerClass&, const TensorClass& tensor, const RoleFacts& facts) -> Fault {
    if ((tensor.layout != GateUpLayout::kInvalid) == facts.fused) return std::nullopt;
    return absl::StrCat(facts.fused ? " is fused and has no layout" : " is not fused and has a layout");
  });
}

Fault ScalesFitDTypes(const Plan& plan, const SealFacts&) {
  const bool in_blocks = plan.weight_source == WeightSource::kGguf;
  return ForEachTensor(plan, [in_blocks](const LayerClass&, const TensorClass& tensor, const RoleFacts& facts) {
    return CheckSides(tensor, facts, in_blocks);
  });
}

Fault BlocksFillRows(const Plan& plan, const SealFacts&) {
  return ForEachTensor(plan, [&plan](const LayerClass& c, const TensorClass& tensor, const RoleFacts& facts) {
    return CheckBlocks(tensor, facts, ExtentOf(facts.inputs, plan, c, c.intermediate, c.shared_expert.width));
  });
}

Fault BasisFitsWeights(const Plan& plan, const SealFacts&) {
  return ForEachTensor(plan, [&plan](const LayerClass& c, const TensorClass& tensor, const RoleFacts& facts) -> Fault {
    if (!facts.weight || !facts.per_expert) {
      // What the router reads has no basis; the shared expert's operands have those of the experts, but are not
      // rotated.
      if (tensor.rotation == 0) return std::nullopt;
      return std::string(" is rotated, and nothing rotates what it is multiplied with");
    }
    const Basis basis = tensor.role == TensorRole::kDown ? c.down_basis : c.gate_up_basis;
    return CheckBasis(tensor, basis, ExtentOf(facts.inputs, plan, c, c.intermediate, c.shared_expert.width));
  });
}

Fault SourceHoldsWeights(const Plan& plan, const SealFacts&) {
  if (plan.weight_seed != 0 && plan.weight_source != WeightSource::kSynthetic) {
    return absl::StrCat("seed ", plan.weight_seed, " of ", WordOf(plan.weight_source), " weights");
  }
  if (BindsWeights(plan) && plan.weight_source == WeightSource::kSynthetic) {
    return absl::StrCat("digest list ", HexOf(plan.weights_digest), " of weights without files");
  }
  return ForEachTensor(plan, [&plan](const LayerClass&, const TensorClass& tensor, const RoleFacts&) -> Fault {
    const DTypeRow& row = *FindDType(tensor.dtype);
    const bool fits = plan.weight_source == WeightSource::kGguf ? row.gguf >= 0
                      : plan.weight_source == WeightSource::kSafetensors
                          ? row.safetensors[0] != '\0' || row.packed_bits > 0
                          : true;
    if (fits) return std::nullopt;
    return absl::StrCat(" is ", Word(tensor.dtype), ", which ", WordOf(plan.weight_source), " files cannot hold");
  });
}

}  // namespace meshseal::meaning

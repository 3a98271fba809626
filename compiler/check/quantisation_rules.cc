// Rules over how tensors are stored: dtypes, scales, blocks.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "compiler/check/role.h"
#include "compiler/check/rules.h"

namespace meshseal::compiler::rules {
namespace {

bool IsFloat(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16; }
bool IsIndex(DType dtype) { return dtype == DType::kI32 || dtype == DType::kI64; }

std::string RoleName(const TensorSpec& tensor) { return absl::StrCat("tensor '", WordOf(tensor.role.value), "'"); }
std::string DTypeWord(DType dtype) { return std::string(DTypeName(dtype)); }

// What a side tensor must be for its weight's format.
struct SideRule {
  bool required = false;
  bool allowed = false;
  absl::Span<const DType> dtypes;
  enum class Block : uint8_t { kNone, kAny, kOneBy16, kOneBy32 } block = Block::kNone;
};

struct FormatRule {
  SideRule scale;
  SideRule scale_2;
  SideRule input_scale;
};

constexpr DType kFloatScale[] = {DType::kF32};
constexpr DType kTileScale[] = {DType::kF32, DType::kBf16, DType::kF8E8M0};
constexpr DType kInputScale[] = {DType::kF32, DType::kBf16};
constexpr DType kPowerScale[] = {DType::kU8, DType::kF8E8M0};
constexpr DType kFloat8Scale[] = {DType::kF8E4M3};

FormatRule FormatOf(DType dtype, WeightSource source) {
  using Block = SideRule::Block;
  const bool in_blocks = source == WeightSource::kGguf;
  const SideRule none;
  switch (dtype) {
    case DType::kF8E4M3:
      return {{true, true, kTileScale, Block::kAny}, none, {false, true, kInputScale, Block::kNone}};
    case DType::kMxfp4:
      if (in_blocks) return {};
      return {{true, true, kPowerScale, Block::kOneBy32}, none, none};
    case DType::kNvfp4: {
      const SideRule second = {!in_blocks, true, kFloatScale, Block::kNone};
      const SideRule input = {false, true, kFloatScale, Block::kNone};
      if (in_blocks) return {none, second, input};
      return {{true, true, kFloat8Scale, Block::kOneBy16}, second, input};
    }
    default:
      return {};
  }
}

bool BlockFits(SideRule::Block expected, const std::optional<Spanned<ScaleBlock>>& found) {
  switch (expected) {
    case SideRule::Block::kNone:
      return !found.has_value();
    case SideRule::Block::kAny:
      return true;
    case SideRule::Block::kOneBy16:
      return found.has_value() && found->value == ScaleBlock{1, 16};
    case SideRule::Block::kOneBy32:
      return found.has_value() && found->value == ScaleBlock{1, 32};
  }
  return false;
}

const char* BlockText(SideRule::Block block) {
  switch (block) {
    case SideRule::Block::kNone:
      return "no block: one scale for a matrix";
    case SideRule::Block::kAny:
      return "any block";
    case SideRule::Block::kOneBy16:
      return "block: [1, 16]";
    case SideRule::Block::kOneBy32:
      return "block: [1, 32]";
  }
  return "";
}

void CheckSide(absl::string_view rule, const TensorSpec& tensor, const char* key,
               const std::optional<SideTensorSpec>& side, const SideRule& expected, WeightSource source,
               Diagnostics& diagnostics) {
  const std::string dtype = absl::StrCat(DTypeWord(tensor.dtype.value), " of source ", WordOf(source));
  if (!side.has_value()) {
    if (!expected.required) return;
    diagnostics.Error(rule, tensor.role.span,
                      absl::StrCat(RoleName(tensor), " is ", dtype, " and has no ", key, ", which its values need"));
    return;
  }
  if (!expected.allowed) {
    diagnostics.Error(rule, side->span, absl::StrCat(RoleName(tensor), " is ", dtype, ", which has no ", key));
    return;
  }
  bool known = false;
  std::string words;
  for (const DType allowed : expected.dtypes) {
    known = known || allowed == side->dtype.value;
    absl::StrAppend(&words, words.empty() ? "" : " or ", DTypeWord(allowed));
  }
  if (!known) {
    diagnostics.Error(rule, side->dtype.span,
                      absl::StrCat("the ", key, " of ", RoleName(tensor), " is ", DTypeWord(side->dtype.value),
                                   ", expected ", words));
  }
  if (!BlockFits(expected.block, side->block)) {
    diagnostics.Error(rule, side->block.has_value() ? side->block->span : side->span,
                      absl::StrCat("the ", key, " of ", RoleName(tensor), " has ",
                                   side->block.has_value() ? absl::StrCat("block: [", side->block->value.rows, ", ",
                                                                          side->block->value.columns, "]")
                                                           : "no block",
                                   ", expected ", BlockText(expected.block)));
  }
}

}  // namespace

void DTypesFitRoles(absl::string_view rule, const Manifest&, const LayerGroup& group, Diagnostics& diagnostics) {
  for (const TensorSpec& tensor : group.moe.tensors) {
    const RoleRow& row = RowOf(tensor.role.value);
    const DType dtype = tensor.dtype.value;
    const bool table = row.role == TensorRole::kTokenTable;
    const bool fits = table ? IsIndex(dtype) : IsExpertMatrix(row) ? IsWeightDType(dtype) : IsFloat(dtype);
    if (fits) continue;
    diagnostics.Error(rule, tensor.dtype.span,
                      absl::StrCat(RoleName(tensor), " is ", DTypeWord(dtype), ", expected ",
                                   table                 ? "i32 or i64"
                                   : IsExpertMatrix(row) ? "a weight's dtype"
                                                         : "f32, f16 or bf16"));
  }
}

void DTypesFitSource(absl::string_view rule, const Manifest& model, const LayerGroup& group, Diagnostics& diagnostics) {
  for (const TensorSpec& tensor : group.moe.tensors) {
    const DTypeRow* row = FindDType(tensor.dtype.value);
    const bool in_safetensors = row->safetensors[0] != '\0' || row->packed_bits != 0;
    const bool fits = model.source.value == WeightSource::kSafetensors ? in_safetensors
                      : model.source.value == WeightSource::kGguf      ? row->gguf >= 0
                                                                       : true;
    if (fits) continue;
    diagnostics
        .Error(rule, tensor.dtype.span,
               absl::StrCat(RoleName(tensor), " is ", row->name, ", which ", WordOf(model.source.value),
                            " files cannot hold"))
        .notes.push_back({model.source.span, "the source"});
  }
}

void ScalesFitDTypes(absl::string_view rule, const Manifest& model, const LayerGroup& group, Diagnostics& diagnostics) {
  for (const TensorSpec& tensor : group.moe.tensors) {
    const FormatRule format = FormatOf(tensor.dtype.value, model.source.value);
    CheckSide(rule, tensor, "scale", tensor.scale, format.scale, model.source.value, diagnostics);
    CheckSide(rule, tensor, "scale_2", tensor.scale_2, format.scale_2, model.source.value, diagnostics);
    CheckSide(rule, tensor, "input_scale", tensor.input_scale, format.input_scale, model.source.value, diagnostics);
  }
}

void ScaleRowsAreCounted(absl::string_view rule, const Manifest&, const LayerGroup& group, Diagnostics& diagnostics) {
  for (const TensorSpec& tensor : group.moe.tensors) {
    const RoleRow& row = RowOf(tensor.role.value);
    for (const NamedSide& side : SidesOf(tensor)) {
      const bool ambiguous = row.fused && side.side->block.has_value() && side.side->block->value.rows > 1;
      if (ambiguous && !side.side->of.has_value()) {
        diagnostics.Error(
            rule, side.side->span,
            absl::StrCat("the ", side.key, " of ", RoleName(tensor), " has blocks of ", side.side->block->value.rows,
                         " rows and does not say whose: of: fused, or of: half"));
      } else if (!ambiguous && side.side->of.has_value()) {
        diagnostics.Error(rule, side.side->of->span,
                          absl::StrCat("the ", side.key, " of ", RoleName(tensor),
                                       " has one meaning: `of` is for a fused tensor with blocks of several rows"));
      } else if (ambiguous && side.side->of->value == ScaleOf::kHalf && tensor.layout.has_value() &&
                 tensor.layout->value == GateUpLayout::kInterleaved) {
        diagnostics.Error(rule, side.side->of->span,
                          absl::StrCat("the rows of ", RoleName(tensor),
                                       " alternate: a block of several rows holds both halves, so of: fused"));
      }
    }
  }
}

void BlocksFillRows(absl::string_view rule, const Manifest& model, const LayerGroup& group, Diagnostics& diagnostics) {
  const MoeSpec& moe = group.moe;
  for (const TensorSpec& tensor : moe.tensors) {
    const RoleRow& row = RowOf(tensor.role.value);
    if (!IsMatrix(row)) continue;
    const uint64_t length = ExtentOf(row.inputs, model, moe);
    const auto check = [&](uint64_t block, const std::string& what, Span span) {
      if (block <= 1 || length % block == 0) return;
      const Spanned<uint64_t>* extent = row.inputs == ShapeAxis::kHidden         ? &model.hidden_size
                                        : row.inputs == ShapeAxis::kIntermediate ? &moe.intermediate_size
                                        : moe.shared_expert.has_value()          ? &moe.shared_expert->width
                                                                                 : nullptr;
      Diagnostic& error =
          diagnostics.Error(rule, span,
                            absl::StrCat(RoleName(tensor), ": rows of ", length, " ", WordOf(row.inputs),
                                         " are no whole number of ", what, " of ", block));
      if (extent != nullptr) {
        error.notes.push_back(
            {extent->span, absl::StrCat(length, " = ", length / block, " x ", block, " + ", length % block,
                                        ": the row length is what the product "
                                        "contracts over")});
      }
    };
    const bool scaled = tensor.scale.has_value() && tensor.scale->block.has_value();
    // Blocks whose scales are apart have that tensor's width; float8 tiles may be cut at the edge.
    if (FindDType(tensor.dtype.value)->packed_bits == 0 || !scaled) {
      check(FindDType(tensor.dtype.value)->block_elements, absl::StrCat(DTypeWord(tensor.dtype.value), " blocks"),
            tensor.dtype.span);
    } else if (tensor.dtype.value != DType::kF8E4M3) {
      check(tensor.scale->block->value.columns, "scale blocks", tensor.scale->block->span);
    }
    if (tensor.rotation.has_value()) check(tensor.rotation->value, "rotated blocks", tensor.rotation->span);
  }
}

void BlocksFollowInputs(absl::string_view rule, const Manifest&, const LayerGroup& group, Diagnostics& diagnostics) {
  for (const TensorSpec& tensor : group.moe.tensors) {
    const bool blocked = FindDType(tensor.dtype.value)->block_elements > 1 || tensor.rotation.has_value();
    if (!blocked || !IsTransposed(tensor)) continue;
    diagnostics.Error(rule, tensor.shape.span,
                      absl::StrCat(RoleName(tensor), " is stored transposed: its ",
                                   tensor.rotation.has_value() ? "rotated" : DTypeWord(tensor.dtype.value),
                                   " blocks would lie along ", WordOf(tensor.shape.value.back()),
                                   ", its product contracts over ", WordOf(RowOf(tensor.role.value).inputs)));
  }
}

}  // namespace meshseal::compiler::rules

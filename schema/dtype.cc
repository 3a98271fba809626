#include "schema/dtype.h"

#include "schema/checked_math.h"

namespace meshseal {
namespace {

constexpr DTypeRow kRows[] = {
#define MESHSEAL_DTYPE(enumerator, value, name, safetensors, gguf, bits, elements, packed, weight) \
  {DType::enumerator, name, safetensors, gguf, bits, elements, packed, weight},
#define MESHSEAL_REFUSED_DTYPE(safetensors)
#include "schema/dtypes.def"
#undef MESHSEAL_REFUSED_DTYPE
#undef MESHSEAL_DTYPE
};

constexpr const char* kRefusedSpellings[] = {
#define MESHSEAL_DTYPE(enumerator, value, name, safetensors, gguf, bits, elements, packed, weight)
#define MESHSEAL_REFUSED_DTYPE(safetensors) safetensors,
#include "schema/dtypes.def"
#undef MESHSEAL_REFUSED_DTYPE
#undef MESHSEAL_DTYPE
};

}  // namespace

absl::Span<const DTypeRow> DTypeRows() { return kRows; }

const DTypeRow* FindDType(DType dtype) {
  for (const DTypeRow& row : kRows) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

bool IsKnown(DType dtype) { return FindDType(dtype) != nullptr; }

bool IsWeightDType(DType dtype) {
  const DTypeRow* row = FindDType(dtype);
  return row != nullptr && row->weight;
}

absl::string_view DTypeName(DType dtype) {
  const DTypeRow* row = FindDType(dtype);
  return row == nullptr ? "invalid" : row->name;
}

std::optional<DType> DTypeFromName(absl::string_view name) {
  for (const DTypeRow& row : kRows) {
    if (name == row.name) return row.dtype;
  }
  return std::nullopt;
}

absl::string_view SafetensorsSpelling(DType dtype) {
  const DTypeRow* row = FindDType(dtype);
  return row == nullptr ? "" : row->safetensors;
}

std::optional<DType> DTypeFromSafetensors(absl::string_view spelling) {
  if (spelling.empty()) return std::nullopt;  // "" marks rows that the format cannot spell
  for (const DTypeRow& row : kRows) {
    if (spelling == row.safetensors) return row.dtype;
  }
  return std::nullopt;
}

bool IsRefusedSafetensorsSpelling(absl::string_view spelling) {
  for (const char* refused : kRefusedSpellings) {
    if (spelling == refused) return true;
  }
  return false;
}

std::optional<DType> DTypeFromGguf(uint32_t id) {
  for (const DTypeRow& row : kRows) {
    if (row.gguf >= 0 && static_cast<uint32_t>(row.gguf) == id) return row.dtype;
  }
  return std::nullopt;
}

std::optional<uint64_t> ElementsOf(absl::Span<const uint64_t> shape) {
  uint64_t product = 1;
  bool empty = false;
  for (const uint64_t extent : shape) {
    if (extent == 0) {
      empty = true;
      continue;
    }
    const std::optional<uint64_t> next = CheckedMul(product, extent);
    if (!next.has_value()) return std::nullopt;
    product = *next;
  }
  return empty ? 0 : product;
}

std::optional<uint64_t> BytesOf(DType dtype, uint64_t elements) {
  const DTypeRow* row = FindDType(dtype);
  if (row == nullptr || elements % row->block_elements != 0) return std::nullopt;
  const std::optional<uint64_t> bits = CheckedMul(elements / row->block_elements, row->block_bits);
  if (!bits.has_value() || *bits % 8 != 0) return std::nullopt;
  return *bits / 8;
}

}  // namespace meshseal

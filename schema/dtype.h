// Element types of weights and arrays: names, spellings in files and sizes. The rows are dtypes.def.
// Sizes are in bytes, element counts in logical elements.
#ifndef MESHSEAL_SCHEMA_DTYPE_H_
#define MESHSEAL_SCHEMA_DTYPE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace meshseal {

enum class DType : uint8_t {
  kInvalid = 0,
#define MESHSEAL_DTYPE(enumerator, value, name, safetensors, gguf, bits, elements, packed, weight) enumerator = (value),
#define MESHSEAL_REFUSED_DTYPE(safetensors)
#include "schema/dtypes.def"
#undef MESHSEAL_REFUSED_DTYPE
#undef MESHSEAL_DTYPE
};

struct DTypeRow {
  DType dtype;
  const char* name;
  const char* safetensors;  // "" when the format has no spelling for it
  int gguf;                 // the id in a GGUF file, -1 for none
  uint64_t block_bits;
  // A block lies along the input axis, the last one of a shape; that axis may be cut only at its multiples.
  uint64_t block_elements;
  uint64_t packed_bits;  // per element, where the block scales are a tensor of their own; else 0
  bool weight;
};

// All rows, in the order of dtypes.def.
absl::Span<const DTypeRow> DTypeRows();

// The row of `dtype`; null for a value without one.
const DTypeRow* FindDType(DType dtype);

// Whether a stored value is a row.
bool IsKnown(DType dtype);

// Whether a manifest may give a matrix this type.
bool IsWeightDType(DType dtype);

// "bf16"; "invalid" for a value without a row.
absl::string_view DTypeName(DType dtype);
std::optional<DType> DTypeFromName(absl::string_view name);

// "BF16"; "" where safetensors has no spelling.
absl::string_view SafetensorsSpelling(DType dtype);
std::optional<DType> DTypeFromSafetensors(absl::string_view spelling);

// Whether the safetensors format knows this spelling although DTypeFromSafetensors does not.
bool IsRefusedSafetensorsSpelling(absl::string_view spelling);

// The type a GGUF file means by `id`; nothing for types of activations, ids withdrawn from the format and unknown ids.
std::optional<DType> DTypeFromGguf(uint32_t id);

// The number of elements of `shape`; nothing when the product of its non-zero entries does not fit in 64
// bits, so that the verdict does not depend on where a zero stands. An empty shape is a scalar.
std::optional<uint64_t> ElementsOf(absl::Span<const uint64_t> shape);

// The size of `elements`, blocks with their scales included; nothing when they are not whole blocks and bytes, when
// their bits do not fit in 64 bits, or when `dtype` has no row.
std::optional<uint64_t> BytesOf(DType dtype, uint64_t elements);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_DTYPE_H_

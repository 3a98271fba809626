// How the blocks of each weight format become float32; the table is formats.def, sizes are those of schema/dtypes.def.
//
// Every element is an exact product, or the difference of two that is rounded once, so all machines and orders of
// evaluation give the same bits; format_elements.h says why. Layouts: GGUF's block structures, the OCP microscaling
// formats.
#ifndef MESHSEAL_RUNTIME_FORMATS_FORMAT_H_
#define MESHSEAL_RUNTIME_FORMATS_FORMAT_H_

#include <cstddef>
#include <cstdint>

#include "schema/dtype.h"

namespace meshseal::runtime {

struct Format {
  DType dtype = DType::kInvalid;
  uint64_t block_elements = 0;
  uint64_t block_bytes = 0;
  // The elements of `count` blocks one after the other, little-endian at any alignment, to `out`.
  void (*decode)(const std::byte* blocks, uint64_t count, float* out) = nullptr;
  // Why a block may not be used ("its scale is not finite"); null for a good one. A scale of zero is good.
  const char* (*fault)(const std::byte* block) = nullptr;
  // Makes any bytes a good block of weights of about 2^-5, as synthetic weights have them (without scales of their
  // own).
  void (*tame)(std::byte* block) = nullptr;
};

// The format of `dtype`; null for one that nothing is computed from.
const Format* FindFormat(DType dtype);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_FORMAT_H_

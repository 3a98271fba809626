// Values as the blocks of a GGUF type, rounded to the nearest code with the simplest scales: for tests alone, and no
// model for a good quantiser.
#ifndef MESHSEAL_TESTS_SUPPORT_GGUF_BLOCKS_H_
#define MESHSEAL_TESTS_SUPPORT_GGUF_BLOCKS_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "schema/dtype.h"

namespace meshseal::support {

// Rounds once to nearest, ties to even. `value` is finite, and at most 65504 in magnitude.
uint16_t FloatToF16(float value);

// `dtype` is f32, f16, q8_0, q4_0 or q4_k; `values` are finite and whole blocks.
std::string EncodeBlocks(DType dtype, absl::Span<const float> values);

}  // namespace meshseal::support

#endif  // MESHSEAL_TESTS_SUPPORT_GGUF_BLOCKS_H_

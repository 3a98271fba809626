#include "runtime/weights/weight_matrix.h"

#include "runtime/formats/format.h"

namespace meshseal::runtime {

void DecodeRow(DType dtype, const std::byte* bytes, absl::Span<float> out) {
  const Format& format = *FindFormat(dtype);
  format.decode(bytes, out.size() / format.block_elements, out.data());
}

}  // namespace meshseal::runtime

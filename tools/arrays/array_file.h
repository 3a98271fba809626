// Arrays as files: NumPy's .npy (https://numpy.org/neps/nep-0001-npy-format.html, versions 1.0 and 2.0) and
// tensors of a safetensors file. Little-endian, C order (the last axis is contiguous). Refusals carry
// Reason::kUsage.
#ifndef MESHSEAL_TOOLS_ARRAYS_ARRAY_FILE_H_
#define MESHSEAL_TOOLS_ARRAYS_ARRAY_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/dtype.h"

namespace meshseal::tools {

// The most bytes of elements an array may have.
inline constexpr uint64_t kMaxArrayBytes = uint64_t{1} << 40;

struct Array {
  DType dtype = DType::kInvalid;
  std::vector<uint64_t> shape;  // slowest axis first; empty for a scalar
  std::vector<std::byte> data;  // as stored; its size follows from dtype and shape
};

// "[2, 3]"
std::string ShapeText(absl::Span<const uint64_t> shape);

struct NamedArray {
  std::string name;
  Array array;
};

// An f32 array of `values` in C order; their number must be that of `shape`.
Array MakeFloat32Array(std::vector<uint64_t> shape, absl::Span<const float> values);

// The elements of an f32 array; another dtype is refused, not converted.
absl::StatusOr<std::vector<float>> Float32Values(const Array& array);

// Reads `FILE.npy`, `FILE.safetensors:TENSOR`, or .npy from standard input for `-`.
absl::StatusOr<Array> ReadArray(absl::string_view spec);

// Writes f32 .npy version 1.0; `-` is standard output. A file appears complete or not at all: it is written
// under another name in the same folder, synced and renamed. An existing `path` that is not a regular file is
// refused.
absl::Status WriteNpy(const std::filesystem::path& path, absl::Span<const uint64_t> shape,
                      absl::Span<const float> values);

// Writes a safetensors file the same way. Data is laid out widest elements first, then in the order given, so
// that every tensor is aligned to its element. What our own reader would refuse is not written.
absl::Status WriteSafetensors(const std::filesystem::path& path, absl::Span<const NamedArray> arrays);

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_ARRAYS_ARRAY_FILE_H_

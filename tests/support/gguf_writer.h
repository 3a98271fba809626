// The bytes of GGUF files, good and bad ones, for tests alone.
#ifndef MESHSEAL_TESTS_SUPPORT_GGUF_WRITER_H_
#define MESHSEAL_TESTS_SUPPORT_GGUF_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/dtype.h"

namespace meshseal::support {

// Ids of value types in the file.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kText = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// `bytes` bytes of `value`, little-endian.
std::string LittleEndian(uint64_t value, size_t bytes);

// Appends keys and tensors in the order of the calls; nothing is checked. Data is zero unless it is given.
class GgufWriter {
 public:
  explicit GgufWriter(uint32_t version = 3) : version_(version) {}

  // Values.
  GgufWriter& Text(absl::string_view key, absl::string_view value);
  GgufWriter& Bool(absl::string_view key, bool value);
  // Any of the integer types.
  GgufWriter& Integer(absl::string_view key, GgufType type, int64_t value);
  GgufWriter& U32(absl::string_view key, uint32_t value) { return Integer(key, GgufType::kU32, value); }
  GgufWriter& F32(absl::string_view key, float value);
  GgufWriter& F64(absl::string_view key, double value);
  GgufWriter& Texts(absl::string_view key, absl::Span<const std::string> values);
  GgufWriter& Integers(absl::string_view key, GgufType type, absl::Span<const int64_t> values);
  GgufWriter& F32s(absl::string_view key, absl::Span<const float> values);
  // Any type id and any bytes behind it.
  GgufWriter& Raw(absl::string_view key, uint32_t type, absl::string_view value);
  // The array's type, its length as the file says it, its elements' bytes.
  GgufWriter& RawArray(absl::string_view key, uint32_t type, uint64_t count, absl::string_view elements);

  // Sets general.alignment and lays tensors out by it; before the first tensor.
  GgufWriter& Alignment(uint32_t alignment);

  // `ne` as the file has it, fastest axis first. Stands behind the tensors before it.
  GgufWriter& Tensor(absl::string_view name, DType dtype, absl::Span<const uint64_t> ne, absl::string_view data = "");
  // Any type id, offset and number of dimensions; adds no data.
  GgufWriter& RawTensor(absl::string_view name, absl::Span<const uint64_t> ne, uint32_t type, uint64_t offset);

  // What the header says instead of the true numbers.
  GgufWriter& Counts(uint64_t tensors, uint64_t keys);

  // Header, padding and data, each tensor padded.
  std::string Bytes() const;
  // The header without padding.
  std::string Header() const;

 private:
  uint32_t version_;
  uint64_t alignment_ = 32;
  uint64_t keys_ = 0;
  uint64_t tensors_ = 0;
  bool false_counts_ = false;
  uint64_t said_tensors_ = 0;
  uint64_t said_keys_ = 0;
  std::string key_records_;
  std::string tensor_infos_;
  std::string data_;
};

}  // namespace meshseal::support

#endif  // MESHSEAL_TESTS_SUPPORT_GGUF_WRITER_H_

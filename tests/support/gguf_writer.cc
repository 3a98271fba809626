#include "tests/support/gguf_writer.h"

#include <bit>

#include "absl/strings/str_cat.h"

namespace meshseal::support {
namespace {

std::string Prefixed(absl::string_view text) { return absl::StrCat(LittleEndian(text.size(), 8), text); }

size_t BytesOfInteger(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
      return 4;
    default:
      return 8;
  }
}

void PadTo(uint64_t alignment, std::string* bytes) {
  bytes->resize((bytes->size() + alignment - 1) / alignment * alignment);
}

}  // namespace

std::string LittleEndian(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return text;
}

GgufWriter& GgufWriter::Raw(absl::string_view key, uint32_t type, absl::string_view value) {
  absl::StrAppend(&key_records_, Prefixed(key), LittleEndian(type, 4), value);
  ++keys_;
  return *this;
}

GgufWriter& GgufWriter::RawArray(absl::string_view key, uint32_t type, uint64_t count, absl::string_view elements) {
  return Raw(key, static_cast<uint32_t>(GgufType::kArray),
             absl::StrCat(LittleEndian(type, 4), LittleEndian(count, 8), elements));
}

GgufWriter& GgufWriter::Text(absl::string_view key, absl::string_view value) {
  return Raw(key, static_cast<uint32_t>(GgufType::kText), Prefixed(value));
}

GgufWriter& GgufWriter::Bool(absl::string_view key, bool value) {
  return Raw(key, static_cast<uint32_t>(GgufType::kBool), LittleEndian(value ? 1 : 0, 1));
}

GgufWriter& GgufWriter::Integer(absl::string_view key, GgufType type, int64_t value) {
  return Raw(key, static_cast<uint32_t>(type), LittleEndian(static_cast<uint64_t>(value), BytesOfInteger(type)));
}

GgufWriter& GgufWriter::F32(absl::string_view key, float value) {
  return Raw(key, static_cast<uint32_t>(GgufType::kF32), LittleEndian(std::bit_cast<uint32_t>(value), 4));
}

GgufWriter& GgufWriter::F64(absl::string_view key, double value) {
  return Raw(key, static_cast<uint32_t>(GgufType::kF64), LittleEndian(std::bit_cast<uint64_t>(value), 8));
}

GgufWriter& GgufWriter::Texts(absl::string_view key, absl::Span<const std::string> values) {
  std::string elements;
  for (const std::string& value : values) elements += Prefixed(value);
  return RawArray(key, static_cast<uint32_t>(GgufType::kText), values.size(), elements);
}

GgufWriter& GgufWriter::Integers(absl::string_view key, GgufType type, absl::Span<const int64_t> values) {
  std::string elements;
  for (const int64_t value : values) elements += LittleEndian(static_cast<uint64_t>(value), BytesOfInteger(type));
  return RawArray(key, static_cast<uint32_t>(type), values.size(), elements);
}

GgufWriter& GgufWriter::F32s(absl::string_view key, absl::Span<const float> values) {
  std::string elements;
  for (const float value : values) elements += LittleEndian(std::bit_cast<uint32_t>(value), 4);
  return RawArray(key, static_cast<uint32_t>(GgufType::kF32), values.size(), elements);
}

GgufWriter& GgufWriter::Alignment(uint32_t alignment) {
  alignment_ = alignment;
  return U32("general.alignment", alignment);
}

GgufWriter& GgufWriter::Tensor(absl::string_view name, DType dtype, absl::Span<const uint64_t> ne,
                               absl::string_view data) {
  RawTensor(name, ne, static_cast<uint32_t>(FindDType(dtype)->gguf), data_.size());
  const uint64_t begin = data_.size();
  absl::StrAppend(&data_, data);
  data_.resize(begin + *BytesOf(dtype, *ElementsOf(ne)));
  PadTo(alignment_, &data_);
  return *this;
}

GgufWriter& GgufWriter::RawTensor(absl::string_view name, absl::Span<const uint64_t> ne, uint32_t type,
                                  uint64_t offset) {
  absl::StrAppend(&tensor_infos_, Prefixed(name), LittleEndian(ne.size(), 4));
  for (const uint64_t extent : ne) tensor_infos_ += LittleEndian(extent, 8);
  absl::StrAppend(&tensor_infos_, LittleEndian(type, 4), LittleEndian(offset, 8));
  ++tensors_;
  return *this;
}

GgufWriter& GgufWriter::Counts(uint64_t tensors, uint64_t keys) {
  false_counts_ = true;
  said_tensors_ = tensors;
  said_keys_ = keys;
  return *this;
}

std::string GgufWriter::Header() const {
  return absl::StrCat("GGUF", LittleEndian(version_, 4), LittleEndian(false_counts_ ? said_tensors_ : tensors_, 8),
                      LittleEndian(false_counts_ ? said_keys_ : keys_, 8), key_records_, tensor_infos_);
}

std::string GgufWriter::Bytes() const {
  std::string bytes = Header();
  PadTo(alignment_, &bytes);
  return bytes + data_;
}

}  // namespace meshseal::support

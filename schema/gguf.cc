#include "schema/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/checked_math.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/utf8.h"

namespace meshseal {
namespace {

using ReadBytes = absl::FunctionRef<absl::Status(uint64_t, absl::Span<std::byte>)>;

constexpr absl::string_view kMark = "GGUF";
constexpr uint64_t kFixedBytes = 24;          // mark, version and two counts
constexpr uint64_t kSmallestKeyRecord = 14;   // length, one byte, type, one byte
constexpr uint64_t kSmallestTensorInfo = 33;  // length, one byte, rank, one extent, type, offset
constexpr uint64_t kSmallestText = 8;         // its length
constexpr absl::string_view kAlignmentKey = "general.alignment";
constexpr absl::string_view kNotNegative = "a whole number from 0 on";
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint32_t kBigEndian2 = 0x02000000;
constexpr uint32_t kBigEndian3 = 0x03000000;

enum class Kind : uint8_t { kUnsigned, kSigned, kFloat, kBool, kText, kArray };

struct ValueType {
  const char* name;
  Kind kind;
  size_t bytes;  // 0 for text and array
};

// By the format's type id.
constexpr ValueType kValueTypes[] = {
    {"u8", Kind::kUnsigned, 1},  {"i8", Kind::kSigned, 1},   {"u16", Kind::kUnsigned, 2}, {"i16", Kind::kSigned, 2},
    {"u32", Kind::kUnsigned, 4}, {"i32", Kind::kSigned, 4},  {"f32", Kind::kFloat, 4},    {"bool", Kind::kBool, 1},
    {"text", Kind::kText, 0},    {"array", Kind::kArray, 0}, {"u64", Kind::kUnsigned, 8}, {"i64", Kind::kSigned, 8},
    {"f64", Kind::kFloat, 8},
};
constexpr uint32_t kU32 = 4;

const ValueType* FindValueType(uint32_t id) { return id < std::size(kValueTypes) ? &kValueTypes[id] : nullptr; }

// Why no tensor may have this type; the types that tensors may have are rows of dtypes.def.
std::string WhyRefusedType(uint32_t id) {
  switch (id) {
    case 9:
      return "type 9 (q8_1) is for activations only";
    case 15:
      return "type 15 (q8_k) is for activations only";
    case 4:
    case 5:
    case 31:
    case 32:
    case 33:
    case 36:
    case 37:
    case 38:
      return absl::StrCat("type ", id, " has been removed from the format");
    default:
      return absl::StrCat("type ", id, " is not known");
  }
}

uint64_t LittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

int64_t SignedLittleEndian(absl::string_view bytes) {
  const int unused = static_cast<int>(64 - 8 * bytes.size());
  return static_cast<int64_t>(LittleEndian(bytes) << unused) >> unused;
}

double FloatLittleEndian(absl::string_view bytes) {
  const uint64_t bits = LittleEndian(bytes);
  if (bytes.size() == 8) return std::bit_cast<double>(bits);
  return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
}

// `value` up to the next multiple of `alignment`, a power of two.
std::optional<uint64_t> RoundUp(uint64_t value, uint64_t alignment) {
  const std::optional<uint64_t> above = CheckedAdd(value, alignment - 1);
  if (!above.has_value()) return std::nullopt;
  return *above & ~(alignment - 1);
}

// How much of `text` to look at when more follows: a code point that may continue stays for the next piece.
size_t WholeCodePoints(absl::string_view text) {
  for (size_t back = 1; back <= 3 && back < text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) break;
    if (byte >= 0xC0) return text.size() - back;
  }
  return text.size();
}

// A buffer that moves forward over the file.
class Window {
 public:
  static constexpr uint64_t kMaxTake = 65'536;

  Window(ReadBytes read, uint64_t file_size)
      : read_(read), file_size_(file_size), buffer_(static_cast<size_t>(std::min(file_size, 2 * kMaxTake))) {}

  uint64_t position() const { return position_; }
  uint64_t left() const { return file_size_ - position_; }

  // The next bytes, which are at most kMaxTake and at most left(); good until the next call.
  absl::StatusOr<absl::string_view> Take(size_t bytes) {
    if (end_ - begin_ < bytes) MESHSEAL_RETURN_IF_ERROR(Fill());
    const char* const data = reinterpret_cast<const char*>(buffer_.data()) + begin_;
    begin_ += bytes;
    position_ += bytes;
    return absl::string_view(data, bytes);
  }

  // Takes back the last bytes of the last Take.
  void Return(size_t bytes) {
    begin_ -= bytes;
    position_ -= bytes;
  }

  // At most left().
  void Skip(uint64_t bytes) {
    begin_ += static_cast<size_t>(std::min<uint64_t>(bytes, end_ - begin_));
    position_ += bytes;
  }

 private:
  absl::Status Fill() {
    const size_t kept = end_ - begin_;
    std::memmove(buffer_.data(), buffer_.data() + begin_, kept);
    const auto fresh = static_cast<size_t>(std::min<uint64_t>(buffer_.size() - kept, left() - kept));
    begin_ = 0;
    end_ = kept + fresh;
    return read_(position_ + kept, absl::MakeSpan(buffer_).subspan(kept, fresh));
  }

  const ReadBytes read_;
  const uint64_t file_size_;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0;  // what of the buffer is still to be taken
  size_t end_ = 0;
  uint64_t position_ = 0;  // of begin_ in the file
};

}  // namespace

// Reads one header from its start to its end; every method stands at the place in the file that it reads.
class GgufHeaderReader {
 public:
  GgufHeaderReader(absl::string_view file, ReadBytes read, uint64_t file_size)
      : file_(file), file_size_(file_size), window_(read, file_size) {}

  absl::StatusOr<GgufHeader> Read() {
    if (file_size_ < kFixedBytes) {
      return Fail(Reason::kWeightsTruncated,
                  absl::StrCat("the file has ", file_size_, " bytes, expected at least ", kFixedBytes));
    }
    MESHSEAL_RETURN_IF_ERROR(ReadMarkAndVersion());
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t tensors, Count("tensors", kSmallestTensorInfo, kGgufMaxTensors));
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t keys, Count("keys", kSmallestKeyRecord, kGgufMaxKeys));
    header_.metadata.file_ = std::string(file_);
    header_.alignment = kDefaultAlignment;
    for (uint64_t i = 0; i < keys; ++i) {
      Enter("key", i, keys);
      MESHSEAL_RETURN_IF_ERROR(ReadKeyAndValue());
    }
    for (uint64_t i = 0; i < tensors; ++i) {
      Enter("tensor", i, tensors);
      MESHSEAL_RETURN_IF_ERROR(ReadTensorInfo());
    }
    Leave();
    MESHSEAL_RETURN_IF_ERROR(PlaceTensors());
    MESHSEAL_RETURN_IF_ERROR(SortTensors());
    return std::move(header_);
  }

 private:
  using Value = GgufMetadata::Value;

  // What messages name until the next call: the record by its number, and by its name once that is known.
  void Enter(absl::string_view what, uint64_t number, uint64_t of) {
    what_ = what;
    number_ = number + 1;
    of_ = of;
    name_.clear();
  }
  void Leave() { what_ = {}; }

  absl::Status Fail(Reason reason, absl::string_view text) const {
    if (what_.empty()) return Refuse(reason, absl::StrCat(file_, ": ", text));
    const std::string record = name_.empty() ? absl::StrCat(number_, " of ", of_) : QuotedName(name_);
    return Refuse(reason, absl::StrCat(file_, ": ", what_, " ", record, ": ", text, " (at byte ", at_, ")"));
  }

  // Whether `bytes` more may be read.
  absl::Status Need(uint64_t bytes, absl::string_view what) {
    at_ = window_.position();
    if (bytes > window_.left()) {
      return Fail(Reason::kWeightsTruncated,
                  absl::StrCat(what, " needs ", bytes, " bytes, but the file has ", window_.left(), " more"));
    }
    if (bytes > kGgufMaxHeaderBytes - at_) {  // at_ never passes the limit
      return Fail(Reason::kWeightsHeader,
                  absl::StrCat("the header has more than ", kGgufMaxHeaderBytes, " bytes, the most read here"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<absl::string_view> Take(size_t bytes, absl::string_view what) {
    MESHSEAL_RETURN_IF_ERROR(Need(bytes, what));
    return window_.Take(bytes);
  }

  absl::StatusOr<uint64_t> Unsigned(size_t bytes, absl::string_view what) {
    MESHSEAL_ASSIGN_OR_RETURN(const absl::string_view taken, Take(bytes, what));
    return LittleEndian(taken);
  }

  absl::Status ReadMarkAndVersion() {
    MESHSEAL_ASSIGN_OR_RETURN(const absl::string_view mark, Take(kMark.size(), "the mark"));
    if (mark != kMark) {
      return Fail(Reason::kWeightsHeader,
                  absl::StrCat("the file begins with '", absl::CHexEscape(mark), "', expected '", kMark, "'"));
    }
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t version, Unsigned(4, "the version"));
    if (version == kBigEndian2 || version == kBigEndian3) {
      return Fail(Reason::kWeightsHeader, "is a big-endian GGUF file, expected a little-endian one");
    }
    if (version == 1) return Fail(Reason::kWeightsHeader, "GGUF version 1 is obsolete, expected 2 or 3");
    if (version != 2 && version != 3) {
      return Fail(Reason::kWeightsHeader, absl::StrCat("the GGUF version is ", version, ", expected 2 or 3"));
    }
    header_.version = static_cast<uint32_t>(version);
    return absl::OkStatus();
  }

  // A number of records that take `smallest` bytes at least.
  absl::StatusOr<uint64_t> Count(absl::string_view what, uint64_t smallest, uint64_t most) {
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t count, Unsigned(8, what));
    if (count > window_.left() / smallest) {
      return Fail(Reason::kWeightsTruncated, absl::StrCat("the file says that it has ", count, " ", what, ", which ",
                                                          file_size_, " bytes cannot hold"));
    }
    if (count > most) {
      return Fail(Reason::kWeightsHeader,
                  absl::StrCat("the file has ", count, " ", what, ", more than the ", most, " read here"));
    }
    return count;
  }

  // A key or a tensor's name.
  absl::Status ReadName(uint64_t most) {
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t length, Unsigned(8, "the name's length"));
    if (length == 0 || length > most) {
      return Fail(Reason::kWeightsHeader, absl::StrCat("the name has ", length, " bytes, expected 1 to ", most));
    }
    MESHSEAL_ASSIGN_OR_RETURN(const absl::string_view name, Take(static_cast<size_t>(length), "the name"));
    if (!IsUtf8(name)) return Fail(Reason::kWeightsHeader, "the name is not UTF-8");
    if (absl::StrContains(name, '\0')) return Fail(Reason::kWeightsHeader, "the name holds a NUL");
    name_ = std::string(name);
    return absl::OkStatus();
  }

  absl::Status ReadKeyAndValue() {
    MESHSEAL_RETURN_IF_ERROR(ReadName(kGgufMaxKeyBytes));
    if (header_.metadata.Has(name_)) return Fail(Reason::kWeightsHeader, "occurs more than once");
    MESHSEAL_RETURN_IF_ERROR(Keep(name_.size()));
    Value value;
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t type, Unsigned(4, "the value's type"));
    const ValueType* const known = FindValueType(static_cast<uint32_t>(type));
    if (known == nullptr) {
      return Fail(Reason::kWeightsHeader, absl::StrCat("value type ", type, " is not one of the format"));
    }
    value.type = static_cast<uint32_t>(type);
    if (known->kind == Kind::kArray) {
      MESHSEAL_RETURN_IF_ERROR(ReadArray(&value));
    } else if (known->kind == Kind::kText) {
      MESHSEAL_RETURN_IF_ERROR(ReadText(&value));
    } else {
      MESHSEAL_RETURN_IF_ERROR(ReadScalar(*known, &value));
    }
    if (name_ == kAlignmentKey) MESHSEAL_RETURN_IF_ERROR(SetAlignment(value));
    header_.metadata.values_.emplace(std::move(name_), std::move(value));
    return absl::OkStatus();
  }

  absl::Status SetAlignment(const Value& value) {
    if (value.type != kU32) {
      return Fail(Reason::kWeightsHeader, absl::StrCat("is ", kValueTypes[value.type].name, ", expected u32"));
    }
    const uint64_t alignment = std::get<uint64_t>(value.content);
    if (!std::has_single_bit(alignment) || alignment < kGgufMinAlignment || alignment > kGgufMaxAlignment) {
      return Fail(Reason::kWeightsHeader, absl::StrCat("is ", alignment, ", expected a power of two from ",
                                                       kGgufMinAlignment, " to ", kGgufMaxAlignment));
    }
    header_.alignment = alignment;
    return absl::OkStatus();
  }

  // Counts what is kept of keys and values.
  absl::Status Keep(uint64_t bytes) {
    kept_ += bytes;  // each is bounded, and so is their number
    if (kept_ <= kGgufMaxKeptBytes) return absl::OkStatus();
    return Fail(Reason::kWeightsHeader,
                absl::StrCat("keys and values have more than ", kGgufMaxKeptBytes, " bytes, the most kept here"));
  }

  absl::Status ReadScalar(const ValueType& type, Value* value) {
    MESHSEAL_ASSIGN_OR_RETURN(const absl::string_view bytes, Take(type.bytes, "the value"));
    if (type.kind == Kind::kUnsigned) {
      value->content = LittleEndian(bytes);
    } else if (type.kind == Kind::kSigned) {
      value->content = SignedLittleEndian(bytes);
    } else if (type.kind == Kind::kFloat) {
      value->content = FloatLittleEndian(bytes);
    } else {
      MESHSEAL_RETURN_IF_ERROR(CheckBools(bytes));
      value->content = bytes[0] != 0;
    }
    return absl::OkStatus();
  }

  absl::Status CheckBools(absl::string_view bytes) const {
    for (const char byte : bytes) {
      if (byte == 0 || byte == 1) continue;
      return Fail(Reason::kWeightsHeader,
                  absl::StrCat("a bool is ", static_cast<unsigned char>(byte), ", expected 0 or 1"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> TextLength() {
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t length, Unsigned(8, "the text's length"));
    if (length > kGgufMaxTextBytes) {
      return Fail(Reason::kWeightsHeader,
                  absl::StrCat("the text has ", length, " bytes, more than the ", kGgufMaxTextBytes, " read here"));
    }
    MESHSEAL_RETURN_IF_ERROR(Need(length, "the text"));
    return length;
  }

  absl::Status ReadText(Value* value) {
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t length, TextLength());
    if (length > kGgufKeptTextBytes) {
      value->content = GgufMetadata::Skipped{length};
      return SkipText(length);
    }
    MESHSEAL_RETURN_IF_ERROR(Keep(length));
    MESHSEAL_ASSIGN_OR_RETURN(const absl::string_view text, window_.Take(static_cast<size_t>(length)));
    if (!IsUtf8(text)) return Fail(Reason::kWeightsHeader, "the text is not UTF-8");
    value->content = std::string(text);
    return absl::OkStatus();
  }

  // Checks a text in pieces, without keeping it.
  absl::Status SkipText(uint64_t length) {
    while (length > 0) {
      const auto bytes = static_cast<size_t>(std::min(length, Window::kMaxTake));
      MESHSEAL_ASSIGN_OR_RETURN(const absl::string_view taken, window_.Take(bytes));
      const size_t whole = bytes < length ? WholeCodePoints(taken) : bytes;
      if (!IsUtf8(taken.substr(0, whole))) return Fail(Reason::kWeightsHeader, "the text is not UTF-8");
      window_.Return(bytes - whole);
      length -= whole;
    }
    return absl::OkStatus();
  }

  absl::Status ReadArray(Value* value) {
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t type, Unsigned(4, "the array's type"));
    const ValueType* const known = FindValueType(static_cast<uint32_t>(type));
    if (known == nullptr) {
      return Fail(Reason::kWeightsHeader, absl::StrCat("array type ", type, " is not one of the format"));
    }
    if (known->kind == Kind::kArray) return Fail(Reason::kWeightsHeader, "is an array of arrays, which is not read");
    value->element_type = static_cast<uint32_t>(type);
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t count, Unsigned(8, "the array's length"));
    if (count > kGgufMaxArrayEntries) {
      return Fail(Reason::kWeightsHeader, absl::StrCat("the array has ", count, " entries, more than the ",
                                                       kGgufMaxArrayEntries, " read here"));
    }
    // Does not wrap: at most 2^33.
    MESHSEAL_RETURN_IF_ERROR(Need(count * (known->kind == Kind::kText ? kSmallestText : known->bytes), "the array"));
    switch (known->kind) {
      case Kind::kText:
        value->content = GgufMetadata::Skipped{count};
        for (uint64_t i = 0; i < count; ++i) {
          MESHSEAL_ASSIGN_OR_RETURN(const uint64_t length, TextLength());
          MESHSEAL_RETURN_IF_ERROR(SkipText(length));
        }
        return absl::OkStatus();
      case Kind::kBool:
        value->content = GgufMetadata::Skipped{count};
        return SkipBools(count);
      case Kind::kUnsigned:
        return ReadNumbers<uint64_t>(known->bytes, count, LittleEndian, value);
      case Kind::kSigned:
        return ReadNumbers<int64_t>(known->bytes, count, SignedLittleEndian, value);
      default:
        return ReadNumbers<double>(known->bytes, count, FloatLittleEndian, value);
    }
  }

  absl::Status SkipBools(uint64_t count) {
    while (count > 0) {
      const auto bytes = static_cast<size_t>(std::min(count, Window::kMaxTake));
      MESHSEAL_ASSIGN_OR_RETURN(const absl::string_view taken, window_.Take(bytes));
      MESHSEAL_RETURN_IF_ERROR(CheckBools(taken));
      count -= bytes;
    }
    return absl::OkStatus();
  }

  template <class T>
  absl::Status ReadNumbers(size_t bytes, uint64_t count, T (*decode)(absl::string_view), Value* value) {
    if (count > kGgufKeptArrayEntries) {
      value->content = GgufMetadata::Skipped{count};
      window_.Skip(count * bytes);
      return absl::OkStatus();
    }
    MESHSEAL_RETURN_IF_ERROR(Keep(count * sizeof(T)));
    std::vector<T> numbers;
    numbers.reserve(static_cast<size_t>(count));  // the bytes are there
    for (uint64_t i = 0; i < count; ++i) {
      MESHSEAL_ASSIGN_OR_RETURN(const absl::string_view taken, window_.Take(bytes));
      numbers.push_back(decode(taken));
    }
    value->content = std::move(numbers);
    return absl::OkStatus();
  }

  absl::Status ReadTensorInfo() {
    MESHSEAL_RETURN_IF_ERROR(ReadName(kGgufMaxNameBytes));
    TensorEntry entry;
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t rank, Unsigned(4, "the number of dimensions"));
    if (rank < 1 || rank > kGgufMaxRank) {
      return Fail(Reason::kWeightsTensor, absl::StrCat("has ", rank, " dimensions, expected 1 to ", kGgufMaxRank));
    }
    entry.shape.resize(static_cast<size_t>(rank));
    for (size_t i = 0; i < rank; ++i) {
      MESHSEAL_ASSIGN_OR_RETURN(const uint64_t extent, Unsigned(8, "a dimension"));
      if (extent < 1 || extent > kGgufMaxExtent) {
        return Fail(Reason::kWeightsTensor,
                    absl::StrCat("ne[", i, "] is ", extent, ", expected 1 to ", kGgufMaxExtent));
      }
      entry.shape[rank - 1 - i] = extent;
    }
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t type, Unsigned(4, "the type"));
    const std::optional<DType> dtype = DTypeFromGguf(static_cast<uint32_t>(type));
    if (!dtype.has_value()) return Fail(Reason::kWeightsTensor, WhyRefusedType(static_cast<uint32_t>(type)));
    entry.dtype = *dtype;
    const uint64_t block = FindDType(*dtype)->block_elements;
    if (entry.shape.back() % block != 0) {
      return Fail(Reason::kWeightsTensor, absl::StrCat("ne[0] is ", entry.shape.back(), ", expected a multiple of ",
                                                       block, " for ", DTypeName(*dtype)));
    }
    const std::optional<uint64_t> elements = ElementsOf(entry.shape);
    const std::optional<uint64_t> bytes = elements.has_value() ? BytesOf(*dtype, *elements) : std::nullopt;
    if (!bytes.has_value()) {
      return Fail(Reason::kWeightsTensor, absl::StrCat("shape [", absl::StrJoin(entry.shape, ", "), "] of ",
                                                       DTypeName(*dtype), " does not fit in 64 bits"));
    }

    MESHSEAL_ASSIGN_OR_RETURN(entry.begin, Unsigned(8, "the offset"));
    if (entry.begin != data_end_) {
      return Fail(
          Reason::kWeightsTensor,
          absl::StrCat(
              "the offset is ", entry.begin, ", expected ", data_end_,
              header_.entries.empty() ? "" : absl::StrCat(" behind tensor ", QuotedName(header_.entries.back().name))));
    }
    const std::optional<uint64_t> end = CheckedAdd(entry.begin, *bytes);
    const std::optional<uint64_t> padded = end.has_value() ? RoundUp(*end, header_.alignment) : std::nullopt;
    if (!padded.has_value()) {
      return Fail(Reason::kWeightsTensor,
                  absl::StrCat(*bytes, " bytes from offset ", entry.begin, " on do not fit in 64 bits"));
    }
    entry.end = *end;
    data_end_ = *padded;
    entry.name = std::move(name_);
    header_.entries.push_back(std::move(entry));
    return absl::OkStatus();
  }

  // The tensors must fill the file; only the last one's padding may be missing. Makes their places absolute.
  absl::Status PlaceTensors() {
    const uint64_t header_end = window_.position();
    const uint64_t data_start = *RoundUp(header_end, header_.alignment);  // far below 2^64
    const uint64_t data_size = file_size_ < data_start ? 0 : file_size_ - data_start;
    for (TensorEntry& entry : header_.entries) {
      if (entry.end > data_size) {
        return Refuse(Reason::kWeightsTruncated, absl::StrCat(file_, ": tensor ", QuotedName(entry.name), ": needs ",
                                                              entry.end, " bytes of data from byte ", data_start,
                                                              " on, but the file has ", file_size_, " bytes"));
      }
      entry.begin += data_start;
      entry.end += data_start;
    }
    if (data_size > data_end_) {
      return Fail(Reason::kWeightsHeader,
                  absl::StrCat("the tensors and their padding end at byte ", data_start + data_end_,
                               ", but the file has ", file_size_, " bytes"));
    }
    return absl::OkStatus();
  }

  absl::Status SortTensors() {
    std::vector<TensorEntry>& entries = header_.entries;
    std::sort(entries.begin(), entries.end(),
              [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
    const auto twice = std::adjacent_find(entries.begin(), entries.end(),
                                          [](const TensorEntry& a, const TensorEntry& b) { return a.name == b.name; });
    if (twice == entries.end()) return absl::OkStatus();
    return Refuse(Reason::kWeightsHeader,
                  absl::StrCat(file_, ": tensor ", QuotedName(twice->name), ": occurs more than once"));
  }

  const absl::string_view file_;
  const uint64_t file_size_;
  Window window_;
  GgufHeader header_;
  uint64_t kept_ = 0;
  uint64_t data_end_ = 0;  // of the tensors so far, padding included, from the start of the data

  absl::string_view what_;
  uint64_t number_ = 0;
  uint64_t of_ = 0;
  std::string name_;
  uint64_t at_ = 0;  // where the last field begins
};

bool GgufMetadata::Has(absl::string_view key) const { return Find(key) != nullptr; }

const GgufMetadata::Value* GgufMetadata::Find(absl::string_view key) const {
  const auto at = values_.find(key);
  return at == values_.end() ? nullptr : &at->second;
}

std::string GgufMetadata::TypeOf(absl::string_view key) const {
  const Value* const value = Find(key);
  return value == nullptr ? "" : TypeText(*value);
}

std::string GgufMetadata::TypeText(const Value& value) {
  const ValueType& type = kValueTypes[value.type];
  if (type.kind != Kind::kArray) return type.name;
  return absl::StrCat("array of ", kValueTypes[value.element_type].name);
}

std::vector<std::string> GgufMetadata::Keys() const {
  std::vector<std::string> keys;
  keys.reserve(values_.size());
  for (const auto& [key, value] : values_) keys.push_back(key);
  return keys;
}

absl::Status GgufMetadata::RefuseValue(absl::string_view key, absl::string_view found,
                                       absl::string_view expected) const {
  return Refuse(Reason::kWeightsHeader,
                absl::StrCat(file_, ": key ", QuotedName(key), ": is ", found, ", expected ", expected));
}

absl::Status GgufMetadata::RefuseType(absl::string_view key, const Value& value, absl::string_view expected) const {
  const auto* const skipped = std::get_if<Skipped>(&value.content);
  if (skipped == nullptr) return RefuseValue(key, TypeText(value), expected);
  const bool text = kValueTypes[value.type].kind == Kind::kText;
  return RefuseValue(
      key, absl::StrCat(TypeText(value), text ? " of " : " with ", skipped->size, text ? " bytes" : " entries"),
      expected);
}

absl::StatusOr<std::optional<std::string>> GgufMetadata::Text(absl::string_view key) const {
  const Value* const value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* const text = std::get_if<std::string>(&value->content)) return *text;
  return RefuseType(key, *value, absl::StrCat("text of at most ", kGgufKeptTextBytes, " bytes"));
}

absl::StatusOr<std::optional<uint64_t>> GgufMetadata::Unsigned(absl::string_view key) const {
  const Value* const value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* const number = std::get_if<uint64_t>(&value->content)) return *number;
  const auto* const number = std::get_if<int64_t>(&value->content);
  if (number == nullptr) return RefuseType(key, *value, "a whole number");
  if (*number < 0) return RefuseValue(key, absl::StrCat(*number), kNotNegative);
  return static_cast<uint64_t>(*number);
}

absl::StatusOr<std::optional<double>> GgufMetadata::Number(absl::string_view key) const {
  const Value* const value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* const number = std::get_if<double>(&value->content)) return *number;
  return RefuseType(key, *value, "f32 or f64");
}

absl::StatusOr<std::optional<bool>> GgufMetadata::Bool(absl::string_view key) const {
  const Value* const value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* const flag = std::get_if<bool>(&value->content)) return *flag;
  return RefuseType(key, *value, "bool");
}

absl::StatusOr<std::optional<std::vector<uint64_t>>> GgufMetadata::Unsigneds(absl::string_view key) const {
  const Value* const value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* const numbers = std::get_if<std::vector<uint64_t>>(&value->content)) return *numbers;
  const auto* const numbers = std::get_if<std::vector<int64_t>>(&value->content);
  if (numbers == nullptr) {
    return RefuseType(key, *value,
                      absl::StrCat("array of whole numbers with at most ", kGgufKeptArrayEntries, " entries"));
  }
  std::vector<uint64_t> result;
  result.reserve(numbers->size());
  for (const int64_t number : *numbers) {
    if (number < 0) {
      return RefuseValue(key, absl::StrCat(number, " in entry ", result.size()), kNotNegative);
    }
    result.push_back(static_cast<uint64_t>(number));
  }
  return result;
}

absl::StatusOr<std::optional<std::vector<double>>> GgufMetadata::Numbers(absl::string_view key) const {
  const Value* const value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* const numbers = std::get_if<std::vector<double>>(&value->content)) return *numbers;
  return RefuseType(key, *value, absl::StrCat("array of f32 or f64 with at most ", kGgufKeptArrayEntries, " entries"));
}

absl::StatusOr<GgufHeader> ParseGgufHeader(absl::string_view file,
                                           absl::FunctionRef<absl::Status(uint64_t, absl::Span<std::byte>)> read,
                                           uint64_t file_size) {
  return GgufHeaderReader(file, read, file_size).Read();
}

absl::StatusOr<GgufFile> GgufFile::Open(const std::filesystem::path& path) {
  MESHSEAL_ASSIGN_OR_RETURN(RegularFile file, RegularFile::Open(path));
  const auto read = [&](uint64_t offset, absl::Span<std::byte> out) { return file.Read(offset, out); };
  MESHSEAL_ASSIGN_OR_RETURN(GgufHeader header, ParseGgufHeader(file.path(), read, file.size()));
  return GgufFile(std::move(file), std::move(header));
}

absl::StatusOr<const TensorEntry*> GgufFile::Find(absl::string_view name) const {
  return FindTensor(file_.path(), header_.entries, name);
}

}  // namespace meshseal

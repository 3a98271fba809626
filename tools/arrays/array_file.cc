#include "tools/arrays/array_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "schema/reason.h"
#include "schema/safetensors.h"
#include "schema/status_macros.h"
#include "schema/uninterrupted.h"
#include "schema/utf8.h"
#include "tools/cli/whole_file.h"

namespace meshseal::tools {
namespace {

constexpr absl::string_view kNpyMagic("\x93NUMPY", 6);
constexpr uint64_t kMaxNpyHeaderBytes = 65'536;  // a plain array's header takes about a hundred
constexpr size_t kMaxNpyRank = 8;
constexpr size_t kAlignment = 64;  // of the data in a .npy file
constexpr absl::string_view kSafetensorsMark = ".safetensors:";

struct NpyType {
  const char* descr;
  DType dtype;
};
constexpr NpyType kNpyTypes[] = {
    {"<f8", DType::kF64}, {"<f4", DType::kF32}, {"<f2", DType::kF16}, {"|b1", DType::kBool},
    {"|u1", DType::kU8},  {"|i1", DType::kI8},  {"<u2", DType::kU16}, {"<i2", DType::kI16},
    {"<u4", DType::kU32}, {"<i4", DType::kI32}, {"<u8", DType::kU64}, {"<i8", DType::kI64},
};

std::string ErrorText(int error) { return std::generic_category().message(error); }

// The header of a .npy file is a Python dictionary literal; this reads the three entries of a plain array and
// nothing else: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class NpyHeaderReader {
 public:
  NpyHeaderReader(absl::string_view file, absl::string_view text) : file_(file), text_(text) {}

  absl::StatusOr<Array> Read() {
    if (!Take("{")) return Malformed("'{'");
    while (!Take("}")) {
      std::string key;
      if (!TakeQuoted(&key)) return Malformed("a quoted key");
      if (!Take(":")) return Malformed("':'");
      if (key == "descr" && !has_dtype_) {
        MESHSEAL_RETURN_IF_ERROR(ReadDescr());
      } else if (key == "fortran_order" && !has_order_) {
        MESHSEAL_RETURN_IF_ERROR(ReadOrder());
      } else if (key == "shape" && !has_shape_) {
        MESHSEAL_RETURN_IF_ERROR(ReadShape());
      } else {
        return Refused(absl::StrCat("key '", absl::CEscape(key), "' is unknown or occurs more than once"));
      }
      if (!Take(",") && !Peek('}')) return Malformed("',' or '}'");
    }
    if (!has_dtype_ || !has_order_ || !has_shape_) {
      return Refused("the header lacks one of 'descr', 'fortran_order' and 'shape'");
    }
    SkipSpaces();
    if (text_.substr(at_) != "\n") return Malformed("spaces and one line feed at the end");
    return std::move(array_);
  }

 private:
  absl::Status Refused(absl::string_view text) const { return Refuse(Reason::kUsage, absl::StrCat(file_, ": ", text)); }
  absl::Status Malformed(absl::string_view expected) const {
    const std::string rest = absl::StrReplaceAll(absl::CEscape(text_.substr(at_, 16)), {{"\\'", "'"}});
    return Refused(absl::StrCat("the .npy header is malformed: expected ", expected, " before \"", rest, "\""));
  }

  void SkipSpaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Peek(char wanted) {
    SkipSpaces();
    return at_ < text_.size() && text_[at_] == wanted;
  }
  bool Take(absl::string_view word) {
    SkipSpaces();
    if (!absl::StartsWith(text_.substr(at_), word)) return false;
    at_ += word.size();
    return true;
  }
  bool TakeQuoted(std::string* out) {
    if (!Peek('\'') && !Peek('"')) return false;
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == absl::string_view::npos) return false;
    *out = std::string(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return true;
  }

  absl::Status ReadDescr() {
    if (Peek('[')) return Refused("a structured array, expected plain numbers");
    std::string descr;
    if (!TakeQuoted(&descr)) return Malformed("a quoted 'descr'");
    for (const NpyType& type : kNpyTypes) {
      if (descr == type.descr) array_.dtype = type.dtype;
    }
    has_dtype_ = array_.dtype != DType::kInvalid;
    if (has_dtype_) return absl::OkStatus();
    const std::string found = absl::StrCat("elements are '", absl::CEscape(descr), "'");
    if (absl::StartsWith(descr, ">")) return Refused(absl::StrCat(found, " (big-endian), expected little-endian"));
    if (absl::StrContains(descr, "O")) {
      return Refused(absl::StrCat(found, " (pickled Python objects), expected plain numbers"));
    }
    return Refused(absl::StrCat(found, ", expected one of ",
                                absl::StrJoin(kNpyTypes, " ", [](std::string* out, const NpyType& type) {
                                  absl::StrAppend(out, type.descr);
                                })));
  }

  absl::Status ReadOrder() {
    if (Take("True")) return Refused("the array is in Fortran order, expected C order");
    has_order_ = Take("False");
    return has_order_ ? absl::OkStatus() : Malformed("True or False");
  }

  // (), (3,), (3, 4) or (3, 4,)
  absl::Status ReadShape() {
    if (!Take("(")) return Malformed("'('");
    bool comma = true;
    while (!Take(")")) {
      if (!comma) return Malformed("',' or ')'");
      if (array_.shape.size() == kMaxNpyRank) {
        return Refused(absl::StrCat("more than ", kMaxNpyRank, " dimensions, the most read here"));
      }
      uint64_t extent = 0;
      SkipSpaces();
      const size_t first = at_;
      for (; at_ < text_.size() && absl::ascii_isdigit(static_cast<unsigned char>(text_[at_])); ++at_) {
        extent = extent * 10 + static_cast<uint64_t>(text_[at_] - '0');
        if (extent > kMaxArrayBytes) return Refused(absl::StrCat("a dimension above ", kMaxArrayBytes));
      }
      if (at_ == first || (text_[first] == '0' && at_ - first > 1)) {
        at_ = first;
        return Malformed("a whole number");
      }
      array_.shape.push_back(extent);
      comma = Take(",");
    }
    // (3) is a number, not a tuple.
    if (array_.shape.size() == 1 && !comma) return Malformed("',' in a tuple of one");
    has_shape_ = true;
    return absl::OkStatus();
  }

  const absl::string_view file_;
  const absl::string_view text_;
  size_t at_ = 0;
  Array array_;
  bool has_dtype_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

// Reads up to `size` bytes to the end of `out`, fewer only at the end of the input. A promised size is not
// trusted with one big allocation: a pipe's memory grows with what has come.
absl::Status Append(absl::string_view file, int descriptor, uint64_t size, std::vector<std::byte>* out) {
  constexpr uint64_t kStep = uint64_t{1} << 24;
  while (size > 0) {
    const size_t old_size = out->size();
    const size_t step = std::min(size, kStep);
    out->resize(old_size + step);
    const ssize_t got = Uninterrupted([&] { return ::read(descriptor, out->data() + old_size, step); });
    if (got < 0) return Refuse(Reason::kUsage, absl::StrCat(file, ": cannot be read: ", ErrorText(errno)));
    out->resize(old_size + static_cast<size_t>(got));
    if (got == 0) break;
    size -= static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

absl::string_view TextOf(const std::vector<std::byte>& bytes) {
  return absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

absl::StatusOr<Array> ReadNpy(absl::string_view file, int descriptor) {
  const auto refused = [&](absl::string_view text) { return Refuse(Reason::kUsage, absl::StrCat(file, ": ", text)); };
  // Magic, version, header length: 2 bytes in version 1, 4 in version 2.
  std::vector<std::byte> start;
  MESHSEAL_RETURN_IF_ERROR(Append(file, descriptor, kNpyMagic.size() + 2, &start));
  if (start.size() != kNpyMagic.size() + 2 || !absl::StartsWith(TextOf(start), kNpyMagic)) {
    return refused("is not a .npy file");
  }
  const auto major = static_cast<unsigned>(start[kNpyMagic.size()]);
  const auto minor = static_cast<unsigned>(start[kNpyMagic.size() + 1]);
  if ((major != 1 && major != 2) || minor != 0) {
    return refused(absl::StrCat(".npy version ", major, ".", minor, ", expected 1.0 or 2.0"));
  }
  const uint64_t length_bytes = major == 1 ? 2 : 4;
  std::vector<std::byte> length_field;
  MESHSEAL_RETURN_IF_ERROR(Append(file, descriptor, length_bytes, &length_field));
  if (length_field.size() != length_bytes) return refused("ends inside the .npy header");
  uint64_t length = 0;
  for (size_t i = length_field.size(); i-- > 0;) length = length << 8 | static_cast<uint64_t>(length_field[i]);
  if (length > kMaxNpyHeaderBytes) {
    return refused(absl::StrCat("the .npy header has ", length, " bytes, the most read here is ", kMaxNpyHeaderBytes));
  }
  std::vector<std::byte> header;
  MESHSEAL_RETURN_IF_ERROR(Append(file, descriptor, length, &header));
  if (header.size() != length) return refused("ends inside the .npy header");

  MESHSEAL_ASSIGN_OR_RETURN(Array array, NpyHeaderReader(file, TextOf(header)).Read());
  const std::optional<uint64_t> elements = ElementsOf(array.shape);
  const std::optional<uint64_t> bytes = elements.has_value() ? BytesOf(array.dtype, *elements) : std::nullopt;
  if (!bytes.has_value() || *bytes > kMaxArrayBytes) {
    return refused(absl::StrCat("shape ", ShapeText(array.shape), " of ", DTypeName(array.dtype), " takes more than ",
                                kMaxArrayBytes, " bytes, the most read here"));
  }
  // One byte more than promised must not be there.
  MESHSEAL_RETURN_IF_ERROR(Append(file, descriptor, *bytes + 1, &array.data));
  if (array.data.size() != *bytes) {
    return refused(absl::StrCat("shape ", ShapeText(array.shape), " of ", DTypeName(array.dtype), " takes ", *bytes,
                                " bytes, but ", array.data.size() > *bytes ? "more" : absl::StrCat(array.data.size()),
                                " follow the header"));
  }
  return array;
}

absl::StatusOr<Array> ReadSafetensors(absl::string_view path, absl::string_view name) {
  // An input array that is refused is a wrong input, not a wrong checkpoint.
  const auto as_input = [](const absl::Status& status) {
    return Refuse(Reason::kUsage, std::string(status.message()));
  };
  absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(std::string(path));
  if (!file.ok()) return as_input(file.status());
  const absl::StatusOr<const TensorEntry*> entry = file->Find(name);
  if (!entry.ok()) return as_input(entry.status());
  Array array{(*entry)->dtype, (*entry)->shape, {}};
  const uint64_t bytes = (*entry)->end - (*entry)->begin;
  if (bytes > kMaxArrayBytes) {
    return Refuse(Reason::kUsage, absl::StrCat(path, ": tensor '", absl::Utf8SafeCEscape(name), "': ", bytes,
                                               " bytes, the most read here is ", kMaxArrayBytes));
  }
  array.data.resize(bytes);
  if (absl::Status status = file->Read((*entry)->begin, absl::MakeSpan(array.data)); !status.ok()) {
    return as_input(status);
  }
  return array;
}

template <class Element>
absl::string_view BytesView(absl::Span<const Element> values) {
  return absl::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Element));
}

}  // namespace

std::string ShapeText(absl::Span<const uint64_t> shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

Array MakeFloat32Array(std::vector<uint64_t> shape, absl::Span<const float> values) {
  Array array{DType::kF32, std::move(shape), std::vector<std::byte>(values.size() * sizeof(float))};
  if (!values.empty()) std::memcpy(array.data.data(), values.data(), array.data.size());
  return array;
}

absl::StatusOr<std::vector<float>> Float32Values(const Array& array) {
  if (array.dtype != DType::kF32) {
    return Refuse(Reason::kUsage, absl::StrCat("an array of ", DTypeName(array.dtype), ", expected f32"));
  }
  std::vector<float> values(array.data.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), array.data.data(), values.size() * sizeof(float));
  return values;
}

absl::StatusOr<Array> ReadArray(absl::string_view spec) {
  if (spec == "-") return ReadNpy("standard input", STDIN_FILENO);
  if (const size_t mark = spec.find(kSafetensorsMark); mark != absl::string_view::npos) {
    const size_t path_size = mark + kSafetensorsMark.size() - 1;
    return ReadSafetensors(spec.substr(0, path_size), spec.substr(path_size + 1));
  }
  if (!absl::EndsWith(spec, ".npy")) {
    return Refuse(Reason::kUsage,
                  absl::StrCat("'", spec, "' is not an array: expected FILE.npy, FILE.safetensors:TENSOR or -"));
  }
  const std::string path(spec);
  const int descriptor = Uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  if (descriptor < 0) {
    return Refuse(Reason::kUsage, absl::StrCat(spec, ": cannot be opened: ", ErrorText(errno)));
  }
  const absl::Cleanup closer = [descriptor] { ::close(descriptor); };
  return ReadNpy(spec, descriptor);
}

absl::Status WriteNpy(const std::filesystem::path& path, absl::Span<const uint64_t> shape,
                      absl::Span<const float> values) {
  if (shape.size() > kMaxNpyRank || ElementsOf(shape) != values.size()) {
    return Refuse(Reason::kBug,
                  absl::StrCat(path.string(), ": ", values.size(), " values do not fill the shape ", ShapeText(shape)));
  }
  std::string header = absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': (", absl::StrJoin(shape, ", "),
                                    shape.size() == 1 ? ",), }" : "), }");
  const size_t prefix = kNpyMagic.size() + 4;
  header.append(kAlignment - 1 - (prefix + header.size()) % kAlignment, ' ');
  header += '\n';
  const std::array<char, 4> version_and_length = {1, 0, static_cast<char>(header.size() & 0xFF),
                                                  static_cast<char>(header.size() >> 8)};
  return WriteWholeFile(path, {kNpyMagic, absl::string_view(version_and_length.data(), version_and_length.size()),
                               header, BytesView(values)});
}

absl::Status WriteSafetensors(const std::filesystem::path& path, absl::Span<const NamedArray> arrays) {
  std::vector<const NamedArray*> order;
  for (const NamedArray& array : arrays) order.push_back(&array);
  std::stable_sort(order.begin(), order.end(), [](const NamedArray* a, const NamedArray* b) {
    // Sizes of 8 elements: whole bytes for every type.
    return BytesOf(a->array.dtype, 8).value_or(0) > BytesOf(b->array.dtype, 8).value_or(0);
  });
  std::string header = "{";
  std::vector<absl::string_view> pieces(2);  // the length and the header, set below
  uint64_t offset = 0;
  for (const NamedArray* named : order) {
    const Array& array = named->array;
    if (!IsUtf8(named->name)) {
      return Refuse(Reason::kUsage,
                    absl::StrCat(path.string(), ": tensor '", absl::CEscape(named->name), "': the name is not UTF-8"));
    }
    const std::string name = nlohmann::json(named->name).dump();
    absl::StrAppend(&header, pieces.size() == 2 ? "" : ",", name, ":{\"dtype\":\"", SafetensorsSpelling(array.dtype),
                    "\",\"shape\":[", absl::StrJoin(array.shape, ","), "],\"data_offsets\":[", offset, ",",
                    offset + array.data.size(), "]}");
    offset += array.data.size();
    pieces.push_back(TextOf(array.data));
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  // The reader's rules are the writer's: names, shapes and sizes are checked in one place.
  const uint64_t data_start = 8 + header.size();
  if (const auto entries = ParseSafetensorsHeader(path.string(), header, data_start, data_start + offset);
      !entries.ok()) {
    return Refuse(Reason::kUsage, std::string(entries.status().message()));
  }
  std::array<char, 8> length = {};
  for (size_t i = 0; i < length.size(); ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  pieces[0] = absl::string_view(length.data(), length.size());
  pieces[1] = header;
  return WriteWholeFile(path, pieces);
}

}  // namespace meshseal::tools

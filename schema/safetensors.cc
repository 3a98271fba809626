#include "schema/safetensors.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/format_text.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/strict_json.h"

namespace meshseal {
namespace {

constexpr absl::string_view kMetadataKey = "__metadata__";
constexpr absl::string_view kHeader = "the header";
constexpr uint64_t kLengthBytes = 8;     // the N before the header
constexpr uint64_t kSmallestHeader = 2;  // "{}"

std::string ShapeText(absl::Span<const uint64_t> shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

// Builds the entries; `begin` and `end` are still relative to the data. The levels are the whole grammar, so nesting is
// bounded by them.
class HeaderJson : public StrictJson {
 public:
  HeaderJson(absl::string_view file, absl::string_view header, uint64_t header_start)
      : StrictJson(Reason::kWeightsHeader, file, kHeader, header, header_start) {}

  std::vector<TensorEntry> TakeEntries() { return std::move(entries_); }

  bool number_unsigned(number_unsigned_t value) override {
    if (level_ != Level::kNumbers || value > kSafetensorsMaxInteger) {
      return Unexpected(absl::StrCat("the number ", value));
    }
    if (field_ == kDataOffsets && offsets_.size() == 2) {
      return Fail(Reason::kWeightsHeader, "'data_offsets' has more than 2 entries, expected [begin, end]");
    }
    if (field_ == kShape && entry_.shape.size() == kSafetensorsMaxRank) {
      return Fail(Reason::kWeightsTensor,
                  absl::StrCat("'shape' has more than ", kSafetensorsMaxRank, " entries, the most read here"));
    }
    (field_ == kShape ? entry_.shape : offsets_).push_back(value);
    return true;
  }

  bool string(string_t& text) override {
    if (level_ == Level::kMetadata) return CountMetadata(text.size());
    if (level_ != Level::kEntry || field_ != kDType) return Unexpected(absl::StrCat("the string ", QuotedName(text)));
    if (IsRefusedSafetensorsSpelling(text)) {
      return Fail(Reason::kWeightsTensor,
                  absl::StrCat("dtype ", QuotedName(text), " is not supported by this version"));
    }
    const std::optional<DType> dtype = DTypeFromSafetensors(text);
    if (!dtype.has_value()) {
      return Fail(Reason::kWeightsHeader, absl::StrCat("dtype ", QuotedName(text), " is not one of the format"));
    }
    entry_.dtype = *dtype;
    return true;
  }

  bool start_object(size_t) override {
    if (level_ == Level::kDocument) {
      level_ = Level::kRoot;
    } else if (level_ == Level::kRoot) {
      level_ = in_metadata_ ? Level::kMetadata : Level::kEntry;
    } else {
      return Unexpected("an object");
    }
    return true;
  }

  bool key(string_t& name) override {
    switch (level_) {
      case Level::kRoot:
        return StartValue(std::move(name));
      case Level::kMetadata:
        metadata_keys_.push_back(name);
        return CountMetadata(name.size());
      default:
        return StartField(name);
    }
  }

  bool end_object() override {
    if (level_ == Level::kRoot) {
      level_ = Level::kDocument;
      return true;
    }
    const bool kept = level_ == Level::kMetadata ? FinishMetadata() : FinishEntry();
    level_ = Level::kRoot;
    return kept;
  }

  bool start_array(size_t) override {
    if (level_ != Level::kEntry || field_ == kDType) return Unexpected("an array");
    level_ = Level::kNumbers;
    return true;
  }

  bool end_array() override {
    level_ = Level::kEntry;
    if (field_ == kDataOffsets && offsets_.size() != 2) {
      return Fail(Reason::kWeightsHeader,
                  absl::StrCat("'data_offsets' has ", offsets_.size(), " entries, expected [begin, end]"));
    }
    return true;
  }

 private:
  enum class Level { kDocument, kRoot, kEntry, kNumbers, kMetadata };
  enum Field : unsigned { kNoField = 0, kDType = 1, kShape = 2, kDataOffsets = 4, kAllFields = 7 };

  static absl::string_view FieldName(Field field) {
    return field == kDType ? "dtype" : field == kShape ? "shape" : "data_offsets";
  }

  bool OtherValue(absl::string_view found) override { return Unexpected(found); }

  std::string Where() const {
    if (level_ == Level::kDocument) return "the header";
    return in_metadata_ ? std::string(kMetadataKey) : absl::StrCat("tensor ", QuotedName(entry_.name));
  }

  bool Fail(Reason reason, absl::string_view text) { return Stop(reason, absl::StrCat(Where(), ": ", text)); }

  // A value of a kind that may not stand here.
  bool Unexpected(absl::string_view found) {
    switch (level_) {
      case Level::kDocument:
      case Level::kRoot:
        return Fail(Reason::kWeightsHeader, absl::StrCat("found ", found, ", expected an object"));
      case Level::kEntry:
        return Fail(Reason::kWeightsHeader, absl::StrCat("'", FieldName(field_), "' is ", found, ", expected ",
                                                         field_ == kDType ? "a string" : "an array"));
      case Level::kNumbers:
        return Fail(Reason::kWeightsHeader, absl::StrCat("'", FieldName(field_), "' holds ", found,
                                                         ", expected plain digits up to ", kSafetensorsMaxInteger));
      case Level::kMetadata:
        break;
    }
    return Fail(Reason::kWeightsHeader,
                absl::StrCat(QuotedName(metadata_keys_.back()), " is ", found, ", expected a string"));
  }

  // A key of the outermost object.
  bool StartValue(std::string name) {
    entry_ = TensorEntry{};
    offsets_.clear();
    seen_ = 0;
    field_ = kNoField;
    in_metadata_ = name == kMetadataKey;
    entry_.name = std::move(name);
    if (in_metadata_) {
      if (metadata_seen_) return Fail(Reason::kWeightsHeader, "occurs more than once");
      metadata_seen_ = true;
    }
    if (entry_.name.empty()) return Fail(Reason::kWeightsHeader, "the name is empty");
    if (absl::StrContains(entry_.name, '\0')) return Fail(Reason::kWeightsHeader, "the name holds a NUL");
    if (entries_.size() == kSafetensorsMaxTensors && !in_metadata_) {
      return Fail(Reason::kWeightsHeader,
                  absl::StrCat("one more than ", kSafetensorsMaxTensors, " tensors, the most read here"));
    }
    return true;
  }

  // A key inside a tensor's object.
  bool StartField(absl::string_view name) {
    field_ = kNoField;
    for (const Field field : {kDType, kShape, kDataOffsets}) {
      if (name == FieldName(field)) field_ = field;
    }
    if (field_ == kNoField) {
      return Fail(Reason::kWeightsHeader,
                  absl::StrCat("unknown key ", QuotedName(name), ", expected 'dtype', 'shape' and 'data_offsets'"));
    }
    if ((seen_ & field_) != 0) {
      return Fail(Reason::kWeightsHeader, absl::StrCat("key '", name, "' occurs more than once"));
    }
    seen_ |= field_;
    return true;
  }

  bool CountMetadata(uint64_t bytes) {
    metadata_bytes_ += bytes;  // bounded by the header's length
    if (metadata_bytes_ <= kSafetensorsMaxMetadataBytes) return true;
    return Fail(Reason::kWeightsHeader,
                absl::StrCat("more than ", kSafetensorsMaxMetadataBytes, " bytes, the most read here"));
  }

  bool FinishMetadata() {
    std::sort(metadata_keys_.begin(), metadata_keys_.end());
    const auto twice = std::adjacent_find(metadata_keys_.begin(), metadata_keys_.end());
    if (twice == metadata_keys_.end()) return true;
    return Fail(Reason::kWeightsHeader, absl::StrCat("key ", QuotedName(*twice), " occurs more than once"));
  }

  bool FinishEntry() {
    for (const Field field : {kDType, kShape, kDataOffsets}) {
      if ((seen_ & field) == 0) {
        return Fail(Reason::kWeightsHeader, absl::StrCat("'", FieldName(field), "' is missing"));
      }
    }
    const auto what = [&] {
      return absl::StrCat("shape ", ShapeText(entry_.shape), " of ", SafetensorsSpelling(entry_.dtype));
    };
    const std::optional<uint64_t> elements = ElementsOf(entry_.shape);
    if (!elements.has_value()) {
      return Fail(Reason::kWeightsTensor, absl::StrCat(what(), " does not fit in 64 bits"));
    }
    const std::optional<uint64_t> bytes = BytesOf(entry_.dtype, *elements);
    if (!bytes.has_value()) {
      return Fail(Reason::kWeightsTensor,
                  absl::StrCat(what(), " is not a whole number of bytes or does not fit in 64 bits"));
    }
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    if (entry_.end < entry_.begin) {
      return Fail(Reason::kWeightsTensor, absl::StrCat("data_offsets ", ShapeText(offsets_), " end before they begin"));
    }
    if (entry_.end - entry_.begin != *bytes) {
      return Fail(Reason::kWeightsTensor,
                  absl::StrCat("data_offsets ", ShapeText(offsets_), " span ", entry_.end - entry_.begin,
                               " bytes, expected ", *bytes, " for ", what()));
    }
    entries_.push_back(std::move(entry_));
    return true;
  }

  Level level_ = Level::kDocument;
  bool in_metadata_ = false;  // the value of the outermost object being read is __metadata__
  TensorEntry entry_;
  std::vector<uint64_t> offsets_;
  unsigned seen_ = 0;  // fields of entry_
  Field field_ = kNoField;
  bool metadata_seen_ = false;
  uint64_t metadata_bytes_ = 0;
  std::vector<std::string> metadata_keys_;
  std::vector<TensorEntry> entries_;
};

// The tensors must tile the data exactly: no hole, no overlap, nothing behind the last one.
absl::Status CheckCoverage(absl::string_view file, absl::Span<const TensorEntry> entries, uint64_t data_start,
                           uint64_t file_size) {
  std::vector<uint32_t> order(entries.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::tie(entries[a].begin, entries[a].end, a) < std::tie(entries[b].begin, entries[b].end, b);
  });
  const uint64_t data_size = file_size - data_start;
  uint64_t expected = 0;
  const TensorEntry* previous = nullptr;
  for (const uint32_t i : order) {
    const TensorEntry& entry = entries[i];
    if (entry.begin != expected) {
      return Refuse(
          Reason::kWeightsTensor,
          absl::StrCat(file, ": tensor ", QuotedName(entry.name), ": data_offsets begin at ", entry.begin,
                       ", expected ", expected,
                       previous == nullptr ? "" : absl::StrCat(", where tensor ", QuotedName(previous->name), " ends"),
                       entry.begin < expected ? " (an overlap)" : " (a hole)"));
    }
    if (entry.end > data_size) {
      return Refuse(Reason::kWeightsTruncated, absl::StrCat(file, ": tensor ", QuotedName(entry.name), ": needs ",
                                                            entry.end, " bytes of data from byte ", data_start,
                                                            " on, but the file has ", file_size, " bytes"));
    }
    expected = entry.end;
    previous = &entry;
  }
  if (expected != data_size) {
    return Refuse(Reason::kWeightsHeader, absl::StrCat(file, ": the tensors end at byte ", data_start + expected,
                                                       ", but the file has ", file_size, " bytes"));
  }
  return absl::OkStatus();
}

absl::Span<std::byte> AsBytes(char* data, size_t size) {
  return absl::MakeSpan(reinterpret_cast<std::byte*>(data), size);
}

}  // namespace

absl::StatusOr<std::vector<TensorEntry>> ParseSafetensorsHeader(absl::string_view file, absl::string_view header,
                                                                uint64_t data_start, uint64_t file_size) {
  if (header.size() < kSmallestHeader || header.size() > kSafetensorsMaxHeaderBytes) {
    return Refuse(Reason::kWeightsHeader, absl::StrCat(file, ": the header has ", header.size(), " bytes, expected ",
                                                       kSmallestHeader, " to ", kSafetensorsMaxHeaderBytes));
  }
  if (data_start < header.size() || file_size < data_start) {
    return Refuse(Reason::kWeightsTruncated, absl::StrCat(file, ": the header ends at byte ", data_start,
                                                          ", but the file has ", file_size, " bytes"));
  }
  const uint64_t header_start = data_start - header.size();
  MESHSEAL_RETURN_IF_ERROR(CheckBeginsObject(Reason::kWeightsHeader, file, kHeader, header));
  // Only spaces may follow the closing brace. The parser itself would let other white space through.
  const absl::string_view json = header.substr(0, header.find_last_not_of(' ') + 1);
  if (json.back() != '}') {
    return Refuse(Reason::kWeightsHeader,
                  FormatText("%s: the header ends with byte 0x%02x, expected '}' and then only spaces", file,
                             static_cast<unsigned char>(json.back())));
  }

  HeaderJson handler(file, json, header_start);
  MESHSEAL_RETURN_IF_ERROR(handler.Parse());

  std::vector<TensorEntry> entries = handler.TakeEntries();
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(entries.begin(), entries.end(),
                                        [](const TensorEntry& a, const TensorEntry& b) { return a.name == b.name; });
  if (twice != entries.end()) {
    return Refuse(Reason::kWeightsHeader,
                  absl::StrCat(file, ": tensor ", QuotedName(twice->name), ": occurs more than once"));
  }
  MESHSEAL_RETURN_IF_ERROR(CheckCoverage(file, entries, data_start, file_size));
  for (TensorEntry& entry : entries) {  // cannot wrap: the sums are at most file_size
    entry.begin += data_start;
    entry.end += data_start;
  }
  return entries;
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::filesystem::path& path) {
  MESHSEAL_ASSIGN_OR_RETURN(RegularFile opened, RegularFile::Open(path));
  const std::string& file = opened.path();
  if (opened.size() < kLengthBytes + kSmallestHeader) {
    return Refuse(Reason::kWeightsTruncated,
                  absl::StrCat(file, ": the file has ", opened.size(), " bytes, expected at least ",
                               kLengthBytes + kSmallestHeader));
  }
  std::array<std::byte, kLengthBytes> start = {};
  MESHSEAL_RETURN_IF_ERROR(opened.Read(0, absl::MakeSpan(start)));
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | static_cast<uint8_t>(start[i]);
  if (length < kSmallestHeader || length > kSafetensorsMaxHeaderBytes) {
    return Refuse(Reason::kWeightsHeader, absl::StrCat(file, ": the header length is ", length, ", expected ",
                                                       kSmallestHeader, " to ", kSafetensorsMaxHeaderBytes));
  }
  const uint64_t data_start = kLengthBytes + length;
  if (data_start > opened.size()) {
    return Refuse(Reason::kWeightsTruncated, absl::StrCat(file, ": the header ends at byte ", data_start,
                                                          ", but the file has ", opened.size(), " bytes"));
  }
  std::string header(length, '\0');
  MESHSEAL_RETURN_IF_ERROR(opened.Read(kLengthBytes, AsBytes(header.data(), header.size())));
  MESHSEAL_ASSIGN_OR_RETURN(std::vector<TensorEntry> entries,
                            ParseSafetensorsHeader(file, header, data_start, opened.size()));
  return SafetensorsFile(std::move(opened), std::move(entries));
}

absl::StatusOr<const TensorEntry*> SafetensorsFile::Find(absl::string_view name) const {
  return FindTensor(file_.path(), entries_, name);
}

}  // namespace meshseal

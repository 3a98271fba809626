#include "schema/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <optional>
#include <system_error>
#include <tuple>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "schema/nearest.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal {
namespace {

constexpr absl::string_view kMetadataKey = "__metadata__";
constexpr uint64_t kLengthBytes = 8;     // the N before the header
constexpr uint64_t kSmallestHeader = 2;  // "{}"
constexpr absl::string_view kLfsPointer = "version https://git-lfs";

// A name as it may stand in a message: escaped, and cut when it is long.
std::string Quoted(absl::string_view text) {
  constexpr size_t kShown = 120;
  size_t shown = std::min(text.size(), kShown);
  while (shown < text.size() && (static_cast<unsigned char>(text[shown]) & 0xC0u) == 0x80u) --shown;
  return absl::StrCat("'", absl::Utf8SafeCEscape(text.substr(0, shown)), shown < text.size() ? "..." : "", "'");
}

std::string ShapeText(absl::Span<const uint64_t> shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

// Walks over the header and keeps count, because nlohmann's SAX events carry no position.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, uint64_t* count) : at_(at), count_(count) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  uint64_t* count_;
};

// Builds the entries from nlohmann's SAX events; `begin` and `end` are still relative to the data. The levels
// are the whole grammar, so nesting is bounded by them. A method that returns false ends the parse with
// status().
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderHandler(absl::string_view file, absl::string_view header, uint64_t header_start)
      : file_(file), header_(header), header_start_(header_start) {}

  uint64_t* consumed() { return &consumed_; }
  const absl::Status& status() const { return status_; }
  std::vector<TensorEntry> TakeEntries() { return std::move(entries_); }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool value) override { return Unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t) override { return Unexpected("a signed number"); }
  // Fractions, exponents and numbers above 2^64 arrive here.
  bool number_float(number_float_t, const string_t& text) override {
    return Unexpected(absl::StrCat("the number ", Quoted(text)));
  }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

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
    if (level_ != Level::kEntry || field_ != kDType) return Unexpected(absl::StrCat("the string ", Quoted(text)));
    if (IsRefusedSafetensorsSpelling(text)) {
      return Fail(Reason::kWeightsTensor, absl::StrCat("dtype ", Quoted(text), " is not supported by this version"));
    }
    const std::optional<DType> dtype = DTypeFromSafetensors(text);
    if (!dtype.has_value()) {
      return Fail(Reason::kWeightsHeader, absl::StrCat("dtype ", Quoted(text), " is not one of the format"));
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

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    constexpr uint64_t kShown = 24;
    const uint64_t first = consumed_ > kShown ? consumed_ - kShown : 0;
    const std::string before =
        absl::StrReplaceAll(absl::CEscape(header_.substr(first, consumed_ - first)), {{"\\\"", "\""}});
    status_ = Refuse(Reason::kWeightsHeader,
                     absl::StrCat(file_, ": the header is not strict UTF-8 JSON after '", before, "'", Near()));
    return false;
  }

 private:
  enum class Level { kDocument, kRoot, kEntry, kNumbers, kMetadata };
  enum Field : unsigned { kNoField = 0, kDType = 1, kShape = 2, kDataOffsets = 4, kAllFields = 7 };

  static absl::string_view FieldName(Field field) {
    return field == kDType ? "dtype" : field == kShape ? "shape" : "data_offsets";
  }

  std::string Near() const { return absl::StrCat(" (near byte ", header_start_ + consumed_, ")"); }

  std::string Where() const {
    if (level_ == Level::kDocument) return "the header";
    return in_metadata_ ? std::string(kMetadataKey) : absl::StrCat("tensor ", Quoted(entry_.name));
  }

  bool Fail(Reason reason, absl::string_view text) {
    status_ = Refuse(reason, absl::StrCat(file_, ": ", Where(), ": ", text, Near()));
    return false;
  }

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
                absl::StrCat(Quoted(metadata_keys_.back()), " is ", found, ", expected a string"));
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
                  absl::StrCat("unknown key ", Quoted(name), ", expected 'dtype', 'shape' and 'data_offsets'"));
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
    return Fail(Reason::kWeightsHeader, absl::StrCat("key ", Quoted(*twice), " occurs more than once"));
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

  const absl::string_view file_;
  const absl::string_view header_;
  const uint64_t header_start_;
  uint64_t consumed_ = 0;
  absl::Status status_;

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
          absl::StrCat(file, ": tensor ", Quoted(entry.name), ": data_offsets begin at ", entry.begin, ", expected ",
                       expected,
                       previous == nullptr ? "" : absl::StrCat(", where tensor ", Quoted(previous->name), " ends"),
                       entry.begin < expected ? " (an overlap)" : " (a hole)"));
    }
    if (entry.end > data_size) {
      return Refuse(Reason::kWeightsTruncated, absl::StrCat(file, ": tensor ", Quoted(entry.name), ": needs ",
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

absl::Status RefuseOpen(absl::string_view file, int error) {
  if (error == ELOOP) {
    return Refuse(Reason::kWeightsFile, absl::StrCat(file, ": is a symbolic link, expected a regular file"));
  }
  return Refuse(Reason::kWeightsFile,
                absl::StrCat(file, ": cannot be opened: ", std::generic_category().message(error)));
}

absl::Span<std::byte> AsBytes(char* data, size_t size) {
  return absl::MakeSpan(reinterpret_cast<std::byte*>(data), size);
}

absl::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a file";
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
  if (header.front() != '{') {
    return Refuse(Reason::kWeightsHeader, absl::StrFormat("%s: the header begins with byte 0x%02x, expected '{'", file,
                                                          static_cast<unsigned char>(header.front())));
  }
  // Only spaces may follow the closing brace. The parser itself would let other white space through, and it
  // takes a NUL for the end of its input.
  const absl::string_view json = header.substr(0, header.find_last_not_of(' ') + 1);
  if (json.back() != '}') {
    return Refuse(Reason::kWeightsHeader,
                  absl::StrFormat("%s: the header ends with byte 0x%02x, expected '}' and then only spaces", file,
                                  static_cast<unsigned char>(json.back())));
  }
  if (const size_t nul = json.find('\0'); nul != absl::string_view::npos) {
    return Refuse(Reason::kWeightsHeader, absl::StrCat(file, ": the header holds a NUL at byte ", header_start + nul));
  }

  HeaderHandler handler(file, json, header_start);
  const CountingIterator first(json.data(), handler.consumed());
  const CountingIterator last(json.data() + json.size(), handler.consumed());
  if (!nlohmann::json::sax_parse(first, last, &handler)) return handler.status();

  std::vector<TensorEntry> entries = handler.TakeEntries();
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(entries.begin(), entries.end(),
                                        [](const TensorEntry& a, const TensorEntry& b) { return a.name == b.name; });
  if (twice != entries.end()) {
    return Refuse(Reason::kWeightsHeader,
                  absl::StrCat(file, ": tensor ", Quoted(twice->name), ": occurs more than once"));
  }
  MESHSEAL_RETURN_IF_ERROR(CheckCoverage(file, entries, data_start, file_size));
  for (TensorEntry& entry : entries) {  // cannot wrap: the sums are at most file_size
    entry.begin += data_start;
    entry.end += data_start;
  }
  return entries;
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  SafetensorsFile opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), path.string());
  const std::string& file = opened.file_;
  if (opened.descriptor_ < 0) return RefuseOpen(file, errno);
  struct stat info = {};
  if (::fstat(opened.descriptor_, &info) != 0) return RefuseOpen(file, errno);
  if (!S_ISREG(info.st_mode)) {
    return Refuse(Reason::kWeightsFile, absl::StrCat(file, ": is ", KindOf(info.st_mode), ", expected a regular file"));
  }
  opened.size_ = static_cast<uint64_t>(info.st_size);

  std::array<char, kLfsPointer.size()> start = {};
  const size_t start_size = std::min<uint64_t>(start.size(), opened.size_);
  MESHSEAL_RETURN_IF_ERROR(opened.Read(0, AsBytes(start.data(), start_size)));
  if (absl::string_view(start.data(), start_size) == kLfsPointer) {
    return Refuse(Reason::kWeightsFile,
                  absl::StrCat(file, ": is a Git LFS pointer, expected the file itself (run 'git lfs pull')"));
  }
  if (opened.size_ < kLengthBytes + kSmallestHeader) {
    return Refuse(Reason::kWeightsTruncated,
                  absl::StrCat(file, ": the file has ", opened.size_, " bytes, expected at least ",
                               kLengthBytes + kSmallestHeader));
  }
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | static_cast<unsigned char>(start[i]);
  if (length < kSmallestHeader || length > kSafetensorsMaxHeaderBytes) {
    return Refuse(Reason::kWeightsHeader, absl::StrCat(file, ": the header length is ", length, ", expected ",
                                                       kSmallestHeader, " to ", kSafetensorsMaxHeaderBytes));
  }
  const uint64_t data_start = kLengthBytes + length;
  if (data_start > opened.size_) {
    return Refuse(Reason::kWeightsTruncated, absl::StrCat(file, ": the header ends at byte ", data_start,
                                                          ", but the file has ", opened.size_, " bytes"));
  }
  std::string header(length, '\0');
  MESHSEAL_RETURN_IF_ERROR(opened.Read(kLengthBytes, AsBytes(header.data(), header.size())));
  MESHSEAL_ASSIGN_OR_RETURN(opened.entries_, ParseSafetensorsHeader(file, header, data_start, opened.size_));
  return opened;
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      file_(std::move(other.file_)),
      size_(other.size_),
      entries_(std::move(other.entries_)) {}

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(file_, other.file_);
  std::swap(size_, other.size_);
  std::swap(entries_, other.entries_);
  return *this;
}

SafetensorsFile::~SafetensorsFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::StatusOr<const TensorEntry*> SafetensorsFile::Find(absl::string_view name) const {
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const TensorEntry& entry, absl::string_view wanted) { return entry.name < wanted; });
  if (at != entries_.end() && at->name == name) return &*at;
  std::vector<absl::string_view> names;
  names.reserve(entries_.size());
  for (const TensorEntry& entry : entries_) names.push_back(entry.name);
  const std::optional<absl::string_view> nearest = Nearest(name, names);
  return Refuse(Reason::kWeightsTensor,
                absl::StrCat(file_, ": tensor ", Quoted(name), ": not in the file",
                             nearest.has_value() ? absl::StrCat(", did you mean ", Quoted(*nearest), "?") : ""));
}

absl::Status SafetensorsFile::Read(uint64_t offset, absl::Span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    return Refuse(Reason::kWeightsTruncated, absl::StrCat(file_, ": ", out.size(), " bytes asked for at byte ", offset,
                                                          ", but the file has ", size_, " bytes"));
  }
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0) {
      if (errno == EINTR) continue;
      return Refuse(Reason::kWeightsFile, absl::StrCat(file_, ": cannot be read at byte ", offset + done, ": ",
                                                       std::generic_category().message(errno)));
    }
    if (got == 0) {
      return Refuse(Reason::kWeightsTruncated, absl::StrCat(file_, ": ends at byte ", offset + done, ", but had ",
                                                            size_, " bytes when it was opened"));
    }
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace meshseal

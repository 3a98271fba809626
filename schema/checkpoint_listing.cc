#include "schema/checkpoint_listing.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/folder_names.h"
#include "schema/format_text.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/safetensors.h"
#include "schema/safetensors_index.h"
#include "schema/status_macros.h"

namespace meshseal {
namespace {

constexpr absl::string_view kModelName = "model.safetensors";
constexpr absl::string_view kSafetensorsSuffix = ".safetensors";
constexpr absl::string_view kGgufSuffix = ".gguf";
constexpr absl::string_view kSplitNumber = "split.no";
constexpr absl::string_view kSplitCount = "split.count";
constexpr absl::string_view kSplitTensors = "split.tensors.count";

// PREFIX-00001-of-00002.gguf
struct SplitName {
  std::string prefix;
  uint64_t number = 0;  // from 1 on
  uint64_t count = 0;
};

std::optional<uint64_t> FiveDigits(absl::string_view text) {
  uint64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = 10 * number + static_cast<uint64_t>(c - '0');
  }
  return number;
}

// Nothing when `name` is not that of a part of a split set.
std::optional<SplitName> ParseSplitName(absl::string_view name) {
  constexpr absl::string_view kPattern = "-NNNNN-of-NNNNN.gguf";
  if (name.size() < kPattern.size()) return std::nullopt;
  const absl::string_view tail = name.substr(name.size() - kPattern.size());
  const std::optional<uint64_t> number = FiveDigits(tail.substr(1, 5));
  const std::optional<uint64_t> count = FiveDigits(tail.substr(10, 5));
  if (!number.has_value() || !count.has_value()) return std::nullopt;
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != kGgufSuffix) return std::nullopt;
  return SplitName{std::string(name.substr(0, name.size() - kPattern.size())), *number, *count};
}

absl::Status RefusePath(const std::filesystem::path& path, const std::error_code& error) {
  return Refuse(Reason::kWeightsFile, absl::StrCat(path.string(), ": cannot be opened: ", error.message()));
}

absl::Status RefuseFolder(const std::filesystem::path& folder, absl::Span<const std::string> found) {
  constexpr size_t kShown = 4;
  std::string text;
  for (size_t i = 0; i < std::min(found.size(), kShown); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", QuotedName(found[i]));
  }
  if (found.size() > kShown) absl::StrAppend(&text, " and ", found.size() - kShown, " more");
  return Refuse(Reason::kWeightsFile,
                absl::StrCat(folder.string(), ": holds ", found.empty() ? "no weights" : text,
                             ", expected exactly one of ", kModelName, ", ", kSafetensorsIndexName,
                             " with its shards, one .gguf file, one split set of .gguf files"));
}

// The names in `folder` that say what kind of checkpoint it is, sorted.
absl::StatusOr<std::vector<std::string>> WeightsNames(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  if (const int error = ListFolder(folder, SIZE_MAX - 1, &names); error != 0) {
    return RefusePath(folder, std::error_code(error, std::generic_category()));
  }
  const auto is_other = [](const std::string& name) {
    return !absl::EndsWith(name, kSafetensorsSuffix) && !absl::EndsWith(name, kGgufSuffix) &&
           name != kSafetensorsIndexName;
  };
  names.erase(std::remove_if(names.begin(), names.end(), is_other), names.end());
  std::sort(names.begin(), names.end());
  return names;
}

// Whether the names are those of parts of one split set; which of them are there is not looked at.
bool IsOneSplitSet(absl::Span<const std::string> names) {
  const std::optional<SplitName> first = ParseSplitName(names.front());
  return first.has_value() && std::all_of(names.begin(), names.end(), [&](const std::string& name) {
           const std::optional<SplitName> part = ParseSplitName(name);
           return part.has_value() && part->prefix == first->prefix && part->count == first->count;
         });
}

// The value of a key that every part of a split set has.
absl::StatusOr<uint64_t> SplitKey(const std::filesystem::path& path, const GgufMetadata& metadata,
                                  absl::string_view key, absl::string_view type) {
  const std::string found = metadata.TypeOf(key);
  if (found != type) {
    return Refuse(Reason::kWeightsHeader,
                  absl::StrCat(path.string(), ": key ", QuotedName(key), ": is ", found.empty() ? "missing" : found,
                               ", expected ", type, " in a part of a split set"));
  }
  MESHSEAL_ASSIGN_OR_RETURN(const std::optional<uint64_t> value, metadata.Unsigned(key));
  return *value;
}

absl::Status CheckSplitKey(const std::filesystem::path& path, const GgufMetadata& metadata, absl::string_view key,
                           uint64_t expected) {
  MESHSEAL_ASSIGN_OR_RETURN(const uint64_t value, SplitKey(path, metadata, key, "u16"));
  if (value == expected) return absl::OkStatus();
  return Refuse(Reason::kWeightsHeader, absl::StrCat(path.string(), ": key ", QuotedName(key), ": is ", value,
                                                     ", expected ", expected, " after the file's name"));
}

// Every tensor lies where the index says, and the index knows every tensor. Both are sorted by name.
absl::Status CompareWithIndex(const std::filesystem::path& path, const SafetensorsIndex& index,
                              absl::Span<const ListedTensor> tensors) {
  const std::filesystem::path folder = path.parent_path();
  size_t i = 0;
  for (const ListedTensor& tensor : tensors) {
    if (i == index.entries.size() || tensor.name < index.entries[i].name) {
      return Refuse(Reason::kWeightsTensor,
                    absl::StrCat((folder / index.files[tensor.file]).string(), ": tensor ", QuotedName(tensor.name),
                                 ": is not in ", kSafetensorsIndexName));
    }
    if (index.entries[i].name < tensor.name) break;
    if (index.entries[i].file != tensor.file) {
      return Refuse(Reason::kWeightsTensor,
                    absl::StrCat(path.string(), ": tensor ", QuotedName(tensor.name), ": is mapped to ",
                                 QuotedName(index.files[index.entries[i].file]), ", but lies in ",
                                 QuotedName(index.files[tensor.file])));
    }
    ++i;
  }
  if (i == index.entries.size()) return absl::OkStatus();
  return Refuse(Reason::kWeightsTensor,
                absl::StrCat(path.string(), ": tensor ", QuotedName(index.entries[i].name), ": is mapped to ",
                             QuotedName(index.files[index.entries[i].file]), ", which does not hold it"));
}

}  // namespace

absl::StatusOr<CheckpointListing> CheckpointListing::Open(const std::filesystem::path& path,
                                                          std::vector<RegularFile>* opened) {
  CheckpointListing listing(opened);
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::none || status.type() == std::filesystem::file_type::not_found) {
    return RefusePath(path, error ? error : std::make_error_code(std::errc::no_such_file_or_directory));
  }
  if (!std::filesystem::is_directory(status)) {
    const std::string name = path.filename().string();
    if (!absl::EndsWith(name, kGgufSuffix)) {
      return Refuse(Reason::kWeightsFile, absl::StrCat(path.string(), ": expected a folder or a .gguf file"));
    }
    MESHSEAL_RETURN_IF_ERROR(ParseSplitName(name).has_value() ? listing.ReadSplitSet(path) : listing.ReadGguf(path));
    listing.opened_ = nullptr;
    return listing;
  }

  MESHSEAL_ASSIGN_OR_RETURN(const std::vector<std::string> names, WeightsNames(path));
  const auto holds = [&](absl::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  std::vector<std::string> ggufs;
  std::copy_if(names.begin(), names.end(), std::back_inserter(ggufs),
               [](const std::string& name) { return absl::EndsWith(name, kGgufSuffix); });
  const bool whole = holds(kModelName);
  const bool shards = holds(kSafetensorsIndexName);
  if (whole + shards + !ggufs.empty() != 1) return RefuseFolder(path, names);
  if (whole) {
    MESHSEAL_RETURN_IF_ERROR(listing.ReadSafetensors(path / std::string(kModelName)));
  } else if (shards) {
    MESHSEAL_RETURN_IF_ERROR(listing.ReadShards(path / std::string(kSafetensorsIndexName)));
  } else if (IsOneSplitSet(ggufs)) {
    MESHSEAL_RETURN_IF_ERROR(listing.ReadSplitSet(path / ggufs.front()));
  } else if (ggufs.size() == 1) {
    MESHSEAL_RETURN_IF_ERROR(listing.ReadGguf(path / ggufs.front()));
  } else {
    return RefuseFolder(path, names);
  }
  listing.opened_ = nullptr;
  return listing;
}

const ListedTensor* CheckpointListing::Find(absl::string_view name) const {
  const auto at =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const ListedTensor& tensor, absl::string_view wanted) { return tensor.name < wanted; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

absl::Status CheckpointListing::ReadSafetensors(const std::filesystem::path& path) {
  source_ = WeightSource::kSafetensors;
  files_.push_back(path.filename().string());
  MESHSEAL_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(path));
  return Add(file.entries(), std::move(file).file());
}

absl::Status CheckpointListing::ReadShards(const std::filesystem::path& path) {
  MESHSEAL_ASSIGN_OR_RETURN(const SafetensorsIndex index, ReadSafetensorsIndex(path));
  const std::filesystem::path folder = path.parent_path();
  for (const std::string& name : index.files) MESHSEAL_RETURN_IF_ERROR(ReadSafetensors(folder / name));
  MESHSEAL_RETURN_IF_ERROR(Sort(folder));
  return CompareWithIndex(path, index, tensors_);
}

absl::Status CheckpointListing::ReadGguf(const std::filesystem::path& path) {
  source_ = WeightSource::kGguf;
  files_.push_back(path.filename().string());
  MESHSEAL_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(path));
  MESHSEAL_ASSIGN_OR_RETURN(const std::optional<uint64_t> count, file.metadata().Unsigned(kSplitCount));
  // A set that was merged again says 0.
  if (count.value_or(0) > 1) {
    return Refuse(Reason::kWeightsFile, absl::StrCat(path.string(), ": key ", QuotedName(kSplitCount), ": is ", *count,
                                                     ", but the file's name is not that of a part (NAME-00001-of-",
                                                     FormatText("%05d", *count), ".gguf)"));
  }
  metadata_ = file.metadata();
  return Add(file.entries(), std::move(file).file());
}

absl::Status CheckpointListing::ReadSplitSet(const std::filesystem::path& path) {
  source_ = WeightSource::kGguf;
  const SplitName part = *ParseSplitName(path.filename().string());
  if (part.count < 1 || part.count > kMaxShards || part.number < 1 || part.number > part.count) {
    return Refuse(Reason::kWeightsFile, absl::StrCat(path.string(), ": the name says part ", part.number, " of ",
                                                     part.count, ", expected parts 1 to at most ", kMaxShards));
  }
  const std::filesystem::path folder = path.parent_path();
  std::optional<uint64_t> total;
  for (uint64_t i = 0; i < part.count; ++i) {
    files_.push_back(FormatText("%s-%05d-of-%05d.gguf", part.prefix, i + 1, part.count));
    const std::filesystem::path sibling = folder / files_.back();
    MESHSEAL_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(sibling));
    const GgufMetadata& metadata = file.metadata();
    MESHSEAL_RETURN_IF_ERROR(CheckSplitKey(sibling, metadata, kSplitNumber, i));
    MESHSEAL_RETURN_IF_ERROR(CheckSplitKey(sibling, metadata, kSplitCount, part.count));
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t tensors, SplitKey(sibling, metadata, kSplitTensors, "i32"));
    if (!total.has_value()) {
      total = tensors;
      metadata_ = metadata;
    }
    if (tensors != *total) {
      return Refuse(Reason::kWeightsHeader,
                    absl::StrCat(sibling.string(), ": key ", QuotedName(kSplitTensors), ": is ", tensors, ", expected ",
                                 *total, " as in ", QuotedName(files_.front())));
    }
    MESHSEAL_RETURN_IF_ERROR(Add(file.entries(), std::move(file).file()));
  }
  MESHSEAL_RETURN_IF_ERROR(Sort(folder));
  if (tensors_.size() == *total) return absl::OkStatus();
  return Refuse(Reason::kWeightsHeader,
                absl::StrCat((folder / files_.front()).string(), ": key ", QuotedName(kSplitTensors), ": is ", *total,
                             ", but the ", part.count, " parts hold ", tensors_.size(), " tensors"));
}

absl::Status CheckpointListing::Add(absl::Span<const TensorEntry> entries, RegularFile file) {
  if (entries.size() > kMaxListedTensors - tensors_.size()) {
    return Refuse(Reason::kWeightsHeader,
                  absl::StrCat(file.path(), ": with this file the checkpoint has ", tensors_.size() + entries.size(),
                               " tensors, more than the ", kMaxListedTensors, " read here"));
  }
  const auto number = static_cast<uint32_t>(files_.size() - 1);
  for (const TensorEntry& entry : entries) {
    tensors_.push_back({entry.name, entry.dtype, entry.shape, entry.begin, entry.end - entry.begin, number});
  }
  if (opened_ != nullptr) opened_->push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status CheckpointListing::Sort(const std::filesystem::path& folder) {
  std::sort(tensors_.begin(), tensors_.end(), [](const ListedTensor& a, const ListedTensor& b) {
    return std::tie(a.name, a.file) < std::tie(b.name, b.file);
  });
  const auto twice = std::adjacent_find(tensors_.begin(), tensors_.end(),
                                        [](const ListedTensor& a, const ListedTensor& b) { return a.name == b.name; });
  if (twice == tensors_.end()) return absl::OkStatus();
  return Refuse(Reason::kWeightsTensor,
                absl::StrCat((folder / files_[twice->file]).string(), ": tensor ", QuotedName(twice->name),
                             ": lies in ", QuotedName(files_[(twice + 1)->file]), " too"));
}

}  // namespace meshseal

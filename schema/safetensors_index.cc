#include "schema/safetensors_index.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/regular_file.h"
#include "schema/safetensors.h"
#include "schema/status_macros.h"
#include "schema/strict_json.h"

namespace meshseal {
namespace {

constexpr absl::string_view kIndex = "the index";
constexpr absl::string_view kWeightMapKey = "weight_map";
constexpr absl::string_view kIndexMetadataKey = "metadata";
constexpr uint64_t kMaxDepth = 8;  // of objects and arrays

// Why `name` is not the name of a file in the index's folder; nothing when it is. A colon would name a drive elsewhere.
std::optional<absl::string_view> WhyNotAFileName(absl::string_view name) {
  if (name.empty()) return "is empty";
  if (name == "." || name == "..") return "is a folder";
  for (const char c : {'/', '\\', ':', '\0'}) {
    if (absl::StrContains(name, c)) return "holds '/', '\\', ':' or a NUL";
  }
  return std::nullopt;
}

class IndexJson : public StrictJson {
 public:
  IndexJson(absl::string_view file, absl::string_view json)
      : StrictJson(Reason::kWeightsHeader, file, kIndex, json, 0) {}

  bool has_weight_map() const { return has_weight_map_; }
  // In the order of the file, with `files` in that of their first use.
  SafetensorsIndex TakeIndex() { return {std::move(files_), std::move(entries_)}; }

  bool start_object(size_t) override {
    if (depth_ >= 2 && in_map_) return OtherValue("an object");
    if (depth_ >= 1 && !in_map_) metadata_keys_.emplace_back();
    return Descend();
  }
  bool end_object() override {
    --depth_;
    if (depth_ == 0 || in_map_) return true;
    std::vector<std::string>& keys = metadata_keys_.back();
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) return Fail(absl::StrCat("metadata: key ", QuotedName(*twice), " occurs more than once"));
    metadata_keys_.pop_back();
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ < 2 || in_map_) return OtherValue("an array");
    return Descend();
  }
  bool end_array() override {
    --depth_;
    return true;
  }

  bool key(string_t& name) override {
    if (depth_ == 1) return StartPart(name);
    if (in_map_) return StartEntry(std::move(name));
    metadata_keys_.back().push_back(std::move(name));
    return true;
  }

  bool string(string_t& text) override {
    if (depth_ >= 2 && in_map_) return FinishEntry(text);
    return OtherValue(absl::StrCat("the string ", QuotedName(text)));
  }

 private:
  bool Fail(absl::string_view text) { return Stop(Reason::kWeightsHeader, text); }

  // Everything is allowed inside `metadata`, and only there.
  bool OtherValue(absl::string_view found) override {
    if (depth_ == 1) {
      return Fail(absl::StrCat(in_map_ ? kWeightMapKey : kIndexMetadataKey, ": found ", found, ", expected an object"));
    }
    if (!in_map_) return true;
    return Fail(absl::StrCat(Where(), "is mapped to ", found, ", expected the name of a file"));
  }

  std::string Where() const { return absl::StrCat("tensor ", QuotedName(entries_.back().name), ": "); }

  bool Descend() {
    ++depth_;
    if (depth_ <= kMaxDepth) return true;
    return Fail(absl::StrCat("metadata: is nested deeper than ", kMaxDepth, " levels, the most read here"));
  }

  // A key of the outermost object.
  bool StartPart(absl::string_view name) {
    in_map_ = name == kWeightMapKey;
    if (!in_map_ && name != kIndexMetadataKey) {
      return Fail(absl::StrCat("unknown key ", QuotedName(name), ", expected 'metadata' and 'weight_map'"));
    }
    bool& seen = in_map_ ? has_weight_map_ : has_metadata_;
    if (seen) return Fail(absl::StrCat(name, ": occurs more than once"));
    seen = true;
    return true;
  }

  bool StartEntry(std::string name) {
    entries_.push_back({std::move(name), 0});
    const std::string& kept = entries_.back().name;
    if (kept.empty()) return Fail(absl::StrCat(Where(), "the name is empty"));
    if (absl::StrContains(kept, '\0')) return Fail(absl::StrCat(Where(), "the name holds a NUL"));
    if (entries_.size() <= kSafetensorsMaxTensors) return true;
    return Fail(absl::StrCat(Where(), "one more than ", kSafetensorsMaxTensors, " tensors, the most read here"));
  }

  bool FinishEntry(const std::string& file) {
    if (const std::optional<absl::string_view> why = WhyNotAFileName(file); why.has_value()) {
      return Fail(absl::StrCat(Where(), "is mapped to ", QuotedName(file), ", which ", *why,
                               ", expected the name of a file beside the index"));
    }
    const auto [at, is_new] = numbers_.emplace(file, static_cast<uint32_t>(files_.size()));
    if (is_new) files_.push_back(file);
    if (files_.size() > kMaxShards) {
      return Fail(absl::StrCat(Where(), "one more than ", kMaxShards, " files, the most read here"));
    }
    entries_.back().file = at->second;
    return true;
  }

  uint64_t depth_ = 0;   // of objects and arrays
  bool in_map_ = false;  // the outermost object's value being read is weight_map
  bool has_weight_map_ = false;
  bool has_metadata_ = false;
  std::vector<std::vector<std::string>> metadata_keys_;  // of the objects that are open
  std::vector<std::string> files_;
  std::map<std::string, uint32_t> numbers_;  // of files_
  std::vector<SafetensorsIndex::Entry> entries_;
};

// Sorts `index->files` and renumbers the entries.
void SortFiles(SafetensorsIndex* index) {
  std::vector<uint32_t> order(index->files.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return index->files[a] < index->files[b]; });
  std::vector<uint32_t> rank(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) rank[order[i]] = i;
  for (SafetensorsIndex::Entry& entry : index->entries) entry.file = rank[entry.file];
  std::sort(index->files.begin(), index->files.end());
}

}  // namespace

absl::StatusOr<SafetensorsIndex> ParseSafetensorsIndex(absl::string_view file, absl::string_view json) {
  MESHSEAL_RETURN_IF_ERROR(CheckBeginsObject(Reason::kWeightsHeader, file, kIndex, json));
  IndexJson handler(file, json);
  MESHSEAL_RETURN_IF_ERROR(handler.Parse());
  if (!handler.has_weight_map()) {
    return Refuse(Reason::kWeightsHeader, absl::StrCat(file, ": 'weight_map' is missing"));
  }
  SafetensorsIndex index = handler.TakeIndex();
  if (index.entries.empty()) {
    return Refuse(Reason::kWeightsHeader, absl::StrCat(file, ": weight_map: is empty, expected tensors"));
  }
  SortFiles(&index);
  std::sort(index.entries.begin(), index.entries.end(),
            [](const SafetensorsIndex::Entry& a, const SafetensorsIndex::Entry& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(
      index.entries.begin(), index.entries.end(),
      [](const SafetensorsIndex::Entry& a, const SafetensorsIndex::Entry& b) { return a.name == b.name; });
  if (twice != index.entries.end()) {
    return Refuse(Reason::kWeightsHeader,
                  absl::StrCat(file, ": weight_map: tensor ", QuotedName(twice->name), ": occurs more than once"));
  }
  return index;
}

absl::StatusOr<SafetensorsIndex> ReadSafetensorsIndex(const std::filesystem::path& path) {
  MESHSEAL_ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path));
  if (file.size() > kSafetensorsMaxIndexBytes) {
    return Refuse(Reason::kWeightsHeader,
                  absl::StrCat(file.path(), ": the index has ", file.size(), " bytes, more than the ",
                               kSafetensorsMaxIndexBytes, " read here"));
  }
  std::string json(static_cast<size_t>(file.size()), '\0');
  MESHSEAL_RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(reinterpret_cast<std::byte*>(json.data()), json.size())));
  return ParseSafetensorsIndex(file.path(), json);
}

}  // namespace meshseal

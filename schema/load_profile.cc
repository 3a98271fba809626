#include "schema/load_profile.h"

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/regular_file.h"
#include "schema/status_macros.h"
#include "schema/strict_json.h"

namespace meshseal {
namespace {

constexpr absl::string_view kProfile = "the load profile";
constexpr uint64_t kVersion = 1;

enum Part : size_t { kVersionPart, kPlanPart, kTokensPart, kLayersPart, kParts };
constexpr std::array<absl::string_view, kParts> kPartNames = {"version", "plan", "tokens", "layers"};

// The layer that a key names: decimal digits as we write them.
std::optional<uint32_t> LayerOf(absl::string_view key) {
  uint32_t layer = 0;
  if (!absl::SimpleAtoi(key, &layer) || layer >= kLoadProfileMaxLayers || absl::StrCat(layer) != key) {
    return std::nullopt;
  }
  return layer;
}

// The levels are the whole grammar, so nesting is bounded by them.
class ProfileJson : public StrictJson {
 public:
  ProfileJson(absl::string_view file, absl::string_view json)
      : StrictJson(Reason::kLoadProfile, file, kProfile, json, 0) {}

  bool has(size_t part) const { return seen_[part]; }
  LoadProfile TakeProfile() { return std::move(profile_); }

  bool number_unsigned(number_unsigned_t value) override {
    const bool in_range = value <= kLoadProfileMaxCount;
    if (level_ == Level::kParts && part_ == kVersionPart && value == kVersion) return true;
    if (level_ == Level::kParts && part_ == kTokensPart && in_range && value > 0) {
      profile_.tokens = value;
      return true;
    }
    if (level_ == Level::kCounts && in_range) {
      counts_->push_back(value);
      if (counts_->size() <= kLoadProfileMaxExperts) return true;
      return Fail(
          absl::StrCat("layer ", layer_, ": one more than ", kLoadProfileMaxExperts, " experts, the most read here"));
    }
    return OtherValue(absl::StrCat("the number ", value));
  }

  bool string(string_t& text) override {
    if (level_ == Level::kParts && part_ == kPlanPart) {
      if (const std::optional<Sha256Digest> plan = DigestFromHex(text); plan.has_value()) {
        profile_.plan = *plan;
        return true;
      }
    }
    return OtherValue(absl::StrCat("the string ", QuotedName(text)));
  }

  bool start_object(size_t) override {
    if (level_ == Level::kNothing) {
      level_ = Level::kParts;
    } else if (level_ == Level::kParts && part_ == kLayersPart) {
      level_ = Level::kLayers;
    } else {
      return OtherValue("an object");
    }
    return true;
  }
  bool end_object() override {
    level_ = level_ == Level::kLayers ? Level::kParts : Level::kNothing;
    return true;
  }
  bool start_array(size_t) override {
    if (level_ != Level::kLayers) return OtherValue("an array");
    level_ = Level::kCounts;
    return true;
  }
  bool end_array() override {
    level_ = Level::kLayers;
    return true;
  }

  bool key(string_t& name) override {
    if (level_ == Level::kLayers) return StartLayer(name);
    part_ = 0;
    while (part_ < kParts && kPartNames[part_] != name) ++part_;
    if (part_ == kParts) {
      return Fail(
          absl::StrCat("unknown key ", QuotedName(name), ", expected 'version', 'plan', 'tokens' and 'layers'"));
    }
    if (seen_[part_]) return Fail(absl::StrCat("'", name, "' occurs more than once"));
    seen_[part_] = true;
    return true;
  }

 private:
  enum class Level : uint8_t { kNothing, kParts, kLayers, kCounts };

  bool Fail(absl::string_view text) { return Stop(Reason::kLoadProfile, text); }

  bool OtherValue(absl::string_view found) override {
    return Fail(absl::StrCat(Where(), ": found ", found, ", expected ", Expected()));
  }

  std::string Where() const {
    if (level_ == Level::kParts) return std::string(kPartNames[part_]);
    if (level_ == Level::kLayers) return absl::StrCat("layer ", layer_);
    return absl::StrCat("layer ", layer_, ", expert ", counts_->size());
  }

  std::string Expected() const {
    if (level_ == Level::kCounts) return absl::StrCat("a whole number from 0 to ", kLoadProfileMaxCount);
    if (level_ == Level::kLayers) return "an array of counts";
    if (part_ == kVersionPart) return absl::StrCat("the number ", kVersion);
    if (part_ == kPlanPart) return "a plan's id, 64 lower-case hexadecimal digits";
    if (part_ == kTokensPart) return absl::StrCat("a whole number from 1 to ", kLoadProfileMaxCount);
    return "an object";
  }

  bool StartLayer(absl::string_view name) {
    const std::optional<uint32_t> layer = LayerOf(name);
    if (!layer.has_value()) {
      return Fail(absl::StrCat("layers: key ", QuotedName(name), ", expected a layer's number from 0 to ",
                               kLoadProfileMaxLayers - 1));
    }
    layer_ = *layer;
    const auto [at, is_new] = profile_.slots.try_emplace(layer_);
    if (!is_new) return Fail(absl::StrCat("layer ", layer_, ": occurs more than once"));
    counts_ = &at->second;
    return true;
  }

  Level level_ = Level::kNothing;  // whose entries are being read
  size_t part_ = 0;                // of the outermost object
  uint32_t layer_ = 0;
  std::vector<uint64_t>* counts_ = nullptr;  // of layer_
  std::array<bool, kParts> seen_{};
  LoadProfile profile_;
};

// RegularFile speaks of weights.
absl::Status AsLoadProfile(const absl::Status& status) { return Refuse(Reason::kLoadProfile, status.message()); }

}  // namespace

absl::StatusOr<LoadProfile> ParseLoadProfile(absl::string_view file, absl::string_view text) {
  MESHSEAL_RETURN_IF_ERROR(CheckBeginsObject(Reason::kLoadProfile, file, kProfile, text));
  ProfileJson handler(file, text);
  MESHSEAL_RETURN_IF_ERROR(handler.Parse());
  for (size_t part = 0; part < kParts; ++part) {
    if (handler.has(part)) continue;
    return Refuse(Reason::kLoadProfile, absl::StrCat(file, ": '", kPartNames[part], "' is missing"));
  }
  return handler.TakeProfile();
}

std::string LoadProfileText(const LoadProfile& profile) {
  std::string text = absl::StrCat("{\"version\": ", kVersion, ", \"plan\": \"", HexOf(profile.plan),
                                  "\", \"tokens\": ", profile.tokens, ", \"layers\": {");
  absl::string_view before = "\n";
  for (const auto& [layer, counts] : profile.slots) {
    absl::StrAppend(&text, before, "\"", layer, "\": [", absl::StrJoin(counts, ", "), "]");
    before = ",\n";
  }
  return absl::StrCat(text, "}}\n");
}

absl::StatusOr<LoadProfileFile> ReadLoadProfile(const std::filesystem::path& path) {
  const absl::StatusOr<RegularFile> file = RegularFile::Open(path);
  if (!file.ok()) return AsLoadProfile(file.status());
  if (file->size() > kLoadProfileMaxBytes) {
    return Refuse(Reason::kLoadProfile, absl::StrCat(file->path(), ": the load profile has ", file->size(),
                                                     " bytes, more than the ", kLoadProfileMaxBytes, " read here"));
  }
  std::string text(static_cast<size_t>(file->size()), '\0');
  const absl::Status read = file->Read(0, absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()), text.size()));
  if (!read.ok()) return AsLoadProfile(read);
  MESHSEAL_ASSIGN_OR_RETURN(LoadProfile profile, ParseLoadProfile(file->path(), text));
  return LoadProfileFile{std::move(profile), {path.filename().string(), Sha256(text)}};
}

}  // namespace meshseal

// MoE blocks of every family, against what other people's code made of the same weights (tests/data/oracles): imported,
// compiled, sealed, opened and run on every world.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/import/import_model.h"
#include "compiler/text/render.h"
#include "compiler/text/source.h"
#include "schema/safetensors.h"
#include "tests/oracle/deployed_model.h"
#include "tests/runtime/oracle.h"
#include "tests/runtime/recorded_model.h"
#include "tests/support/sanitized.h"

namespace meshseal::oracle {
namespace {

namespace fs = std::filesystem;
using runtime::Recorded;
using support::RelativeDifference;

constexpr size_t kFamilies = 21;
constexpr uint32_t kTokens = 13;
constexpr double kOutputBound = 2e-6;
constexpr double kWeightBound = 1e-6;

std::vector<World> Worlds() {
  if (support::kSanitized) return {{2, 2}};
  return {{1, 1}, {1, 2}, {1, 4}, {2, 1}, {2, 2}};
}

std::vector<fs::path> FamilyFolders() {
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(MESHSEAL_TEST_DATA "/oracles")) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

// One layer's recording.
struct Recording {
  uint32_t layer = 0;
  std::vector<float> hidden_in;
  std::vector<float> hidden_out;
  std::vector<float> router_logits;
  std::vector<int32_t> experts;
  std::vector<float> weights;
  std::vector<int32_t> token_ids;  // empty where the family has no token table
};

std::vector<Recording> RecordingsOf(const fs::path& folder) {
  std::vector<Recording> recordings;
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(folder / "recorded.safetensors");
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return {};
  for (const TensorEntry& entry : file->entries()) {
    absl::string_view layer = entry.name;
    if (!absl::ConsumePrefix(&layer, "layer.") || !absl::ConsumeSuffix(&layer, ".hidden_in")) continue;
    const std::string prefix = absl::StrCat("layer.", std::string(layer), ".");
    Recording recording;
    EXPECT_TRUE(absl::SimpleAtoi(layer, &recording.layer)) << entry.name;
    recording.hidden_in = Recorded<float>(*file, prefix + "hidden_in");
    recording.hidden_out = Recorded<float>(*file, prefix + "hidden_out");
    recording.router_logits = Recorded<float>(*file, prefix + "router_logits");
    recording.experts = Recorded<int32_t>(*file, prefix + "expert_ids");
    recording.weights = Recorded<float>(*file, prefix + "expert_weights");
    if (file->Find("token_ids").ok()) recording.token_ids = Recorded<int32_t>(*file, "token_ids");
    recordings.push_back(std::move(recording));
  }
  return recordings;
}

// Rows with two equal logits, whose selection may depend on the order in which they are looked at.
size_t TiedRows(const Recording& recording) {
  const size_t experts = recording.router_logits.size() / kTokens;
  size_t tied = 0;
  for (size_t row = 0; row < kTokens; ++row) {
    const auto begin = recording.router_logits.begin() + static_cast<ptrdiff_t>(row * experts);
    if (std::set<float>(begin, begin + static_cast<ptrdiff_t>(experts)).size() < experts) ++tied;
  }
  return tied;
}

// The worst difference of the outputs; the rest is checked.
double RunFamily(const fs::path& folder, const std::vector<Recording>& recordings, World world) {
  const absl::StatusOr<std::unique_ptr<runtime::Session>> session =
      OpenModel(folder / "model.yaml", folder, world, kTokens);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return INFINITY;
  double worst = 0;
  for (const Recording& recording : recordings) {
    for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
      SCOPED_TRACE(absl::StrCat(WordOf(phase), ", layer ", recording.layer));
      const Output output = RunLayer(**session, recording.layer, phase, recording.hidden_in, recording.token_ids);
      EXPECT_EQ(output.experts, recording.experts);
      EXPECT_LE(RelativeDifference(output.weights, recording.weights), kWeightBound);
      const double difference = RelativeDifference(output.hidden, recording.hidden_out);
      EXPECT_LE(difference, kOutputBound);
      worst = std::max(worst, difference);
    }
  }
  return worst;
}

TEST(Families, GiveWhatTheirOwnClassesComputed) {
  size_t runs = 0;
  size_t layers = 0;
  for (const fs::path& folder : FamilyFolders()) {
    const std::string family = folder.filename().string();
    const std::vector<Recording> recordings = RecordingsOf(folder);
    ASSERT_FALSE(recordings.empty()) << family;
    for (const Recording& recording : recordings) {
      ASSERT_EQ(recording.router_logits.size() % kTokens, 0u) << family;
      ASSERT_EQ(TiedRows(recording), 0u) << family;
    }
    layers += recordings.size();
    for (const World world : Worlds()) {
      SCOPED_TRACE(absl::StrCat(family, ", ", TextOf(world)));
      const double worst = RunFamily(folder, recordings, world);
      std::printf("%-17s %s  %.1e\n", family.c_str(), TextOf(world).c_str(), worst);
      ++runs;
    }
  }
  EXPECT_EQ(runs, kFamilies * Worlds().size());
  EXPECT_EQ(layers, kFamilies + 3);  // deepseek-v4, jamba and mixtral have two
}

// Exact sums: the bits of a family's outputs, of all layers and phases.
std::vector<uint32_t> ExactBits(const fs::path& folder, const std::vector<Recording>& recordings, World world) {
  // Segments of which each world's ranks have whole ones.
  const bool shared = absl::StrContains((*compiler::SourceFile::Read((folder / "model.yaml").string()))->text(),
                                        "\n  shared_expert: {");
  const absl::StatusOr<std::unique_ptr<runtime::Session>> session =
      OpenModel(folder / "model.yaml", folder, world, kTokens,
                absl::StrCat("{exact: {bound: 1024, segments: 2", shared ? ", shared_segments: 4" : "", "}}"));
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  std::vector<uint32_t> bits;
  for (const Recording& recording : recordings) {
    std::vector<uint32_t> decoded;
    for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
      SCOPED_TRACE(absl::StrCat(WordOf(phase), ", layer ", recording.layer));
      const Output output = RunLayer(**session, recording.layer, phase, recording.hidden_in, recording.token_ids);
      EXPECT_EQ(output.experts, recording.experts);
      EXPECT_LE(RelativeDifference(output.hidden, recording.hidden_out), kOutputBound);
      std::vector<uint32_t> of_phase;
      for (const float value : output.hidden) of_phase.push_back(std::bit_cast<uint32_t>(value));
      if (phase == Phase::kDecode) decoded = of_phase;
      EXPECT_TRUE(of_phase == decoded) << "another phase, other bits";
      bits.insert(bits.end(), of_phase.begin(), of_phase.end());
    }
  }
  return bits;
}

TEST(Families, ExactSumsHaveTheSameBitsOnEveryWorld) {
  const std::vector<World> worlds =
      support::kSanitized ? std::vector<World>{{1, 1}, {2, 2}} : std::vector<World>{{1, 1}, {1, 4}, {2, 1}, {2, 2}};
  for (const fs::path& folder : FamilyFolders()) {
    const std::string family = folder.filename().string();
    // A sanitizer takes its time: one with a shared expert, one with down biases.
    if (support::kSanitized && family != "deepseek-v3" && family != "gpt-oss") continue;
    const std::vector<Recording> recordings = RecordingsOf(folder);
    std::vector<uint32_t> first;
    for (const World world : worlds) {
      SCOPED_TRACE(absl::StrCat(family, ", ", TextOf(world)));
      const std::vector<uint32_t> bits = ExactBits(folder, recordings, world);
      ASSERT_FALSE(bits.empty());
      if (first.empty()) first = bits;
      EXPECT_TRUE(bits == first);
    }
  }
}

std::string WithoutFirstLine(absl::string_view text) { return std::string(text.substr(text.find('\n') + 1)); }

TEST(Families, ImportWritesTheManifestThatWasChecked) {
  size_t imported = 0;
  for (const fs::path& folder : FamilyFolders()) {
    const std::string family = folder.filename().string();
    if (family == "nemotron-h") continue;  // import does not know it: written by hand
    SCOPED_TRACE(family);
    const absl::StatusOr<compiler::ImportResult> result = compiler::ImportHf(folder.string(), /*config_only=*/false);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->diagnostics.ok()) << compiler::RenderText(result->diagnostics);
    const auto committed = compiler::SourceFile::Read((folder / "model.yaml").string());
    ASSERT_TRUE(committed.ok()) << committed.status();
    // The first line has the version of the program.
    EXPECT_TRUE(absl::StartsWith(result->text, absl::StrCat("# Imported from ", family, " by meshseal ")));
    EXPECT_EQ(WithoutFirstLine(result->text), WithoutFirstLine((*committed)->text()));
    ++imported;
  }
  EXPECT_EQ(imported, kFamilies - 1);
}

}  // namespace
}  // namespace meshseal::oracle

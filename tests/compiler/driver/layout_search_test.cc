// The search over all layouts, and the price that ranks them.
#include "compiler/driver/layout_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/check/checked_model.h"
#include "compiler/manifest/read_manifest.h"
#include "compiler/yaml/yaml.h"

namespace meshseal::compiler {
namespace {

// Qwen3-30B-A3B on one node of `cards` H200.
class LayoutSearchTest : public testing::Test {
 protected:
  LayoutSearch Search(Inputs inputs) {
    const std::optional<CheckedDocuments> documents = CheckDocuments(std::move(inputs), diagnostics_);
    EXPECT_TRUE(diagnostics_.ok());
    return FindLayouts(*documents);
  }

  Inputs OnCards(int cards, const std::string& edit_from = "", const std::string& edit_to = "") {
    Inputs inputs;
    inputs.model = *ReadManifest(*Open("models/qwen3-30b-a3b"), *tree_, diagnostics_);
    inputs.mesh = *ReadMesh(*Open("meshes/h200-1x8", "count: 8", absl::StrCat("count: ", cards)), *tree_, diagnostics_);
    inputs.deployment =
        *ReadDeployment(*Open("deployments/qwen3-30b-a3b-ep4-tp2", edit_from, edit_to), *tree_, diagnostics_);
    EXPECT_TRUE(diagnostics_.ok());
    return inputs;
  }

  static const Layout* Find(const LayoutSearch& search, const Degrees& degrees) {
    for (const Layout& layout : search.layouts) {
      if (layout.degrees == degrees) return &layout;
    }
    return nullptr;
  }

 private:
  const SourceFile* Open(const std::string& name, const std::string& from = "", const std::string& to = "") {
    std::string text = SourceFile::Read(absl::StrCat(MESHSEAL_MANIFESTS, "/", name, ".yaml")).value()->text();
    if (!from.empty() && absl::StrReplaceAll({{from, to}}, &text) == 0)
      ADD_FAILURE() << "no '" << from << "' in " << name;
    files_.push_back(SourceFile::FromText(name, text).value());
    tree_ = ReadYaml(*files_.back(), diagnostics_);
    return files_.back().get();
  }

  Diagnostics diagnostics_;
  std::vector<std::unique_ptr<const SourceFile>> files_;
  std::optional<YamlNode> tree_;
};

TEST_F(LayoutSearchTest, DocumentsThatBreakTheirOwnRulesAreNotSearched) {
  const auto rules_of = [](Inputs inputs) {
    Diagnostics diagnostics;
    EXPECT_FALSE(CheckDocuments(std::move(inputs), diagnostics).has_value());
    std::vector<std::string> rules;
    for (const Diagnostic* error : diagnostics.Sorted()) rules.push_back(error->rule);
    return rules;
  };
  Inputs inputs = OnCards(8);
  inputs.mesh.device_kinds.front().memory.value = 0;
  EXPECT_EQ(rules_of(inputs), std::vector<std::string>{"memory-is-usable"});
  inputs = OnCards(8);
  inputs.model.groups.front().moe.experts_per_token.value = 129;
  EXPECT_EQ(rules_of(inputs), std::vector<std::string>{"topk-within-experts"});
}

TEST_F(LayoutSearchTest, AllDegreesAreTriedOnce) {
  const LayoutSearch search = Search(OnCards(8));
  EXPECT_EQ(search.layouts.size(), 20u);  // 8 = 2^3 over four degrees
  for (const Layout& layout : search.layouts) {
    EXPECT_EQ(uint64_t{layout.degrees.dp} * layout.degrees.pp * layout.degrees.tp * layout.degrees.ep, 8u);
    EXPECT_EQ(layout.idle, 0u);
  }
}

TEST_F(LayoutSearchTest, LegalOnesComeFirstByDecodeTime) {
  const LayoutSearch search = Search(OnCards(6));
  bool refused = false;
  uint64_t last = 0;
  for (const Layout& layout : search.layouts) {
    if (!layout.refused_by.empty()) {
      refused = true;
      continue;
    }
    EXPECT_FALSE(refused);
    EXPECT_GE(layout.price->decode.nanoseconds, last);
    last = layout.price->decode.nanoseconds;
    EXPECT_LE(layout.largest_rank, layout.budget);
  }
  EXPECT_TRUE(refused);  // ep 3 and 6 do not divide 128 experts
  const Layout* six = Find(search, {1, 1, 1, 6, 6});
  ASSERT_NE(six, nullptr);
  EXPECT_EQ(six->refused_by,
            (std::vector<std::string>{"ep-divides-experts", "heads-fit-dense-tp", "kv-heads-fit-dense-tp"}));
}

TEST_F(LayoutSearchTest, CardsStayIdleWhereNoLayoutTakesAllOfThem) {
  // 7 divides nothing of the model, and stages that are listed fix pp: with 6 cards pp is 2 at dp 3.
  const LayoutSearch search = Search(OnCards(7, "stages: balanced", "stages: [24, 24]"));
  EXPECT_EQ(search.layouts.front().idle, 1u);
  EXPECT_TRUE(search.layouts.front().refused_by.empty());
  EXPECT_EQ(search.layouts.front().degrees.pp, 2u);
  const std::string text = LayoutText(search, 1, true);
  EXPECT_TRUE(absl::StrContains(text, "refused: stages-cover-layers")) << text;
}

TEST_F(LayoutSearchTest, TheDecodePriceIsTheSumOfItsParts) {
  const LayoutSearch search = Search(OnCards(8));
  const Layout* ep8 = Find(search, {1, 1, 1, 8, 8});
  ASSERT_NE(ep8, nullptr);
  const StepPrice& decode = ep8->price->decode;
  // 48 layers: a router of 128 x 2048, and of 16 experts of 3 x 768 x 2048 those that 64 tokens select; bf16.
  const double active = 16 * (1 - std::pow(1 - 8.0 / 128, 64));
  // 4 KV heads on 8 ranks: each holds the K and V matrices of a whole head, not of half of one.
  const double other = 2915.0 * 1024 * 1024 / 8 + 48 * 2 * 128 * 2048 * 2.0 / 2;
  const double bytes = 48 * (128.0 * 2048 * 2 + active * 3 * 768 * 2048 * 2) + other;
  EXPECT_NEAR(static_cast<double>(decode.weight_bytes) / bytes, 1, 1e-6);
  // Gathering would bring each of 8 ranks 3.5 MiB, so slices are exchanged and their sums gathered: 2 x 7/8 of 64 rows.
  // Attention is summed in a ring, in bf16, which brings as many rows.
  const double exchanged = 48 * 2 * 7.0 / 8 * (64.0 * 2048 * 4 + 64);
  const double summed = 48 * 2 * 7.0 / 8 * 64 * 2048 * 2;
  EXPECT_NEAR(static_cast<double>(decode.link_bytes) / (exchanged + summed), 1, 1e-6);
  EXPECT_EQ(decode.between_bytes, 0u);
  EXPECT_EQ(decode.messages, 48u * 4);
  const double seconds = bytes / 4800e9 + (exchanged + summed) / 450e9 + 48 * 4 * 3e-6;
  EXPECT_NEAR(static_cast<double>(decode.nanoseconds) * 1e-9 / seconds, 1, 1e-6);
}

TEST_F(LayoutSearchTest, AMeshWithoutRatesIsNotPriced) {
  Inputs inputs = OnCards(8);
  inputs.mesh.device_kinds.front().bandwidth.reset();
  const LayoutSearch search = Search(inputs);
  EXPECT_EQ(search.unpriced, "device kind 'h200' does not state its bandwidth");
  EXPECT_FALSE(search.layouts.front().price.has_value());
  EXPECT_TRUE(search.layouts.front().refused_by.empty());
}

}  // namespace
}  // namespace meshseal::compiler

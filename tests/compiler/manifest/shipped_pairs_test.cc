// Every shipped document, and every shipped model on every shipped mesh: what fits passes, and what does not is refused
// for exactly the reasons in a table that a person can work out from the documents.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/driver/compile.h"
#include "compiler/text/render.h"

namespace meshseal::compiler {
namespace {

namespace fs = std::filesystem;

// The columns of the table, with the devices to be filled.
struct MeshColumn {
  const char* name;
  uint64_t devices;
};
constexpr MeshColumn kMeshes[] = {{"host-1", 1},   {"host-2", 2},      {"host-3", 3},      {"host-4", 4},
                                  {"host-8", 8},   {"dgx-spark-2", 2}, {"dgx-spark-4", 4}, {"mixed-24-8", 2},
                                  {"h100-3", 3},   {"h100-5", 5},      {"a100-1x8", 8},    {"h100-1x8", 8},
                                  {"h200-1x8", 8}, {"h100-4x8", 32},   {"h200-4x8", 32},   {"gb200-nvl72", 72}};

// A cell is a dot where the pair passes with tp 1, ep and dense tp as many as the mesh has devices, and otherwise the
// letters of all that is wrong. Memory is only counted where nothing else is.
struct Letter {
  char letter;
  const char* rule;
};
constexpr Letter kLetters[] = {
    {'e', "ep-divides-experts"},     // the devices do not divide the experts
    {'h', "heads-fit-dense-tp"},     // nor the attention heads
    {'k', "kv-heads-fit-dense-tp"},  // nor the KV heads
    {'b', "cuts-keep-blocks"},       // nor the shared expert's columns, or its blocks of 128 where it is in FP8
    {'m', "memory-fits"},            // a device's part is larger than its memory
};

// clang-format off
constexpr absl::string_view kTable =
R"(
model                   host  host  host  host  host  spark spark mixed h100  h100  a100  h100  h200  h100  h200  gb200
                        1     2     3     4     8     2     4     24-8  3     5     1x8   1x8   1x8   4x8   4x8   nvl72
deepseek-r1             m     m     ehkb  m     m     m     m     m     ehkb  ehkb  m     m     .     b     b     ehkb
deepseek-v2-lite        m     m     ehkb  m     m     .     .     m     ehkb  ehkb  .     .     .     hk    hk    ehkb
deepseek-v3             m     m     ehkb  m     m     m     m     m     ehkb  ehkb  m     m     .     b     b     ehkb
deepseek-v4-flash       m     m     eb    m     m     .     .     m     eb    eb    .     .     .     b     b     eb
glm-4.5                 m     m     ek    m     m     m     m     m     ek    hkb   m     m     .     k     k     ehkb
glm-4.5-air             m     m     ekb   m     m     .     .     m     ekb   ehkb  .     .     .     k     k     ehkb
glm-5                   m     m     ehkb  m     m     m     m     m     ehkb  ehkb  m     m     m     .     .     ehkb
glm-5.2                 m     m     ehkb  m     m     m     m     m     ehkb  ehkb  m     m     m     .     .     ehkb
gpt-oss-120b            m     m     ehk   m     m     .     .     m     ehk   ehk   .     .     .     k     k     ehk
gpt-oss-20b             m     m     ehk   m     .     .     .     .     ehk   ehk   .     .     .     k     k     ehk
granite-3.1-3b-a800m    m     m     ek    m     .     .     .     .     ek    hk    .     .     .     ehk   ehk   ehk
granite-3.x-1b-a400m    m     m     ehk   m     .     .     .     .     ehk   ehk   .     .     .     hk    hk    ehk
kimi-k2                 m     m     hkb   m     m     m     m     m     hkb   ehkb  m     m     .     b     b     ehkb
llama-4-maverick        m     m     ehkb  m     m     m     m     m     ehkb  ekb   m     m     .     hk    hk    ehkb
llama-4-scout           m     m     ehkb  m     m     .     .     m     ehkb  ekb   .     .     .     ehk   ehk   ehkb
minimax-m2              m     m     ek    m     m     .     .     m     ek    ehk   .     .     .     hk    hk    ehk
mixtral-8x22b           m     m     ek    m     m     m     .     m     ek    ehk   .     .     .     ehk   ehk   ehk
mixtral-8x7b            m     m     ehk   m     m     .     .     m     ehk   ehk   .     .     .     ek    ek    ehk
olmoe-1b-7b             m     m     ehk   m     .     .     .     .     ehk   ehk   .     .     .     hk    hk    ehk
phi-3.5-moe             m     m     ehk   m     m     .     .     m     ehk   ehk   .     .     .     ek    ek    ehk
qwen1.5-moe-a2.7b       m     m     hkb   m     e     .     .     m     hkb   hkb   e     e     e     ehk   ehk   ehkb
qwen2-57b-a14b          m     m     ehkb  m     hk    .     .     m     ehkb  ehk   hk    hk    hk    hk    hk    ehkb
qwen3-235b-a22b         m     m     ehk   m     k     m     .     m     ehk   ehk   k     k     k     k     k     ehk
qwen3-235b-a22b-nvfp4   m     m     ehk   m     k     .     .     m     ehk   ehk   k     k     k     k     k     ehk
qwen3-30b-a3b           m     m     ehk   m     k     .     .     m     ehk   ehk   k     k     k     k     k     ehk
qwen3-30b-a3b-fp8       m     m     ehk   m     k     .     .     m     ehk   ehk   k     k     k     k     k     ehk
qwen3-30b-a3b-q4-k      m     m     ehk   m     k     .     .     m     ehk   ehk   k     k     k     k     k     ehk
qwen3-next-80b-a3b      m     m     eb    m     m     .     .     m     eb    eb    .     .     .     .     .     eb
qwen3.5-35b-a3b         m     m     eb    m     m     .     .     m     eb    eb    .     .     .     .     .     eb
qwen3.5-397b-a17b       m     m     eb    m     m     m     m     m     eb    eb    m     m     .     .     .     eb
qwen3.6-35b-a3b         m     m     eb    m     m     .     .     m     eb    eb    .     .     .     .     .     eb
tiny-qwen3-moe          .     .     e     .     .     .     .     .     e     e     .     .     .     e     e     e
)";
// clang-format on

// The rules of each model's cells, in the order of kMeshes.
std::map<std::string, std::vector<std::set<std::string>>> ReadTable() {
  std::map<std::string, std::vector<std::set<std::string>>> table;
  const std::vector<std::string> lines = absl::StrSplit(kTable, '\n', absl::SkipEmpty());
  for (size_t i = 2; i < lines.size(); ++i) {  // after the two lines of headings
    const std::vector<std::string> words = absl::StrSplit(lines[i], ' ', absl::SkipEmpty());
    std::vector<std::set<std::string>>& cells = table[words.front()];
    for (size_t cell = 1; cell < words.size(); ++cell) {
      cells.emplace_back();
      for (const Letter& letter : kLetters) {
        if (absl::StrContains(words[cell], letter.letter)) cells.back().insert(letter.rule);
      }
      EXPECT_EQ(cells.back().size(), words[cell] == "." ? 0 : words[cell].size()) << lines[i];
    }
  }
  return table;
}

std::vector<std::string> Shipped(const std::string& kind) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(MESHSEAL_MANIFESTS) / kind)) {
    EXPECT_EQ(entry.path().extension(), ".yaml") << entry.path();
    names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string PathOf(const std::string& kind, const std::string& name) {
  return (fs::path(MESHSEAL_MANIFESTS) / kind / absl::StrCat(name, ".yaml")).string();
}

// A deployment that asks for next to nothing but the weights.
std::string WriteNeutral(const fs::path& folder, bool shared_expert) {
  constexpr absl::string_view kNeutral = R"(meshseal: 1
deployment:
  model: given-by-flag.yaml
  mesh: given-by-flag.yaml
  parallel: {dp: 1, pp: 1, tp: 1, ep: 1, dense: {tp: 1}}
  placement: {experts: contiguous, uneven: refuse}
  stages: balanced
  limits: {decode_tokens: 1, decode_buckets: [1], prefill_tokens: 1, prefill_chunk: 1, sessions: 1, per_session: 0B}
  headroom: 0B
  reduction: ordered
  activation_basis: {gate_up: bf16, down: bf16}
  output_dtype: bf16
  failure_scope: world
)";
  const fs::path path = folder / (shared_expert ? "shared.yaml" : "plain.yaml");
  std::ofstream(path, std::ios::binary) << kNeutral << (shared_expert ? "  shared_expert: split\n" : "");
  return path.string();
}

bool HasSharedExpert(const std::string& model) {
  std::ifstream in(PathOf("models", model), std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    if (absl::StartsWith(line, "  shared_expert: ")) return line != "  shared_expert: none";
  }
  ADD_FAILURE() << model << " does not say whether it has a shared expert";
  return false;
}

std::string CellText(const std::set<std::string>& rules) {
  std::string text;
  std::set<std::string> left = rules;
  for (const Letter& letter : kLetters) {
    if (left.erase(letter.rule) > 0) text += letter.letter;
  }
  for (const std::string& rule : left) absl::StrAppend(&text, "[", rule, "]");
  return text.empty() ? "." : text;
}

class ShippedPairsTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / "shipped_pairs_test";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

TEST(ShippedDocumentsTest, EachPassesAlone) {
  size_t count = 0;
  for (const char* kind : {"models", "meshes", "deployments"}) {
    for (const std::string& name : Shipped(kind)) {
      const absl::StatusOr<CompileResult> result = CheckDocument(PathOf(kind, name));
      ASSERT_TRUE(result.ok()) << kind << "/" << name << ": " << result.status();
      EXPECT_TRUE(result->diagnostics.ok()) << RenderText(result->diagnostics);
      ++count;
    }
  }
  EXPECT_GE(count, 70u);
}

TEST(ShippedDocumentsTest, EachIsNamedAsItsFile) {
  for (const auto& [kind, key] : std::map<std::string, std::string>{{"models", "model"}, {"meshes", "mesh"}}) {
    for (const std::string& name : Shipped(kind)) {
      std::ifstream in(PathOf(kind, name), std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      EXPECT_TRUE(absl::StrContains(text, absl::StrCat("\n", key, ":\n  name: ", name, "\n"))) << kind << "/" << name;
    }
  }
}

TEST_F(ShippedPairsTest, EveryModelOnEveryMeshIsJudgedAsTheTableSays) {
  const auto table = ReadTable();
  std::vector<std::string> models;
  for (const auto& [model, cells] : table) models.push_back(model);
  ASSERT_EQ(models, Shipped("models"));
  std::vector<std::string> meshes;
  for (const MeshColumn& mesh : kMeshes) meshes.emplace_back(mesh.name);
  std::sort(meshes.begin(), meshes.end());
  ASSERT_EQ(meshes, Shipped("meshes"));

  const std::string plain = WriteNeutral(folder_, false);
  const std::string shared = WriteNeutral(folder_, true);
  for (const auto& [model, cells] : table) {
    ASSERT_EQ(cells.size(), std::size(kMeshes)) << model;
    for (size_t column = 0; column < cells.size(); ++column) {
      const MeshColumn& mesh = kMeshes[column];
      CompileRequest request;
      request.deployment = HasSharedExpert(model) ? shared : plain;
      request.model = PathOf("models", model);
      request.mesh = PathOf("meshes", mesh.name);
      request.overrides = {{"ep", std::to_string(mesh.devices)}, {"dense-tp", std::to_string(mesh.devices)}};
      request.stop_after = Stage::kBudget;
      const absl::StatusOr<CompileResult> result = Compile(request);
      ASSERT_TRUE(result.ok()) << result.status();
      std::set<std::string> rules;
      for (const Diagnostic* found : result->diagnostics.Sorted()) {
        if (!found->warning) rules.insert(found->rule);
      }
      EXPECT_EQ(CellText(rules), CellText(cells[column])) << model << " on " << mesh.name << "\n"
                                                          << RenderText(result->diagnostics);
      EXPECT_EQ(rules.empty(), !result->stage_text.empty()) << model << " on " << mesh.name;
    }
  }
}

}  // namespace
}  // namespace meshseal::compiler

// The compiler as a whole: documents in, sealed bytes or diagnostics out.
#include "compiler/driver/compile.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <locale>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/text/render.h"
#include "schema/mesh_view.h"
#include "schema/reason.h"
#include "schema/sealed_plan.h"
#include "tests/support/open_unsigned.h"

namespace meshseal::compiler {
namespace {

namespace fs = std::filesystem;

std::string ReadAll(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_TRUE(in.good()) << path;
  return text.str();
}

// The shipped documents of a deployment in a folder of their own, each open to replacements.
Override Flag(const char* field, uint64_t value) { return {field, std::to_string(value)}; }

class CompileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              absl::StrCat("compile_test_", testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    for (const char* kind : {"models", "meshes", "deployments"}) {
      fs::create_directories(folder_ / kind);
      for (const auto& entry : fs::directory_iterator(fs::path(MESHSEAL_MANIFESTS) / kind)) {
        fs::copy(entry.path(), folder_ / kind);
      }
    }
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Edit(const std::string& document, const std::string& from, const std::string& to) {
    const std::string before = ReadAll(folder_ / document);
    ASSERT_TRUE(absl::StrContains(before, from)) << document << " has no " << from;
    std::ofstream(folder_ / document, std::ios::binary) << absl::StrReplaceAll(before, {{from, to}});
  }

  CompileRequest Request(const std::string& deployment) const {
    CompileRequest request;
    request.deployment = (folder_ / "deployments" / (deployment + ".yaml")).string();
    return request;
  }

  // The sealed bytes; a refusal fails the test.
  std::string Sealed(const CompileRequest& request) const {
    const absl::StatusOr<CompileResult> result = Compile(request);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return "";
    EXPECT_TRUE(result->diagnostics.ok()) << RenderText(result->diagnostics, {});
    return result->sealed;
  }

  SealedPlan Plan(const std::string& deployment) const {
    absl::StatusOr<SealedPlan> plan = support::OpenUnsigned(Sealed(Request(deployment)));
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *std::move(plan);
  }

  std::vector<std::string> Rules(const CompileRequest& request) const {
    std::vector<std::string> rules;
    const absl::StatusOr<CompileResult> result = Compile(request);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return rules;
    EXPECT_TRUE(result->sealed.empty());
    for (const Diagnostic* error : result->diagnostics.Sorted()) rules.push_back(error->rule);
    return rules;
  }

  fs::path folder_;
};

TEST_F(CompileTest, EveryShippedDeploymentIsSealed) {
  size_t sealed = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "deployments")) {
    const SealedPlan plan = Plan(entry.path().stem().string());
    EXPECT_EQ(plan.plan().deployment_name, entry.path().stem().string());
    ++sealed;
  }
  EXPECT_GE(sealed, 28u);
}

TEST_F(CompileTest, RoundRobinExpertsGoToNeighbouringRanks) {
  const SealedPlan sealed = Plan("tiny-ep3-round-robin");
  const LayerClass& layers = sealed.plan().layer_classes.at(0);
  for (uint32_t expert = 0; expert < layers.experts; ++expert) {
    EXPECT_EQ(layers.expert_shards[expert], (ExpertShard{expert % 3, expert / 3})) << expert;
  }
}

TEST_F(CompileTest, UnevenExpertsAreOwnedOnceEach) {
  const SealedPlan sealed = Plan("tiny-ep3");
  const LayerClass& layers = sealed.plan().layer_classes.at(0);
  std::vector<uint32_t> owned(3, 0);
  for (const ExpertShard& shard : layers.expert_shards) ++owned[shard.owner];
  EXPECT_EQ(owned, (std::vector<uint32_t>{6, 5, 5}));
  EXPECT_EQ(layers.programs[0].layouts.size(), 2u);  // ranks with 5 and with 6 experts
}

TEST_F(CompileTest, WeightsOfAllRanksAreTheModelPlusReplicatedRouters) {
  // 3 layers: 16 experts x 3 matrices x 256 x 128, and a router of 16 x 256 per rank, all bf16.
  const uint64_t experts = 3ull * 16 * 3 * 256 * 128 * 2;
  const uint64_t router = 3ull * 16 * 256 * 2;
  for (const char* deployment : {"tiny-1", "tiny-ep4", "tiny-ep2-tp2", "tiny-ep3"}) {
    const SealedPlan sealed = Plan(deployment);
    uint64_t weights = 0;
    for (const RankMemory& memory : sealed.plan().memory) weights += memory.weights;
    EXPECT_EQ(weights, experts + router * sealed.plan().memory.size()) << deployment;
  }
}

TEST_F(CompileTest, AllDegreesOfAWorldMakePlans) {
  Edit("meshes/host-4.yaml", "count: 4", "count: 1");  // emulated: takes any world
  Edit("meshes/host-4.yaml", "memory: 1GiB", "memory: 4GiB");
  for (const auto& [dp, pp, tp, ep] : std::vector<std::array<uint64_t, 4>>{{1, 1, 1, 1},
                                                                           {2, 1, 1, 1},
                                                                           {1, 3, 1, 1},
                                                                           {1, 1, 8, 1},
                                                                           {1, 1, 1, 16},
                                                                           {2, 3, 4, 8},
                                                                           {3, 2, 1, 5},
                                                                           {1, 1, 3, 1}}) {
    CompileRequest request = Request("tiny-ep4");
    Edit("deployments/tiny-ep4.yaml", "uneven: refuse", "uneven: allow, uneven_cuts: allow");
    request.overrides = {Flag("dp", dp), Flag("pp", pp), Flag("tp", tp), Flag("ep", ep), Flag("dense-tp", tp * ep)};
    const absl::StatusOr<SealedPlan> plan = SealedPlan::Open(Sealed(request), Policy{});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(WorldOf(plan->plan().degrees), dp * pp * tp * ep);
    Edit("deployments/tiny-ep4.yaml", "uneven: allow, uneven_cuts: allow", "uneven: refuse");
  }
}

TEST_F(CompileTest, TheCollectiveMustBeAuthorisedOnceAndInItsPlace) {
  const std::string row = "  - {after: combine, op: sum, over: expert_group}\n";
  const std::string model = "models/tiny-qwen3-moe.yaml";
  for (const std::string& other :
       {std::string("  []\n"), row + row, std::string("  - {after: down, op: sum, over: expert_group}\n"),
        std::string("  - {after: combine, op: sum, over: ep}\n"),
        std::string("  - {after: combine, op: max, over: expert_group}\n")}) {
    Edit(model, row, other);
    EXPECT_EQ(Rules(Request("tiny-ep4")), std::vector<std::string>{"one-collective"}) << other;
    Edit(model, other, row);
  }
}

TEST_F(CompileTest, AllViolationsOfAStageInOneReport) {
  Edit("models/tiny-qwen3-moe.yaml", "experts_per_token: 4", "experts_per_token: 40");
  Edit("models/tiny-qwen3-moe.yaml", "scale: 1.0", "scale: -1");
  CompileRequest request = Request("tiny-ep4");
  request.overrides = {Flag("ep", 5)};
  EXPECT_EQ(Rules(request), (std::vector<std::string>{"ep-divides-experts", "dense-tp-divides-group",
                                                      "topk-within-experts", "router-scale-positive"}));
}

TEST_F(CompileTest, HelpSatisfiesEveryRule) {
  CompileRequest request = Request("qwen3-30b-a3b-ep4-tp2");
  request.overrides = {Flag("tp", 5), Flag("ep", 1), Flag("dense-tp", 5)};
  const absl::StatusOr<CompileResult> result = Compile(request);
  ASSERT_TRUE(result.ok());
  ASSERT_FALSE(result->diagnostics.ok());
  const std::string& help = result->diagnostics.Sorted().front()->help;
  ASSERT_TRUE(absl::StartsWith(help, "degrees that satisfy every rule on this mesh (8 slots): dp=")) << help;
  // The first suggestion, typed in, compiles.
  Degrees d;
  ASSERT_EQ(
      std::sscanf(help.substr(help.find(": ") + 2).c_str(), "dp=%u pp=%u tp=%u ep=%u", &d.dp, &d.pp, &d.tp, &d.ep), 4);
  request.overrides = {Flag("dp", d.dp), Flag("pp", d.pp), Flag("tp", d.tp), Flag("ep", d.ep),
                       Flag("dense-tp", d.tp * d.ep)};
  EXPECT_FALSE(Sealed(request).empty());
}

TEST_F(CompileTest, MemoryThatDoesNotFitIsNamed) {
  Edit("meshes/host-4.yaml", "memory: 1GiB", "memory: 80MiB");
  const absl::StatusOr<CompileResult> result = Compile(Request("tiny-ep4"));
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->diagnostics.size(), 1u);
  const Diagnostic& error = *result->diagnostics.Sorted().front();
  EXPECT_EQ(error.rule, "memory-fits");
  EXPECT_EQ(error.text,
            "4 ranks on node 'host' need 16.6 MiB, 16.0 MiB are there (80.0 MiB - 64.0 MiB headroom): 633.0 KiB are "
            "missing");
  ASSERT_EQ(error.notes.size(), 3u);
  EXPECT_EQ(error.notes[0].text,
            "the largest rank 0: weights 2.3 MiB, decode work 1.1 MiB, prefill work 1.0 MiB, collective 768.2 KiB");
  EXPECT_EQ(error.notes[1].text, "adjustable: 1.1 MiB work of a decode step of 192 tokens");
  EXPECT_EQ(error.notes[2].text,
            "adjustable: 768.2 KiB collective buffers for prefill_chunk 128 and decode_tokens 192");
}

TEST_F(CompileTest, SizesThatOverflowAreRefused) {
  Edit("deployments/tiny-ep4.yaml", "decode_tokens: 192, decode_buckets: [1, 8, 64, 192]",
       "decode_tokens: 16777216, decode_buckets: [16777216]");
  Edit("models/tiny-qwen3-moe.yaml", "experts: 16\n", "experts: 65536\n");
  Edit("models/tiny-qwen3-moe.yaml", "experts_per_token: 4", "experts_per_token: 65536");
  Edit("models/tiny-qwen3-moe.yaml", "intermediate_size: 128", "intermediate_size: 1048576");
  Edit("models/tiny-qwen3-moe.yaml", "hidden_size: 256", "hidden_size: 1048576");
  EXPECT_EQ(Rules(Request("tiny-ep4")), std::vector<std::string>{"memory-fits"});
}

TEST_F(CompileTest, SameDocumentsSameBytesUnderAnyLocale) {
  const std::string sealed = Sealed(Request("tiny-ep2-tp2"));
  struct Grouping : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Grouping));
  const std::string again = Sealed(Request("tiny-ep2-tp2"));
  std::locale::global(before);
  EXPECT_EQ(again, sealed);
}

TEST_F(CompileTest, TheSerialAndEveryDocumentCount) {
  const std::string sealed = Sealed(Request("tiny-ep4"));
  CompileRequest later = Request("tiny-ep4");
  later.serial = 9;
  EXPECT_NE(Sealed(later), sealed);
  for (const char* document : {"deployments/tiny-ep4.yaml", "models/tiny-qwen3-moe.yaml", "meshes/host-4.yaml"}) {
    Edit(document, "meshseal: 1\n", "# another comment\nmeshseal: 1\n");
    EXPECT_NE(Sealed(Request("tiny-ep4")), sealed) << document;
    Edit(document, "# another comment\nmeshseal: 1\n", "meshseal: 1\n");
  }
  EXPECT_EQ(Sealed(Request("tiny-ep4")), sealed);
}

TEST_F(CompileTest, FilesThatCannotBeOpenedAreNotRules) {
  CompileRequest request = Request("none");
  EXPECT_EQ(ReasonOf(Compile(request).status()), Reason::kUsage);
  request = Request("tiny-ep4");
  request.mesh = (folder_ / "none.yaml").string();
  EXPECT_EQ(ReasonOf(Compile(request).status()), Reason::kUsage);
}

TEST_F(CompileTest, ADocumentInAnothersPlaceIsNamed) {
  CompileRequest request = Request("tiny-ep4");
  request.model = (folder_ / "meshes/host-4.yaml").string();
  EXPECT_EQ(Rules(request), std::vector<std::string>{"document-kind"});
}

TEST_F(CompileTest, EveryLineOfADocumentThatIsTakenAwayIsMissed) {
  // No line of the three documents, comments apart, is decoration: without it, compiling says no, or gives
  // another plan.
  const std::string sealed = Sealed(Request("tiny-ep4"));
  for (const char* document : {"deployments/tiny-ep4.yaml", "models/tiny-qwen3-moe.yaml", "meshes/host-4.yaml"}) {
    const std::string text = ReadAll(folder_ / document);
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin) + 1;
      const std::string line = text.substr(begin, end - begin);
      if (!absl::StartsWith(line, "#")) {
        std::ofstream(folder_ / document, std::ios::binary) << text.substr(0, begin) + text.substr(end);
        const absl::StatusOr<CompileResult> result = Compile(Request("tiny-ep4"));
        EXPECT_TRUE(!result.ok() || result->sealed != sealed) << document << ": " << line;
      }
      begin = end;
    }
    std::ofstream(folder_ / document, std::ios::binary) << text;
  }
}

}  // namespace
}  // namespace meshseal::compiler

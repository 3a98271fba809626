// Thousands of random legal deployments: each compiles, the validator, which shares no code with the compiler, accepts
// the plan, and every property holds. And the properties are not vacuous: each fault that is put into a plan is found.
#include "tests/properties/properties.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/driver/compile.h"
#include "compiler/text/render.h"
#include "schema/sealed_plan.h"
#include "tests/properties/random_deployment.h"
#include "tests/support/open_unsigned.h"
#include "tests/support/sanitized.h"

namespace meshseal::properties {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kCases = support::kSanitized ? 300 : 3000;
constexpr uint64_t kBlocks = 10;  // of cases, which may run side by side
constexpr size_t kMostReports = 3;

class Folder {
 public:
  explicit Folder(const std::string& name) : path_(fs::path(testing::TempDir()) / absl::StrCat("properties_", name)) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The sealed bytes of a deployment, or why there are none.
struct Compiled {
  std::string sealed;
  std::string refusal;
};

Compiled CompileIn(const RandomDeployment& random, const fs::path& folder) {
  compiler::CompileRequest request;
  request.deployment = WriteDocuments(random, folder);
  absl::StatusOr<compiler::CompileResult> result = compiler::Compile(request);
  if (!result.ok()) return {"", result.status().ToString()};
  if (!result->diagnostics.ok()) return {"", compiler::RenderText(result->diagnostics)};
  return {std::move(result->sealed), ""};
}

std::string Report(const RandomDeployment& random, const std::string& text) {
  return absl::StrCat("seed ", random.seed, ": ", text, "\n--- model\n", random.model, "--- mesh\n", random.mesh,
                      "--- deployment\n", random.deployment, random.profile.empty() ? "" : "--- profile\n",
                      random.profile);
}

class RandomDeployments : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomDeployments, CompileAndHoldEveryProperty) {
  const Folder folder(absl::StrCat("block", GetParam()));
  Coverage coverage;
  size_t reports = 0;
  for (uint64_t seed = GetParam(); seed < kCases && reports < kMostReports; seed += kBlocks) {
    const RandomDeployment random = MakeRandomDeployment(seed);
    const Compiled compiled = CompileIn(random, folder.path());
    if (!compiled.refusal.empty()) {
      ADD_FAILURE() << Report(random, compiled.refusal);
      ++reports;
      continue;
    }
    const absl::StatusOr<SealedPlan> opened = support::OpenUnsigned(compiled.sealed);
    if (!opened.ok()) {
      ADD_FAILURE() << Report(random, opened.status().ToString());
      ++reports;
      continue;
    }
    Faults faults = CheckAll(random, opened->plan(), coverage);
    // The same documents make the same bytes, wherever they lie.
    if (seed % 50 == 0) {
      const Folder other(absl::StrCat("other", GetParam()));
      if (CompileIn(random, other.path()).sealed != compiled.sealed) faults.push_back("compiled again: other bytes");
    }
    if (faults.empty()) continue;
    if (faults.size() > 10) faults.resize(10);
    ADD_FAILURE() << Report(random, absl::StrJoin(faults, "\n"));
    ++reports;
  }
  if (reports > 0) return;
  const uint64_t cases = kCases / kBlocks;
  EXPECT_GE(coverage.reassembled_bytes, cases << 12);
  EXPECT_GE(coverage.naive_cuts, cases / 100);  // in fewer cases there may be none
  EXPECT_GE(coverage.swapped_shards, cases / 20);
  EXPECT_GE(coverage.routes, cases * 5);
  EXPECT_GE(coverage.exhausted, cases / 10);
  EXPECT_GE(coverage.full_capacities, cases / 2);
}

INSTANTIATE_TEST_SUITE_P(Block, RandomDeployments, testing::Range(uint64_t{0}, kBlocks),
                         [](const testing::TestParamInfo<uint64_t>& block) { return absl::StrCat(block.param); });

// Which words of the language the deployments use.
TEST(RandomDeployment, CoversTheLanguage) {
  std::map<std::string, uint64_t> seen;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const RandomDeployment random = MakeRandomDeployment(seed);
    const auto note = [&](const std::string& what) { ++seen[what]; };
    note(absl::StrCat("placement ", WordOf(random.placement)));
    note(absl::StrCat("reduction ", WordOf(random.reduction)));
    if (random.Gathers()) note("gathers");
    if (random.copies > 0) note("copies");
    if (random.uneven_experts) note("uneven experts");
    if (random.uneven_cuts && random.degrees.tp > 1) note("uneven cuts");
    if (random.kinds.size() > 1) note("several kinds of layers");
    if (random.residual) note("residual");
    if (random.shared_placement != SharedPlacement::kInvalid) {
      note(absl::StrCat("shared ", WordOf(random.shared_placement)));
    }
    for (const DeclaredLayers& kind : random.kinds) {
      note(absl::StrCat("scoring ", kind.router.scoring));
      note(absl::StrCat("order ", kind.router.order));
      note(absl::StrCat("renormalize ", kind.router.renormalize));
      note(absl::StrCat("weight ", kind.router.weight_applied));
      if (kind.router.groups > 0) note(absl::StrCat("groups ", kind.router.group_score));
      if (!kind.gated) note("no gate");
      if (kind.shared.gate) note("shared gate");
      for (const Term& row : Terms<ActivationKind>()) {
        if (kind.activation.find(absl::StrCat(": ", row.word)) != std::string::npos) {
          note(absl::StrCat("activation ", row.word));
        }
      }
      for (const DeclaredTensor& tensor : kind.Tensors()) {
        note(absl::StrCat("role ", WordOf(tensor.role)));
        note(absl::StrCat("dtype ", std::string(DTypeName(tensor.dtype))));
        if (tensor.layout != GateUpLayout::kInvalid) note(absl::StrCat("layout ", WordOf(tensor.layout)));
        if (tensor.rotation > 0) note("rotation");
        if (tensor.shape.front() == ShapeAxis::kExperts && tensor.shape.size() == 3) note("stacked");
        if (tensor.role == TensorRole::kDown && tensor.shape.back() == ShapeAxis::kHidden) note("transposed");
        for (const DeclaredSide& side : tensor.sides) {
          note(absl::StrCat("side ", WordOf(side.kind)));
          note(absl::StrCat("applies ", WordOf(side.applies)));
          if (side.of != ScaleOf::kInvalid) note(absl::StrCat("of ", WordOf(side.of)));
        }
      }
    }
  }
  std::vector<std::string> expected = {
      "gathers",     "copies",   "uneven experts", "uneven cuts", "several kinds of layers", "residual", "no gate",
      "shared gate", "rotation", "stacked",        "transposed"};
  const auto all = [&](const std::string& what, absl::Span<const Term> terms) {
    for (const Term& row : terms) expected.push_back(absl::StrCat(what, " ", row.word));
  };
  all("placement", Terms<ExpertPlacement>());
  all("reduction", Terms<Reduction>());
  all("shared", Terms<SharedPlacement>());
  all("scoring", Terms<Scoring>());
  all("order", Terms<RouteOrder>());
  all("renormalize", Terms<Renormalize>());
  all("weight", Terms<WeightPoint>());
  all("groups", Terms<GroupScore>());
  all("activation", Terms<ActivationKind>());
  all("role", Terms<TensorRole>());
  all("layout", Terms<GateUpLayout>());
  all("side", Terms<SideKind>());
  all("applies", Terms<ScaleApplies>());
  all("of", Terms<ScaleOf>());
  for (const DTypeRow& row : DTypeRows()) {
    if (row.weight) expected.push_back(absl::StrCat("dtype ", row.name));
  }
  for (const std::string& what : expected) EXPECT_GE(seen[what], 20u) << what;
}

// A fault that is put into a plan; false where the plan has no place for it.
using Break = std::function<bool(const RandomDeployment&, Plan&)>;

Program* PrefillOf(LayerClass& c) {
  for (Program& program : c.programs) {
    if (program.phase == Phase::kPrefill) return &program;
  }
  return nullptr;
}

std::map<std::string, Break> Breaks() {
  std::map<std::string, Break> breaks;
  breaks["an expert moves to the next rank"] = [](const RandomDeployment& random, Plan& plan) {
    ExpertShard& shard = plan.layer_classes.front().expert_shards.back();
    shard.owner = (shard.owner + 1) % random.degrees.ep;
    return random.degrees.ep > 1;
  };
  breaks["two experts change their local numbers"] = [](const RandomDeployment&, Plan& plan) {
    std::vector<ExpertShard>& shards = plan.layer_classes.front().expert_shards;
    for (size_t i = 1; i < shards.size(); ++i) {
      if (shards[i].owner != shards[0].owner) continue;
      std::swap(shards[i], shards[0]);
      return true;
    }
    return false;
  };
  breaks["a copy is lost"] = [](const RandomDeployment&, Plan& plan) {
    std::vector<ExpertCopy>& copies = plan.layer_classes.front().expert_copies;
    if (copies.empty()) return false;
    copies.pop_back();
    return true;
  };
  breaks["a cut moves by a column"] = [](const RandomDeployment&, Plan& plan) {
    ++plan.layer_classes.front().segment_ends.front();
    return plan.layer_classes.front().segment_ends.size() > 1;
  };
  breaks["two ranks change their segments"] = [](const RandomDeployment&, Plan& plan) {
    std::vector<uint32_t>& ends = plan.layer_classes.front().tp_segment_ends;
    if (ends.size() < 2) return false;
    std::swap(ends[0], ends[1]);
    return true;
  };
  breaks["a part of the shared expert is cut short"] = [](const RandomDeployment&, Plan& plan) {
    for (LayerClass& c : plan.layer_classes) {
      if (c.shared_expert.part_ends.empty()) continue;
      --c.shared_expert.part_ends.back();
      return true;
    }
    return false;
  };
  breaks["a rank has a byte more"] = [](const RandomDeployment&, Plan& plan) {
    ++plan.memory.back().weights;
    ++plan.memory.back().total;
    return true;
  };
  breaks["a rank has no room for its layout"] = [](const RandomDeployment&, Plan& plan) {
    WorkLayout& layout = plan.layer_classes.front().programs.front().layouts.front();
    ++layout.columns;
    return true;
  };
  breaks["a line of memory is left out"] = [](const RandomDeployment&, Plan& plan) {
    RankMemory& memory = plan.memory.front();
    if (memory.collective == 0) return false;
    memory.total -= memory.collective;
    return true;
  };
  breaks["a capacity is a tile short"] = [](const RandomDeployment& random, Plan& plan) {
    LayerClass& c = plan.layer_classes.front();
    Program* program = PrefillOf(c);
    if (program == nullptr || random.copies > 0 || random.prefill_chunk * c.top_k > 2048) return false;
    program->layouts.front().grouped_rows -= program->tile_rows;
    return true;
  };
  breaks["a capacity is a tile too large"] = [](const RandomDeployment& random, Plan& plan) {
    LayerClass& c = plan.layer_classes.front();
    Program* program = PrefillOf(c);
    if (program == nullptr || random.copies > 0 || random.prefill_chunk * c.top_k > 2048) return false;
    program->layouts.back().grouped_rows += program->tile_rows;
    return true;
  };
  breaks["the routing lies on the layer's input"] = [](const RandomDeployment&, Plan& plan) {
    WorkLayout& layout = plan.layer_classes.front().programs.front().layouts.front();
    const Program& program = plan.layer_classes.front().programs.front();
    for (const Step& step : program.steps) {
      if (step.kind != StepKind::kRoute) continue;
      layout.buffers[step.outputs.front()].offset = layout.buffers[step.inputs.front()].offset;
      return true;
    }
    return false;
  };
  breaks["the collective is left out"] = [](const RandomDeployment&, Plan& plan) {
    std::vector<Step>& steps = plan.layer_classes.front().programs.front().steps;
    const auto at =
        std::find_if(steps.begin(), steps.end(), [](const Step& step) { return step.kind == StepKind::kCollective; });
    steps.erase(at);
    return true;
  };
  breaks["the collective is there twice"] = [](const RandomDeployment&, Plan& plan) {
    std::vector<Step>& steps = plan.layer_classes.front().programs.front().steps;
    const auto at =
        std::find_if(steps.begin(), steps.end(), [](const Step& step) { return step.kind == StepKind::kCollective; });
    steps.insert(at, *at);
    return true;
  };
  breaks["the collective leaves out an axis"] = [](const RandomDeployment& random, Plan& plan) {
    for (Step& step : plan.layer_classes.front().programs.front().steps) {
      for (Collective& collective : step.collectives) collective.over_ep = false;
    }
    return random.degrees.ep > 1;
  };
  breaks["a layer belongs to nobody"] = [](const RandomDeployment&, Plan& plan) {
    LayerRange& range = plan.layer_classes.back().layers.back();
    if (range.last - range.first < 2) return false;
    --range.last;
    return true;
  };
  breaks["a tensor is read from another one's name"] = [](const RandomDeployment&, Plan& plan) {
    std::vector<TensorClass>& tensors = plan.layer_classes.front().tensors;
    std::swap(tensors.front().name, tensors.back().name);
    return true;
  };
  return breaks;
}

TEST(Properties, FindEveryFault) {
  const Folder folder("faults");
  std::map<std::string, uint64_t> found;
  const std::map<std::string, Break> breaks = Breaks();
  for (uint64_t seed = 100000; seed < 100060; ++seed) {
    const RandomDeployment random = MakeRandomDeployment(seed);
    const Compiled compiled = CompileIn(random, folder.path());
    ASSERT_EQ(compiled.refusal, "") << Report(random, "refused");
    const absl::StatusOr<SealedPlan> opened = support::OpenUnsigned(compiled.sealed);
    ASSERT_TRUE(opened.ok()) << opened.status();
    for (const auto& [name, make] : breaks) {
      Plan plan = opened->plan();
      if (!make(random, plan)) continue;
      Coverage coverage;
      EXPECT_FALSE(CheckAll(random, plan, coverage).empty()) << Report(random, name);
      ++found[name];
    }
  }
  for (const auto& [name, make] : breaks) EXPECT_GE(found[name], 3u) << name;
}

}  // namespace
}  // namespace meshseal::properties

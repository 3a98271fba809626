// Exact sums: the same bits on every world, in both phases; and what may not be an addend ends all ranks at one step.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/session/session.h"
#include "schema/reason.h"
#include "schema/safetensors.h"
#include "tests/runtime/oracle.h"
#include "tests/runtime/recorded_model.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/plan_builder.h"
#include "tests/support/sanitized.h"

namespace meshseal::runtime {
namespace {

using support::PlanNumbers;

struct World {
  uint32_t tp = 1;
  uint32_t ep = 1;
};

std::string TextOf(World world) { return absl::StrCat("tp ", world.tp, " ep ", world.ep); }

std::unique_ptr<Session> Open(const PlanNumbers& numbers, const std::filesystem::path& weights) {
  SessionOptions options;
  options.weights = {weights};
  options.unverified_weights = true;
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(support::BuildSealedPlan(numbers), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return session.ok() ? *std::move(session) : nullptr;
}

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// Calls `run` on a session of each world and in both phases, and expects the same bits of all.
void ExpectOneResult(const PlanNumbers& numbers, const std::vector<World>& worlds, const std::filesystem::path& weights,
                     const std::function<std::vector<float>(Session&, Phase)>& run) {
  std::vector<uint32_t> first;
  for (const World world : worlds) {
    PlanNumbers n = numbers;
    n.tp = world.tp;
    n.ep = world.ep;
    if (n.ep == 1) n.copies = 0;
    const std::unique_ptr<Session> session = Open(n, weights);
    ASSERT_NE(session, nullptr);
    for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
      SCOPED_TRACE(absl::StrCat(TextOf(world), " ", WordOf(phase)));
      const std::vector<uint32_t> bits = Bits(run(*session, phase));
      if (first.empty()) first = bits;
      ASSERT_FALSE(bits.empty());
      EXPECT_TRUE(bits == first);
    }
  }
}

TEST(ExactSumTest, TheRecordedModelHasTheSameBitsOnEveryWorld) {
  PlanNumbers n = RecordedModel();
  n.reduction = Reduction::kExact;
  n.segments = 4;
  const std::vector<World> worlds =
      support::kSanitized ? std::vector<World>{{1, 1}, {2, 2}}
                          : std::vector<World>{{1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 8}, {2, 1}, {2, 2}, {4, 1}, {4, 2}};
  const absl::StatusOr<SafetensorsFile> file =
      SafetensorsFile::Open(RecordedFolder() / "recorded" / "prompt-7.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  for (uint32_t layer = 0; layer < n.layers; ++layer) {
    SCOPED_TRACE(absl::StrCat("layer ", layer));
    const std::string prefix = absl::StrCat("layer.", layer, ".");
    const std::vector<float> hidden = Recorded<float>(*file, prefix + "hidden_in");
    const std::vector<float> expected = Recorded<float>(*file, prefix + "hidden_out");
    ExpectOneResult(n, worlds, RecordedFolder(), [&](Session& session, Phase phase) {
      std::vector<float> output(hidden.size());
      RunResult result;
      const absl::Status status = session.Run({layer, phase, 7, hidden, absl::MakeSpan(output)}, &result);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_LE(support::RelativeDifference(output, expected), 2e-6);
      return output;
    });
  }
}

struct Layer {
  std::string name;
  std::function<void(PlanNumbers&)> set;
};

std::vector<Layer> Layers() {
  return {
      {"plain", [](PlanNumbers&) {}},
      {"a gated shared expert, cut",
       [](PlanNumbers& n) {
         n.shared_width = 24;
         n.shared_gate = SharedGate::kSigmoid;
         n.residual = Residual::kAdd;
       }},
      {"biases, and a shared expert on one rank of the ep axis",
       [](PlanNumbers& n) {
         n.shared_width = 17;
         n.shared_placement = SharedPlacement::kOwner;
         n.router_bias = n.biases = true;
         n.activation = {ActivationKind::kSwiGluOai, 1.702f, 0.25f};
       }},
      {"weights on the activation, copies and bf16 operands",
       [](PlanNumbers& n) {
         n.router.weight_applied = WeightPoint::kActivation;
         n.copies = 5;
         n.gate_up_basis = n.down_basis = Basis::kBf16;
         n.output = Basis::kBf16;
       }},
      {"weights on the input, copies and biases",
       [](PlanNumbers& n) {
         n.top_k = 1;
         n.router.weight_applied = WeightPoint::kInput;
         n.copies = 5;
         n.biases = true;
       }},
      {"q8 operands",
       [](PlanNumbers& n) {
         n.gate_up_basis = n.down_basis = Basis::kQ8;
         n.hidden = 64;
         n.intermediate = 160;
         n.column_unit = 32;
         n.shared_width = 288;
       }},
  };
}

TEST(ExactSumTest, EveryKindOfLayerHasTheSameBitsOnEveryWorld) {
  const std::vector<World> worlds =
      support::kSanitized ? std::vector<World>{{1, 1}, {2, 2}}
                          : std::vector<World>{{1, 1}, {1, 2}, {1, 4}, {2, 1}, {2, 2}, {2, 4}, {4, 1}, {4, 2}};
  constexpr uint32_t kTokens = 13;
  for (const Layer& layer : Layers()) {
    SCOPED_TRACE(layer.name);
    PlanNumbers n;
    n.reduction = Reduction::kExact;
    n.segments = 4;
    n.shared_segments = 8;
    n.prefill_chunk = 5;
    layer.set(n);
    const support::TempFolder folder;
    PlanNumbers one_rank = n;
    one_rank.copies = 0;
    support::WriteCheckpoint(folder.path(), support::RandomCheckpoint(support::BuildPlan(one_rank), 3));
    const std::vector<float> hidden = support::RandomValues(size_t{kTokens} * n.hidden, 11);
    ExpectOneResult(n, worlds, folder.path(), [&](Session& session, Phase phase) {
      std::vector<float> output(hidden.size());
      RunResult result;
      const absl::Status status = session.Run({0, phase, kTokens, hidden, absl::MakeSpan(output)}, &result);
      EXPECT_TRUE(status.ok()) << status;
      return output;
    });
  }
}

// Where the shared expert lies is no more in the bits than how many ranks there are.
TEST(ExactSumTest, ACutSharedExpertHasTheBitsOfAnOwnedOne) {
  PlanNumbers n;
  n.tp = n.ep = 2;
  n.reduction = Reduction::kExact;
  n.segments = 2;
  n.shared_segments = 4;
  n.shared_width = 24;
  const support::TempFolder folder;
  support::WriteCheckpoint(folder.path(), support::RandomCheckpoint(support::BuildPlan(n), 3));
  const std::vector<float> hidden = support::RandomValues(size_t{4} * n.hidden, 11);
  std::vector<std::vector<uint32_t>> outputs;
  for (const SharedPlacement placement : {SharedPlacement::kSplit, SharedPlacement::kOwner}) {
    n.shared_placement = placement;
    const std::unique_ptr<Session> session = Open(n, folder.path());
    ASSERT_NE(session, nullptr);
    std::vector<float> output(hidden.size());
    RunResult result;
    const absl::Status status = session->Run({0, Phase::kDecode, 4, hidden, absl::MakeSpan(output)}, &result);
    ASSERT_TRUE(status.ok()) << status;
    outputs.push_back(Bits(output));
  }
  EXPECT_EQ(outputs[0], outputs[1]);
}

// One weight that makes an output of expert 5, or of the shared expert, what it may not be.
struct Spoiled {
  std::string tensor;
  float value = 0;
  std::string told;  // by the rank that has it, after "token N: the output of "
  Reason reason = Reason::kBug;
};

TEST(ExactSumTest, WhatIsNoAddendEndsAllRanksAtTheSameStep) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  PlanNumbers n;
  n.ep = 2;
  n.top_k = 8;  // every token has expert 5
  n.reduction = Reduction::kExact;
  n.shared_width = 8;
  n.shared_placement = SharedPlacement::kOwner;
  n.biases = true;
  for (const Spoiled& spoiled :
       {Spoiled{"layers.0.experts.5.down", 1e30f, "expert 5 is ", Reason::kBound},
        Spoiled{"layers.0.experts.5.down", kInfinity, "expert 5 is not finite", Reason::kNonFinite},
        Spoiled{"layers.0.experts.5.down_bias", -1e30f, "expert 5 is -", Reason::kBound},
        Spoiled{"layers.0.shared.down", 1e30f, "the shared expert is ", Reason::kBound},
        Spoiled{"layers.0.shared.down", kInfinity, "the shared expert is not finite", Reason::kNonFinite}}) {
    SCOPED_TRACE(absl::StrCat(spoiled.tensor, " ", spoiled.value));
    support::Checkpoint checkpoint = support::RandomCheckpoint(support::BuildPlan(n), 3);
    support::Tensor(checkpoint, spoiled.tensor).values.front() = spoiled.value;
    const support::TempFolder folder;
    support::WriteCheckpoint(folder.path(), checkpoint);
    const std::vector<float> hidden = support::RandomValues(size_t{3} * n.hidden, 11);
    const bool shared = spoiled.tensor.find("shared") != std::string::npos;
    for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
      const std::unique_ptr<Session> session = Open(n, folder.path());
      ASSERT_NE(session, nullptr);
      std::vector<float> output(hidden.size());
      RunRequest request = {0, phase, 3, hidden, absl::MakeSpan(output)};
      RunResult result;
      const absl::Status status = session->Run(request, &result);
      EXPECT_EQ(ReasonOf(status), spoiled.reason);
      EXPECT_EQ(ExitCodeOf(status), 8);
      const uint32_t rank = shared ? 0 : 1;
      const std::string cause(result.ranks[rank].status.message());
      const std::string step = absl::StrCat(phase == Phase::kDecode ? 3 + (shared ? 3 : 0) : 5 + (shared ? 3 : 0),
                                            shared ? " shared_down" : " down");
      const std::string start = absl::StrCat("layer 0, step ", step, ": token 0: the output of ", spoiled.told);
      EXPECT_EQ(cause.substr(0, start.size()), start);
      if (spoiled.reason == Reason::kBound) {
        const std::string end = ", not below the bound 1024";
        EXPECT_EQ(cause.substr(cause.size() - std::min(cause.size(), end.size())), end);
      }
      EXPECT_EQ(ReasonOf(result.ranks[1 - rank].status), Reason::kPeerFailed);
      EXPECT_EQ(result.ranks[1 - rank].status.message(),
                absl::StrCat("layer 0, step ", phase == Phase::kDecode ? 8 : 10, " collective: rank ", rank,
                             " failed first: ", cause));
      EXPECT_TRUE(std::isnan(output.front()));
    }
  }
}

}  // namespace
}  // namespace meshseal::runtime

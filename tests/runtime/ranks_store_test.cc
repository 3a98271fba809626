// What is resident: another model takes its place or none does, what was verified is what is used, and all memory comes
// back.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/comm/inproc.h"
#include "runtime/session/session.h"
#include "schema/fingerprint.h"
#include "schema/reason.h"
#include "tests/ranks/planted_world.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/digest_list.h"
#include "tests/support/plan_builder.h"
#include "tests/support/sanitized.h"

namespace meshseal::runtime {
namespace {

using support::PlanNumbers;
using support::TempFolder;

constexpr uint32_t kTokens = 5;

PlanNumbers Numbers(uint32_t tp, uint32_t ep) {
  PlanNumbers n;
  n.tp = tp;
  n.ep = ep;
  n.biases = true;
  return n;
}

SessionOptions Options(const std::filesystem::path& weights, const std::filesystem::path& digests = {}) {
  SessionOptions options;
  options.weights = {weights};
  options.digests = digests;
  options.unverified_weights = digests.empty();
  options.deadline = std::chrono::milliseconds(20'000);
  return options;
}

std::string ContentOf(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// A plan and its checkpoint on disk.
class Model {
 public:
  explicit Model(const PlanNumbers& numbers, uint32_t seed) : plan_(support::BuildPlan(numbers)) {
    support::WriteCheckpoint(folder_.path(), support::RandomCheckpoint(plan_, seed));
    support::WriteFile(digests(), support::BindDigests(folder_.path(), &plan_));
  }

  SealedPlan Sealed() const { return support::Seal(plan_); }
  SessionOptions Verified() const { return Options(folder_.path(), digests()); }
  SessionOptions Unverified() const { return Options(folder_.path()); }
  std::filesystem::path folder() const { return folder_.path(); }
  std::filesystem::path file() const { return folder_.path() / "model.safetensors"; }
  std::filesystem::path digests() const { return folder_.path() / "weights.mseal-digests"; }
  Plan& plan() { return plan_; }

 private:
  TempFolder folder_;
  Plan plan_;
};

std::vector<float> Output(Session& session, absl::Status* status, ModelHandle model = {}) {
  const std::vector<float> hidden = support::RandomValues(kTokens * 16, 3);
  std::vector<float> output(hidden.size(), 0);
  RunRequest request;
  request.phase = Phase::kDecode;
  request.tokens = kTokens;
  request.hidden = hidden;
  request.output = absl::MakeSpan(output);
  request.model = model;
  RunResult result;
  *status = session.Run(request, &result);
  return output;
}

std::vector<float> Output(Session& session, ModelHandle model = {}) {
  absl::Status status;
  std::vector<float> output = Output(session, &status, model);
  EXPECT_TRUE(status.ok()) << status;
  return output;
}

std::unique_ptr<Session> Make(const Model& model) {
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(model.Sealed(), model.Verified());
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

TEST(Store, AnotherModelTakesThePlaceAndTheOldHandleIsStale) {
  const Model first(Numbers(1, 2), 1);
  const Model second(Numbers(2, 1), 2);
  const std::unique_ptr<Session> session = Make(first);
  const std::vector<float> before = Output(*session);
  const ModelHandle old = session->model();
  EXPECT_EQ(old.generation, 1u);
  const absl::StatusOr<ModelHandle> handle = session->Replace(second.Sealed(), second.Verified());
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_EQ(handle->generation, 2u);
  EXPECT_EQ(session->model(), *handle);
  EXPECT_EQ(session->plan()->plan().degrees.tp, 2u);
  const std::vector<float> after = Output(*session, *handle);
  EXPECT_NE(after, before);
  EXPECT_EQ(after, Output(*Make(second)));

  absl::Status status;
  Output(*session, &status, old);
  EXPECT_EQ(status.message(), "model 1 is not resident, model 2 is");
  EXPECT_EQ(ReasonOf(status), Reason::kStaleModel);
  EXPECT_EQ(session->Unload(old).message(), "model 1 is not resident, model 2 is");
  EXPECT_EQ(session->Unload({}).message(), "model 0 is not resident, model 2 is");
  EXPECT_EQ(session->Unload({7}).message(), "model 7 is not resident, model 2 is");
  EXPECT_EQ(Output(*session, *handle), after);
}

TEST(Store, UnloadingTwiceIsOnceAndALoadFollows) {
  const Model model(Numbers(1, 2), 1);
  const std::unique_ptr<Session> session = Make(model);
  const std::vector<float> before = Output(*session);
  const ModelHandle handle = session->model();
  EXPECT_GT(session->resident_weight_bytes(1), 0u);
  EXPECT_TRUE(session->Unload(handle).ok());
  EXPECT_TRUE(session->Unload(handle).ok());
  EXPECT_EQ(session->model(), ModelHandle{});
  EXPECT_EQ(session->resident_weight_bytes(1), 0u);
  EXPECT_EQ(session->plan()->plan().degrees.ep, 2u);
  absl::Status status;
  Output(*session, &status);
  EXPECT_EQ(status.message(), "model 0 is not resident, none is");
  Output(*session, &status, handle);
  EXPECT_EQ(status.message(), "model 1 is not resident, none is");
  EXPECT_EQ(ReasonOf(status), Reason::kStaleModel);
  const absl::StatusOr<ModelHandle> again = session->Replace(model.Sealed(), model.Verified());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->generation, 2u);
  EXPECT_EQ(Output(*session), before);
}

TEST(Store, ARefusedLoadLeavesTheResidentModelServing) {
  const Model first(Numbers(1, 2), 1);
  Model second(Numbers(2, 1), 2);
  const std::unique_ptr<Session> session = Make(first);
  const std::vector<float> before = Output(*session);
  const auto refused = [&](SealedPlan plan, SessionOptions options, Reason reason) {
    const absl::StatusOr<ModelHandle> handle = session->Replace(std::move(plan), std::move(options));
    EXPECT_EQ(ReasonOf(handle.status()), reason) << handle.status();
    EXPECT_EQ(session->model().generation, 1u);
    EXPECT_EQ(Output(*session, {1}), before);
    return std::string(handle.status().message());
  };
  SealedPlan moved = second.Sealed();
  const SealedPlan taken = std::move(moved);
  EXPECT_EQ(
      refused(std::move(moved), second.Verified(), Reason::kUsage),  // NOLINT(bugprone-use-after-move): refused as such
      "the plan was moved from: it is another session's");
  EXPECT_EQ(refused(second.Sealed(), Options(second.folder() / "missing"), Reason::kWeightsFile),
            absl::StrCat("rank 0 (dp0 pp0 tp0 ep0): ", (second.folder() / "missing").string(),
                         ": cannot be opened: No such file or directory"));
  EXPECT_EQ(refused(second.Sealed(), first.Verified(), Reason::kWeightsDigest).substr(0, 15), "the digest list");
  // Another mesh, and a device that has not the room: told before the weights are looked at.
  Plan elsewhere = second.plan();
  elsewhere.mesh.name = "elsewhere";
  EXPECT_EQ(refused(support::Seal(elsewhere), Options("nowhere"), Reason::kUsage),
            "the plan's mesh 'elsewhere' is not the resident plan's 'threads'");
}

TEST(Store, BothModelsMustFitTheirDevices) {
  PlanNumbers n = Numbers(1, 2);
  Model first(n, 1);
  uint64_t total = 0;
  for (const RankMemory& memory : first.plan().memory) total += memory.total;
  for (const uint64_t room : {2 * total, 2 * total - 1}) {
    Plan plan = first.plan();
    plan.mesh.device_kinds[0].memory_bytes = plan.mesh.device_kinds[0].usable_bytes = room;
    for (RankMemory& memory : plan.memory) memory.budget = room;
    absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(support::Seal(plan), first.Verified());
    ASSERT_TRUE(session.ok()) << session.status();
    const bool fits = room == 2 * total;
    const absl::StatusOr<ModelHandle> handle =
        (*session)->Replace(support::Seal(plan), fits ? first.Verified() : Options("nowhere"));
    EXPECT_EQ(handle.ok(), fits) << handle.status();
    if (fits) continue;
    EXPECT_EQ(ReasonOf(handle.status()), Reason::kLimit);
    EXPECT_TRUE(absl::StrContains(handle.status().message(), "node node0 slot 0: both models need "));
    EXPECT_TRUE(absl::StrContains(handle.status().message(), "; unload the resident one first"));
    ASSERT_TRUE((*session)->Unload((*session)->model()).ok());
    EXPECT_TRUE((*session)->Replace(support::Seal(plan), first.Verified()).ok());
  }
}

// Holds the ranks of a run at their first exchange until they may go on.
class Gate {
 public:
  void Pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!closed_) return;
    reached_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !closed_; });
  }
  void Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  void AwaitSomebody() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return reached_; });
  }
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = false;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  bool reached_ = false;
};

class GatedEndpoint : public support::PassingEndpoint {
 public:
  GatedEndpoint(std::unique_ptr<Endpoint> real, Gate& gate) : PassingEndpoint(std::move(real)), gate_(gate) {}
  absl::Status Exchange(Channel channel, absl::Span<const Outgoing> out, absl::Span<const Incoming> in,
                        std::chrono::milliseconds deadline) override {
    gate_.Pass();
    return PassingEndpoint::Exchange(channel, out, in, deadline);
  }

 private:
  Gate& gate_;
};

// A run is held in its middle while its model is asked to go, then replaced, and the next one unloaded.
TEST(Store, ARunKeepsTheModelThatItBeganWith) {
  const Model first(Numbers(1, 2), 1);
  const Model second(Numbers(2, 1), 2);
  const std::vector<float> of_first = Output(*Make(first));
  const std::vector<float> of_second = Output(*Make(second));
  Gate gate;
  SessionOptions options = first.Verified();
  options.world = std::make_shared<support::PlantedWorld>(MakeInprocWorld(), [&gate](std::unique_ptr<Endpoint> end) {
    return std::make_unique<GatedEndpoint>(std::move(end), gate);
  });
  absl::StatusOr<std::unique_ptr<Session>> made = Session::Create(first.Sealed(), options);
  ASSERT_TRUE(made.ok()) << made.status();
  Session& session = **made;
  gate.Close();
  absl::Status status;
  std::vector<float> output;
  std::thread runner([&] { output = Output(session, &status); });
  gate.AwaitSomebody();
  const absl::Status running = session.Unload({1});
  const absl::StatusOr<ModelHandle> replaced = session.Replace(second.Sealed(), second.Verified());
  const absl::Status unloaded = session.Unload({2});
  gate.Open();
  runner.join();
  EXPECT_EQ(running.message(), "model 1 is running");
  EXPECT_EQ(ReasonOf(running), Reason::kUsage);
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_EQ(replaced->generation, 2u);
  EXPECT_TRUE(unloaded.ok()) << unloaded;
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(output, of_first);
  EXPECT_NE(output, of_second);
  Output(session, &status);
  EXPECT_EQ(status.message(), "model 0 is not resident, none is");
}

// Runs go on while models come and go: each has one model from its beginning to its end.
TEST(Store, RunsGoOnWhileModelsComeAndGo) {
  const Model first(Numbers(1, 2), 1);
  const Model second(Numbers(2, 1), 2);
  const std::vector<float> of_first = Output(*Make(first));
  const std::vector<float> of_second = Output(*Make(second));
  const std::unique_ptr<Session> session = Make(first);
  std::atomic<bool> done{false};
  std::atomic<int> mixed{0};
  std::atomic<int> runs{0};
  std::thread runner([&] {
    while (!done.load()) {
      absl::Status status;
      const std::vector<float> output = Output(*session, &status);
      if (status.ok() ? output != of_first && output != of_second : ReasonOf(status) != Reason::kStaleModel) ++mixed;
      ++runs;
    }
  });
  for (int models = 0; models < 20; ++models) {
    const Model& next = models % 2 == 0 ? second : first;
    EXPECT_TRUE(session->Replace(next.Sealed(), next.Verified()).ok());
    for (;;) {
      const absl::Status status = session->Unload(session->model());
      if (status.ok()) break;
      EXPECT_EQ(status.message(), absl::StrCat("model ", session->model().generation, " is running"));
    }
  }
  done.store(true);
  runner.join();
  EXPECT_EQ(mixed.load(), 0);
  std::printf("%d runs while 20 models came and went\n", runs.load());
}

TEST(Store, EveryLeafIsVerifiedInTheBytesThatAreUsed) {
  for (const auto& [tp, ep] : {std::pair<uint32_t, uint32_t>{1, 1}, {2, 2}}) {
    const Model first(Numbers(tp, ep), 1);
    const Model model(Numbers(tp, ep), 2);
    const std::unique_ptr<Session> session = Make(first);
    const std::vector<float> before = Output(*session);
    const absl::StatusOr<std::string> list = ReadDigestsFile(model.digests());
    ASSERT_TRUE(list.ok());
    const absl::StatusOr<SealedDigests> digests = SealedDigests::Open(*list);
    ASSERT_TRUE(digests.ok());
    std::vector<RegularFile> files;
    const absl::StatusOr<CheckpointListing> listing = CheckpointListing::Open(model.folder(), &files);
    ASSERT_TRUE(listing.ok());
    const std::string good = ContentOf(model.file());
    const Plan plan = model.Sealed().plan();
    size_t refused = 0;
    size_t leaves = 0;
    const std::vector<ReadTensor> tensors = ReadTensors(plan.hidden, plan.layer_classes);
    // Every leaf of some tensors, so that the test stays short: each role once.
    for (size_t t = 0; t < tensors.size(); t += support::kSanitized ? 7 : 3) {
      const ListedTensor& listed = *listing->Find(tensors[t].name);
      const absl::StatusOr<StoredTensor> stored =
          StoredTensor::Of(tensors[t].tensor, plan.weight_source, {listed.dtype, listed.shape});
      ASSERT_TRUE(stored.ok());
      const absl::StatusOr<TensorLeaves> parts =
          TensorLeaves::Of(*stored, EndsFor(*digests->digests().SegmentsOf(0), tensors[t].tensor.tensor->role));
      ASSERT_TRUE(parts.ok());
      for (uint64_t leaf = 0; leaf < parts->count(); ++leaf) {
        ++leaves;
        std::string bad = good;
        const ByteRuns last = parts->BytesOf(leaf).back();
        bad[listed.begin + last.begin + (last.count - 1) * last.stride + last.bytes - 1] ^= 1;
        support::WriteFile(model.file(), bad);
        const absl::StatusOr<ModelHandle> handle = session->Replace(model.Sealed(), model.Verified());
        const std::string where =
            absl::StrCat(model.file().string(), ": tensor '", tensors[t].name, "': expert ", tensors[t].expert,
                         ", leaf ", leaf, " of ", parts->count(), ": the bytes are not those of the digest list");
        refused += ReasonOf(handle.status()) == Reason::kWeightsDigest &&
                   absl::EndsWith(handle.status().message(), where) &&
                   absl::StartsWith(handle.status().message(), "rank ");
        EXPECT_EQ(handle.status().message().substr(0, 5), "rank ") << handle.status();
        EXPECT_TRUE(absl::EndsWith(handle.status().message(), where)) << handle.status();
      }
    }
    EXPECT_EQ(refused, leaves);
    EXPECT_GE(leaves, support::kSanitized ? 5u : 10u);
    std::printf("tp %u ep %u: one bit of a leaf changed: %zu of %zu refused\n", tp, ep, refused, leaves);
    EXPECT_EQ(Output(*session, {1}), before);
    support::WriteFile(model.file(), good);
    EXPECT_TRUE(session->Replace(model.Sealed(), model.Verified()).ok());
  }
}

// W01 to W05 of the known ways to bring in other weights; W06 is in weights_test.cc.
TEST(Store, OtherWeightsAreRefusedEachWithItsReason) {
  Model model(Numbers(1, 2), 2);
  const std::string good = ContentOf(model.file());
  const auto load = [&](const std::string& bytes) {
    std::filesystem::remove(model.file());
    support::WriteFile(model.file(), bytes);
    return Session::Create(model.Sealed(), model.Verified()).status();
  };
  EXPECT_TRUE(load(good).ok());
  EXPECT_EQ(ReasonOf(load(good.substr(0, good.size() - 1))), Reason::kWeightsTruncated);  // one byte short
  std::string bad = good;
  bad.back() ^= 0x40;
  EXPECT_EQ(ReasonOf(load(bad)), Reason::kWeightsDigest);  // a bit of the last leaf
  bad = good;
  for (size_t i = 0; i < 64; ++i) std::swap(bad[bad.size() - 1 - i], bad[bad.size() - 65 - i]);
  EXPECT_EQ(ReasonOf(load(bad)), Reason::kWeightsDigest);  // leaves in each other's place
  bad = good;
  bad.replace(bad.find("\"F32\""), 5, "\"I32\"");
  EXPECT_EQ(ReasonOf(load(bad)), Reason::kWeightsTensor);  // the right bytes under another dtype
  const TempFolder elsewhere;
  support::WriteFile(elsewhere.path() / "model.safetensors", good);
  std::filesystem::remove(model.file());
  std::filesystem::create_symlink(elsewhere.path() / "model.safetensors", model.file());
  const absl::Status linked = Session::Create(model.Sealed(), model.Verified()).status();
  EXPECT_EQ(ReasonOf(linked), Reason::kWeightsFile) << linked;  // a link out of the folder
}

TEST(Store, AListIsOfOnePlan) {
  Model model(Numbers(1, 1), 2);
  SessionOptions none = Options(model.folder());
  none.unverified_weights = false;
  const absl::Status missing = Session::Create(model.Sealed(), none).status();
  EXPECT_EQ(missing.message(),
            absl::StrCat("the plan binds the weights digests ", HexOf(model.plan().weights_digest).substr(0, 16),
                         "..., and no list is given; give it, or allow unverified weights"));
  EXPECT_EQ(ReasonOf(missing), Reason::kWeightsUnverified);
  EXPECT_TRUE(Session::Create(model.Sealed(), model.Unverified()).ok());
  const Model other(Numbers(1, 1), 3);
  const absl::Status wrong = Session::Create(model.Sealed(), Options(model.folder(), other.digests())).status();
  EXPECT_EQ(ReasonOf(wrong), Reason::kWeightsDigest) << wrong;
  model.plan().weights_digest = {};
  const absl::Status unbound = Session::Create(model.Sealed(), model.Verified()).status();
  EXPECT_EQ(ReasonOf(unbound), Reason::kWeightsUnverified) << unbound;
}

// Pages of this process that lie in memory.
uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages >> pages;
  return pages * 4096;
}

TEST(Store, AHundredLoadsTakeNoMoreThanOne) {
  PlanNumbers n = Numbers(1, 2);
  n.hidden = 16;
  n.intermediate = 512;  // 1.6 MB of experts
  const Model model(n, 1);
  const std::unique_ptr<Session> session = Make(model);
  const std::vector<float> before = Output(*session);
  const int cycles = support::kSanitized ? 10 : 100;
  uint64_t early = 0;
  for (int i = 0; i < cycles; ++i) {
    ASSERT_TRUE(session->Unload(session->model()).ok());
    ASSERT_TRUE(session->Replace(model.Sealed(), model.Verified()).ok());
    if (i == cycles / 10) early = ResidentBytes();
  }
  EXPECT_EQ(session->model().generation, 1u + static_cast<unsigned>(cycles));
  EXPECT_EQ(Output(*session), before);
  const uint64_t late = ResidentBytes();
  std::printf("%d load cycles: %.1f MB resident after a tenth of them, %.1f MB at the end\n", cycles,
              static_cast<double>(early) / 1e6, static_cast<double>(late) / 1e6);
  if (support::kSanitized) return;  // sanitizers keep what is given back
  EXPECT_LT(late, early + 1'000'000);
}

// Weights that are made: the same for every world, and verified by nobody.
TEST(Store, SyntheticWeightsAreTheSameForEveryWorld) {
  std::vector<std::vector<float>> outputs;
  for (const auto& [tp, ep] : {std::pair<uint32_t, uint32_t>{1, 1}, {3, 1}, {1, 4}, {2, 2}}) {
    PlanNumbers n = Numbers(tp, ep);
    n.weight_source = WeightSource::kSynthetic;
    Plan plan = support::BuildPlan(n);
    plan.weight_seed = 7;
    SessionOptions options;
    absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(
        [&] {
          plan.execution_fingerprint = ExecutionFingerprint(plan);
          return support::Seal(plan);
        }(),
        options);
    ASSERT_TRUE(session.ok()) << session.status();
    outputs.push_back(Output(**session));
    for (size_t i = 0; i < outputs[0].size(); ++i) {
      EXPECT_NEAR(outputs.back()[i], outputs[0][i], 1e-6) << tp << " " << ep;
    }
    options.weights = {"somewhere"};
    const absl::Status refused = Session::Create(support::Seal(plan), options).status();
    EXPECT_EQ(ReasonOf(refused), Reason::kUsage) << refused;
  }
  double largest = 0;
  for (const float value : outputs[0]) largest = std::max(largest, std::abs(static_cast<double>(value)));
  EXPECT_GT(largest, 1e-6);
  EXPECT_LT(largest, 1);
}

}  // namespace
}  // namespace meshseal::runtime

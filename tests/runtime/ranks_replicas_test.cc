// Replicas that fail alone: whatever fails in one of them ends its ranks with one cause, and the others give what they
// would have given.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/comm/inproc.h"
#include "runtime/session/session.h"
#include "schema/mesh_view.h"
#include "schema/reason.h"
#include "tests/ranks/planted_world.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

using support::PassingEndpoint;
using support::PlanNumbers;
using support::PlantedWorld;
using support::TempFolder;

constexpr uint32_t kTokens = 7;

// Three layers on replicas of two stages of two ranks.
PlanNumbers Numbers() {
  PlanNumbers n;
  n.layers = 3;
  n.dp = 2;
  n.pp = 2;
  n.ep = 2;
  n.residual = Residual::kAdd;
  n.failure_scope = FailureScope::kReplica;
  return n;
}
constexpr uint32_t kWorld = 8;
constexpr uint32_t kScope = 4;

// What is done instead of the exchange of that number, from 0, of a rank in its expert group, counted from `armed` on.
struct PlantedFault {
  uint32_t rank = 0;
  uint64_t exchange = 0;
  std::function<absl::Status()> act;
  std::atomic<bool> armed{false};
  std::atomic<uint64_t> seen{0};
};

class FaultyEndpoint : public PassingEndpoint {
 public:
  FaultyEndpoint(std::unique_ptr<Endpoint> real, PlantedFault& fault)
      : PassingEndpoint(std::move(real)), fault_(fault) {}
  absl::Status Exchange(Channel channel, absl::Span<const Outgoing> out, absl::Span<const Incoming> in,
                        std::chrono::milliseconds deadline) override {
    if (rank() == fault_.rank && channel == Channel::kExpertGroup && fault_.armed &&
        fault_.seen.fetch_add(1) == fault_.exchange && fault_.act) {
      absl::Status status = fault_.act();
      if (!status.ok()) return status;
    }
    return PassingEndpoint::Exchange(channel, out, in, deadline);
  }

 private:
  PlantedFault& fault_;
};

// A model whose ranks are threads, with a fault in one of them.
class Replicas {
 public:
  explicit Replicas(PlanNumbers numbers = Numbers()) : numbers_(std::move(numbers)) {
    support::WriteCheckpoint(folder_.path(), support::RandomCheckpoint(support::BuildPlan(numbers_), 21));
  }

  SessionOptions Options(PlantedFault* fault = nullptr) const {
    SessionOptions options;
    options.weights = {folder_.path()};
    options.unverified_weights = true;
    options.deadline = std::chrono::milliseconds(20'000);
    if (fault != nullptr) {
      options.world = std::make_shared<PlantedWorld>(MakeInprocWorld(), [fault](std::unique_ptr<Endpoint> end) {
        return std::make_unique<FaultyEndpoint>(std::move(end), *fault);
      });
    }
    return options;
  }

  SealedPlan Sealed() const { return support::BuildSealedPlan(numbers_); }
  std::unique_ptr<Session> Make(const SessionOptions& options) const {
    absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(Sealed(), options);
    EXPECT_TRUE(session.ok()) << session.status();
    return std::move(session).value();
  }
  uint32_t hidden() const { return numbers_.hidden; }

 private:
  const PlanNumbers numbers_;
  const TempFolder folder_;
};

struct Ran {
  absl::Status status;
  std::vector<float> output;
  std::vector<RunResult> results;
};

Ran RunStack(Session& session, const std::vector<float>& hidden, const std::vector<uint32_t>& group_tokens = {}) {
  Ran ran;
  ran.output.assign(hidden.size(), 0);
  ran.status =
      session.RunStack({Phase::kDecode, kTokens, hidden, absl::MakeSpan(ran.output), {}, group_tokens}, &ran.results);
  return ran;
}

std::vector<float> Hidden(const Replicas& model) { return support::RandomValues(size_t{kTokens} * model.hidden(), 5); }

// Of 7 tokens the first replica has 4, and the second 3.
constexpr uint32_t kRows[3] = {0, 4, 7};

void ExpectRows(const Ran& ran, const Ran& expected, uint32_t replica, uint32_t hidden) {
  for (size_t i = size_t{kRows[replica]} * hidden; i < size_t{kRows[replica + 1]} * hidden; ++i) {
    ASSERT_EQ(ran.output[i], expected.output[i]) << "replica " << replica << ", element " << i;
  }
  for (size_t layer = 0; layer < ran.results.size(); ++layer) {
    const size_t top_k = ran.results[layer].expert_ids.size() / kTokens;
    for (size_t i = kRows[replica] * top_k; i < kRows[replica + 1] * top_k; ++i) {
      ASSERT_EQ(ran.results[layer].expert_ids[i], expected.results[layer].expert_ids[i]);
      ASSERT_EQ(ran.results[layer].expert_weights[i], expected.results[layer].expert_weights[i]);
    }
  }
}

void ExpectNothing(const Ran& ran, uint32_t replica, uint32_t hidden) {
  for (size_t i = size_t{kRows[replica]} * hidden; i < size_t{kRows[replica + 1]} * hidden; ++i) {
    ASSERT_TRUE(std::isnan(ran.output[i])) << "replica " << replica << ", element " << i;
  }
  for (const RunResult& result : ran.results) {
    const size_t top_k = result.expert_ids.size() / kTokens;
    for (size_t i = kRows[replica] * top_k; i < kRows[replica + 1] * top_k; ++i) {
      ASSERT_EQ(result.expert_ids[i], -1);
      ASSERT_TRUE(std::isnan(result.expert_weights[i]));
    }
  }
}

TEST(Replicas, AFailureAnywhereEndsItsReplicaAndNoOther) {
  const Replicas model;
  const std::vector<float> hidden = Hidden(model);
  const std::unique_ptr<Session> whole = model.Make(model.Options());
  const Ran expected = RunStack(*whole, hidden);
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  ASSERT_EQ(expected.results.front().replicas.size(), 2u);
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    PlantedFault counted;
    counted.rank = rank;
    {
      const std::unique_ptr<Session> session = model.Make(model.Options(&counted));
      counted.armed = true;
      ASSERT_TRUE(RunStack(*session, hidden).status.ok());
    }
    const uint64_t exchanges = counted.seen;
    ASSERT_GE(exchanges, 2u);
    for (const uint64_t exchange : {uint64_t{0}, exchanges / 2, exchanges - 1}) {
      PlantedFault fault;
      fault.rank = rank;
      fault.exchange = exchange;
      fault.act = [] { return Refuse(Reason::kNonFinite, "a planted fault"); };
      const std::unique_ptr<Session> session = model.Make(model.Options(&fault));
      fault.armed = true;
      const Ran ran = RunStack(*session, hidden);
      const uint32_t failed = rank / kScope;
      const uint32_t other = 1 - failed;
      const std::string where = absl::StrCat("rank ", rank, ", exchange ", exchange);
      const std::string prefix =
          absl::StrCat("replica ", failed, " (ranks ", failed * kScope, " to ", failed * kScope + 3, ") ");
      EXPECT_TRUE(absl::StartsWith(ran.status.message(), absl::StrCat(prefix, "failed: rank ", rank, " (dp", failed)))
          << where << ": " << ran.status;
      EXPECT_TRUE(
          absl::EndsWith(ran.status.message(), absl::StrCat(": a planted fault; replica ", other, " ended well")))
          << where << ": " << ran.status;
      EXPECT_EQ(ReasonOf(ran.status), Reason::kNonFinite);
      ExpectRows(ran, expected, other, model.hidden());
      ExpectNothing(ran, failed, model.hidden());
      const std::vector<std::optional<absl::Status>>& replicas = ran.results.front().replicas;
      ASSERT_EQ(replicas.size(), 2u);
      EXPECT_TRUE(replicas[other]->ok());
      EXPECT_TRUE(absl::StrContains(ran.status.message(), replicas[failed]->message()));
      for (uint32_t i = 0; i < kWorld; ++i) {
        const absl::Status& status = ran.results.front().ranks[i].status;
        if (i / kScope != other) continue;
        EXPECT_TRUE(status.ok()) << where << ": rank " << i << ": " << status;
      }

      // The other goes on, and a call that has nothing for the failed one is whole.
      const Ran next = RunStack(*session, hidden);
      EXPECT_TRUE(absl::StartsWith(next.status.message(), absl::StrCat(prefix, "is over: rank ", rank, " "))) << where;
      ExpectRows(next, expected, other, model.hidden());
      ExpectNothing(next, failed, model.hidden());
      const std::vector<uint32_t> tokens =
          failed == 0 ? std::vector<uint32_t>{0, kTokens} : std::vector<uint32_t>{kTokens, 0};
      const Ran around = RunStack(*session, hidden, tokens);
      EXPECT_TRUE(around.status.ok()) << where << ": " << around.status;
      const Ran around_expected = RunStack(*whole, hidden, tokens);
      EXPECT_EQ(around.output, around_expected.output);
    }
  }
}

TEST(Replicas, TheSessionIsOverWithTheLastOfThem) {
  const Replicas model;
  const std::unique_ptr<Session> session = model.Make(model.Options());
  std::vector<float> hidden = Hidden(model);
  const Ran expected = RunStack(*session, hidden);
  std::vector<float> bad = hidden;
  bad[5 * model.hidden()] = std::nanf("");
  const std::string second =
      "rank 4 (dp1 pp0 tp0 ep0): layer 0, step 0 route: token 5: the router score of expert 0 is not finite";
  EXPECT_EQ(RunStack(*session, bad).status.message(),
            absl::StrCat("replica 1 (ranks 4 to 7) failed: ", second, "; replica 0 ended well"));
  const Ran next = RunStack(*session, hidden);
  EXPECT_EQ(next.status.message(),
            absl::StrCat("replica 1 (ranks 4 to 7) is over: ", second, "; replica 0 ended well"));
  ExpectRows(next, expected, 0, model.hidden());
  bad = hidden;
  bad[0] = std::nanf("");
  const std::string first =
      "rank 0 (dp0 pp0 tp0 ep0): layer 0, step 0 route: token 0: the router score of expert 0 is not finite";
  const Ran last = RunStack(*session, bad);
  EXPECT_EQ(last.status.message(),
            absl::StrCat("replica 0 (ranks 0 to 3) failed: ", first, "; replica 1 (ranks 4 to 7) is over: ", second));
  ExpectNothing(last, 0, model.hidden());
  ExpectNothing(last, 1, model.hidden());
  const Ran over = RunStack(*session, hidden);
  EXPECT_EQ(over.status.message(), absl::StrCat("the session is over: replica 0 (ranks 0 to 3) failed: ", first,
                                                "; replica 1 (ranks 4 to 7) failed: ", second));
  EXPECT_EQ(ReasonOf(over.status), Reason::kNonFinite);
  EXPECT_TRUE(over.results.empty());
  // All ranks load another model.
  ASSERT_TRUE(session->Replace(model.Sealed(), model.Options()).ok());
  EXPECT_EQ(RunStack(*session, hidden).output, expected.output);
}

TEST(Replicas, BothMayFailInOneCall) {
  const Replicas model;
  std::vector<float> bad = Hidden(model);
  bad[0] = bad[5 * model.hidden()] = std::nanf("");
  const Ran ran = RunStack(*model.Make(model.Options()), bad);
  EXPECT_EQ(
      ran.status.message(),
      "replica 0 (ranks 0 to 3) failed: rank 0 (dp0 pp0 tp0 ep0): layer 0, step 0 route: token 0: the router score "
      "of expert 0 is not finite; replica 1 (ranks 4 to 7) failed: rank 4 (dp1 pp0 tp0 ep0): layer 0, step 0 route: "
      "token 5: the router score of expert 0 is not finite");
  ExpectNothing(ran, 0, model.hidden());
  ExpectNothing(ran, 1, model.hidden());
}

// One that hangs longer than the deadline is named by its own replica.
TEST(Replicas, AHungRankEndsItsReplicaInTime) {
  const Replicas model;
  const std::vector<float> hidden = Hidden(model);
  const Ran expected = RunStack(*model.Make(model.Options()), hidden);
  PlantedFault fault;
  fault.rank = 6;
  fault.exchange = 1;
  SessionOptions options = model.Options(&fault);
  options.deadline = std::chrono::milliseconds(1'000);
  fault.act = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1'500));
    return absl::OkStatus();
  };
  const std::unique_ptr<Session> session = model.Make(options);
  fault.armed = true;
  const auto start = std::chrono::steady_clock::now();
  const Ran ran = RunStack(*session, hidden);
  EXPECT_LE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(3'000));
  EXPECT_EQ(ReasonOf(ran.status), Reason::kDeadline) << ran.status;
  EXPECT_TRUE(absl::StartsWith(ran.status.message(), "replica 1 (ranks 4 to 7) failed: rank ")) << ran.status;
  EXPECT_TRUE(absl::StrContains(ran.status.message(), ": waited 1000 ms for rank 6")) << ran.status;
  EXPECT_TRUE(absl::EndsWith(ran.status.message(), "; replica 0 ended well")) << ran.status;
  ExpectRows(ran, expected, 0, model.hidden());
  ExpectNothing(ran, 1, model.hidden());
}

TEST(Replicas, WhoIsAskedToEndIsAskedForAllReplicas) {
  const Replicas model;
  std::atomic<bool> drain{false};
  SessionOptions options = model.Options();
  options.drain = &drain;
  const std::unique_ptr<Session> session = model.Make(options);
  drain = true;
  const Ran ran = RunStack(*session, Hidden(model));
  EXPECT_EQ(ReasonOf(ran.status), Reason::kStopped) << ran.status;
  ExpectNothing(ran, 0, model.hidden());
  ExpectNothing(ran, 1, model.hidden());
  EXPECT_TRUE(absl::StartsWith(RunStack(*session, Hidden(model)).status.message(), "the session is over: replica 0 "));
}

TEST(Replicas, ARankThatCannotLoadStopsAll) {
  const Replicas model;
  SessionOptions options = model.Options();
  const std::filesystem::path good = options.weights.front();
  options.weights.assign(kWorld, good);
  options.weights[6] = good / "missing";
  const absl::Status status = Session::Create(model.Sealed(), options).status();
  EXPECT_EQ(status.message(), absl::StrCat("rank 6 (dp1 pp1 tp0 ep0): ", (good / "missing").string(),
                                           ": cannot be opened: No such file or directory"));
  EXPECT_EQ(ReasonOf(status), Reason::kWeightsFile);
}

TEST(Replicas, OneAloneIsTheWorld) {
  PlanNumbers n = Numbers();
  n.dp = 1;
  const Replicas model(n);
  std::vector<float> bad = Hidden(model);
  bad[0] = std::nanf("");
  const Ran ran = RunStack(*model.Make(model.Options()), bad);
  EXPECT_EQ(ran.status.message(),
            "rank 0 (dp0 pp0 tp0 ep0): layer 0, step 0 route: token 0: the router score of expert 0 is not finite");
  EXPECT_TRUE(ran.results.front().replicas.empty());
}

}  // namespace
}  // namespace meshseal::runtime

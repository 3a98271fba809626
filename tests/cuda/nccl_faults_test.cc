// Sessions whose ranks have a device each and meet over NCCL, on stand-ins of CUDA's libraries: whatever fails ends all
// ranks in time, with the cause and nothing left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/cuda/cuda_compute.h"
#include "runtime/session/session.h"
#include "schema/reason.h"
#include "tests/cuda/device_session.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fake_nccl.h"
#include "tests/support/plan_builder.h"

namespace meshseal::cuda {
namespace {

using runtime::RunResult;
using runtime::Session;
using runtime::SessionOptions;
using support::PlanNumbers;
using testing::HasSubstr;

// Calls that give something back: when they fail, it is not, and nobody can do anything about it.
bool Frees(const std::string& function) {
  return absl::StrContains(function, "Free") || absl::StrContains(function, "Destroy");
}

// Calls that ask how something is doing, or end it: how often depends on who comes first, and whether anybody waits for
// the answer.
bool Asks(const std::string& function) {
  return absl::StrContains(function, "Query") || absl::StrContains(function, "AsyncError");
}

// A plan of two ranks whose runs take milliseconds.
class NcclFaults : public DeviceSessionTest {
 protected:
  // Runs that end take far less; those that never would are given the short one.
  static constexpr std::chrono::milliseconds kLong{40'000};
  static constexpr std::chrono::milliseconds kShort{2'000};
  // The rest of a failed run: for NCCL to end what is under way, for the device, and for a slow machine.
  static constexpr std::chrono::seconds kSlack{15};

  void SetUp() override {
    DeviceSessionTest::SetUp();
    Machine(1, 2);
  }

  static PlanNumbers Small() {
    PlanNumbers n;
    n.ep = 2;
    n.weight_source = WeightSource::kSynthetic;
    n.transport = Transport::kNccl;
    n.capture_bytes = 1 << 20;
    return n;
  }

  // Each rank on a slot of its own.
  static Plan SmallPlan() {
    Plan plan = support::BuildPlan(Small());
    plan.mesh.emulated = false;
    plan.mesh.nodes[0].slots = 2;
    plan.mesh.rank_slots = {{0, 0}, {0, 1}};
    return plan;
  }

  static SessionOptions Options(std::chrono::milliseconds deadline = kLong) {
    SessionOptions options;
    options.deadline = deadline;
    options.compute = MakeNcclCompute(Unmanaged());
    return options;
  }

  static absl::StatusOr<std::unique_ptr<Session>> Open(std::chrono::milliseconds deadline = kLong) {
    return Session::Create(support::Seal(SmallPlan()), Options(deadline));
  }

  static absl::Status Run(Session& session, Phase phase = Phase::kDecode) {
    const std::vector<float> hidden(2 * 16, 0.5F);
    std::vector<float> output(hidden.size());
    RunResult result;
    return session.Run({0, phase, 2, hidden, absl::MakeSpan(output)}, &result);
  }

  // A prefill, then decode as it is, captured and replayed.
  static absl::Status RunAll() {
    absl::StatusOr<std::unique_ptr<Session>> session = Open();
    if (!session.ok()) return session.status();
    for (const Phase phase : {Phase::kPrefill, Phase::kDecode, Phase::kDecode, Phase::kDecode}) {
      if (const absl::Status status = Run(**session, phase); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // A refused call took no longer than it may: what fails is heard of, and only what never ends takes the short
  // deadline.
  class Clock {
   public:
    ~Clock() { EXPECT_LT(std::chrono::steady_clock::now() - begin_, kShort + kSlack); }

   private:
    const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  };

  // RunAll on a new machine, whose `nth` call of `function` fails with `error`. Nothing is left of it, but for what the
  // call was to free.
  static absl::Status RunAllWith(const std::string& function, uint64_t nth, int error) {
    Machine(1, 2);
    fake_cuda::CallFault fault;
    fault.function = function;
    fault.nth = nth;
    fault.error = error;
    fake_cuda::FailCall(fault);
    const Clock clock;
    const absl::Status status = RunAll();
    EXPECT_EQ(fake_cuda::Violations(), std::vector<std::string>());
    if (!Frees(function)) ExpectNothingLeft();
    return status;
  }
};

// The fault matrix: of a prefill, and of decode as it is, captured and replayed, every call of CUDA (allocations among
// them) and of NCCL fails, one each time: the cause is named, both ranks end inside the deadline, nothing is left.
TEST_F(NcclFaults, EveryCallThatFailsIsACleanRefusal) {
  ASSERT_EQ(RunAll(), absl::OkStatus());
  std::map<std::string, uint64_t> counts;
  for (const std::string& call : fake_cuda::CallLog()) ++counts[call];
  ExpectNothingLeft();
  uint64_t refused = 0;
  uint64_t total = 0;
  for (const auto& [function, count] : counts) {
    const bool is_nccl = absl::StartsWith(function, "nccl");
    const int error = is_nccl ? static_cast<int>(ncclInternalError) : static_cast<int>(cudaErrorUnknown);
    // Of the hundreds that ask, a few.
    const uint64_t step = Asks(function) ? 1 + count / 6 : 1;
    for (uint64_t nth = 1; nth <= count; nth += step) {
      SCOPED_TRACE(absl::StrCat(function, ", call ", nth, " of ", count));
      ++total;
      const absl::Status status = RunAllWith(function, nth, error);
      if (status.ok()) {
        EXPECT_TRUE(Frees(function) || Asks(function) || function == "ncclCommFinalize");
        continue;
      }
      ++refused;
      EXPECT_EQ(ReasonOf(status), Reason::kDevice) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(is_nccl ? "internal error" : "cudaErrorUnknown"));
    }
  }
  std::printf("%d functions, %d calls failed, %d refused\n", static_cast<int>(counts.size()), static_cast<int>(total),
              static_cast<int>(refused));
}

TEST_F(NcclFaults, AnErrorOfACommunicatorEndsTheRun) {
  for (const bool captured : {false, true}) {
    Machine(1, 2);
    absl::StatusOr<std::unique_ptr<Session>> session = Open();
    ASSERT_TRUE(session.ok()) << session.status();
    if (captured) {
      ASSERT_EQ(Run(**session), absl::OkStatus());
      ASSERT_EQ(Run(**session), absl::OkStatus());
      ASSERT_EQ(fake_cuda::LeakReport().graph_execs, 2u);
    }
    fake_nccl::FailCommunicator(fake_nccl::Communicators()[1], ncclSystemError);
    const Clock clock;
    const absl::Status status = Run(**session);
    EXPECT_EQ(ReasonOf(status), Reason::kDevice) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 (dp0 pp0 tp0 ep1): "));
    EXPECT_THAT(std::string(status.message()), HasSubstr("unhandled system error"));
    EXPECT_EQ(fake_cuda::LeakReport().graph_execs, 0u);  // before the communicators were ended
    EXPECT_EQ(fake_nccl::LeakReport().communicators, 0u);
    EXPECT_THAT(std::string(Run(**session).message()), HasSubstr("the session is over: "));
    session->reset();
    ExpectNothingLeft();
  }
}

TEST_F(NcclFaults, ARankWhoseCollectiveNeverComesIsWaitedForUntilTheDeadline) {
  for (const bool captured : {false, true}) {
    Machine(1, 2);
    absl::StatusOr<std::unique_ptr<Session>> session = Open(kShort);
    ASSERT_TRUE(session.ok()) << session.status();
    if (captured) {
      ASSERT_EQ(Run(**session), absl::OkStatus());
      ASSERT_EQ(Run(**session), absl::OkStatus());
    }
    fake_nccl::Kill(fake_nccl::Communicators()[1], /*noticed=*/false);
    const Clock clock;
    const absl::Status status = Run(**session);
    EXPECT_EQ(ReasonOf(status), Reason::kDeadline) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("the decode program: not done after 2000 ms; this rank entered layer 0 step"));
    session->reset();
    ExpectNothingLeft();
  }
}

TEST_F(NcclFaults, ARankThatDiesIsNoticed) {
  absl::StatusOr<std::unique_ptr<Session>> session = Open();
  ASSERT_TRUE(session.ok()) << session.status();
  fake_nccl::Kill(fake_nccl::Communicators()[1], /*noticed=*/true);
  const Clock clock;
  const absl::Status status = Run(**session);
  EXPECT_EQ(ReasonOf(status), Reason::kPeerFailed) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("remote process exited or there was a network error"));
  session->reset();
}

TEST_F(NcclFaults, ADeviceThatHangsIsLeftToTheEndOfTheProcess) {
  absl::StatusOr<std::unique_ptr<Session>> session = Open(kShort);
  ASSERT_TRUE(session.ok()) << session.status();
  fake_cuda::WorkFault fault;
  fault.device = 1;
  fault.kernels_only = true;
  fault.outcome = fake_cuda::WorkFault::Outcome::kNever;
  fake_cuda::FailWork(fault);
  const Clock clock;
  const absl::Status status = Run(**session);
  EXPECT_EQ(ReasonOf(status), Reason::kDeadline) << status;
  session->reset();
  EXPECT_EQ(fake_nccl::LeakReport().communicators, 0u);
  EXPECT_EQ(fake_cuda::Violations(), std::vector<std::string>());
  EXPECT_GT(fake_cuda::LeakReport().device_allocations, 0u);
  Machine(1, 2);
}

TEST_F(NcclFaults, EachReplicaHasACommunicatorAndAFailureEndsAll) {
  Machine(1, 4);
  PlanNumbers n = Small();
  n.dp = 2;
  Plan plan = support::BuildPlan(n);
  plan.mesh.emulated = false;
  plan.mesh.nodes[0].slots = 4;
  plan.mesh.rank_slots = {{0, 0}, {0, 1}, {0, 2}, {0, 3}};
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(support::Seal(plan), Options());
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(fake_cuda::CallCount("ncclGetUniqueId"), 2u);
  ASSERT_EQ(Run(**session), absl::OkStatus());
  ASSERT_EQ(Run(**session), absl::OkStatus());
  EXPECT_EQ(fake_cuda::LeakReport().graph_execs, 4u);
  fake_nccl::FailCommunicator(fake_nccl::Communicators()[3], ncclInternalError);
  const Clock clock;
  EXPECT_EQ(ReasonOf(Run(**session)), Reason::kDevice);
  session->reset();
}

// C76: whether ranks capture is the plan's to say, for all of them.
TEST_F(NcclFaults, APlanWhoseTransportIsNotCapturableRunsWithoutGraphs) {
  const auto output_of = [&](bool capturable, size_t graphs) {
    Machine(1, 2);
    Plan plan = SmallPlan();
    plan.mesh.capturable = capturable;
    absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(support::Seal(plan), Options());
    EXPECT_TRUE(session.ok()) << session.status();
    std::vector<float> hidden(2 * 16, 0.5f);
    std::vector<float> output(hidden.size());
    RunResult result;
    for (int run = 0; run < 2; ++run) {
      EXPECT_EQ((*session)->Run({0, Phase::kDecode, 2, hidden, absl::MakeSpan(output)}, &result), absl::OkStatus());
    }
    EXPECT_EQ(fake_cuda::LeakReport().graph_execs, graphs);
    EXPECT_EQ(fake_cuda::CallCount("cudaGraphLaunch") > 0, capturable);
    return output;
  };
  EXPECT_EQ(output_of(true, 2), output_of(false, 0));
}

TEST_F(NcclFaults, ANonFiniteScoreIsTheRanksAndNotNccls) {
  absl::StatusOr<std::unique_ptr<Session>> session = Open();
  ASSERT_TRUE(session.ok()) << session.status();
  const std::vector<float> hidden(2 * 16, std::numeric_limits<float>::infinity());
  std::vector<float> output(hidden.size());
  RunResult result;
  const absl::Status status = (*session)->Run({0, Phase::kDecode, 2, hidden, absl::MakeSpan(output)}, &result);
  EXPECT_EQ(ReasonOf(status), Reason::kNonFinite) << status;
  session->reset();
  EXPECT_EQ(fake_cuda::CallCount("ncclCommAbort"), 0u);  // nothing was under way
}

TEST_F(NcclFaults, WhatMayNotCarryThePlanIsRefusedBeforeADeviceIsTouched) {
  Plan plan = SmallPlan();
  plan.mesh.transport_version_min = "2.28.3";
  plan.mesh.transport_version_max = "2.28.3";
  const absl::Status version = Session::Create(support::Seal(plan), Options()).status();
  EXPECT_EQ(ReasonOf(version), Reason::kRankRecord) << version;
  EXPECT_THAT(std::string(version.message()), HasSubstr(": NCCL is 2.28.9, the plan's mesh takes 2.28.3"));

  ASSERT_EQ(setenv("NCCL_COMM_ID", "10.0.0.1:4000", 1), 0);
  const absl::Status address = Open().status();
  ASSERT_EQ(unsetenv("NCCL_COMM_ID"), 0);
  EXPECT_EQ(ReasonOf(address), Reason::kRankRecord) << address;
  EXPECT_THAT(std::string(address.message()),
              HasSubstr(": NCCL_COMM_ID is '10.0.0.1:4000': ranks would meet there, and not as they have agreed; "
                        "unset it"));

  ASSERT_EQ(unsetenv("NCCL_NVLS_ENABLE"), 0);
  PlanNumbers fast = Small();
  fast.reduction = Reduction::kFast;
  const absl::Status undecided = Session::Create(support::BuildSealedPlan(fast), Options()).status();
  EXPECT_EQ(ReasonOf(undecided), Reason::kRankRecord) << undecided;
  EXPECT_THAT(std::string(undecided.message()), HasSubstr(": NCCL_NVLS_ENABLE is not set: "));
  for (const std::string& call : fake_cuda::CallLog()) EXPECT_EQ(call, "ncclGetVersion");
}

TEST_F(NcclFaults, RanksThatShareADeviceAreTheLoopbacks) {
  Machine(1, 1);
  const absl::Status too_few = Open().status();
  EXPECT_EQ(ReasonOf(too_few), Reason::kDeviceIdentity) << too_few;
  EXPECT_THAT(std::string(too_few.message()), HasSubstr("ranks that share one are an emulation: --ranks loopback"));

  // Nor where the devices need not be the plan's, or the plan's mesh says that its ranks share one.
  SessionOptions emulating = Options();
  emulating.emulate = true;
  for (const absl::Status& shared : {Session::Create(support::Seal(SmallPlan()), emulating).status(),
                                     Session::Create(support::BuildSealedPlan(Small()), Options()).status()}) {
    EXPECT_EQ(ReasonOf(shared), Reason::kRankRecord) << shared;
    EXPECT_THAT(std::string(shared.message()), HasSubstr("is that of ranks 0, 1, each rank has its own; ranks that "
                                                         "share one are an emulation: --ranks loopback"));
  }
  EXPECT_EQ(fake_cuda::CallCount("ncclCommInitRankConfig"), 0u);
}

}  // namespace
}  // namespace meshseal::cuda

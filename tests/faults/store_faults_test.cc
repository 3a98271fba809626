// Every allocation and every read of a load fails, once and from there on for ever, while another model is resident: a
// clean refusal each time, the resident model serves the same bytes, and nothing is kept.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/session/session.h"
#include "schema/reason.h"
#include "tests/faults/io_faults.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/digest_list.h"
#include "tests/support/plan_builder.h"
#include "tests/support/sanitized.h"

#if !MESHSEAL_TEST_SANITIZED
#include <openssl/err.h>

#include "tests/faults/allocation_faults.h"
#endif

namespace meshseal::faults {
namespace {

using runtime::ModelHandle;
using runtime::Session;
using runtime::SessionOptions;

// A session with a model, and another one that would take its place: sharded, verified, of one rank and thread, because
// faults are counted in one thread.
class Store {
 public:
  Store() {
    support::PlanNumbers n;
    n.experts = 2;
    n.biases = true;
    Plan plan = support::BuildPlan(n);
    support::WriteCheckpoint(first_.path(), support::RandomCheckpoint(plan, 1));
    first_plan_ = *SealPlan(plan, 1);
    MakeFirst();

    const support::Checkpoint checkpoint = support::RandomCheckpoint(plan, 2);
    support::WriteCheckpoint(next_.path(), checkpoint);
    support::WriteFile(next_.path() / "list", support::BindDigests(next_.path(), &plan));
    next_plan_ = *SealPlan(plan, 1);
    absl::StatusOr<std::unique_ptr<Session>> next = Session::Create(NextPlan(), NextOptions());
    EXPECT_TRUE(next.ok()) << next.status();
    next_output_ = OutputOf(**next);
    EXPECT_NE(next_output_, Output());
  }

  // The first model is resident, in a session of its own.
  void MakeFirst() {
    SessionOptions options;
    options.weights = {first_.path()};
    options.unverified_weights = true;
    absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(Opened(first_plan_), options);
    EXPECT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  // Opened before the faults begin.
  SealedPlan NextPlan() const { return Opened(next_plan_); }
  SessionOptions NextOptions() const {
    SessionOptions options;
    options.weights = {next_.path()};
    options.digests = next_.path() / "list";
    options.load_threads = 1;
    return options;
  }

  std::vector<float> Output() const { return OutputOf(*session_); }
  const std::vector<float>& next_output() const { return next_output_; }
  Session& session() { return *session_; }

 private:
  static SealedPlan Opened(const std::string& file) {
    absl::StatusOr<SealedPlan> plan = SealedPlan::Open(file, Policy{});
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *std::move(plan);
  }
  static std::vector<float> OutputOf(Session& session) {
    const std::vector<float> hidden = support::RandomValues(3 * 16, 3);
    std::vector<float> output(hidden.size());
    runtime::RunRequest request;
    request.phase = Phase::kDecode;
    request.tokens = 3;
    request.hidden = hidden;
    request.output = absl::MakeSpan(output);
    runtime::RunResult result;
    const absl::Status status = session.Run(request, &result);
    EXPECT_TRUE(status.ok()) << status;
    return output;
  }

  support::TempFolder first_;
  support::TempFolder next_;
  std::string first_plan_;
  std::string next_plan_;
  std::vector<float> next_output_;
  std::unique_ptr<Session> session_;
};

// Fails call after call until one load has none that fails. `arm` starts the counting, `disarm` ends it and tells how
// many failed; `leaked` tells what a refused load has left. Some failures do not matter: then the load is as good as
// any.
struct Loop {
  uint64_t calls = 0;
  uint64_t refused = 0;
};
template <class Arm, class Disarm, class Leaked>
Loop FailEveryCall(Store& store, const std::set<Reason>& reasons, Arm arm, Disarm disarm, Leaked leaked) {
  const std::vector<float> before = store.Output();
  ModelHandle resident = store.session().model();
  for (Loop loop;; ++loop.calls) {
    SealedPlan plan = store.NextPlan();
    SessionOptions options = store.NextOptions();
    const int descriptors = OpenDescriptors();
    arm(loop.calls);
    absl::StatusOr<ModelHandle> handle = store.session().Replace(std::move(plan), std::move(options));
    const uint64_t failed = disarm();
    const std::string at = absl::StrCat("call ", loop.calls, ": ", handle.status().ToString());
    EXPECT_EQ(OpenDescriptors(), descriptors) << at;
    if (handle.ok()) {
      EXPECT_EQ(handle->generation, resident.generation + 1) << at;
      EXPECT_EQ(store.Output(), store.next_output()) << at;
      if (failed == 0) return loop;
      store.MakeFirst();
      resident = store.session().model();
    } else {
      ++loop.refused;
      EXPECT_GT(failed, 0u) << at;
      EXPECT_EQ(reasons.count(ReasonOf(handle.status()).value_or(Reason::kBug)), 1u) << at;
      EXPECT_EQ(store.session().model(), resident) << at;
      EXPECT_EQ(store.Output(), before) << at;
      handle = absl::CancelledError();  // its text was memory, too
      EXPECT_EQ(leaked(), 0u) << at;
    }
    if (testing::Test::HasFailure()) return loop;
  }
}

class StoreFaults : public testing::TestWithParam<Mode> {};

TEST_P(StoreFaults, EveryReadFails) {
  Store store;
  const Loop loop = FailEveryCall(
      store, {Reason::kWeightsFile, Reason::kUsage},
      [](uint64_t index) {
        ArmIo(IoFault::kError, {index, GetParam()});
      },
      [] { return DisarmIo().failed; }, [] { return 0u; });
  std::printf("%llu calls that touch files, %llu refusals\n", static_cast<unsigned long long>(loop.calls),
              static_cast<unsigned long long>(loop.refused));
  EXPECT_GT(loop.refused, 20u);
}

#if !MESHSEAL_TEST_SANITIZED
TEST_P(StoreFaults, EveryAllocationFails) {
  Store store;
  const Loop loop = FailEveryCall(
      store, {Reason::kOutOfMemory},
      [](uint64_t index) {
        ArmAllocations({index, GetParam()});
      },
      [] {
        ERR_clear_error();  // OpenSSL keeps the places of past errors
        return DisarmAllocations().failed;
      },
      [] { return LiveAllocations(); });
  std::printf("%llu allocations, %llu refusals\n", static_cast<unsigned long long>(loop.calls),
              static_cast<unsigned long long>(loop.refused));
  EXPECT_GT(loop.refused, 300u);
}
#endif

INSTANTIATE_TEST_SUITE_P(Modes, StoreFaults, testing::Values(Mode::kOnce, Mode::kForEver), [](const auto& parameter) {
  return std::string(parameter.param == Mode::kOnce ? "Once" : "ForEver");
});

}  // namespace
}  // namespace meshseal::faults

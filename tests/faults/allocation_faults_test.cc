// Every allocation of an operation fails, once and from there on for ever: a clean refusal each time, nothing leaked,
// no part of a file left, and whatever succeeds all the same is right to the byte.
#include "tests/faults/allocation_faults.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "schema/reason.h"
#include "tests/faults/io_faults.h"
#include "tests/faults/operations.h"
#include "tools/cli/program.h"

namespace meshseal::faults {
namespace {

constexpr int kMostReports = 5;
constexpr const char* kOldContent = "what stood there before";

// Standard error goes nowhere: reporting is part of the loops.
class Silence {
 public:
  Silence() : saved_(dup(STDERR_FILENO)) {
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDERR_FILENO);
    ::close(nowhere);
  }
  ~Silence() {
    dup2(saved_, STDERR_FILENO);
    ::close(saved_);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  int saved_;
};

struct Attempt {
  AllocationCounts counts;
  bool ok = false;
  std::optional<Reason> reason;
  std::string text;  // of a refusal
  std::string result;
  int exit_code = 0;
  uint64_t leaked = 0;
};

Attempt Try(Operation& operation, const FaultPoint& point) {
  Attempt attempt;
  absl::Status status;
  ArmAllocations(point);
  status = operation.Run();
  attempt.exit_code = tools::Report("fail", status);
  attempt.counts = DisarmAllocations();
  attempt.ok = status.ok();
  attempt.reason = ReasonOf(status);
  attempt.text = status.ToString();
  if (status.ok()) attempt.result = operation.Result();
  status = absl::OkStatus();
  operation.Clear();
  ERR_clear_error();  // OpenSSL keeps the places of past errors
  attempt.leaked = LiveAllocations();
  return attempt;
}

// What is wrong with an attempt in which an allocation failed; empty: nothing.
std::string FaultOf(Operation& operation, const FaultPoint& point, const Attempt& attempt,
                    const std::string& expected) {
  if (attempt.ok) return attempt.result == expected ? "" : "succeeds with another result";
  if (attempt.reason != Reason::kOutOfMemory && attempt.reason != Reason::kKeyMemory) {
    return absl::StrCat("refused as ", attempt.text);
  }
  if (attempt.exit_code != 7) return absl::StrCat("exit code ", attempt.exit_code);
  // What a library sets up once, on its way to a refusal, is still there after a second time, and no more of it.
  if (attempt.leaked != 0 && Try(operation, point).leaked != 0) return absl::StrCat(attempt.leaked, " blocks leaked");
  return "";
}

struct Loop {
  uint64_t allocations = 0;  // that the operation makes
  uint64_t indices = 0;      // that were made to fail
  uint64_t survived = 0;     // failures that did not matter
};

void FailEveryAllocation(Operation& operation, const std::filesystem::path& folder, Mode mode, uint64_t stride,
                         Loop* loop) {
  const Silence silence;
  Try(operation, FaultPoint());  // sets up what libraries keep
  const Attempt whole = Try(operation, FaultPoint());
  ASSERT_TRUE(whole.ok) << whole.text;
  ASSERT_EQ(whole.leaked, 0U);
  loop->allocations = whole.counts.calls;
  const std::string secret = operation.secret();
  const std::filesystem::path output = operation.output();
  WatchForSecret(secret);
  int reports = 0;
  for (uint64_t index = 0; reports < kMostReports; index += stride) {
    const FaultPoint point{index, mode};
    const bool replaces = !output.empty() && mode == Mode::kOnce;
    std::filesystem::remove(output);
    if (replaces) WriteContent(output, kOldContent);
    const std::vector<std::string> names = NamesIn(folder);
    const int descriptors = OpenDescriptors();
    const Attempt attempt = Try(operation, point);
    if (attempt.counts.failed == 0) {
      EXPECT_TRUE(attempt.ok) << attempt.text;
      EXPECT_EQ(attempt.counts.calls, whole.counts.calls);
      break;
    }
    ++loop->indices;
    if (attempt.ok) ++loop->survived;
    std::string fault = FaultOf(operation, point, attempt, whole.result);
    if (fault.empty() && OpenDescriptors() != descriptors) fault = "a descriptor is left open";
    if (fault.empty() && !attempt.ok && NamesIn(folder) != names) fault = "a file is left";
    if (fault.empty() && !attempt.ok && replaces && ContentOf(output) != kOldContent) fault = "the old file is gone";
    if (fault.empty() && SecretsGivenBack() != 0) fault = "a secret stands in memory that was given back";
    if (fault.empty()) continue;
    ADD_FAILURE() << "allocation " << index << ": " << fault;
    ++reports;
    WatchForSecret(secret);
  }
  WatchForSecret("");
}

struct Case {
  const char* name;
  std::unique_ptr<Operation> (Workplace::*make)() const;
  uint64_t for_ever_stride;    // 1: every index
  uint64_t least_allocations;  // fewer would mean that the loop runs past the operation
};

class AllocationFaults : public testing::TestWithParam<Case> {
 protected:
  void Run(Mode mode, uint64_t stride) {
    const Workplace place;
    const std::unique_ptr<Operation> operation = (place.*GetParam().make)();
    Loop loop;
    FailEveryAllocation(*operation, place.folder(), mode, stride, &loop);
    EXPECT_GE(loop.allocations, GetParam().least_allocations);
    EXPECT_GE(loop.indices * stride, loop.allocations);
    EXPECT_LE(loop.survived * 20, loop.indices) << "hardly any failure may go unnoticed";
    std::printf("%s: %llu allocations, %llu failed, %llu of them did not matter\n", GetParam().name,
                static_cast<unsigned long long>(loop.allocations), static_cast<unsigned long long>(loop.indices),
                static_cast<unsigned long long>(loop.survived));
  }
};

TEST_P(AllocationFaults, EachFailsOnce) { Run(Mode::kOnce, 1); }

TEST_P(AllocationFaults, EachFailsAndAllThatFollow) { Run(Mode::kForEver, GetParam().for_ever_stride); }

INSTANTIATE_TEST_SUITE_P(Operations, AllocationFaults,
                         testing::Values(Case{"Open", &Workplace::Open, 1, 100}, Case{"Sign", &Workplace::Sign, 1, 10},
                                         Case{"Verify", &Workplace::Verify, 1, 100},
                                         Case{"Compile", &Workplace::Compile, 1, 1000},
                                         Case{"OpenDigests", &Workplace::OpenDigests, 1, 50}),
                         [](const auto& tested) { return tested.param.name; });

TEST(Programs, EndWithAnExitCode) {
  const Silence silence;
  char name[] = "meshseal";
  char* arguments[] = {name, nullptr};
  EXPECT_EQ(tools::RunMain([](int, char**) { return 3; }, 1, arguments), 3);
  EXPECT_EQ(tools::RunMain([](int, char**) -> int { throw std::bad_alloc(); }, 1, arguments), 7);
  EXPECT_EQ(tools::RunMain([](int, char**) -> int { throw std::runtime_error("?"); }, 0, nullptr), 70);
}

// The loops would prove nothing if the replaced functions were not the ones that are called.
TEST(Allocations, AreCountedAndFail) {
  ArmAllocations(FaultPoint());
  auto kept = std::make_unique<std::string>(1000, 'x');
  EXPECT_EQ(DisarmAllocations().calls, 2U);
  EXPECT_EQ(LiveAllocations(), 2U);
  kept.reset();
  EXPECT_EQ(LiveAllocations(), 0U);

  ArmAllocations({0, Mode::kOnce});
  void* first = std::malloc(10);
  void* second = std::malloc(10);
  EXPECT_EQ(DisarmAllocations().failed, 1U);
  EXPECT_EQ(first, nullptr);
  EXPECT_NE(second, nullptr);
  std::free(second);
}

}  // namespace
}  // namespace meshseal::faults

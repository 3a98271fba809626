// Every call that touches a file fails, once and from there on for ever, is broken off by a signal, or moves one byte
// only: a clean refusal or the right result, no part of a file left, no descriptor left open.
#include "tests/faults/io_faults.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/reason.h"
#include "tests/faults/operations.h"

namespace meshseal::faults {
namespace {

constexpr const char* kOldContent = "what stood there before";

struct Case {
  const char* name;
  std::unique_ptr<Operation> (Workplace::*make)() const;
  std::set<std::string> calls;     // the kinds of calls that it makes
  std::set<std::string> harmless;  // those of which one may fail and all ends well
  std::set<Reason> reasons;        // of a call that fails
};

class IoFaults : public testing::TestWithParam<Case> {
 protected:
  IoFaults() : operation_((place_.*GetParam().make)()) {
    EXPECT_EQ(operation_->Run(), absl::OkStatus());
    expected_ = operation_->Result();
    operation_->Clear();
  }

  // Runs the loop; the names of the calls that got the fault.
  std::set<std::string> FailEveryCall(IoFault fault, Mode mode, bool must_succeed) {
    std::set<std::string> names;
    for (uint64_t index = 0;; ++index) {
      const std::filesystem::path output = operation_->output();
      const bool replaces = !output.empty() && index % 2 == 0;
      std::filesystem::remove(output);
      if (replaces) WriteContent(output, kOldContent);
      const std::vector<std::string> before = NamesIn(place_.folder());
      const int descriptors = OpenDescriptors();
      ArmIo(fault, {index, mode});
      const absl::Status status = operation_->Run();
      const IoCounts counts = DisarmIo();
      const std::string at = absl::StrCat("call ", index, " (", counts.first_failed, "): ", status.ToString());
      EXPECT_EQ(OpenDescriptors(), descriptors) << at;
      if (status.ok()) {
        const bool harmless = must_succeed || GetParam().harmless.count(counts.first_failed) != 0;
        EXPECT_TRUE(counts.failed == 0 || harmless) << at;
        EXPECT_EQ(operation_->Result(), expected_) << at;
      } else {
        EXPECT_FALSE(must_succeed) << at;
        EXPECT_EQ(GetParam().reasons.count(ReasonOf(status).value_or(Reason::kBug)), 1U) << at;
        if (replaces) {
          EXPECT_EQ(ContentOf(output), kOldContent) << at;
        }
        if (!counts.unlink_failed) {
          EXPECT_EQ(NamesIn(place_.folder()), before) << at;
        }
      }
      operation_->Clear();
      for (const std::string& left : NamesIn(place_.folder())) {
        if (left.find(".partial") != std::string::npos) std::filesystem::remove(place_.folder() / left);
      }
      if (counts.failed == 0) {
        std::printf("%s: %llu calls\n", GetParam().name, static_cast<unsigned long long>(index));
        return names;
      }
      names.insert(counts.first_failed);
    }
  }

  // The calls of the operation that are among `kind`.
  std::set<std::string> CallsOf(const std::set<std::string>& kind) const {
    std::set<std::string> calls;
    for (const std::string& call : GetParam().calls) {
      if (kind.count(call) != 0) calls.insert(call);
    }
    return calls;
  }

  const Workplace place_;
  const std::unique_ptr<Operation> operation_;
  std::string expected_;
};

TEST_P(IoFaults, EachFailsOnce) { EXPECT_EQ(FailEveryCall(IoFault::kError, Mode::kOnce, false), GetParam().calls); }

TEST_P(IoFaults, EachFailsAndAllThatFollow) {
  EXPECT_EQ(FailEveryCall(IoFault::kError, Mode::kForEver, false), GetParam().calls);
}

TEST_P(IoFaults, EachIsInterrupted) {
  EXPECT_EQ(FailEveryCall(IoFault::kInterrupt, Mode::kOnce, true),
            CallsOf({"open", "read", "pread", "write", "fsync"}));
}

TEST_P(IoFaults, EachIsShort) {
  EXPECT_EQ(FailEveryCall(IoFault::kShort, Mode::kOnce, true), CallsOf({"read", "pread", "write"}));
}

TEST_P(IoFaults, AllAreShort) {
  EXPECT_EQ(FailEveryCall(IoFault::kShort, Mode::kForEver, true), CallsOf({"read", "pread", "write"}));
}

const std::set<std::string> kReading = {"open", "fstat", "read", "close"};
const std::set<std::string> kWriting = {"open", "fstat", "read", "close", "lstat", "write", "fsync", "renameat2"};
const std::set<std::string> kReadingFolder = {"open", "fstat", "read", "close", "lstat", "opendir", "readdir"};

INSTANTIATE_TEST_SUITE_P(
    Operations, IoFaults,
    testing::Values(
        Case{"Open", &Workplace::Open, kReading, {"close"}, {Reason::kUsage}},
        Case{"Sign", &Workplace::Sign, kWriting, {"close"}, {Reason::kUsage}},
        Case{"Verify", &Workplace::Verify, kReadingFolder, {"close", "lstat"}, {Reason::kUsage, Reason::kKeyring}},
        Case{"Compile", &Workplace::Compile, kWriting, {"close"}, {Reason::kUsage}}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace meshseal::faults

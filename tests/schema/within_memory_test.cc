// The lack of memory as a status, at the border of a library and in a program.
#include "schema/within_memory.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>

#include "absl/status/statusor.h"
#include "schema/uninterrupted.h"

namespace meshseal {
namespace {

TEST(WithinMemory, TurnsTheLackOfMemoryIntoAStatus) {
  const auto run = [](auto work) { return WithinMemory([&]() -> absl::StatusOr<int> { return work(); }); };
  EXPECT_EQ(*run([] { return 3; }), 3);
  EXPECT_EQ(run([]() -> int { throw std::bad_alloc(); }).status(), OutOfMemory());
  EXPECT_EQ(
      run([] { return static_cast<int>(std::string().max_size() == std::string(SIZE_MAX, 'x').size()); }).status(),
      OutOfMemory());
  EXPECT_THROW(run([]() -> int { throw std::runtime_error("not memory"); }).status().IgnoreError(), std::runtime_error);
  EXPECT_EQ(WithinMemory([] { return Refuse(Reason::kUsage, "no"); }), Refuse(Reason::kUsage, "no"));
}

TEST(OutOfMemory, HasAReasonWithoutTakingMemory) {
  EXPECT_EQ(ReasonOf(OutOfMemory()), Reason::kOutOfMemory);
  EXPECT_EQ(ExitCodeOf(OutOfMemory()), 7);
  EXPECT_EQ(OutOfMemory().message(), "");
  EXPECT_EQ(ReasonOf(Refuse(Reason::kKeyMemory, "")), Reason::kKeyMemory);
  EXPECT_EQ(ReasonOf(absl::InternalError("")), std::nullopt);
}

TEST(Uninterrupted, CallsAgainOnlyAfterASignal) {
  int calls = 0;
  EXPECT_EQ(Uninterrupted([&] {
              errno = EINTR;
              return ++calls < 3 ? -1 : 5;
            }),
            5);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(Uninterrupted([&] {
              errno = EIO;
              ++calls;
              return -1;
            }),
            -1);
  EXPECT_EQ(calls, 4);
}

}  // namespace
}  // namespace meshseal

// Whom a rank names that waits for its device.
#include "runtime/cuda/peer_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "schema/reason.h"
#include "tests/support/inproc_group.h"

namespace meshseal::cuda {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr std::chrono::milliseconds kDeadline{20'000};

absl::Status Late() { return Refuse(Reason::kDeadline, "the step: not done after 5 ms"); }

// What `body` gives on a thread for each of `present` ranks of a group of `ranks`.
std::vector<absl::Status> OnRanks(uint32_t ranks, uint32_t present, const std::atomic<bool>* drain,
                                  const std::function<absl::Status(PeerWatch&)>& body) {
  const support::InprocGroup group = support::MakeInprocGroup(ranks);
  std::vector<absl::Status> found(present);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < present; ++rank) {
    threads.emplace_back([&, rank] {
      PeerWatch watch(group[rank], kDeadline, drain);
      found[rank] = body(watch);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return found;
}

// Waits as one does for a device, for so long.
absl::Status WaitFor(PeerWatch& watch, std::chrono::milliseconds time) {
  return watch.Watch([&] {
    for (const auto until = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < until;) {
      const absl::Status state = watch.Check();
      if (!state.ok()) return state;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return absl::OkStatus();
  });
}

TEST(PeerWatchTest, AtTheDeadlineWhoDoesNotAnswerIsNamed) {
  for (const absl::Status& status : OnRanks(3, 2, nullptr, [](PeerWatch& watch) { return watch.Watch(Late); })) {
    EXPECT_THAT(std::string(status.message()), AnyOf("the step: not done after 5 ms, then waited 500 ms for rank 2",
                                                     "rank 0 failed first: waited 500 ms for rank 2",
                                                     "rank 1 failed first: waited 500 ms for rank 2"));
  }
}

TEST(PeerWatchTest, WhereAllAnswerTheDeadlineIsTheCause) {
  for (const absl::Status& status : OnRanks(3, 3, nullptr, [](PeerWatch& watch) { return watch.Watch(Late); })) {
    EXPECT_EQ(status, Late());
  }
}

TEST(PeerWatchTest, OtherFailuresAreTheirOwn) {
  const absl::Status failed = Refuse(Reason::kDevice, "a device");
  for (const absl::Status& status :
       OnRanks(2, 1, nullptr, [&](PeerWatch& watch) { return watch.Watch([&] { return failed; }); })) {
    EXPECT_EQ(status, failed);
  }
}

TEST(PeerWatchTest, RanksThatWereAskedToEndGoOnWhereAllAnswer) {
  const std::atomic<bool> drain{true};
  const auto wait = [](PeerWatch& watch) { return WaitFor(watch, std::chrono::milliseconds(2'000)); };
  for (const absl::Status& status : OnRanks(3, 3, &drain, wait)) EXPECT_EQ(status, absl::OkStatus());
}

TEST(PeerWatchTest, RanksThatWereAskedToEndNameWhoDoesNotAnswer) {
  const std::atomic<bool> drain{true};
  const auto begin = std::chrono::steady_clock::now();
  const auto wait = [](PeerWatch& watch) { return WaitFor(watch, kDeadline); };
  for (const absl::Status& status : OnRanks(3, 2, &drain, wait)) {
    EXPECT_THAT(std::string(status.message()), HasSubstr("waited 500 ms for rank 2"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kDeadline);
}

TEST(PeerWatchTest, AStepThatIsAlmostDoneAsksNobody) {
  const std::atomic<bool> drain{true};
  const auto wait = [](PeerWatch& watch) { return WaitFor(watch, std::chrono::milliseconds(20)); };
  for (const absl::Status& status : OnRanks(3, 2, &drain, wait)) EXPECT_EQ(status, absl::OkStatus());
}

}  // namespace
}  // namespace meshseal::cuda

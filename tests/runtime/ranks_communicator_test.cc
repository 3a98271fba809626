// The laws of communicators between threads, and what happens when a member does not keep them.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/comm/agreement.h"
#include "runtime/comm/inproc.h"
#include "runtime/comm/message_communicator.h"
#include "runtime/session/preflight.h"
#include "schema/reason.h"
#include "tests/ranks/laws.h"
#include "tests/support/inproc_group.h"

namespace meshseal::runtime {
namespace {

using std::chrono::milliseconds;

using Ends = support::InprocGroup;

// World ranks 10, 11, ... so that a member's number is never mistaken for its rank.
Ends Group(uint32_t size, milliseconds deadline = milliseconds(20'000)) {
  return support::MakeInprocGroup(size, {deadline}, 10, support::kLawBytes);
}

// Runs `work` for every member on a thread of its own.
template <class Work>
void OnAll(const Ends& ends, Work work) {
  std::vector<std::thread> threads;
  for (const auto& end : ends.members) threads.emplace_back([&end, work] { work(*end); });
  for (std::thread& thread : threads) thread.join();
}

TEST(CommunicatorTest, LawsHoldForEverySizeOfGroup) {
  for (uint32_t size = 1; size <= 8; ++size) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const Ends ends = Group(size);
      std::mutex mutex;
      std::vector<std::string> broken;
      OnAll(ends, [&](Communicator& c) {
        const std::vector<std::string> own = support::BrokenLaws(c, seed);
        const std::lock_guard<std::mutex> lock(mutex);
        broken.insert(broken.end(), own.begin(), own.end());
      });
      ASSERT_TRUE(broken.empty()) << "seed " << seed << "\n" << absl::StrJoin(broken, "\n");
    }
  }
}

TEST(CommunicatorTest, SumsInMemberOrder) {
  // In float32 only this order gives 1: (1e8 - 1e8) + 1, while (1 - 1e8) + 1e8 is 0.
  const std::vector<float> addends = {1e8f, -1e8f, 1.0f};
  const Ends ends = Group(3);
  OnAll(ends, [&](Communicator& c) {
    for (int repeat = 0; repeat < 200; ++repeat) {
      c.SetReduceAlgorithm(repeat % 2 == 0 ? ReduceAlgorithm::kGatherThenSum : ReduceAlgorithm::kExchangeThenSum);
      float sum = 0;
      StatusLane lane;
      ASSERT_TRUE(
          c.AllReduceSum(absl::MakeConstSpan(addends).subspan(c.rank(), 1), {}, absl::MakeSpan(&sum, 1), &lane).ok());
      ASSERT_EQ(sum, 1.0f);
    }
  });
}

// Groups of one rank, and calls of two threads, do not meet each other.
TEST(CommunicatorTest, ChannelsAreApart) {
  const auto endpoints = MakeInprocEndpoints(2, 2);
  std::vector<std::thread> threads;
  for (const auto& endpoint : endpoints) {
    threads.emplace_back([&endpoint] {
      const auto make = [&](Channel channel, std::vector<uint32_t> members) {
        auto c = MakeMessageCommunicator(*endpoint, channel, std::move(members), {}).value();
        EXPECT_TRUE(c->Reserve(64).ok());
        return c;
      };
      const auto world = make(Channel::kWorld, {0, 1});
      const auto group = make(Channel::kExpertGroup, {0, 1});
      const auto alone = make(Channel::kPipeline, {endpoint->rank()});
      float sum = 0;
      StatusLane lane;
      for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE(world->AllReduceSum({1.0f}, {}, absl::MakeSpan(&sum, 1), &lane).ok());
        EXPECT_EQ(sum, 2.0f);
        EXPECT_TRUE(alone->AllReduceSum({3.0f}, {}, absl::MakeSpan(&sum, 1), &lane).ok());
        EXPECT_EQ(sum, 3.0f);
        EXPECT_TRUE(group->AllReduceSum({5.0f}, {}, absl::MakeSpan(&sum, 1), &lane).ok());
        EXPECT_EQ(sum, 10.0f);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CommunicatorTest, AMemberThatDoesNotComeIsNamed) {
  const Ends ends = Group(3, milliseconds(50));
  std::vector<absl::Status> statuses(3);
  OnAll(ends, [&](Communicator& c) {
    if (c.rank() == 1) return;
    std::vector<std::byte> all(3);
    statuses[c.rank()] = c.AllGather({std::byte{1}}, absl::MakeSpan(all));
  });
  // Whoever waited longest says so, the other blames it; both name the rank that is missing.
  const bool first = ReasonOf(statuses[0]) == Reason::kDeadline;
  const std::string text = "waited 50 ms for rank 11";
  EXPECT_EQ(statuses[first ? 0 : 2].message(), text);
  EXPECT_EQ(ReasonOf(statuses[first ? 0 : 2]), Reason::kDeadline);
  EXPECT_EQ(statuses[first ? 2 : 0].message(), absl::StrCat("rank ", first ? 10 : 12, " failed first: ", text));
  EXPECT_EQ(ReasonOf(statuses[first ? 2 : 0]), Reason::kPeerFailed);
  // The late one does not complete a call that the others gave up.
  std::vector<std::byte> all(3);
  const absl::Status late = ends[1].AllGather({std::byte{1}}, absl::MakeSpan(all));
  EXPECT_EQ(late.message(), absl::StrCat("rank ", first ? 10 : 12, " failed first: ", text));
  EXPECT_EQ(ReasonOf(late), Reason::kPeerFailed);
}

TEST(CommunicatorTest, AbortWakesAllAndTheFirstCauseStays) {
  const Ends ends = Group(3);
  OnAll(ends, [](Communicator& c) {
    if (c.rank() == 2) {
      std::this_thread::sleep_for(milliseconds(20));
      c.Abort(Refuse(Reason::kWeightsFile, "no such folder"));
      c.Abort(Refuse(Reason::kBug, "another cause"));
      return;
    }
    std::vector<std::byte> all(3);
    const absl::Status status = c.AllGather({std::byte{1}}, absl::MakeSpan(all));
    EXPECT_EQ(status.message(), "rank 12 failed first: no such folder");
    EXPECT_EQ(ReasonOf(status), Reason::kPeerFailed);
  });
}

TEST(CommunicatorTest, AMemberThatDoesNotCallHearsOfTheEnd) {
  const Ends ends = Group(2);
  EXPECT_TRUE(ends[0].Check().ok());
  ends[1].Abort(Refuse(Reason::kWeightsFile, "no such folder"));
  EXPECT_EQ(ends[0].Check().message(), "rank 11 failed first: no such folder");
  EXPECT_EQ(ReasonOf(ends[0].Check()), Reason::kPeerFailed);
  EXPECT_EQ(ReasonOf(ends[1].Check()), Reason::kWeightsFile);
}

TEST(CommunicatorTest, AgreementNamesTheFirstCause) {
  const Ends ends = Group(4);
  OnAll(ends, [](Communicator& c) {
    EXPECT_TRUE(Agree(c, absl::OkStatus()).ok());
    absl::Status own;
    if (c.rank() == 1) own = Refuse(Reason::kNonFinite, "token 3");
    if (c.rank() == 3) own = Refuse(Reason::kOutOfMemory, std::string(2000, 'x'));
    const absl::Status status = Agree(c, own);
    if (own.ok()) {
      EXPECT_EQ(status.message(), "rank 11 failed first: token 3");
      EXPECT_EQ(ReasonOf(status), Reason::kPeerFailed);
    } else {
      EXPECT_EQ(status, own);
    }
    // A text that does not fit is cut.
    const absl::Status cut = Agree(c, c.rank() == 3 ? own : absl::OkStatus());
    if (c.rank() != 3) {
      EXPECT_EQ(cut.message(), absl::StrCat("rank 13 failed first: ", std::string(507, 'x'), "..."));
    }
  });
}

}  // namespace
}  // namespace meshseal::runtime

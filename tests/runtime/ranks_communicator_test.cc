// The laws of communicators between threads, and what happens when a member does not keep them.
#include <gtest/gtest.h>

#include <array>
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

// One byte between two ranks, both ways; what each end's call returns.
std::vector<absl::Status> Swap(Endpoint& a, Endpoint& b, Channel channel) {
  std::vector<absl::Status> statuses(2);
  const auto swap = [channel](Endpoint& own, const Endpoint& other) {
    const std::array<std::byte, 1> sent = {std::byte{7}};
    std::array<std::byte, 1> received{};
    const std::array<Outgoing, 1> out = {Outgoing{other.rank(), sent}};
    const std::array<Incoming, 1> in = {Incoming{other.rank(), absl::MakeSpan(received)}};
    absl::Status status = own.Exchange(channel, out, in, std::chrono::seconds(20));
    EXPECT_EQ(status.ok(), received[0] == sent[0]);
    return status;
  };
  std::thread thread([&] { statuses[0] = swap(a, b); });
  statuses[1] = swap(b, a);
  thread.join();
  return statuses;
}

TEST(EndpointTest, ScopesFailAloneAndTheWorldFailsWithAll) {
  const auto ends = MakeInprocEndpoints(4, 2);
  const auto ok = [](const std::vector<absl::Status>& both) { return both[0].ok() && both[1].ok(); };
  for (const Channel channel : {Channel::kWorld, Channel::kExpertGroup, Channel::kPipeline, Channel::kScope}) {
    EXPECT_TRUE(ok(Swap(*ends[0], *ends[1], channel)));
  }
  EXPECT_TRUE(ok(Swap(*ends[0], *ends[2], Channel::kBetweenScopes)));
  // Nobody comes between scopes: nothing ends.
  std::array<std::byte, 1> byte{};
  const std::array<Incoming, 1> from_0 = {Incoming{0, absl::MakeSpan(byte)}};
  EXPECT_EQ(ends[2]->Exchange(Channel::kBetweenScopes, {}, from_0, std::chrono::milliseconds(1)).message(),
            "waited 1 ms for rank 0");
  EXPECT_TRUE(ok(Swap(*ends[0], *ends[2], Channel::kBetweenScopes)));

  ends[0]->Abort(Channel::kExpertGroup, Refuse(Reason::kNonFinite, "first"));
  ends[1]->Abort(Channel::kScope, Refuse(Reason::kBug, "second"));
  for (const Channel channel : {Channel::kExpertGroup, Channel::kPipeline, Channel::kScope}) {
    const std::vector<absl::Status> ended = Swap(*ends[0], *ends[1], channel);
    EXPECT_EQ(ended[0].message(), "first");
    EXPECT_EQ(ReasonOf(ended[0]), Reason::kNonFinite);
    EXPECT_EQ(ended[1].message(), "rank 0 failed first: first");
    EXPECT_EQ(ReasonOf(ended[1]), Reason::kPeerFailed);
    EXPECT_TRUE(ok(Swap(*ends[2], *ends[3], channel)));
    EXPECT_EQ(ends[1]->Check(channel).message(), "rank 0 failed first: first");
    EXPECT_TRUE(ends[3]->Check(channel).ok());
  }
  EXPECT_TRUE(ok(Swap(*ends[1], *ends[2], Channel::kWorld)));
  EXPECT_EQ(ends[2]->Exchange(Channel::kBetweenScopes, {}, from_0, std::chrono::seconds(20)).message(),
            "rank 0 failed first: first");

  ends[3]->Abort(Channel::kWorld, Refuse(Reason::kStopped, "all"));
  EXPECT_EQ(Swap(*ends[2], *ends[3], Channel::kScope)[0].message(), "rank 3 failed first: all");
  EXPECT_EQ(Swap(*ends[0], *ends[1], Channel::kScope)[0].message(), "rank 3 failed first: all");
  EXPECT_EQ(Swap(*ends[0], *ends[1], Channel::kWorld)[1].message(), "rank 3 failed first: all");
}

TEST(EndpointTest, FirstRanksMeet) {
  const auto ends = MakeInprocEndpoints(4, 2);
  const std::chrono::milliseconds moment(1);
  EXPECT_EQ(ends[2]->AwaitPeer(0, 1, moment).message(), "waited 1 ms for rank 0");
  ends[0]->Come(1);
  EXPECT_TRUE(ends[2]->AwaitPeer(0, 1, moment).ok());
  EXPECT_EQ(ReasonOf(ends[2]->AwaitPeer(0, 2, moment)), Reason::kDeadline);
  std::thread late([&] { ends[0]->Come(3); });
  EXPECT_TRUE(ends[2]->AwaitPeer(0, 2, std::chrono::seconds(20)).ok());
  late.join();
  std::thread lost([&] { ends[1]->Abort(Channel::kScope, Refuse(Reason::kBug, "gone")); });
  EXPECT_EQ(ends[2]->AwaitPeer(0, 4, std::chrono::seconds(20)).message(), "rank 1 failed first: gone");
  lost.join();
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

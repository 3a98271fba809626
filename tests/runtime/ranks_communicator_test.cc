// The laws of the in-process communicator, and what happens when a member does not keep them.
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/comm/agreement.h"
#include "runtime/comm/inproc.h"
#include "runtime/session/preflight.h"
#include "schema/reason.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

using std::chrono::milliseconds;

// World ranks 10, 11, ... so that a member's number is never mistaken for its rank.
std::vector<std::unique_ptr<Communicator>> Group(uint32_t size, milliseconds deadline = milliseconds(20'000)) {
  std::vector<uint32_t> members;
  for (uint32_t i = 0; i < size; ++i) members.push_back(10 + i);
  return MakeInprocGroup(members, {deadline});
}

// Runs `work` for every member on a thread of its own.
template <class Work>
void OnAll(std::vector<std::unique_ptr<Communicator>>& ends, Work work) {
  std::vector<std::thread> threads;
  for (const auto& end : ends) threads.emplace_back([&end, work] { work(*end); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

TEST(CommunicatorTest, SumsInMemberOrder) {
  // In float32 only this order gives 1: (1e8 - 1e8) + 1, while (1 - 1e8) + 1e8 is 0.
  const std::vector<float> addends = {1e8f, -1e8f, 1.0f};
  auto ends = Group(3);
  std::vector<std::vector<float>> sums(3, std::vector<float>(2));
  std::vector<StatusLane> lanes(3);
  for (int repeat = 0; repeat < 100; ++repeat) {
    OnAll(ends, [&](Communicator& c) {
      if (repeat == 0) {
        ASSERT_TRUE(c.Reserve(2).ok());
      }
      const std::vector<float> addend = {addends[c.rank()], static_cast<float>(c.rank())};
      StatusLane lane;
      lane.errors = c.rank();
      lane.computed_slots = 100;
      lane.reserved[3] = 1;
      ASSERT_TRUE(c.AllReduceSum(addend, lane, absl::MakeSpan(sums[c.rank()]), &lanes[c.rank()]).ok());
    });
    for (uint32_t member = 0; member < 3; ++member) {
      EXPECT_EQ(sums[member], (std::vector<float>{1.0f, 3.0f}));
      EXPECT_EQ(lanes[member].errors, 3);
      EXPECT_EQ(lanes[member].computed_slots, 300);
      EXPECT_EQ(lanes[member].reserved[3], 3);
    }
  }
}

TEST(CommunicatorTest, OneMemberIsTheIdentityBitForBit) {
  auto ends = Group(1);
  ASSERT_TRUE(ends[0]->Reserve(4).ok());
  const std::vector<float> addend = {-0.0f, std::bit_cast<float>(0x7fc12345u), std::bit_cast<float>(0xff812345u),
                                     1e-45f};
  std::vector<float> sum(4, 7.0f);
  StatusLane lane;
  ASSERT_TRUE(ends[0]->AllReduceSum(addend, {}, absl::MakeSpan(sum), &lane).ok());
  EXPECT_EQ(Bits(sum), Bits(addend));
}

TEST(CommunicatorTest, NothingIsALegalSum) {
  auto ends = Group(2);
  OnAll(ends, [](Communicator& c) {
    StatusLane sum;
    StatusLane own;
    own.errors = 1;
    EXPECT_TRUE(c.AllReduceSum({}, own, {}, &sum).ok());
    EXPECT_EQ(sum.errors, 2);
  });
}

TEST(CommunicatorTest, GathersInMemberOrder) {
  auto ends = Group(3);
  OnAll(ends, [](Communicator& c) {
    const std::vector<std::byte> own(2, std::byte(c.rank() + 1));
    std::vector<std::byte> all(6);
    EXPECT_TRUE(c.AllGather(own, absl::MakeSpan(all)).ok());
    EXPECT_EQ(all, (std::vector<std::byte>{std::byte{1}, std::byte{1}, std::byte{2}, std::byte{2}, std::byte{3},
                                           std::byte{3}}));
  });
}

// Calls AllReduceSum with sizes of each member's own and expects `text` on all of them; then the group still
// works.
void ExpectRefused(const std::vector<size_t>& addends, const std::vector<size_t>& sums, const std::string& text,
                   Reason reason) {
  auto ends = Group(static_cast<uint32_t>(addends.size()));
  OnAll(ends, [&](Communicator& c) {
    ASSERT_TRUE(c.Reserve(8).ok());
    StatusLane lane;
    std::vector<float> sum(sums[c.rank()]);
    const absl::Status status = c.AllReduceSum(std::vector<float>(addends[c.rank()]), {}, absl::MakeSpan(sum), &lane);
    EXPECT_EQ(status.message(), text);
    EXPECT_EQ(ReasonOf(status), reason);
    sum.assign(8, 0);
    EXPECT_TRUE(c.AllReduceSum(std::vector<float>(8, 1.0f), {}, absl::MakeSpan(sum), &lane).ok());
    EXPECT_EQ(sum, std::vector<float>(8, static_cast<float>(addends.size())));
  });
}

TEST(CommunicatorTest, RaggedPartsAreRefusedOnAllMembers) {
  ExpectRefused({4, 4, 5}, {4, 4, 5}, "rank 10 calls all_reduce_sum with 4, rank 12 all_reduce_sum with 5",
                Reason::kRankRecord);
  ExpectRefused({4, 4, 4}, {4, 3, 4}, "rank 11 calls all_reduce_sum with 4 into 3", Reason::kBug);
  ExpectRefused({9, 9}, {9, 9}, "rank 10 calls all_reduce_sum with 9, more than it reserved", Reason::kBug);
}

TEST(CommunicatorTest, DifferentCallsAreRefusedOnAllMembers) {
  auto ends = Group(2);
  OnAll(ends, [](Communicator& c) {
    ASSERT_TRUE(c.Reserve(1).ok());
    absl::Status status;
    if (c.rank() == 0) {
      std::vector<std::byte> all(2);
      status = c.AllGather({std::byte{1}}, absl::MakeSpan(all));
    } else {
      float sum = 0;
      StatusLane lane;
      status = c.AllReduceSum({1.0f}, {}, absl::MakeSpan(&sum, 1), &lane);
    }
    EXPECT_EQ(status.message(), "rank 10 calls all_gather with 1, rank 11 all_reduce_sum with 1");
    EXPECT_EQ(ReasonOf(status), Reason::kRankRecord);
  });
}

TEST(CommunicatorTest, AMemberThatDoesNotComeIsNamed) {
  auto ends = Group(3, milliseconds(50));
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
  // The late one does not complete a round that the others gave up.
  std::vector<std::byte> all(3);
  const absl::Status late = ends[1]->AllGather({std::byte{1}}, absl::MakeSpan(all));
  EXPECT_EQ(late.message(), absl::StrCat("rank ", first ? 10 : 12, " failed first: ", text));
  EXPECT_EQ(ReasonOf(late), Reason::kPeerFailed);
}

TEST(CommunicatorTest, AbortWakesAllAndTheFirstCauseStays) {
  auto ends = Group(3);
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

TEST(CommunicatorTest, AgreementNamesTheFirstCause) {
  auto ends = Group(4);
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

TEST(PreflightTest, AFieldThatDiffersIsNamedOnAllRanks) {
  support::PlanNumbers n;
  n.ep = 3;
  const SealedPlan plan = support::BuildSealedPlan(n);
  const auto expect = [&](auto change, const std::string& text, std::optional<Reason> reason) {
    auto ends = MakeInprocGroup({0, 1, 2}, {});
    OnAll(ends, [&](Communicator& c) {
      RankRecord record = RecordOf(plan, c.rank(), "reference");
      change(record);
      const absl::Status status = Preflight(c, record);
      EXPECT_EQ(status.message(), text);
      EXPECT_EQ(ReasonOf(status), reason);
    });
  };
  expect([](RankRecord&) {}, "", std::nullopt);
  const std::string id = HexOf(plan.id());
  const std::string other = absl::StrCat(id[0] == '0' ? "1" : "0", id.substr(1));
  expect(
      [&](RankRecord& r) {
        if (r.rank == 1) r.plan_id = *DigestFromHex(other);
      },
      absl::StrCat("preflight: plan id is ", id, " on ranks 0, 2 and ", other, " on ranks 1"), Reason::kRankRecord);
  const std::string fingerprint = HexOf(plan.plan().execution_fingerprint);
  expect(
      [&](RankRecord& r) {
        if (r.rank != 0) r.execution_fingerprint = *DigestFromHex(other);
      },
      absl::StrCat("preflight: execution fingerprint is ", fingerprint, " on ranks 0 and ", other, " on ranks 1, 2"),
      Reason::kRankRecord);
  expect(
      [](RankRecord& r) {
        if (r.rank == 2) r.backend = {'c', 'p', 'u'};
      },
      "preflight: backend is reference on ranks 0, 1 and cpu on ranks 2", Reason::kRankRecord);
  expect(
      [](RankRecord& r) {
        if (r.rank == 2) r.protocol = 9;
      },
      "preflight: protocol is 1 on ranks 0, 1 and 9 on ranks 2", Reason::kRankRecord);
  expect([](RankRecord& r) { r.world = 4; }, "preflight: the plan's world is 4 ranks, 3 are running",
         Reason::kWorldSize);
  expect([](RankRecord& r) { r.rank = 0; }, "preflight: rank 1 says that it is rank 0", Reason::kRankRecord);
}

}  // namespace
}  // namespace meshseal::runtime

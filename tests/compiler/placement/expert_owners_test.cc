#include "compiler/placement/expert_owners.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/placement/placement.h"

namespace meshseal::compiler {
namespace {

using Counts = std::vector<uint32_t>;
using Slots = std::vector<uint64_t>;

// What a plan demands of owners; the empty text when it holds.
std::string Fault(const ExpertOwners& owners, uint32_t experts, uint32_t copies, uint32_t ep) {
  if (owners.shards.size() != experts) return "not one shard for each expert";
  if (owners.copies.size() != copies) return absl::StrCat(owners.copies.size(), " copies");
  std::set<std::pair<uint32_t, uint32_t>> held;
  Counts next(ep, 0);
  for (uint32_t expert = 0; expert < experts; ++expert) {
    const ExpertShard& shard = owners.shards[expert];
    if (shard.owner >= ep) return "an owner out of range";
    if (shard.local != next[shard.owner]++) return absl::StrCat("local of expert ", expert);
    held.emplace(shard.owner, expert);
  }
  std::pair<uint32_t, uint32_t> last(0, 0);
  for (const ExpertCopy& copy : owners.copies) {
    if (copy.owner >= ep || copy.expert >= experts) return "a copy out of range";
    const std::pair<uint32_t, uint32_t> at(copy.owner, copy.local);
    if (&copy != &owners.copies.front() && at <= last) return "copies do not ascend";
    last = at;
    if (copy.local != next[copy.owner]++) return absl::StrCat("local of a copy of expert ", copy.expert);
    if (!held.emplace(copy.owner, copy.expert).second) return absl::StrCat("expert ", copy.expert, " is held twice");
  }
  const Counts ends = EvenEnds(experts + copies, ep);
  for (uint32_t rank = 0; rank < ep; ++rank) {
    if (next[rank] != ends[rank] - (rank == 0 ? 0 : ends[rank - 1])) return absl::StrCat("count of rank ", rank);
  }
  if (ExpertsPerOwner(owners, ep) != next) return "ExpertsPerOwner";
  return "";
}

// The most copies of an expert less the fewest.
uint32_t Spread(const ExpertOwners& owners) {
  Counts times(owners.shards.size(), 0);
  for (const ExpertCopy& copy : owners.copies) ++times[copy.expert];
  const auto [least, most] = std::minmax_element(times.begin(), times.end());
  return *most - *least;
}

// All (experts, copies, ep) that may be asked for, up to the given sizes.
template <class F>
void ForAllSizes(uint32_t most_experts, uint32_t most_ep, F body) {
  for (uint32_t experts = 1; experts <= most_experts; ++experts) {
    for (uint32_t ep = 1; ep <= most_ep; ++ep) {
      for (uint32_t copies = ep > experts ? ep - experts : 0; copies <= experts * (ep - 1); ++copies) {
        body(experts, copies, ep);
      }
    }
  }
}

uint64_t SumOf(const Slots& slots) { return std::accumulate(slots.begin(), slots.end(), uint64_t{0}); }

// No placement without copies is less busy: not below the mean, and the heaviest expert has company on its rank.
uint64_t LowerBound(Slots slots, uint32_t ep) {
  std::sort(slots.begin(), slots.end());
  const auto company = static_cast<std::ptrdiff_t>(std::max<size_t>(slots.size() / ep, 1) - 1);
  return std::max((SumOf(slots) + ep - 1) / ep,
                  slots.back() + std::accumulate(slots.begin(), slots.begin() + company, uint64_t{0}));
}

// Loads 1/n^exponent of `most`, in an order that says nothing.
Slots Zipf(uint32_t experts, double exponent, double most, uint32_t seed) {
  Slots slots;
  for (uint32_t n = 1; n <= experts; ++n) slots.push_back(static_cast<uint64_t>(most / std::pow(n, exponent)));
  std::mt19937 random(seed);
  for (size_t i = slots.size(); i > 1; --i) std::swap(slots[i - 1], slots[random() % i]);
  return slots;
}

double OverMean(const ExpertOwners& owners, const Slots& slots, uint32_t ep) {
  return static_cast<double>(BusiestLoad(owners, slots, ep)) * ep / static_cast<double>(SumOf(slots));
}

TEST(ExpertOwners, WithoutCopiesContiguousOrRoundRobin) {
  EXPECT_EQ(ContiguousOwners(5, 0, 2).shards, (std::vector<ExpertShard>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}}));
  EXPECT_EQ(RoundRobinOwners(5, 0, 2).shards, (std::vector<ExpertShard>{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}}));
  ForAllSizes(12, 8, [](uint32_t experts, uint32_t copies, uint32_t ep) {
    const ExpertOwners contiguous = ContiguousOwners(experts, copies, ep);
    const ExpertOwners round_robin = RoundRobinOwners(experts, copies, ep);
    const Counts ends = EvenEnds(experts, ep);
    for (uint32_t expert = 0; expert < experts; ++expert) {
      const auto owner = static_cast<uint32_t>(std::upper_bound(ends.begin(), ends.end(), expert) - ends.begin());
      ASSERT_EQ(contiguous.shards[expert], (ExpertShard{owner, expert - (owner == 0 ? 0 : ends[owner - 1])}));
      ASSERT_EQ(round_robin.shards[expert], (ExpertShard{expert % ep, expert / ep}));
    }
  });
}

TEST(ExpertOwners, EverySizeHasOwnersWithEvenCopies) {
  uint64_t sizes = 0;
  ForAllSizes(16, 9, [&](uint32_t experts, uint32_t copies, uint32_t ep) {
    for (const bool contiguous : {true, false}) {
      const ExpertOwners owners =
          contiguous ? ContiguousOwners(experts, copies, ep) : RoundRobinOwners(experts, copies, ep);
      ASSERT_EQ(Fault(owners, experts, copies, ep), "") << experts << " + " << copies << " on " << ep;
      ASSERT_LE(Spread(owners), 1u) << experts << " + " << copies << " on " << ep;
    }
    ++sizes;
  });
  EXPECT_EQ(sizes, 4920u);
}

TEST(ExpertOwners, BalancedAtEverySize) {
  std::mt19937 random(7);
  ForAllSizes(10, 6, [&](uint32_t experts, uint32_t copies, uint32_t ep) {
    for (const uint32_t most : {1u, 2u, 5u, 100u, 1000000u}) {
      Slots slots;
      for (uint32_t expert = 0; expert < experts; ++expert) slots.push_back(random() % most);
      const ExpertOwners owners = BalancedOwners(slots, copies, ep);
      ASSERT_EQ(Fault(owners, experts, copies, ep), "") << experts << " + " << copies << " on " << ep;
      ASSERT_LE(BusiestLoad(owners, slots, ep), BusiestLoad(ContiguousOwners(experts, copies, ep), slots, ep));
      if (owners == ContiguousOwners(experts, copies, ep)) continue;
      for (const ExpertCopy& copy : owners.copies) ASSERT_LT(owners.shards[copy.expert].owner, copy.owner);
    }
  });
}

// Every load of 0, 1 or 3 slots.
TEST(ExpertOwners, BalancedForEverySmallLoad) {
  ForAllSizes(5, 4, [](uint32_t experts, uint32_t copies, uint32_t ep) {
    uint64_t loads = 1;
    for (uint32_t expert = 0; expert < experts; ++expert) loads *= 3;
    for (uint64_t load = 0; load < loads; ++load) {
      Slots slots;
      for (uint64_t rest = load; slots.size() < experts; rest /= 3) slots.push_back(rest % 3 == 2 ? 3 : rest % 3);
      const ExpertOwners owners = BalancedOwners(slots, copies, ep);
      ASSERT_EQ(Fault(owners, experts, copies, ep), "");
      ASSERT_LE(BusiestLoad(owners, slots, ep), BusiestLoad(ContiguousOwners(experts, copies, ep), slots, ep));
      if (copies != 0) continue;
      ASSERT_GE(BusiestLoad(owners, slots, ep), LowerBound(slots, ep));
    }
  });
}

TEST(ExpertOwners, RandomLargerSizes) {
  std::mt19937 random(11);
  for (uint32_t round = 0; round < 300; ++round) {
    const uint32_t experts = 1 + static_cast<uint32_t>(random() % 400);
    const uint32_t ep = 1 + static_cast<uint32_t>(random() % 40);
    const uint32_t fewest = ep > experts ? ep - experts : 0;
    const uint32_t most = experts * (ep - 1);
    const uint32_t copies = fewest + static_cast<uint32_t>(random() % (std::min(most, fewest + 200) - fewest + 1));
    const std::string size = absl::StrCat(experts, " + ", copies, " on ", ep);
    ASSERT_EQ(Fault(ContiguousOwners(experts, copies, ep), experts, copies, ep), "") << size;
    ASSERT_EQ(Fault(RoundRobinOwners(experts, copies, ep), experts, copies, ep), "") << size;
    ASSERT_LE(Spread(ContiguousOwners(experts, copies, ep)), 1u) << size;
    ASSERT_LE(Spread(RoundRobinOwners(experts, copies, ep)), 1u) << size;
    const Slots slots = Zipf(experts, static_cast<double>(random() % 30) / 10, 1e6, round);
    const ExpertOwners owners = BalancedOwners(slots, copies, ep);
    ASSERT_EQ(Fault(owners, experts, copies, ep), "") << size;
    ASSERT_EQ(owners, BalancedOwners(slots, copies, ep)) << size;
    ASSERT_LE(BusiestLoad(owners, slots, ep), BusiestLoad(ContiguousOwners(experts, copies, ep), slots, ep)) << size;
  }
}

TEST(ExpertOwners, MostCopiesOfEach) {
  const ExpertOwners everywhere = BalancedOwners({5, 0, 7}, 6, 3);
  EXPECT_EQ(Fault(everywhere, 3, 6, 3), "");
  EXPECT_EQ(BusiestLoad(everywhere, {5, 0, 7}, 3), 5u);  // 2 + 0 + 3: shares are rounded up
  EXPECT_EQ(Fault(BalancedOwners({9}, 499, 500), 1, 499, 500), "");
  EXPECT_EQ(BusiestLoad(BalancedOwners({9}, 499, 500), {9}, 500), 1u);
}

// C17: 8 experts on 4 ranks, k 1, ids 2 3 0 5 2 7.
TEST(ExpertOwners, C17LocalNumbersAndRows) {
  const ExpertOwners owners = ContiguousOwners(8, 0, 4);
  EXPECT_EQ(owners.shards, (std::vector<ExpertShard>{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}, {3, 0}, {3, 1}}));
  Counts rows(4, 0);
  for (const uint32_t expert : {2u, 3u, 0u, 5u, 2u, 7u}) ++rows[owners.shards[expert].owner];
  EXPECT_EQ(rows, (Counts{1, 3, 1, 1}));
  EXPECT_EQ(BusiestLoad(owners, {1, 0, 2, 1, 0, 1, 0, 1}, 4), 3u);
}

// C19: 4 experts on 2 ranks with 2 copies: 3 on each, expert 0 on both.
TEST(ExpertOwners, C19CopiesLieOnOtherRanks) {
  const ExpertOwners owners = ContiguousOwners(4, 2, 2);
  EXPECT_EQ(owners.shards, (std::vector<ExpertShard>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  EXPECT_EQ(owners.copies, (std::vector<ExpertCopy>{{2, 0, 2}, {0, 1, 2}}));
  const ExpertOwners balanced = BalancedOwners({8, 1, 1, 4}, 2, 2);
  EXPECT_EQ(Fault(balanced, 4, 2, 2), "");
  EXPECT_EQ(BusiestLoad(balanced, {8, 1, 1, 4}, 2), 7u);  // experts 0 and 3 on both
}

// C20: the experts that each rank is charged for.
TEST(ExpertOwners, C20CountsWithRedundantExperts) {
  EXPECT_EQ(ExpertsPerOwner(ContiguousOwners(256, 8, 12), 12), Counts(12, 22));
  EXPECT_EQ(ExpertsPerOwner(ContiguousOwners(256, 0, 16), 16), Counts(16, 16));
  EXPECT_EQ(ExpertsPerOwner(ContiguousOwners(256, 8, 24), 24), Counts(24, 11));
  EXPECT_EQ(ExpertsPerOwner(RoundRobinOwners(256, 8, 24), 24), Counts(24, 11));
}

TEST(ExpertOwners, EqualLoadsStayEqual) {
  EXPECT_EQ(BusiestLoad(BalancedOwners(Slots(64, 10), 0, 8), Slots(64, 10), 8), 80u);
  EXPECT_EQ(BusiestLoad(BalancedOwners(Slots(64, 0), 8, 8), Slots(64, 0), 8), 0u);
  // Five places for four experts: the rank with three is busier than two contiguous shards.
  EXPECT_EQ(BusiestLoad(BalancedOwners({2, 2, 2, 2}, 1, 2), {2, 2, 2, 2}, 2), 5u);
}

TEST(ExpertOwners, HugeLoadsDoNotOverflow) {
  const Slots slots = {uint64_t{1} << 62, (uint64_t{1} << 62) - 1};
  EXPECT_EQ(BusiestLoad(BalancedOwners(slots, 0, 1), slots, 1), (uint64_t{1} << 63) - 1);
  EXPECT_EQ(BusiestLoad(BalancedOwners(slots, 2, 2), slots, 2), uint64_t{1} << 62);
}

TEST(ExpertOwners, SkewedLoadsAreEvenedOut) {
  struct Case {
    uint32_t experts, copies, ep;
    double exponent, most;  // of the busiest rank's load over the mean
  };
  for (const Case& c : {Case{256, 32, 16, 1.0, 1.001}, Case{256, 32, 16, 1.2, 1.001}, Case{256, 16, 16, 1.0, 1.001},
                        Case{128, 0, 8, 0.6, 1.001}, Case{384, 48, 48, 0.8, 1.001}, Case{60, 4, 4, 1.0, 1.001}}) {
    const Slots slots = Zipf(c.experts, c.exponent, 1e7, 3);
    const double before = OverMean(ContiguousOwners(c.experts, 0, c.ep), slots, c.ep);
    const double after = OverMean(BalancedOwners(slots, c.copies, c.ep), slots, c.ep);
    const std::string text = absl::StrCat(c.experts, " experts, ", c.copies, " copies, ep ", c.ep, ", exponent ",
                                          c.exponent, ": max/mean ", before, " -> ", after);
    std::printf("%s\n", text.c_str());
    EXPECT_LE(after, c.most) << text;
    EXPECT_GE(before, 1.3) << text;
  }
}

// Where an expert alone is above the mean, the best without copies is its rank with the lightest others.
TEST(ExpertOwners, HeaviestExpertBoundsWhatCanBeHad) {
  for (const double exponent : {0.8, 1.0, 1.2}) {
    for (const auto& [experts, ep] : {std::pair<uint32_t, uint32_t>{128, 8}, {256, 16}, {384, 16}, {100, 7}}) {
      const Slots slots = Zipf(experts, exponent, 1e7, 5);
      const auto busiest = static_cast<double>(BusiestLoad(BalancedOwners(slots, 0, ep), slots, ep));
      const auto bound = static_cast<double>(LowerBound(slots, ep));
      EXPECT_LE(busiest, 1.001 * bound) << experts << " on " << ep << ", exponent " << exponent;
    }
  }
}

}  // namespace
}  // namespace meshseal::compiler

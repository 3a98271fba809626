#include "compiler/placement/expert_owners.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/placement/placement.h"

namespace meshseal::compiler {
namespace {

// An owner and an expert of which it holds a copy.
using Held = std::pair<uint32_t, uint32_t>;

std::vector<uint32_t> EvenCounts(uint32_t total, uint32_t parts) {
  std::vector<uint32_t> counts = EvenEnds(total, parts);
  std::adjacent_difference(counts.begin(), counts.end(), counts.begin());
  return counts;
}

// Numbers what each rank holds. `primary` is per expert.
ExpertOwners Numbered(const std::vector<uint32_t>& primary, std::vector<Held> copies, uint32_t ep) {
  ExpertOwners owners;
  std::vector<uint32_t> next(ep, 0);
  for (const uint32_t owner : primary) owners.shards.push_back({owner, next[owner]++});
  std::sort(copies.begin(), copies.end());
  for (const auto& [owner, expert] : copies) owners.copies.push_back({expert, owner, next[owner]++});
  return owners;
}

// Rank after rank takes, of the experts that it lacks, those with the fewest copies. Among equals it takes those whose
// shard lies on a later rank first, which has no use for a copy: else the last ranks would find none but their own.
// A rank lacks enough: it may hold at most `experts`, because experts + copies <= experts * ep.
std::vector<Held> Spread(const std::vector<uint32_t>& primary, uint32_t copies, uint32_t ep) {
  const auto experts = static_cast<uint32_t>(primary.size());
  std::vector<std::vector<uint32_t>> shards(ep);
  for (uint32_t expert = 0; expert < experts; ++expert) shards[primary[expert]].push_back(expert);
  struct Rest {
    uint32_t copies = 0;
    bool passed = false;  // the rank of its shard has had its turn
    uint32_t expert = 0;
    bool operator<(const Rest& other) const {
      return std::tie(copies, passed, expert) < std::tie(other.copies, other.passed, other.expert);
    }
  };
  std::vector<Rest> rests(experts);
  std::set<Rest> order;
  for (uint32_t expert = 0; expert < experts; ++expert) {
    rests[expert].expert = expert;
    order.insert(rests[expert]);
  }
  std::vector<Held> held;
  const std::vector<uint32_t> counts = EvenCounts(experts + copies, ep);
  for (uint32_t owner = 0; owner < ep; ++owner) {
    for (const uint32_t expert : shards[owner]) order.erase(rests[expert]);
    std::vector<uint32_t> taken;
    while (shards[owner].size() + taken.size() < counts[owner]) {
      taken.push_back(order.begin()->expert);
      order.erase(order.begin());
    }
    for (const uint32_t expert : taken) {
      held.emplace_back(owner, expert);
      ++rests[expert].copies;
      order.insert(rests[expert]);
    }
    for (const uint32_t expert : shards[owner]) {
      rests[expert].passed = true;
      order.insert(rests[expert]);
    }
  }
  return held;
}

uint64_t Share(uint64_t slots, uint32_t parts) { return slots / parts + (slots % parts == 0 ? 0 : 1); }

// How many ranks hold each expert: again and again one more for the largest share.
std::vector<uint32_t> TimesHeld(const std::vector<uint64_t>& slots, uint32_t copies, uint32_t ep) {
  struct Candidate {
    uint64_t share = 0;
    uint32_t expert = 0;
    bool operator<(const Candidate& other) const {
      return std::tie(share, other.expert) < std::tie(other.share, expert);
    }
  };
  std::vector<uint32_t> times(slots.size(), 1);
  std::priority_queue<Candidate> candidates;
  const auto consider = [&](uint32_t expert) {
    if (times[expert] < ep) candidates.push({Share(slots[expert], times[expert]), expert});
  };
  for (uint32_t expert = 0; expert < slots.size(); ++expert) consider(expert);
  for (uint32_t copy = 0; copy < copies; ++copy) {
    const uint32_t expert = candidates.top().expert;
    candidates.pop();
    ++times[expert];
    consider(expert);
  }
  return times;
}

// Puts experts on ranks, then exchanges them between ranks.
class Balancer {
 public:
  Balancer(const std::vector<uint64_t>& slots, uint32_t copies, uint32_t ep)
      : times_(TimesHeld(slots, copies, ep)),
        room_(EvenCounts(static_cast<uint32_t>(slots.size()) + copies, ep)),
        load_(ep, 0),
        held_(ep),
        holders_(slots.size()) {
    for (size_t expert = 0; expert < slots.size(); ++expert) share_.push_back(Share(slots[expert], times_[expert]));
    for (uint32_t rank = 0; rank < ep; ++rank) by_load_.insert({0, rank});
    open_ = by_load_;
  }

  // The largest shares first, each copy to the least loaded rank that has room.
  void Fill() {
    std::vector<uint32_t> order(share_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return share_[a] > share_[b]; });
    for (const uint32_t expert : order) {
      std::vector<uint32_t> ranks;
      for (auto at = open_.begin(); at != open_.end() && ranks.size() < times_[expert]; ++at) ranks.push_back(at->rank);
      for (const uint32_t rank : ranks) Put(expert, rank);
      for (size_t put = ranks.size(); put < times_[expert]; ++put) MakeRoomAndPut(expert);
    }
  }

  // Exchanges an expert of the busiest rank for a smaller one of another rank while the busier of the two ends below
  // what the busiest had. Each exchange lowers the sum of the loads' squares, and what is looked at is bounded.
  void Exchange() {
    uint64_t looks = 0;
    bool better = true;
    while (better && looks < kMostLooks) {
      better = false;
      const uint32_t busiest = by_load_.rbegin()->rank;
      for (auto other = by_load_.begin(); !better && other->rank != busiest; ++other) {
        looks += held_[busiest].size() * held_[other->rank].size();
        better = ExchangeBetween(busiest, other->rank);
      }
    }
  }

  ExpertOwners Owners(uint32_t ep) const {
    std::vector<uint32_t> primary;
    std::vector<Held> copies;
    for (uint32_t expert = 0; expert < holders_.size(); ++expert) {
      const std::vector<uint32_t>& ranks = holders_[expert];
      primary.push_back(ranks.front());
      for (size_t copy = 1; copy < ranks.size(); ++copy) copies.emplace_back(ranks[copy], expert);
    }
    return Numbered(primary, std::move(copies), ep);
  }

 private:
  static constexpr uint64_t kMostLooks = uint64_t{1} << 20;  // pairs of experts

  // By load; among equals, a rank with fewer places comes before one with more.
  struct Loaded {
    uint64_t load = 0;
    uint32_t rank = 0;
    bool operator<(const Loaded& other) const { return std::tie(load, other.rank) < std::tie(other.load, rank); }
  };

  bool Holds(uint32_t rank, uint32_t expert) const {
    return std::binary_search(holders_[expert].begin(), holders_[expert].end(), rank);
  }

  void SetLoad(uint32_t rank, uint64_t load) {
    by_load_.erase({load_[rank], rank});
    const bool was_open = open_.erase({load_[rank], rank}) != 0;
    load_[rank] = load;
    by_load_.insert({load, rank});
    if (was_open && room_[rank] != 0) open_.insert({load, rank});
  }

  void Put(uint32_t expert, uint32_t rank) {
    --room_[rank];
    held_[rank].push_back(expert);
    std::vector<uint32_t>& holders = holders_[expert];
    holders.insert(std::lower_bound(holders.begin(), holders.end(), rank), rank);
    SetLoad(rank, load_[rank] + share_[expert]);
  }

  void Replace(uint32_t rank, size_t local, uint32_t expert) {
    const uint32_t old = held_[rank][local];
    held_[rank][local] = expert;
    holders_[old].erase(std::lower_bound(holders_[old].begin(), holders_[old].end(), rank));
    std::vector<uint32_t>& holders = holders_[expert];
    holders.insert(std::lower_bound(holders.begin(), holders.end(), rank), rank);
    SetLoad(rank, load_[rank] - share_[old] + share_[expert]);
  }

  // All ranks with room hold the expert. A full rank takes it instead of one that moves to a rank with room. There is
  // one to move: the full rank has at least as many experts as the other, and the other holds one that it lacks.
  void MakeRoomAndPut(uint32_t expert) {
    const uint32_t open = open_.begin()->rank;
    auto full = by_load_.begin();
    while (Holds(full->rank, expert)) ++full;
    const uint32_t rank = full->rank;
    size_t local = held_[rank].size() - 1;
    while (Holds(open, held_[rank][local])) --local;
    const uint32_t moved = held_[rank][local];
    Replace(rank, local, expert);
    Put(moved, open);
  }

  // The exchange after which the busier of the two is the least busy; false when none helps.
  bool ExchangeBetween(uint32_t busiest, uint32_t other) {
    const uint64_t gap = load_[busiest] - load_[other];
    uint64_t best = gap;  // of the two ends of the gap, what the larger one keeps
    size_t best_from = 0;
    size_t best_to = 0;
    for (size_t from = 0; from < held_[busiest].size(); ++from) {
      const uint32_t given = held_[busiest][from];
      for (size_t to = 0; to < held_[other].size(); ++to) {
        const uint32_t taken = held_[other][to];
        if (share_[given] <= share_[taken] || share_[given] - share_[taken] >= gap) continue;
        const uint64_t moved = share_[given] - share_[taken];
        const uint64_t kept = std::max(moved, gap - moved);
        if (kept >= best || Holds(other, given) || Holds(busiest, taken)) continue;
        best = kept;
        best_from = from;
        best_to = to;
      }
    }
    if (best == gap) return false;
    const uint32_t given = held_[busiest][best_from];
    const uint32_t taken = held_[other][best_to];
    Replace(busiest, best_from, taken);
    Replace(other, best_to, given);
    return true;
  }

  const std::vector<uint32_t> times_;           // per expert: how many ranks hold it
  std::vector<uint64_t> share_;                 // per expert: slots of each of its copies
  std::vector<uint32_t> room_;                  // per rank: how many more experts it takes
  std::vector<uint64_t> load_;                  // per rank
  std::vector<std::vector<uint32_t>> held_;     // per rank
  std::vector<std::vector<uint32_t>> holders_;  // per expert, ascending
  std::set<Loaded> by_load_;                    // all ranks
  std::set<Loaded> open_;                       // those with room
};

}  // namespace

ExpertOwners ContiguousOwners(uint32_t experts, uint32_t copies, uint32_t ep) {
  std::vector<uint32_t> primary;
  const std::vector<uint32_t> ends = EvenEnds(experts, ep);
  for (uint32_t owner = 0; owner < ep; ++owner) primary.resize(ends[owner], owner);
  return Numbered(primary, Spread(primary, copies, ep), ep);
}

ExpertOwners RoundRobinOwners(uint32_t experts, uint32_t copies, uint32_t ep) {
  std::vector<uint32_t> primary;
  for (uint32_t expert = 0; expert < experts; ++expert) primary.push_back(expert % ep);
  return Numbered(primary, Spread(primary, copies, ep), ep);
}

ExpertOwners BalancedOwners(const std::vector<uint64_t>& slots, uint32_t copies, uint32_t ep) {
  Balancer balancer(slots, copies, ep);
  balancer.Fill();
  balancer.Exchange();
  ExpertOwners balanced = balancer.Owners(ep);
  ExpertOwners contiguous = ContiguousOwners(static_cast<uint32_t>(slots.size()), copies, ep);
  return BusiestLoad(balanced, slots, ep) <= BusiestLoad(contiguous, slots, ep) ? balanced : contiguous;
}

std::vector<uint32_t> ExpertsPerOwner(const ExpertOwners& owners, uint32_t ep) {
  std::vector<uint32_t> counts(ep, 0);
  for (const ExpertShard& shard : owners.shards) ++counts[shard.owner];
  for (const ExpertCopy& copy : owners.copies) ++counts[copy.owner];
  return counts;
}

uint64_t BusiestLoad(const ExpertOwners& owners, const std::vector<uint64_t>& slots, uint32_t ep) {
  std::vector<uint32_t> times(slots.size(), 1);
  for (const ExpertCopy& copy : owners.copies) ++times[copy.expert];
  std::vector<uint64_t> loads(ep, 0);
  for (size_t expert = 0; expert < slots.size(); ++expert) {
    loads[owners.shards[expert].owner] += Share(slots[expert], times[expert]);
  }
  for (const ExpertCopy& copy : owners.copies) loads[copy.owner] += Share(slots[copy.expert], times[copy.expert]);
  return *std::max_element(loads.begin(), loads.end());
}

}  // namespace meshseal::compiler

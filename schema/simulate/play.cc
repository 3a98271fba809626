#include "schema/simulate/play.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/intervals.h"
#include "schema/plan_words.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal {
namespace {

constexpr size_t kMostWaits = 8;  // of a chain are told

const char* WordOf(Movement movement) {
  switch (movement) {
    case Movement::kSum:
      return "sum";
    case Movement::kReduceScatter:
      return "reduce-scatter";
    case Movement::kGather:
      return "gather";
    case Movement::kDenseSum:
      return "sum of what is not MoE";
    case Movement::kNone:
      break;
  }
  return "none";
}

// "layer 3 step 6, sum of 128 elements"
std::string OpText(const ScriptOp& op) {
  std::string text = absl::StrCat("layer ", op.layer);
  if (op.step > 0) absl::StrAppend(&text, " step ", op.step);
  const char* word = op.kind == ScriptOpKind::kCollective ? WordOf(op.movement) : "hand-off";
  return absl::StrCat(text, ", ", word, " of ", op.elements, " elements");
}

bool SameMeaning(const ScriptOp& a, const ScriptOp& b) {
  return a.layer == b.layer && a.step == b.step && a.movement == b.movement && a.elements == b.elements;
}

// A meeting that has begun to gather: of a group, or of two ranks.
struct Meeting {
  std::vector<uint32_t> arrived;
  uint32_t last = 0;  // of the arrived, the one with the latest clock
};

struct RankState {
  size_t passage = 0;
  uint32_t times = 0;  // of the passage that are over
  size_t op = 0;
  double clock = 0;  // when it was last free
  bool waits = false;
  TimeSpent path;  // of the longest chain of operations up to `clock`
};

class Player {
 public:
  Player(const MeshScripts& scripts, const MeshRates* rates)
      : scripts_(scripts),
        rates_(rates),
        states_(scripts.ranks.size()),
        groups_(scripts.groups.size()),
        islands_of_(scripts.groups.size()) {
    played_.ranks.resize(scripts.ranks.size());
  }

  absl::StatusOr<Played> Run() {
    MESHSEAL_RETURN_IF_ERROR(CheckIndices());
    for (uint32_t rank = 0; rank < states_.size(); ++rank) ready_.push({0.0, rank});
    while (!ready_.empty()) {
      const uint32_t rank = ready_.top().second;
      ready_.pop();
      MESHSEAL_RETURN_IF_ERROR(Advance(rank));
    }
    for (uint32_t rank = 0; rank < states_.size(); ++rank) {
      if (states_[rank].waits) return Stuck(rank);
      if (states_[rank].clock > states_[played_.last_rank].clock) played_.last_rank = rank;
    }
    if (!states_.empty()) played_.critical = states_[played_.last_rank].path;
    return std::move(played_);
  }

 private:
  absl::Status CheckIndices() const {
    const auto lost = [](size_t rank, const char* what) {
      return Refuse(Reason::kBug, absl::StrCat("the script of rank ", rank, " names ", what, " that there is not"));
    };
    for (const std::vector<uint32_t>& group : scripts_.groups) {
      if (std::adjacent_find(group.begin(), group.end(), std::greater_equal<>()) != group.end()) {
        return Refuse(Reason::kBug, "the ranks of a group do not ascend");
      }
      if (!group.empty() && group.back() >= scripts_.ranks.size()) return lost(group.back(), "a rank");
    }
    for (size_t rank = 0; rank < scripts_.ranks.size(); ++rank) {
      const RankScript& own = scripts_.ranks[rank];
      for (const uint32_t group : own.groups) {
        if (group >= scripts_.groups.size()) return lost(rank, "a group");
      }
      for (const uint32_t peer : own.peers) {
        if (peer >= scripts_.ranks.size()) return lost(rank, "a peer");
      }
      for (const Passage& passage : own.passages) {
        if (passage.script >= scripts_.scripts.size()) return lost(rank, "a script");
        for (const ScriptOp& op : scripts_.scripts[passage.script]) {
          if (op.kind == ScriptOpKind::kCollective && op.with >= own.groups.size()) return lost(rank, "a group");
          const bool hands = op.kind == ScriptOpKind::kSend || op.kind == ScriptOpKind::kReceive;
          if (hands && op.with >= own.peers.size()) return lost(rank, "a peer");
        }
      }
    }
    return absl::OkStatus();
  }

  // The operation that a rank is at; null when it has ended.
  const ScriptOp* OpOf(uint32_t rank) {
    RankState& state = states_[rank];
    const std::vector<Passage>& passages = scripts_.ranks[rank].passages;
    while (state.passage < passages.size()) {
      const Passage& passage = passages[state.passage];
      const Script& script = scripts_.scripts[passage.script];
      if (state.op < script.size() && state.times < passage.times) return &script[state.op];
      state.op = 0;
      if (!script.empty() && state.times + 1 < passage.times) {
        ++state.times;
      } else {
        state.times = 0;
        ++state.passage;
      }
    }
    return nullptr;
  }

  // Up to where the rank has to wait, or to its end.
  absl::Status Advance(uint32_t rank) {
    RankState& state = states_[rank];
    for (const ScriptOp* op = OpOf(rank); op != nullptr; op = OpOf(rank)) {
      switch (op->kind) {
        case ScriptOpKind::kCompute:
          Compute(rank, *op);
          break;
        case ScriptOpKind::kCollective:
          return Enter(rank, *op);
        case ScriptOpKind::kSend:
        case ScriptOpKind::kReceive:
          return HandOver(rank, *op);
      }
      ++state.op;
    }
    return absl::OkStatus();
  }

  void Compute(uint32_t rank, const ScriptOp& op) {
    ++played_.operations;
    RankPlayed& played = played_.ranks[rank];
    played.weight_bytes += op.bytes;
    played.operations += op.operations;
    if (rates_ == nullptr) return;
    const double weights = op.bytes / rates_->ranks[rank].bytes;
    const double arithmetic = op.operations / rates_->ranks[rank].operations;
    const double seconds = std::max(weights, arithmetic);
    (weights >= arithmetic ? played.spent.weights : played.spent.arithmetic) += seconds;
    (weights >= arithmetic ? states_[rank].path.weights : states_[rank].path.arithmetic) += seconds;
    states_[rank].clock += seconds;
  }

  absl::Status Enter(uint32_t rank, const ScriptOp& op) {
    const uint32_t index = scripts_.ranks[rank].groups[op.with];
    const std::vector<uint32_t>& group = scripts_.groups[index];
    if (!std::binary_search(group.begin(), group.end(), rank)) {
      return Refuse(Reason::kScheduleMismatch, absl::StrCat("rank ", rank, " enters ", OpText(op), ", over ranks ",
                                                            RanksText(group), ", of which it is none"));
    }
    Meeting& meeting = groups_[index];
    if (!meeting.arrived.empty()) {
      const uint32_t first = meeting.arrived.front();
      const ScriptOp& expected = *OpOf(first);
      if (!SameMeaning(expected, op)) {
        return Refuse(Reason::kScheduleMismatch,
                      absl::StrCat("ranks ", RanksText(group), " meet, and rank ", rank, " enters ", OpText(op),
                                   ", rank ", first, " ", OpText(expected)));
      }
    }
    Arrive(rank, &meeting);
    if (meeting.arrived.size() < group.size()) return absl::OkStatus();
    ++(op.movement == Movement::kDenseSum ? played_.dense_sums : played_.collectives);
    std::vector<double> seconds;
    const size_t size = group.size();
    for (const uint32_t member : meeting.arrived) {
      seconds.push_back(SecondsFor(op, size, rates_ == nullptr ? size : InsideOf(index, member), member));
    }
    Leave(std::exchange(meeting, Meeting{}), seconds, &TimeSpent::collectives);
    return absl::OkStatus();
  }

  absl::Status HandOver(uint32_t rank, const ScriptOp& op) {
    const uint32_t peer = scripts_.ranks[rank].peers[op.with];
    const bool sends = op.kind == ScriptOpKind::kSend;
    const std::pair<uint32_t, uint32_t> way = sends ? std::pair(rank, peer) : std::pair(peer, rank);
    Meeting& meeting = hand_offs_[way];
    if (!meeting.arrived.empty()) {
      const ScriptOp& expected = *OpOf(peer);
      if (!SameMeaning(expected, op)) {
        return Refuse(Reason::kScheduleMismatch,
                      absl::StrCat("rank ", way.first, " hands rank ", way.second, " ", OpText(sends ? op : expected),
                                   ", which expects ", OpText(sends ? expected : op)));
      }
    }
    Arrive(rank, &meeting);
    if (meeting.arrived.size() < 2) return absl::OkStatus();
    ++played_.hand_offs;
    const bool inside = rates_ == nullptr || rates_->islands[rank] == rates_->islands[peer];
    const double seconds = SecondsFor(op, 2, inside ? 2 : 1, way.second);
    Leave(std::exchange(meeting, Meeting{}), {seconds, seconds}, &TimeSpent::hand_offs);
    return absl::OkStatus();
  }

  void Arrive(uint32_t rank, Meeting* meeting) {
    states_[rank].waits = true;
    if (meeting->arrived.empty() || states_[rank].clock > states_[meeting->last].clock) meeting->last = rank;
    meeting->arrived.push_back(rank);
  }

  // Members of a group in the island of one of them.
  size_t InsideOf(uint32_t group, uint32_t member) {
    std::map<uint32_t, size_t>& islands = islands_of_[group];
    if (islands.empty()) {
      for (const uint32_t rank : scripts_.groups[group]) ++islands[rates_->islands[rank]];
    }
    return islands.at(rates_->islands[member]);
  }

  // What `rank`, one of `size` that meet and of `inside` in its island, receives over each kind of link, after the
  // slowest link's latency.
  double SecondsFor(const ScriptOp& op, size_t size, size_t inside, uint32_t rank) const {
    if (rates_ == nullptr || size < 2) return 0;
    const double near = static_cast<double>(inside - 1) * op.bytes;
    const double far = static_cast<double>(size - inside) * op.bytes;
    const LinkRates& link = rates_->inside[rates_->islands[rank]];
    const LinkRates& slowest = inside < size ? rates_->between : link;
    double seconds = op.rounds * slowest.latency;
    if (near > 0) seconds += near / link.bytes;
    if (far > 0) seconds += far / rates_->between.bytes;
    return seconds;
  }

  void Leave(const Meeting& meeting, const std::vector<double>& seconds, double TimeSpent::*what) {
    const double begin = states_[meeting.last].clock;
    const TimeSpent path = states_[meeting.last].path;
    for (size_t i = 0; i < meeting.arrived.size(); ++i) {
      const uint32_t rank = meeting.arrived[i];
      RankState& state = states_[rank];
      TimeSpent& spent = played_.ranks[rank].spent;
      spent.waiting += begin - state.clock;
      spent.*what += seconds[i];
      state.path = path;
      state.path.*what += seconds[i];
      state.clock = begin + seconds[i];
      state.waits = false;
      ++state.op;
      ++played_.operations;
      ready_.push({state.clock, rank});
    }
  }

  static std::string RanksText(const std::vector<uint32_t>& ranks) { return NumbersText(IntervalsOf(ranks)); }

  // The first rank that a waiting one waits for: a member of its group that is not there, or its peer.
  uint32_t MissingFor(uint32_t rank) {
    const ScriptOp& op = *OpOf(rank);
    if (op.kind != ScriptOpKind::kCollective) return scripts_.ranks[rank].peers[op.with];
    const uint32_t index = scripts_.ranks[rank].groups[op.with];
    std::vector<uint32_t> arrived = groups_[index].arrived;
    std::sort(arrived.begin(), arrived.end());
    const std::vector<uint32_t>& group = scripts_.groups[index];
    for (const uint32_t member : group) {
      if (!std::binary_search(arrived.begin(), arrived.end(), member)) return member;
    }
    return rank;  // not reached: a full meeting has ended
  }

  std::string WaitText(uint32_t rank, uint32_t missing) {
    const ScriptOp& op = *OpOf(rank);
    std::string over;
    if (op.kind == ScriptOpKind::kCollective) {
      over = absl::StrCat(" over ranks ", RanksText(scripts_.groups[scripts_.ranks[rank].groups[op.with]]));
    }
    const char* verb = op.kind == ScriptOpKind::kSend      ? " to hand over "
                       : op.kind == ScriptOpKind::kReceive ? " to take over "
                                                           : " in ";
    return absl::StrCat("rank ", rank, " waits", verb, OpText(op), over, ", for rank ", missing);
  }

  // Follows who waits for whom from `rank` on, to a rank that has ended or round to one that was met before.
  absl::Status Stuck(uint32_t rank) {
    std::vector<uint32_t> chain;
    std::vector<bool> met(states_.size());
    while (states_[rank].waits && !met[rank]) {
      met[rank] = true;
      chain.push_back(rank);
      rank = MissingFor(rank);
    }
    const bool cycle = met[rank];
    if (cycle) chain.erase(chain.begin(), std::find(chain.begin(), chain.end(), rank));
    std::vector<std::string> waits;
    for (size_t i = 0; i < chain.size(); ++i) {
      if (waits.size() < kMostWaits) waits.push_back(WaitText(chain[i], i + 1 < chain.size() ? chain[i + 1] : rank));
    }
    if (chain.size() > waits.size()) waits.push_back(absl::StrCat(chain.size() - waits.size(), " more ranks wait"));
    const std::string text = absl::StrJoin(waits, "; ");
    return Refuse(Reason::kScheduleStuck, cycle ? absl::StrCat("ranks wait for each other for ever: ", text)
                                                : absl::StrCat(text, ", which has ended"));
  }

  const MeshScripts& scripts_;
  const MeshRates* rates_;
  std::vector<RankState> states_;
  std::vector<Meeting> groups_;                                 // by group
  std::vector<std::map<uint32_t, size_t>> islands_of_;          // by group: members of each island
  std::map<std::pair<uint32_t, uint32_t>, Meeting> hand_offs_;  // by sender and receiver
  std::priority_queue<std::pair<double, uint32_t>, std::vector<std::pair<double, uint32_t>>, std::greater<>> ready_;
  Played played_;
};

}  // namespace

absl::StatusOr<Played> Play(const MeshScripts& scripts, const MeshRates* rates) { return Player(scripts, rates).Run(); }

}  // namespace meshseal

#include "tests/ranks/simulated_world.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "runtime/comm/ends.h"
#include "schema/reason.h"

namespace meshseal::support {

using runtime::Channel;
using runtime::Endpoint;
using runtime::Ends;
using runtime::Incoming;
using runtime::Outgoing;
using runtime::RankWorld;

namespace {

constexpr std::chrono::seconds kStuckAfter{60};

}  // namespace

uint64_t SeededNumbers::Next() {  // SplitMix64
  state_ += 0x9e3779b97f4a7c15;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

class Simulation::State {
 public:
  explicit State(const SimulationOptions& options)
      : options_(options),
        numbers_(options.seed),
        seats_(options.world),
        queues_(size_t{options.world} * options.world * runtime::kChannels) {}

  uint32_t world() const { return options_.world; }

  // The scopes of the ranks, which nobody has ended yet.
  void SetScope(uint32_t scope) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (scope == scope_) return;
    scope_ = scope;
    for (Seat& seat : seats_) {
      seat.ends.emplace(world(), scope);
      seat.meetings.assign(world(), 0);
    }
  }

  // From here on nobody runs before `rank` has called.
  void Expect(uint32_t rank) {
    const std::lock_guard<std::mutex> lock(mutex_);
    seats_[rank].place = Place::kAway;
  }

  void Leave(uint32_t rank) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!AwaitTurn(&lock, rank)) return;
    Record("ends", rank);
    seats_[rank].place = Place::kGone;
    running_.reset();
    PickNext();
  }

  absl::Status Exchange(uint32_t rank, Channel channel, absl::Span<const Outgoing> out, absl::Span<const Incoming> in,
                        std::chrono::milliseconds deadline) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!AwaitTurn(&lock, rank)) return Stuck();
    Seat& seat = seats_[rank];
    if (seat.killed) return Killed(rank);
    if (absl::Status ended = seat.ends->For(rank, channel, out, in); !ended.ok()) return ended;
    seat.wait = Wait{};
    for (const Outgoing& message : out) {
      if (message.bytes.empty()) continue;
      Post(rank, channel, message);
      if (seat.killed) return Killed(rank);
    }
    seat.wait.channel = channel;
    seat.wait.out = out;
    seat.wait.in = in;
    for (const Incoming& message : in) {
      if (!message.bytes.empty()) seat.wait.missing.push_back(message);
    }
    if (seat.wait.missing.empty() && seat.wait.untaken.empty()) return absl::OkStatus();
    seat.wait.deadline = deadline;
    seat.wait.until = now_ + deadline;
    seat.place = Place::kWaiting;
    running_.reset();
    PickNext();
    if (!AwaitTurn(&lock, rank)) return Stuck();
    Record(seat.wait.result.ok() ? "goes on" : "fails", rank);
    return seat.wait.result;
  }

  void Come(uint32_t rank, uint64_t number) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!AwaitTurn(&lock, rank) || seats_[rank].killed) return;
    Record("comes", rank, number);
    for (uint32_t to = 0; to < world(); ++to) {
      if (to != rank) seats_[to].notes.push_back({rank, Channel::kBetweenScopes, "", now_ + DrawDelay(), number});
    }
  }

  absl::Status AwaitPeer(uint32_t rank, uint32_t peer, uint64_t number, std::chrono::milliseconds time) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!AwaitTurn(&lock, rank)) return Stuck();
    Seat& seat = seats_[rank];
    if (seat.killed) return Killed(rank);
    if (seat.meetings[peer] >= number) return absl::OkStatus();
    const std::vector<Incoming> with = {{peer, {}}};
    if (absl::Status ended = seat.ends->For(rank, Channel::kBetweenScopes, {}, with); !ended.ok()) return ended;
    seat.wait = Wait{};
    seat.wait.channel = Channel::kBetweenScopes;
    seat.wait.in = with;
    seat.wait.peer = peer;
    seat.wait.meeting = number;
    seat.wait.deadline = time;
    seat.wait.until = now_ + time;
    seat.place = Place::kWaiting;
    running_.reset();
    PickNext();
    if (!AwaitTurn(&lock, rank)) return Stuck();
    return seat.wait.result;
  }

  void Abort(uint32_t rank, Channel channel, const absl::Status& cause) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!AwaitTurn(&lock, rank)) return;
    End(rank, channel, cause).IgnoreError();
  }

  void Write(absl::string_view line) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Digest(line);
    if (options_.keeps_lines) absl::StrAppend(&lines_, now_.count(), " us: ", line, "\n");
  }

  template <class Get>
  auto Locked(Get get) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return get(*this);
  }

  uint64_t sent(uint32_t rank) const { return seats_[rank].sent; }
  bool killed(uint32_t rank) const { return seats_[rank].killed; }
  VirtualTime now() const { return now_; }
  std::optional<VirtualTime> fault_time() const { return fault_time_; }
  std::optional<Channel> fault_channel() const { return fault_channel_; }
  bool stuck() const { return stuck_; }
  uint64_t digest() const { return digest_; }
  std::string lines() const { return lines_; }

 private:
  enum class Place : uint8_t {
    kGone,     // takes no part
    kAway,     // will call
    kReady,    // wants to run
    kWaiting,  // for messages
  };

  struct Message {
    std::string bytes;
    VirtualTime arrives;
    uint64_t number = 0;  // of its sender, from 1
  };

  struct Queue {
    std::deque<Message> messages;
    bool lost = false;  // nothing arrives any more
  };

  struct Note {
    uint32_t from = 0;
    Channel channel = Channel::kWorld;
    std::string text;
    VirtualTime arrives;
    uint64_t meeting = 0;  // that its sender has come to; 0: an end
  };

  struct Sent {
    uint32_t to = 0;
    uint64_t number = 0;
  };

  struct Wait {
    Channel channel = Channel::kWorld;
    absl::Span<const Outgoing> out;  // all of the call, and what is missing of it
    absl::Span<const Incoming> in;
    std::vector<Incoming> missing;
    std::vector<Sent> untaken;
    uint32_t peer = 0;
    uint64_t meeting = 0;  // that `peer` is awaited at; 0: messages are
    std::chrono::milliseconds deadline{0};
    VirtualTime until{0};
    absl::Status result;
  };

  struct Seat {
    Place place = Place::kGone;
    std::condition_variable turn;
    bool killed = false;
    std::optional<Ends> ends;        // that the rank has heard of
    std::vector<uint64_t> meetings;  // that each rank has come to, as far as it has heard
    uint64_t sent = 0;
    Wait wait;
    std::vector<Note> notes;
  };

  static absl::Status Killed(uint32_t rank) {
    return Refuse(Reason::kPeerFailed, absl::StrCat("rank ", rank, " was killed"));
  }
  static absl::Status Stuck() { return Refuse(Reason::kBug, "the simulation is stuck"); }

  Queue& QueueOf(Channel channel, uint32_t from, uint32_t to) {
    return queues_[(static_cast<size_t>(channel) * world() + from) * world() + to];
  }

  // Waits until `rank` runs. False: never.
  bool AwaitTurn(std::unique_lock<std::mutex>* lock, uint32_t rank) {
    if (stuck_) return false;
    if (running_ == rank) return true;
    Seat& seat = seats_[rank];
    if (seat.place != Place::kWaiting && seat.place != Place::kReady) {
      seat.place = Place::kReady;
      if (!running_.has_value()) PickNext();
    }
    if (!seat.turn.wait_for(*lock, kStuckAfter, [&] { return running_ == rank || stuck_; })) {
      stuck_ = true;
      for (Seat& other : seats_) other.turn.notify_all();
    }
    return !stuck_;
  }

  // Gives the turn away, if nobody is awaited.
  void PickNext() {
    if (std::any_of(seats_.begin(), seats_.end(), [](const Seat& s) { return s.place == Place::kAway; })) return;
    while (true) {
      SettleAll();
      std::vector<uint32_t> ready;
      for (uint32_t rank = 0; rank < world(); ++rank) {
        if (seats_[rank].place == Place::kReady) ready.push_back(rank);
      }
      if (!ready.empty()) {
        const uint32_t next = ready[numbers_.Below(ready.size())];
        seats_[next].place = Place::kReady;
        running_ = next;
        seats_[next].turn.notify_all();
        return;
      }
      const std::optional<VirtualTime> next = NextEvent();
      if (!next.has_value()) return;
      now_ = *next;
    }
  }

  // Lets everything happen that can at this time, from a drawn rank on.
  void SettleAll() {
    const uint32_t first = static_cast<uint32_t>(numbers_.Below(world()));
    for (bool changed = true; changed;) {
      changed = false;
      for (uint32_t i = 0; i < world(); ++i) {
        const uint32_t rank = (first + i) % world();
        if (seats_[rank].place == Place::kWaiting) changed = Settle(rank) || changed;
      }
    }
  }

  // Takes what has arrived for a rank that waits, and ends its wait where it is over. Whether anything changed.
  bool Settle(uint32_t rank) {
    Seat& seat = seats_[rank];
    Wait& wait = seat.wait;
    bool changed = false;
    for (size_t i = 0; i < wait.missing.size();) {
      const Incoming message = wait.missing[i];
      std::deque<Message>& queue = QueueOf(wait.channel, message.from, rank).messages;
      if (queue.empty() || queue.front().arrives > now_) {
        ++i;
        continue;
      }
      const Message arrived = std::move(queue.front());
      queue.pop_front();
      Record("gets", rank, message.from, arrived.number, arrived.bytes.size());
      std::vector<Sent>& untaken = seats_[message.from].wait.untaken;
      untaken.erase(std::remove_if(untaken.begin(), untaken.end(),
                                   [&](const Sent& sent) { return sent.number == arrived.number; }),
                    untaken.end());
      changed = true;
      if (arrived.bytes.size() != message.bytes.size()) {
        return Finish(rank, End(rank, wait.channel,
                                runtime::OtherSize(message.from, arrived.bytes.size(), message.bytes.size())));
      }
      std::memcpy(message.bytes.data(), arrived.bytes.data(), arrived.bytes.size());
      wait.missing.erase(wait.missing.begin() + static_cast<ptrdiff_t>(i));
    }
    if (wait.meeting == 0 && wait.missing.empty() && wait.untaken.empty()) return Finish(rank, absl::OkStatus());
    const auto note = std::min_element(seat.notes.begin(), seat.notes.end(),
                                       [](const Note& a, const Note& b) { return a.arrives < b.arrives; });
    if (note != seat.notes.end() && note->arrives <= now_) {
      if (note->meeting != 0) {
        seat.meetings[note->from] = std::max(seat.meetings[note->from], note->meeting);
        seat.notes.erase(note);
        if (wait.meeting == 0 || seat.meetings[wait.peer] < wait.meeting) return true;
        Record("meets", rank, wait.peer);
        return Finish(rank, absl::OkStatus());
      }
      Record("hears the end from", rank, note->from);
      seat.ends->Add(note->from, note->channel, Refuse(Reason::kPeerFailed, note->text));
      seat.notes.erase(note);
      absl::Status ended = seat.ends->For(rank, wait.channel, wait.out, wait.in);
      if (ended.ok()) return true;  // of others
      return Finish(rank, std::move(ended));
    }
    if (now_ < wait.until) return changed;
    if (wait.meeting != 0) return Finish(rank, runtime::NobodyCame(wait.deadline, {wait.peer}));
    std::vector<uint32_t> missing;
    for (const Incoming& message : wait.missing) missing.push_back(message.from);
    for (const Sent& message : wait.untaken) missing.push_back(message.to);
    return Finish(rank, End(rank, wait.channel, runtime::NobodyCame(wait.deadline, std::move(missing))));
  }

  bool Finish(uint32_t rank, absl::Status result) {
    seats_[rank].wait.result = std::move(result);
    seats_[rank].wait.missing.clear();
    seats_[rank].wait.untaken.clear();
    seats_[rank].place = Place::kReady;
    return true;
  }

  std::optional<VirtualTime> NextEvent() {
    std::optional<VirtualTime> next;
    const auto consider = [&next](VirtualTime time) { next = std::min(next.value_or(time), time); };
    for (uint32_t rank = 0; rank < world(); ++rank) {
      const Seat& seat = seats_[rank];
      if (seat.place != Place::kWaiting) continue;
      consider(seat.wait.until);
      for (const Note& note : seat.notes) consider(note.arrives);
      for (const Incoming& message : seat.wait.missing) {
        const std::deque<Message>& queue = QueueOf(seat.wait.channel, message.from, rank).messages;
        if (!queue.empty()) consider(queue.front().arrives);
      }
    }
    return next;
  }

  VirtualTime DrawDelay() {
    return VirtualTime(static_cast<int64_t>(numbers_.Below(static_cast<uint64_t>(options_.longest_delay.count()) + 1)));
  }

  void Post(uint32_t rank, Channel channel, const Outgoing& out) {
    Seat& seat = seats_[rank];
    const MessageFault& fault = options_.fault;
    const bool strikes = fault.kind != FaultKind::kNone && fault.rank == rank && fault.message == seat.sent;
    VirtualTime delay = DrawDelay();
    if (strikes) {
      fault_time_ = now_;
      fault_channel_ = channel;
      Record("the fault strikes", rank, out.to);
      if (fault.kind == FaultKind::kKill) return Kill(rank);
      if (fault.kind == FaultKind::kDelay) delay += fault.delay;
    }
    const uint64_t number = ++seat.sent;
    if (!options_.buffers) seat.wait.untaken.push_back({out.to, number});
    Record("sends", rank, out.to, number, out.bytes.size());
    Queue& queue_of = QueueOf(channel, rank, out.to);
    if (strikes && (fault.kind == FaultKind::kDrop || fault.kind == FaultKind::kKillInNote)) queue_of.lost = true;
    if (queue_of.lost) return;
    std::deque<Message>& queue = queue_of.messages;
    VirtualTime arrives = now_ + delay;
    if (!queue.empty()) arrives = std::max(arrives, queue.back().arrives);
    const Message message = {std::string(reinterpret_cast<const char*>(out.bytes.data()), out.bytes.size()), arrives,
                             number};
    queue.push_back(message);
    const bool repeats = fault.kind == FaultKind::kRepeat || (fault.kind == FaultKind::kDuplicate && !options_.buffers);
    if (strikes && repeats) queue.push_back(message);
  }

  // `rank` ends what the channel's messages belong to, unless it has heard or told before; what it says from now on.
  absl::Status End(uint32_t rank, Channel channel, const absl::Status& cause) {
    Seat& seat = seats_[rank];
    if (seat.killed) return Killed(rank);
    if (!seat.ends->Add(rank, channel, cause)) {
      const absl::Status ended = seat.ends->For(rank, channel);
      return ended.ok() ? cause : ended;
    }
    Record(channel == Channel::kWorld ? "ends the world" : "ends its scope", rank);
    const MessageFault& fault = options_.fault;
    uint32_t told = 0;
    for (uint32_t to = 0; to < world(); ++to) {
      if (to == rank) continue;
      if (fault.kind == FaultKind::kKillInNote && !killed_in_note_ && told == fault.notes) {
        killed_in_note_ = true;
        Kill(rank);
        return Killed(rank);
      }
      seats_[to].notes.push_back({rank, channel, std::string(cause.message()), now_ + DrawDelay()});
      ++told;
    }
    return cause;
  }

  void Kill(uint32_t rank) {
    Record("is killed", rank);
    seats_[rank].killed = true;
    seats_[rank].wait = Wait{};
    if (!options_.fault.loses_flying) return;
    for (uint32_t to = 0; to < world(); ++to) {
      const auto flies = [&](const auto& message) { return message.arrives > now_; };
      for (uint32_t channel = 0; channel < runtime::kChannels; ++channel) {
        std::deque<Message>& queue = QueueOf(static_cast<Channel>(channel), rank, to).messages;
        queue.erase(std::remove_if(queue.begin(), queue.end(), flies), queue.end());
      }
      std::vector<Note>& notes = seats_[to].notes;
      notes.erase(std::remove_if(notes.begin(), notes.end(),
                                 [&](const Note& note) { return note.from == rank && flies(note); }),
                  notes.end());
    }
  }

  void Digest(absl::string_view bytes) {
    for (const char c : bytes) digest_ = (digest_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;  // FNV-1a
  }

  template <class... Numbers>
  void Record(const char* what, uint32_t rank, Numbers... numbers) {
    Digest(what);
    for (const uint64_t number : {static_cast<uint64_t>(now_.count()), uint64_t{rank}, uint64_t{numbers}...}) {
      digest_ = (digest_ ^ number) * 0x100000001b3;
    }
    if (!options_.keeps_lines) return;
    absl::StrAppend(&lines_, now_.count(), " us: rank ", rank, " ", what);
    const char* separator = " ";
    for (const uint64_t number : std::initializer_list<uint64_t>{uint64_t{numbers}...}) {
      absl::StrAppend(&lines_, separator, number);
      separator = ", ";
    }
    lines_ += '\n';
  }

  const SimulationOptions options_;
  mutable std::mutex mutex_;
  uint32_t scope_ = 0;
  SeededNumbers numbers_;
  std::vector<Seat> seats_;
  std::vector<Queue> queues_;
  std::optional<uint32_t> running_;
  VirtualTime now_{0};
  std::optional<VirtualTime> fault_time_;
  std::optional<Channel> fault_channel_;
  bool killed_in_note_ = false;
  bool stuck_ = false;
  uint64_t digest_ = 0xcbf29ce484222325;
  std::string lines_;

  friend class Simulation;
};

namespace {

template <class State>
class SimulatedEndpoint : public Endpoint {
 public:
  SimulatedEndpoint(std::shared_ptr<State> state, uint32_t rank, bool together)
      : state_(std::move(state)), rank_(rank), together_(together) {}

  uint32_t rank() const override { return rank_; }
  uint32_t world() const override { return state_->world(); }

  void BeginCall() override {
    if (together_) state_->Expect(rank_);
  }
  void EndCall() override {
    if (together_) state_->Leave(rank_);
  }

  absl::Status Exchange(Channel channel, absl::Span<const Outgoing> out, absl::Span<const Incoming> in,
                        std::chrono::milliseconds deadline) override {
    return state_->Exchange(rank_, channel, out, in, deadline);
  }

  std::chrono::nanoseconds Now() const override {
    return state_->Locked([](const State& s) { return s.now(); });
  }

  void Come(uint64_t number) override { state_->Come(rank_, number); }
  absl::Status AwaitPeer(uint32_t peer, uint64_t number, std::chrono::milliseconds time) override {
    return state_->AwaitPeer(rank_, peer, number, time);
  }

  void Abort(Channel channel, const absl::Status& cause) override { state_->Abort(rank_, channel, cause); }

 private:
  const std::shared_ptr<State> state_;
  const uint32_t rank_;
  const bool together_;
};

// Of one process: that of one rank, or of all.
template <class State>
class SimulatedWorld : public RankWorld {
 public:
  SimulatedWorld(std::shared_ptr<State> state, std::optional<uint32_t> rank) : state_(std::move(state)), rank_(rank) {}

  Transport transport() const override { return Transport::kInproc; }
  std::string library() const override { return ""; }

  absl::StatusOr<std::vector<std::unique_ptr<Endpoint>>> Connect(uint32_t world, uint32_t scope) override {
    if (world != state_->world()) {
      return Refuse(Reason::kWorldSize,
                    absl::StrCat("the plan's world is ", world, " ranks, ", state_->world(), " are simulated"));
    }
    state_->SetScope(scope);
    std::vector<std::unique_ptr<Endpoint>> ends;
    for (uint32_t rank = rank_.value_or(0); rank < rank_.value_or(world - 1) + 1; ++rank) {
      ends.push_back(std::make_unique<SimulatedEndpoint<State>>(state_, rank, !rank_.has_value()));
    }
    return ends;
  }

 private:
  const std::shared_ptr<State> state_;
  const std::optional<uint32_t> rank_;
};

}  // namespace

Simulation::Simulation(const SimulationOptions& options) : state_(std::make_shared<State>(options)) {}
Simulation::~Simulation() = default;

std::shared_ptr<RankWorld> Simulation::Together() {
  return std::make_shared<SimulatedWorld<State>>(state_, std::nullopt);
}

std::shared_ptr<RankWorld> Simulation::Process(uint32_t rank) {
  state_->Expect(rank);
  return std::make_shared<SimulatedWorld<State>>(state_, rank);
}

void Simulation::EndProcess(uint32_t rank) { state_->Leave(rank); }
void Simulation::Write(absl::string_view line) { state_->Write(line); }

VirtualTime Simulation::now() const {
  return state_->Locked([](const State& s) { return s.now(); });
}
uint64_t Simulation::sent(uint32_t rank) const {
  return state_->Locked([rank](const State& s) { return s.sent(rank); });
}
bool Simulation::killed(uint32_t rank) const {
  return state_->Locked([rank](const State& s) { return s.killed(rank); });
}
std::optional<VirtualTime> Simulation::fault_time() const {
  return state_->Locked([](const State& s) { return s.fault_time(); });
}
std::optional<Channel> Simulation::fault_channel() const {
  return state_->Locked([](const State& s) { return s.fault_channel(); });
}
bool Simulation::stuck() const {
  return state_->Locked([](const State& s) { return s.stuck(); });
}
uint64_t Simulation::trace_digest() const {
  return state_->Locked([](const State& s) { return s.digest(); });
}
std::string Simulation::trace_text() const {
  return state_->Locked([](const State& s) { return s.lines(); });
}

}  // namespace meshseal::support

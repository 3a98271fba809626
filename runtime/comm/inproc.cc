#include "runtime/comm/inproc.h"

#include <array>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "runtime/comm/ends.h"

namespace meshseal::runtime {
namespace {

// A box for each sender, receiver and channel holds the sender's message until the receiver has copied it. A sender
// that gives up takes its message back, and waits for a copy that is under way: so nothing is ever read or written
// after its owner's call has returned.
class Boxes {
 public:
  Boxes(uint32_t world, uint32_t scope)
      : world_(world), boxes_(size_t{world} * world * kChannels), seats_(world), ends_(world, scope) {}

  uint32_t world() const { return world_; }

  absl::Status Exchange(uint32_t rank, Channel channel, absl::Span<const Outgoing> out, absl::Span<const Incoming> in,
                        std::chrono::milliseconds deadline) {
    const auto until = std::chrono::steady_clock::now() + deadline;
    std::unique_lock<std::mutex> lock(mutex_);
    if (absl::Status ended = ends_.For(rank, channel, out, in); !ended.ok()) return ended;
    absl::Status cause;
    for (const Outgoing& message : out) {
      if (message.bytes.empty()) continue;
      BoxOf(channel, rank, message.to) = {message.bytes, State::kPosted};
      seats_[message.to].changed.notify_one();
    }
    std::vector<bool>& taken = seats_[rank].taken;
    taken.assign(in.size(), false);
    while (true) {
      absl::StatusOr<bool> progress = TakePosted(&lock, rank, channel, out, in, &taken);
      if (IsDone(rank, channel, out, in, taken)) return absl::OkStatus();  // counts, even when all has ended since
      cause = progress.ok() ? ends_.For(rank, channel, out, in) : progress.status();
      if (!cause.ok()) break;
      if (*progress) continue;
      if (seats_[rank].changed.wait_until(lock, until) == std::cv_status::no_timeout) continue;
      cause = Fail(rank, channel, NobodyCame(deadline, Missing(rank, channel, out, in, taken)));
      break;
    }
    for (const Outgoing& message : out) {
      if (message.bytes.empty()) continue;
      Box& box = BoxOf(channel, rank, message.to);
      seats_[rank].changed.wait(lock, [&box] { return box.state != State::kCopied; });
      box = Box{};
    }
    return cause;
  }

  void Come(uint32_t rank, uint64_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    seats_[rank].meeting = number;
    for (Seat& seat : seats_) seat.changed.notify_one();
  }

  absl::Status AwaitPeer(uint32_t rank, uint32_t peer, uint64_t number, std::chrono::milliseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    const std::array<Incoming, 1> with = {Incoming{peer, {}}};
    std::unique_lock<std::mutex> lock(mutex_);
    while (seats_[peer].meeting < number) {
      if (absl::Status ended = ends_.For(rank, Channel::kBetweenScopes, {}, with); !ended.ok()) return ended;
      if (seats_[rank].changed.wait_until(lock, until) == std::cv_status::timeout) return NobodyCame(time, {peer});
    }
    return absl::OkStatus();
  }

  absl::Status Check(uint32_t rank, Channel channel) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ends_.For(rank, channel);
  }

  void Abort(uint32_t rank, Channel channel, const absl::Status& cause) {
    const std::lock_guard<std::mutex> lock(mutex_);
    End(rank, channel, cause);
  }

 private:
  enum class State : uint8_t { kEmpty, kPosted, kCopied };
  struct Box {
    absl::Span<const std::byte> bytes;
    State state = State::kEmpty;
  };
  struct Seat {
    std::condition_variable changed;  // something was posted to this rank, or taken from it, or all is over
    std::vector<bool> taken;
    uint64_t meeting = 0;  // that it has come to
  };

  Box& BoxOf(Channel channel, uint32_t from, uint32_t to) {
    return boxes_[(static_cast<size_t>(channel) * world_ + from) * world_ + to];
  }

  // Takes no memory.
  void End(uint32_t rank, Channel channel, const absl::Status& cause) {
    if (!ends_.Add(rank, channel, cause)) return;
    for (Seat& seat : seats_) seat.changed.notify_one();
  }

  // The same, and what `rank`'s call over `channel` returns: the cause, or the one that ended it first.
  absl::Status Fail(uint32_t rank, Channel channel, const absl::Status& cause) {
    End(rank, channel, cause);
    const absl::Status ended = ends_.For(rank, channel);
    return ended.ok() ? cause : ended;
  }

  // Copies what was posted for `rank` and not taken before; whether there was any.
  absl::StatusOr<bool> TakePosted(std::unique_lock<std::mutex>* lock, uint32_t rank, Channel channel,
                                  absl::Span<const Outgoing> out, absl::Span<const Incoming> in,
                                  std::vector<bool>* taken) {
    bool progress = false;
    for (size_t i = 0; i < in.size() && ends_.For(rank, channel, out, in).ok(); ++i) {
      if ((*taken)[i] || in[i].bytes.empty()) continue;
      Box& box = BoxOf(channel, in[i].from, rank);
      if (box.state != State::kPosted) continue;
      if (box.bytes.size() != in[i].bytes.size()) {
        return Fail(rank, channel, OtherSize(in[i].from, box.bytes.size(), in[i].bytes.size()));
      }
      box.state = State::kCopied;
      lock->unlock();
      std::memcpy(in[i].bytes.data(), box.bytes.data(), box.bytes.size());
      lock->lock();
      box = Box{};
      seats_[in[i].from].changed.notify_one();
      (*taken)[i] = true;
      progress = true;
    }
    return progress;
  }

  bool IsDone(uint32_t rank, Channel channel, absl::Span<const Outgoing> out, absl::Span<const Incoming> in,
              const std::vector<bool>& taken) {
    for (size_t i = 0; i < in.size(); ++i) {
      if (!taken[i] && !in[i].bytes.empty()) return false;
    }
    for (const Outgoing& message : out) {
      if (BoxOf(channel, rank, message.to).state != State::kEmpty) return false;
    }
    return true;
  }

  // The ranks that `rank` still waits for.
  std::vector<uint32_t> Missing(uint32_t rank, Channel channel, absl::Span<const Outgoing> out,
                                absl::Span<const Incoming> in, const std::vector<bool>& taken) {
    std::vector<uint32_t> ranks;
    for (size_t i = 0; i < in.size(); ++i) {
      if (!taken[i] && !in[i].bytes.empty()) ranks.push_back(in[i].from);
    }
    for (const Outgoing& message : out) {
      if (BoxOf(channel, rank, message.to).state != State::kEmpty) ranks.push_back(message.to);
    }
    return ranks;
  }

  const uint32_t world_;
  std::mutex mutex_;
  std::vector<Box> boxes_;
  std::vector<Seat> seats_;
  Ends ends_;
};

class InprocEndpoint : public Endpoint {
 public:
  InprocEndpoint(std::shared_ptr<Boxes> boxes, uint32_t rank) : boxes_(std::move(boxes)), rank_(rank) {}

  uint32_t rank() const override { return rank_; }
  uint32_t world() const override { return boxes_->world(); }

  absl::Status Exchange(Channel channel, absl::Span<const Outgoing> out, absl::Span<const Incoming> in,
                        std::chrono::milliseconds deadline) override {
    return boxes_->Exchange(rank_, channel, out, in, deadline);
  }

  void Come(uint64_t number) override { boxes_->Come(rank_, number); }
  absl::Status AwaitPeer(uint32_t peer, uint64_t number, std::chrono::milliseconds time) override {
    return boxes_->AwaitPeer(rank_, peer, number, time);
  }

  absl::Status Check(Channel channel) override { return boxes_->Check(rank_, channel); }
  void Abort(Channel channel, const absl::Status& cause) override { boxes_->Abort(rank_, channel, cause); }

 private:
  const std::shared_ptr<Boxes> boxes_;
  const uint32_t rank_;
};

class InprocWorld : public RankWorld {
 public:
  Transport transport() const override { return Transport::kInproc; }
  std::string library() const override { return ""; }
  absl::StatusOr<std::vector<std::unique_ptr<Endpoint>>> Connect(uint32_t world, uint32_t scope) override {
    return MakeInprocEndpoints(world, scope);
  }
};

}  // namespace

std::vector<std::unique_ptr<Endpoint>> MakeInprocEndpoints(uint32_t world, uint32_t scope) {
  const auto boxes = std::make_shared<Boxes>(world, scope);
  std::vector<std::unique_ptr<Endpoint>> ends;
  for (uint32_t rank = 0; rank < world; ++rank) ends.push_back(std::make_unique<InprocEndpoint>(boxes, rank));
  return ends;
}

std::shared_ptr<RankWorld> MakeInprocWorld() { return std::make_shared<InprocWorld>(); }

}  // namespace meshseal::runtime

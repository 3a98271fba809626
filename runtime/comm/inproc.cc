#include "runtime/comm/inproc.h"

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/comm/agreement.h"
#include "schema/reason.h"

namespace meshseal::runtime {
namespace {

// A box for each sender, receiver and channel holds the sender's message until the receiver has copied it. A sender
// that gives up takes its message back, and waits for a copy that is under way: so nothing is ever read or written
// after its owner's call has returned.
class Boxes {
 public:
  explicit Boxes(uint32_t world) : world_(world), boxes_(size_t{world} * world * kChannels), seats_(world) {}

  uint32_t world() const { return world_; }

  absl::Status Exchange(uint32_t rank, Channel channel, absl::Span<const Outgoing> out, absl::Span<const Incoming> in,
                        std::chrono::milliseconds deadline) {
    const auto until = std::chrono::steady_clock::now() + deadline;
    std::unique_lock<std::mutex> lock(mutex_);
    if (failure_.has_value()) return FailureFor(rank);
    for (const Outgoing& message : out) {
      if (message.bytes.empty()) continue;
      BoxOf(channel, rank, message.to) = {message.bytes, State::kPosted};
      seats_[message.to].changed.notify_one();
    }
    std::vector<bool>& taken = seats_[rank].taken;
    taken.assign(in.size(), false);
    while (true) {
      const bool progress = TakePosted(&lock, rank, channel, in, &taken);
      if (IsDone(rank, channel, out, in, taken))
        return absl::OkStatus();  // counts, even when the world has ended since
      if (failure_.has_value()) break;
      if (progress) continue;
      if (seats_[rank].changed.wait_until(lock, until) == std::cv_status::no_timeout) continue;
      Fail(rank, NobodyCame(deadline, Missing(rank, channel, out, in, taken)));
    }
    for (const Outgoing& message : out) {
      if (message.bytes.empty()) continue;
      Box& box = BoxOf(channel, rank, message.to);
      seats_[rank].changed.wait(lock, [&box] { return box.state != State::kCopied; });
      box = Box{};
    }
    return FailureFor(rank);
  }

  absl::Status Check(uint32_t rank) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return failure_.has_value() ? FailureFor(rank) : absl::OkStatus();
  }

  void Abort(uint32_t rank, const absl::Status& cause) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Fail(rank, cause);
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
  };
  struct Failure {
    uint32_t rank = 0;
    absl::Status cause;
  };

  Box& BoxOf(Channel channel, uint32_t from, uint32_t to) {
    return boxes_[(static_cast<size_t>(channel) * world_ + from) * world_ + to];
  }

  void Fail(uint32_t rank, const absl::Status& cause) {
    if (failure_.has_value()) return;
    failure_ = Failure{rank, cause};
    for (Seat& seat : seats_) seat.changed.notify_one();
  }

  absl::Status FailureFor(uint32_t rank) const {
    if (failure_->rank == rank) return failure_->cause;
    return PeerFailed(failure_->rank, failure_->cause.message());
  }

  // Copies what was posted for `rank` and not taken before; whether there was any.
  bool TakePosted(std::unique_lock<std::mutex>* lock, uint32_t rank, Channel channel, absl::Span<const Incoming> in,
                  std::vector<bool>* taken) {
    bool progress = false;
    for (size_t i = 0; i < in.size() && !failure_.has_value(); ++i) {
      if ((*taken)[i] || in[i].bytes.empty()) continue;
      Box& box = BoxOf(channel, in[i].from, rank);
      if (box.state != State::kPosted) continue;
      if (box.bytes.size() != in[i].bytes.size()) {
        Fail(rank, OtherSize(in[i].from, box.bytes.size(), in[i].bytes.size()));
        break;
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
  std::optional<Failure> failure_;
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

  absl::Status Check() override { return boxes_->Check(rank_); }
  void Abort(const absl::Status& cause) override { boxes_->Abort(rank_, cause); }

 private:
  const std::shared_ptr<Boxes> boxes_;
  const uint32_t rank_;
};

class InprocWorld : public RankWorld {
 public:
  Transport transport() const override { return Transport::kInproc; }
  std::string library() const override { return ""; }
  absl::StatusOr<std::vector<std::unique_ptr<Endpoint>>> Connect(uint32_t world) override {
    return MakeInprocEndpoints(world);
  }
};

}  // namespace

std::vector<std::unique_ptr<Endpoint>> MakeInprocEndpoints(uint32_t world) {
  const auto boxes = std::make_shared<Boxes>(world);
  std::vector<std::unique_ptr<Endpoint>> ends;
  for (uint32_t rank = 0; rank < world; ++rank) ends.push_back(std::make_unique<InprocEndpoint>(boxes, rank));
  return ends;
}

std::shared_ptr<RankWorld> MakeInprocWorld() { return std::make_shared<InprocWorld>(); }

}  // namespace meshseal::runtime

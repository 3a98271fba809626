#include "runtime/comm/inproc.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/comm/agreement.h"
#include "runtime/memory/arena.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

enum class Call { kAllReduceSum, kAllGather };

const char* NameOf(Call call) { return call == Call::kAllReduceSum ? "all_reduce_sum" : "all_gather"; }

// What a member brings to a round. Written by it while the round gathers, read by all while it is read.
struct Part {
  Call call = Call::kAllReduceSum;
  size_t count = 0;      // elements of a sum, bytes of a gather
  size_t out_count = 0;  // room for one member's share in its output
  bool fits = false;     // into what the member reserved
  StatusLane lane;
};

// Members meet in rounds. A round gathers until all have arrived, is then read by all, and the last one to
// leave opens the next. Payloads live in the group's memory, never in a caller's: a member that gives up
// leaves nothing dangling.
class Group {
 public:
  Group(std::vector<uint32_t> members, const InprocOptions& options)
      : members_(std::move(members)), deadline_(options.deadline), seats_(members_.size()) {}

  absl::Span<const uint32_t> members() const { return members_; }

  absl::Status Reserve(uint32_t member, uint64_t elements) {
    MESHSEAL_ASSIGN_OR_RETURN(seats_[member].slice, Arena::Reserve(elements * sizeof(float), "a collective"));
    return absl::OkStatus();
  }

  absl::Span<float> Slice(uint32_t member) {
    const absl::Span<std::byte> bytes = seats_[member].slice.bytes();
    return absl::MakeSpan(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
  }

  absl::Span<std::byte> Note(uint32_t member) { return absl::MakeSpan(seats_[member].note); }

  // One round: `fill` writes this member's payload, `read` sees every member's part. A refusal of the parts
  // is the same on all members.
  template <class Fill, class Read>
  absl::Status Meet(uint32_t member, const Part& part, Fill fill, Read read) {
    std::unique_lock<std::mutex> lock(mutex_);
    MESHSEAL_RETURN_IF_ERROR(Wait(&lock, member, [&] { return gathering_; }));
    lock.unlock();
    fill();  // nobody reads this payload before this member has arrived
    lock.lock();
    if (failure_.has_value()) return FailureFor(member);  // somebody gave up on a round that this one would complete
    seats_[member].part = part;
    seats_[member].present = true;
    if (++present_ == members_.size()) {
      verdict_ = Verdict();
      gathering_ = false;
      changed_.notify_all();
    }
    MESHSEAL_RETURN_IF_ERROR(Wait(&lock, member, [&] { return !gathering_; }));
    const absl::Status verdict = verdict_;
    lock.unlock();
    if (verdict.ok()) read();
    lock.lock();
    seats_[member].present = false;
    if (--present_ == 0) {
      gathering_ = true;
      changed_.notify_all();
    }
    return verdict;
  }

  const Part& PartOf(uint32_t member) const { return seats_[member].part; }

  void Abort(uint32_t member, const absl::Status& cause) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.has_value()) return;
    failure_ = Failure{member, cause};
    changed_.notify_all();
  }

 private:
  struct Seat {
    Part part;
    bool present = false;
    Arena slice;
    std::array<std::byte, kMaxGatherBytes> note{};
  };
  struct Failure {
    uint32_t member = 0;
    absl::Status cause;
  };

  // Waits for `reached`. A round that was completed counts, even when the group has failed since.
  template <class Reached>
  absl::Status Wait(std::unique_lock<std::mutex>* lock, uint32_t member, Reached reached) {
    const auto until = std::chrono::steady_clock::now() + deadline_;
    changed_.wait_until(*lock, until, [&] { return reached() || failure_.has_value(); });
    if (reached()) return absl::OkStatus();
    if (!failure_.has_value()) {
      failure_ = Failure{
          member, Refuse(Reason::kDeadline, absl::StrCat("waited ", deadline_.count(), " ms for ", MissingText()))};
      changed_.notify_all();
    }
    return FailureFor(member);
  }

  absl::Status FailureFor(uint32_t member) const {
    if (failure_->member == member) return failure_->cause;
    return PeerFailed(members_[failure_->member], failure_->cause.message());
  }

  // The members that the others wait for: those not yet in a round that gathers, those still in one that is
  // read.
  std::string MissingText() const {
    std::vector<uint32_t> missing;
    for (size_t i = 0; i < seats_.size(); ++i) {
      if (seats_[i].present != gathering_) missing.push_back(members_[i]);
    }
    return absl::StrCat(missing.size() == 1 ? "rank " : "ranks ", absl::StrJoin(missing, ", "));
  }

  // Whether the parts make a collective: the same call and count everywhere, and room for the result.
  absl::Status Verdict() const {
    const Part& first = seats_.front().part;
    for (size_t i = 0; i < seats_.size(); ++i) {
      const Part& part = seats_[i].part;
      if (part.call != first.call || part.count != first.count) {
        return Refuse(Reason::kRankRecord,
                      absl::StrCat("rank ", members_.front(), " calls ", NameOf(first.call), " with ", first.count,
                                   ", rank ", members_[i], " ", NameOf(part.call), " with ", part.count));
      }
      if (part.out_count != part.count) {
        return Refuse(Reason::kBug, absl::StrCat("rank ", members_[i], " calls ", NameOf(part.call), " with ",
                                                 part.count, " into ", part.out_count));
      }
      if (!part.fits) {
        return Refuse(Reason::kBug, absl::StrCat("rank ", members_[i], " calls ", NameOf(part.call), " with ",
                                                 part.count, ", more than it reserved"));
      }
    }
    return absl::OkStatus();
  }

  const std::vector<uint32_t> members_;
  const std::chrono::milliseconds deadline_;
  std::vector<Seat> seats_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool gathering_ = true;
  size_t present_ = 0;
  absl::Status verdict_;
  std::optional<Failure> failure_;
};

class InprocCommunicator : public Communicator {
 public:
  InprocCommunicator(std::shared_ptr<Group> group, uint32_t rank) : group_(std::move(group)), rank_(rank) {}

  absl::Span<const uint32_t> members() const override { return group_->members(); }
  uint32_t rank() const override { return rank_; }

  absl::Status Reserve(uint64_t elements) override { return group_->Reserve(rank_, elements); }

  absl::Status AllReduceSum(absl::Span<const float> addend, const StatusLane& lane, absl::Span<float> sum,
                            StatusLane* lane_sum) override {
    const absl::Span<float> slice = group_->Slice(rank_);
    const bool fits = addend.size() <= slice.size();
    Part part;
    part.call = Call::kAllReduceSum;
    part.count = addend.size();
    part.out_count = sum.size();
    part.fits = fits;
    part.lane = lane;
    return group_->Meet(
        rank_, part,
        [&] {
          if (fits) std::copy(addend.begin(), addend.end(), slice.begin());
        },
        [&] {
          *lane_sum = StatusLane{};
          for (uint32_t member = 0; member < size(); ++member) {
            AddLane(group_->PartOf(member).lane, lane_sum);
            const absl::Span<const float> next = group_->Slice(member).first(sum.size());
            if (member == 0) {
              std::copy(next.begin(), next.end(), sum.begin());
            } else {
              for (size_t i = 0; i < sum.size(); ++i) sum[i] += next[i];
            }
          }
        });
  }

  absl::Status AllGather(absl::Span<const std::byte> own, absl::Span<std::byte> all) override {
    const absl::Span<std::byte> note = group_->Note(rank_);
    const bool fits = own.size() <= note.size();
    Part part;
    part.call = Call::kAllGather;
    part.count = own.size();
    part.out_count = all.size() % size() == 0 ? all.size() / size() : SIZE_MAX;
    part.fits = fits;
    return group_->Meet(
        rank_, part,
        [&] {
          if (fits) std::copy(own.begin(), own.end(), note.begin());
        },
        [&] {
          for (uint32_t member = 0; member < size(); ++member) {
            const absl::Span<const std::byte> from = group_->Note(member).first(own.size());
            std::copy(from.begin(), from.end(), all.begin() + static_cast<ptrdiff_t>(member * own.size()));
          }
        });
  }

  void Abort(const absl::Status& cause) override { group_->Abort(rank_, cause); }

 private:
  const std::shared_ptr<Group> group_;
  const uint32_t rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> MakeInprocGroup(std::vector<uint32_t> members,
                                                           const InprocOptions& options) {
  const auto size = static_cast<uint32_t>(members.size());
  const auto group = std::make_shared<Group>(std::move(members), options);
  std::vector<std::unique_ptr<Communicator>> ends;
  for (uint32_t rank = 0; rank < size; ++rank) ends.push_back(std::make_unique<InprocCommunicator>(group, rank));
  return ends;
}

}  // namespace meshseal::runtime

#include "runtime/comm/message_communicator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/comm/element_bytes.h"
#include "runtime/memory/arena.h"
#include "schema/checked_math.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

enum class Call : uint32_t {
  kAllReduceSum,
  kAllReduceSumFixed,
  kReduceScatterSum,
  kReduceScatterSumFixed,
  kAllGather,
  kAllToAll,
  kSend,
  kReceive,
};
constexpr std::array<const char*, 8> kCallNames = {"all_reduce_sum",
                                                   "all_reduce_sum of int64",
                                                   "reduce_scatter_sum",
                                                   "reduce_scatter_sum of int64",
                                                   "all_gather",
                                                   "all_to_all",
                                                   "send",
                                                   "receive"};

const char* NameOf(uint32_t call) { return call < kCallNames.size() ? kCallNames[call] : "an unknown call"; }

const char* NameOfAlgorithm(uint64_t algorithm) {
  return algorithm <= UINT8_MAX ? WordOf(static_cast<ReduceAlgorithm>(algorithm)) : "an unknown algorithm";
}

// What is wrong with a member's own part, as far as it can tell alone.
enum class Flaw : uint32_t { kNone, kOutput, kReserved, kPieces };

// What a member says to each other member before a call moves anything.
struct Announcement {
  uint64_t mark = 0;
  uint64_t number = 0;  // of the announcements between the two, from 1
  uint32_t call = 0;
  uint32_t flaw = 0;
  uint64_t count = 0;   // elements of a sum, bytes of anything else
  uint64_t room = 0;    // what the output takes of them; text of kOutput
  uint64_t pieces = 0;  // a digest of the pieces, of calls that have some
  StatusLane lane;
  uint64_t algorithm = 0;  // of a sum
  uint64_t reserved = 0;
};
static_assert(sizeof(Announcement) == 128 && std::is_trivially_copyable_v<Announcement>);

constexpr uint64_t kMark = 0x6c616573'6873656d;  // "meshseal"

// FNV-1a over the numbers: tells members with other pieces apart, which no fault of ours survives.
uint64_t DigestOf(absl::Span<const Piece> pieces) {
  uint64_t digest = 0xcbf29ce484222325;
  for (const Piece& piece : pieces) {
    for (const uint64_t number : {piece.first, piece.count}) digest = (digest ^ number) * 0x100000001b3;
  }
  return digest;
}

// Whether all pieces lie inside `count`.
bool LieInside(absl::Span<const Piece> pieces, uint64_t count) {
  return std::all_of(pieces.begin(), pieces.end(), [count](const Piece& piece) {
    return piece.first <= count && piece.count <= count - piece.first;
  });
}

template <class T>
absl::Span<const T> In(absl::Span<const T> all, const Piece& piece) {
  return all.subspan(piece.first, piece.count);
}

template <class T>
absl::Span<T> In(absl::Span<T> all, const Piece& piece) {
  return all.subspan(piece.first, piece.count);
}

template <class From, class To>
void Copy(absl::Span<From> from, absl::Span<To> to) {
  static_assert(std::is_same_v<std::remove_const_t<From>, To>);
  if (!from.empty()) std::memmove(to.data(), from.data(), from.size() * sizeof(To));  // may be in place
}

template <class T>
void Add(absl::Span<const T> addend, absl::Span<T> sum) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += addend[i];
}

// Messages lie in memory of the communicator's own, which the endpoint takes over when one has failed: so nothing
// dangles, whatever the transport still does.
class MessageCommunicator : public Communicator {
 public:
  MessageCommunicator(Endpoint& endpoint, Channel channel, std::vector<uint32_t> members, const MessageOptions& options,
                      Arena announcements)
      : endpoint_(endpoint),
        channel_(channel),
        members_(std::move(members)),
        options_(options),
        announcements_(std::move(announcements)),
        sent_(members_.size()),
        all_pieces_(members_.size()) {
    rank_ = static_cast<uint32_t>(std::find(members_.begin(), members_.end(), endpoint.rank()) - members_.begin());
    out_.reserve(members_.size());
    in_.reserve(members_.size());
    everybody_.reserve(members_.size());
    for (uint32_t member = 0; member < size(); ++member) everybody_.push_back(member);
  }

  ~MessageCommunicator() override {
    if (!failed_) return;
    endpoint_.Keep(std::move(announcements_));
    endpoint_.Keep(std::move(buffer_));
  }

  absl::Span<const uint32_t> members() const override { return members_; }
  uint32_t rank() const override { return rank_; }

  absl::Status Reserve(uint64_t bytes) override {
    MESHSEAL_ASSIGN_OR_RETURN(buffer_, Arena::Reserve(bytes, "a collective"));
    return absl::OkStatus();
  }

  void SetReduceAlgorithm(ReduceAlgorithm algorithm) override { algorithm_ = algorithm; }

  absl::Status AllReduceSum(absl::Span<const float> addend, const StatusLane& lane, absl::Span<float> sum,
                            StatusLane* lane_sum) override {
    return AllReduce(Call::kAllReduceSum, addend, lane, sum, lane_sum);
  }
  absl::Status AllReduceSum(absl::Span<const int64_t> addend, const StatusLane& lane, absl::Span<int64_t> sum,
                            StatusLane* lane_sum) override {
    return AllReduce(Call::kAllReduceSumFixed, addend, lane, sum, lane_sum);
  }
  absl::Status ReduceScatterSum(absl::Span<const float> addend, absl::Span<const Piece> pieces, const StatusLane& lane,
                                absl::Span<float> own, StatusLane* lane_sum) override {
    return ReduceScatter(Call::kReduceScatterSum, addend, pieces, lane, own, lane_sum);
  }
  absl::Status ReduceScatterSum(absl::Span<const int64_t> addend, absl::Span<const Piece> pieces,
                                const StatusLane& lane, absl::Span<int64_t> own, StatusLane* lane_sum) override {
    return ReduceScatter(Call::kReduceScatterSumFixed, addend, pieces, lane, own, lane_sum);
  }

  absl::Status AllGather(absl::Span<const std::byte> own, absl::Span<std::byte> all) override {
    Announcement part = PartOf(Call::kAllGather, own.size(), all.size() / size());
    if (all.size() % size() != 0) part.room = UINT64_MAX;
    if (part.room != own.size()) part.flaw = static_cast<uint32_t>(Flaw::kOutput);
    for (uint32_t member = 0; member < size(); ++member) all_pieces_[member] = {member * own.size(), own.size()};
    return Gather(part, own, all_pieces_, all);
  }

  absl::Status AllGather(absl::Span<const std::byte> own, absl::Span<const Piece> pieces,
                         absl::Span<std::byte> all) override {
    Announcement part = PartOf(Call::kAllGather, all.size(), all.size());
    part.pieces = DigestOf(pieces);
    if (pieces.size() != size() || !LieInside(pieces, all.size()) || own.size() != pieces[rank_].count) {
      part.flaw = static_cast<uint32_t>(Flaw::kPieces);
    }
    return Gather(part, own, pieces, all);
  }

  absl::Status AllToAll(absl::Span<const std::byte> sent, absl::Span<std::byte> received) override {
    const CallWatch watch(this);
    Announcement part = PartOf(Call::kAllToAll, sent.size(), received.size());
    if (sent.size() % size() != 0) {
      part.flaw = static_cast<uint32_t>(Flaw::kPieces);
    } else if (part.room != part.count) {
      part.flaw = static_cast<uint32_t>(Flaw::kOutput);
    } else {
      Require(2 * sent.size(), &part);
    }
    MESHSEAL_RETURN_IF_ERROR(Announce(everybody_, part, nullptr));
    const absl::Span<std::byte> out = buffer_.bytes().first(sent.size());
    const absl::Span<std::byte> in = buffer_.bytes().subspan(sent.size(), sent.size());
    Copy(sent, out);
    const uint64_t count = sent.size() / size();
    const auto part_of = [count](uint32_t member) { return Piece{member * count, count}; };
    MESHSEAL_RETURN_IF_ERROR(MoveAll([&](uint32_t member) { return In(out, part_of(member)); },
                                     [&](uint32_t member) { return In(in, part_of(member)); }));
    Copy(In(out, part_of(rank_)), In(in, part_of(rank_)));
    Copy(in, received);
    return absl::OkStatus();
  }

  absl::Status Send(uint32_t member, absl::Span<const std::byte> bytes) override {
    const CallWatch watch(this);
    Announcement part = PartOf(Call::kSend, bytes.size(), bytes.size());
    Require(std::min<uint64_t>(bytes.size(), kHandOffBytes), &part);
    MESHSEAL_RETURN_IF_ERROR(Announce({member}, part, nullptr));
    while (!bytes.empty()) {
      const absl::Span<std::byte> piece = buffer_.bytes().first(std::min<uint64_t>(bytes.size(), kHandOffBytes));
      Copy(bytes.first(piece.size()), piece);
      MESHSEAL_RETURN_IF_ERROR(Move({{members_[member], piece}}, {}));
      bytes.remove_prefix(piece.size());
    }
    return absl::OkStatus();
  }

  absl::Status Receive(uint32_t member, absl::Span<std::byte> bytes) override {
    const CallWatch watch(this);
    Announcement part = PartOf(Call::kReceive, bytes.size(), bytes.size());
    Require(std::min<uint64_t>(bytes.size(), kHandOffBytes), &part);
    MESHSEAL_RETURN_IF_ERROR(Announce({member}, part, nullptr));
    while (!bytes.empty()) {
      const absl::Span<std::byte> piece = buffer_.bytes().first(std::min<uint64_t>(bytes.size(), kHandOffBytes));
      MESHSEAL_RETURN_IF_ERROR(Move({}, {{members_[member], piece}}));
      Copy(piece, bytes.first(piece.size()));
      bytes.remove_prefix(piece.size());
    }
    return absl::OkStatus();
  }

  CallTotals totals() const override { return totals_; }

  absl::Status Check() override { return endpoint_.Check(channel_); }

  void SetDeadline(std::chrono::milliseconds deadline) override { options_.deadline = deadline; }

  void Abort(const absl::Status& cause) override { endpoint_.Abort(channel_, cause); }

 private:
  // Adds a call to the totals, from here to the end of its scope.
  class CallWatch {
   public:
    explicit CallWatch(MessageCommunicator* caller) : caller_(*caller), began_(caller->endpoint_.Now()) {}
    ~CallWatch() {
      if (caller_.size() == 1) return;
      CallTotals& totals = caller_.totals_;
      ++totals.calls;
      totals.waited += caller_.announced_ - began_;
      totals.moved += caller_.endpoint_.Now() - caller_.announced_;
    }
    CallWatch(const CallWatch&) = delete;
    CallWatch& operator=(const CallWatch&) = delete;

   private:
    MessageCommunicator& caller_;
    const std::chrono::nanoseconds began_;
  };

  static Announcement PartOf(Call call, uint64_t count, uint64_t room) {
    Announcement part;
    part.mark = kMark;
    part.call = static_cast<uint32_t>(call);
    part.count = count;
    part.room = room;
    return part;
  }

  Announcement SumPartOf(Call call, uint64_t count, uint64_t room, const StatusLane& lane) const {
    Announcement part = PartOf(call, count, room);
    part.lane = lane;
    part.algorithm = static_cast<uint64_t>(algorithm_);
    return part;
  }

  // Marks a part that needs more than was reserved. Calls of one member move nothing.
  void Require(std::optional<uint64_t> bytes, Announcement* part) const {
    if (part->flaw != 0 || size() == 1) return;
    if (!bytes.has_value() || *bytes > buffer_.bytes().size()) part->flaw = static_cast<uint32_t>(Flaw::kReserved);
  }

  absl::Status Move(absl::Span<const Outgoing> out, absl::Span<const Incoming> in) {
    for (const Incoming& message : in) totals_.received_bytes += message.bytes.size();
    return Exchange(out, in);
  }

  absl::Status Exchange(absl::Span<const Outgoing> out, absl::Span<const Incoming> in) {
    absl::Status status = endpoint_.Exchange(channel_, out, in, options_.deadline);
    failed_ = failed_ || !status.ok();
    return status;
  }

  // With every other member: what `sent` and `received` give for it.
  template <class Sent, class Received>
  absl::Status MoveAll(Sent sent, Received received) {
    out_.clear();
    in_.clear();
    for (uint32_t member = 0; member < size(); ++member) {
      if (member == rank_) continue;
      out_.push_back({members_[member], sent(member)});
      in_.push_back({members_[member], received(member)});
    }
    return Move(absl::MakeConstSpan(out_), absl::MakeConstSpan(in_));
  }

  // Tells `own` to `with` (which may name this member) and hears what they call. The verdict is the same on all of
  // them. Adds up their lanes.
  absl::Status Announce(absl::Span<const uint32_t> with, Announcement own, StatusLane* lane_sum) {
    const absl::Span<std::byte> bytes = announcements_.bytes();
    auto* out = reinterpret_cast<Announcement*>(bytes.data());
    Announcement* in = out + size();
    out_.clear();
    in_.clear();
    for (const uint32_t member : with) {
      if (member == rank_) {
        in[member] = own;
        continue;
      }
      own.number = ++sent_[member];
      out[member] = own;
      out_.push_back({members_[member], bytes.subspan(member * sizeof(own), sizeof(own))});
      in_.push_back({members_[member], bytes.subspan((size() + member) * sizeof(own), sizeof(own))});
    }
    const absl::Status heard = Exchange(absl::MakeConstSpan(out_), absl::MakeConstSpan(in_));
    announced_ = endpoint_.Now();
    MESHSEAL_RETURN_IF_ERROR(heard);
    for (const uint32_t member : with) {
      if (member == rank_ || (in[member].mark == kMark && in[member].number == sent_[member])) continue;
      absl::Status lost =
          Refuse(Reason::kBug, absl::StrCat("rank ", members_[member], " sent something else where its ", sent_[member],
                                            "th announcement was expected"));
      failed_ = true;
      endpoint_.Abort(channel_, lost);  // nobody else knows
      return lost;
    }
    if (with.size() == 1 && with[0] != rank_) return PairVerdict(own, with[0], in[with[0]]);
    if (lane_sum != nullptr) {
      *lane_sum = StatusLane{};
      for (const uint32_t member : with) AddLane(in[member].lane, lane_sum);
    }
    return Verdict(absl::MakeConstSpan(in, size()));
  }

  // Whether the parts make a collective: the same call, count and algorithm everywhere, and room for the result.
  absl::Status Verdict(absl::Span<const Announcement> parts) const {
    const Announcement& first = parts.front();
    for (uint32_t member = 0; member < size(); ++member) {
      const Announcement& part = parts[member];
      if (part.call != first.call || part.count != first.count) {
        return Refuse(Reason::kRankRecord,
                      absl::StrCat("rank ", members_.front(), " calls ", NameOf(first.call), " with ", first.count,
                                   ", rank ", members_[member], " ", NameOf(part.call), " with ", part.count));
      }
      if (part.algorithm != first.algorithm) {
        return Refuse(Reason::kRankRecord,
                      absl::StrCat("rank ", members_.front(), " calls ", NameOf(first.call), " with the algorithm '",
                                   NameOfAlgorithm(first.algorithm), "', rank ", members_[member], " with '",
                                   NameOfAlgorithm(part.algorithm), "'"));
      }
      if (part.pieces != first.pieces) {
        return Refuse(Reason::kRankRecord, absl::StrCat("ranks ", members_.front(), " and ", members_[member], " call ",
                                                        NameOf(first.call), " with different pieces"));
      }
      MESHSEAL_RETURN_IF_ERROR(FlawOf(part, members_[member]));
    }
    return absl::OkStatus();
  }

  static absl::Status FlawOf(const Announcement& part, uint32_t rank) {
    const std::string call = absl::StrCat("rank ", rank, " calls ", NameOf(part.call), " with ", part.count);
    switch (static_cast<Flaw>(part.flaw)) {
      case Flaw::kNone:
        return absl::OkStatus();
      case Flaw::kOutput:
        return Refuse(Reason::kBug, absl::StrCat(call, " into ", part.room));
      case Flaw::kReserved:
        return Refuse(Reason::kBug, absl::StrCat(call, ", more than it reserved"));
      case Flaw::kPieces:
        break;
    }
    return Refuse(Reason::kBug, absl::StrCat(call, " in pieces that do not fit"));
  }

  // A hand-off: one sends, the other receives as much.
  absl::Status PairVerdict(const Announcement& own, uint32_t member, const Announcement& other) const {
    const bool own_first = members_[rank_] < members_[member];
    const Announcement& low = own_first ? own : other;
    const Announcement& high = own_first ? other : own;
    const uint32_t low_rank = std::min(members_[rank_], members_[member]);
    const uint32_t high_rank = std::max(members_[rank_], members_[member]);
    const auto send = static_cast<uint32_t>(Call::kSend);
    const auto receive = static_cast<uint32_t>(Call::kReceive);
    const bool matches = (low.call == send && high.call == receive) || (low.call == receive && high.call == send);
    if (!matches || low.count != high.count) {
      return Refuse(Reason::kRankRecord,
                    absl::StrCat("rank ", low_rank, " calls ", NameOf(low.call), " with ", low.count, ", rank ",
                                 high_rank, " ", NameOf(high.call), " with ", high.count));
    }
    MESHSEAL_RETURN_IF_ERROR(FlawOf(low, low_rank));
    return FlawOf(high, high_rank);
  }

  template <class T>
  absl::Status AllReduce(Call call, absl::Span<const T> addend, const StatusLane& lane, absl::Span<T> sum,
                         StatusLane* lane_sum) {
    const CallWatch watch(this);
    const uint64_t count = addend.size();
    Announcement part = SumPartOf(call, count, sum.size(), lane);
    if (part.room != part.count) part.flaw = static_cast<uint32_t>(Flaw::kOutput);
    for (uint32_t member = 0; member < size(); ++member) all_pieces_[member] = EvenPiece(count, size(), member);
    const bool gathers = algorithm_ == ReduceAlgorithm::kGatherThenSum;
    Require(gathers ? CheckedMul(count * sizeof(T), size()) : SumBytes<T>(count, all_pieces_.front().count), &part);
    MESHSEAL_RETURN_IF_ERROR(Announce(everybody_, part, lane_sum));
    if (size() == 1) {
      Copy(addend, sum);
      return absl::OkStatus();
    }
    if (gathers) return GatherThenSum(addend, sum);

    const absl::Span<T> copy = Reserved<T>(0, count);
    const Piece own = all_pieces_[rank_];
    MESHSEAL_RETURN_IF_ERROR(SumPiece(addend, all_pieces_, In(sum, own)));
    Copy(In(sum, own), In(copy, own));  // it was sent as an addend, and is free
    MESHSEAL_RETURN_IF_ERROR(MoveAll([&](uint32_t) { return BytesOf(absl::Span<const T>(In(copy, own))); },
                                     [&](uint32_t member) { return BytesIn(In(copy, all_pieces_[member])); }));
    Copy(copy, sum);
    return absl::OkStatus();
  }

  template <class T>
  absl::Status ReduceScatter(Call call, absl::Span<const T> addend, absl::Span<const Piece> pieces,
                             const StatusLane& lane, absl::Span<T> own, StatusLane* lane_sum) {
    const CallWatch watch(this);
    Announcement part = SumPartOf(call, addend.size(), own.size(), lane);
    part.pieces = DigestOf(pieces);
    if (pieces.size() != size() || !LieInside(pieces, addend.size()) || own.size() != pieces[rank_].count) {
      part.flaw = static_cast<uint32_t>(Flaw::kPieces);
    } else {
      Require(SumBytes<T>(addend.size(), pieces[rank_].count), &part);
    }
    MESHSEAL_RETURN_IF_ERROR(Announce(everybody_, part, lane_sum));
    if (size() == 1) {
      Copy(In(addend, pieces[0]), own);
      return absl::OkStatus();
    }
    return SumPiece(addend, pieces, own);
  }

  // Every member's addends beside each other, added in their order.
  template <class T>
  absl::Status GatherThenSum(absl::Span<const T> addend, absl::Span<T> sum) {
    const uint64_t count = addend.size();
    const auto slice = [&](uint32_t member) { return Reserved<T>(member * count, count); };
    Copy(addend, slice(rank_));
    MESHSEAL_RETURN_IF_ERROR(MoveAll([&](uint32_t) { return BytesOf(absl::Span<const T>(slice(rank_))); },
                                     [&](uint32_t member) { return BytesIn(slice(member)); }));
    Copy(slice(0), sum);
    for (uint32_t member = 1; member < size(); ++member) Add(absl::Span<const T>(slice(member)), sum);
    return absl::OkStatus();
  }

  // Each member's own piece of the sum. Reserved memory: the addends, then pieces that were received.
  template <class T>
  absl::Status SumPiece(absl::Span<const T> addend, absl::Span<const Piece> pieces, absl::Span<T> own) {
    const absl::Span<T> copy = Reserved<T>(0, addend.size());
    Copy(addend, copy);
    const auto sent = [&](uint32_t member) { return BytesOf(absl::Span<const T>(In(copy, pieces[member]))); };
    if (algorithm_ == ReduceAlgorithm::kTransport) {
      // Members with the same piece must have the same bits: the first of them adds it up.
      const auto adds_up = [&](uint32_t member) {
        return std::find(pieces.begin(), pieces.end(), pieces[member]) == pieces.begin() + member;
      };
      Copy(In(addend, pieces[rank_]), own);
      const absl::Span<T> received = Reserved<T>(addend.size(), adds_up(rank_) ? own.size() : 0);
      for (uint32_t distance = 1; distance < size(); ++distance) {
        const uint32_t to = (rank_ + distance) % size();
        const uint32_t from = (rank_ + size() - distance) % size();
        const absl::Span<const std::byte> bytes = adds_up(to) ? sent(to) : absl::Span<const std::byte>();
        MESHSEAL_RETURN_IF_ERROR(Move({{members_[to], bytes}}, {{members_[from], BytesIn(received)}}));
        if (adds_up(rank_)) Add(absl::Span<const T>(received), own);
      }
      return HandOn(pieces, In(copy, pieces[rank_]), own);
    }
    const auto received = [&](uint32_t member) { return Reserved<T>(addend.size() + member * own.size(), own.size()); };
    MESHSEAL_RETURN_IF_ERROR(MoveAll(sent, [&](uint32_t member) { return BytesIn(received(member)); }));
    Copy(In(addend, pieces[rank_]), received(rank_));
    Copy(received(0), own);
    for (uint32_t member = 1; member < size(); ++member) Add(absl::Span<const T>(received(member)), own);
    return absl::OkStatus();
  }

  // From the first member with a piece to the others that have it, over `copy`, reserved memory that is free.
  template <class T>
  absl::Status HandOn(absl::Span<const Piece> pieces, absl::Span<T> copy, absl::Span<T> own) {
    const auto first = static_cast<uint32_t>(std::find(pieces.begin(), pieces.end(), pieces[rank_]) - pieces.begin());
    const auto shared = static_cast<size_t>(std::count(pieces.begin(), pieces.end(), pieces[rank_]));
    if (own.empty() || shared == 1) return absl::OkStatus();
    if (first == rank_) Copy(own, copy);
    MESHSEAL_RETURN_IF_ERROR(MoveAll(
        [&](uint32_t member) -> absl::Span<const std::byte> {
          if (first != rank_ || pieces[member] != pieces[rank_]) return {};
          return BytesOf(absl::Span<const T>(copy));
        },
        [&](uint32_t member) -> absl::Span<std::byte> {
          if (first == rank_ || member != first) return {};
          return BytesIn(copy);
        }));
    if (first != rank_) Copy(copy, own);
    return absl::OkStatus();
  }

  absl::Status Gather(Announcement part, absl::Span<const std::byte> own, absl::Span<const Piece> pieces,
                      absl::Span<std::byte> all) {
    const CallWatch watch(this);
    Require(all.size(), &part);
    MESHSEAL_RETURN_IF_ERROR(Announce(everybody_, part, nullptr));
    if (size() == 1) {
      Copy(own, In(all, pieces[0]));
      return absl::OkStatus();
    }
    const absl::Span<std::byte> buffer = buffer_.bytes().first(all.size());
    Copy(own, In(buffer, pieces[rank_]));
    // Who brings a piece, and who needs it: those whose own piece it is have it.
    const auto brings = [&](uint32_t member) {
      return std::find(pieces.begin(), pieces.end(), pieces[member]) == pieces.begin() + member;
    };
    MESHSEAL_RETURN_IF_ERROR(MoveAll(
        [&](uint32_t member) -> absl::Span<const std::byte> {
          if (!brings(rank_) || pieces[member] == pieces[rank_]) return {};
          return In(buffer, pieces[rank_]);
        },
        [&](uint32_t member) -> absl::Span<std::byte> {
          if (!brings(member) || pieces[member] == pieces[rank_]) return {};
          return In(buffer, pieces[member]);
        }));
    for (uint32_t member = 0; member < size(); ++member) {
      if (brings(member)) Copy(In(buffer, pieces[member]), In(all, pieces[member]));
    }
    return absl::OkStatus();
  }

  // What SumPiece takes.
  template <class T>
  std::optional<uint64_t> SumBytes(uint64_t count, uint64_t piece) const {
    const uint64_t received = algorithm_ == ReduceAlgorithm::kTransport ? 1 : size();
    const std::optional<uint64_t> pieces = CheckedMul(piece * sizeof(T), received);
    return pieces.has_value() ? CheckedAdd(count * sizeof(T), *pieces) : std::nullopt;
  }

  template <class T>
  absl::Span<T> Reserved(uint64_t first, uint64_t count) const {
    return absl::MakeSpan(reinterpret_cast<T*>(buffer_.bytes().data()) + first, count);
  }

  Endpoint& endpoint_;
  const Channel channel_;
  const std::vector<uint32_t> members_;
  MessageOptions options_;
  ReduceAlgorithm algorithm_ = ReduceAlgorithm::kGatherThenSum;
  uint32_t rank_ = 0;
  Arena announcements_;  // one to each member, then one from each
  Arena buffer_;
  std::vector<uint64_t> sent_;  // announcements to each member
  std::vector<Piece> all_pieces_;
  std::vector<uint32_t> everybody_;
  std::vector<Outgoing> out_;
  std::vector<Incoming> in_;
  std::chrono::nanoseconds announced_{0};  // when the last call's announcements were there
  CallTotals totals_;
  bool failed_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> MakeMessageCommunicator(Endpoint& endpoint, Channel channel,
                                                                      std::vector<uint32_t> members,
                                                                      const MessageOptions& options) {
  MESHSEAL_ASSIGN_OR_RETURN(Arena announcements,
                            Arena::Reserve(2 * members.size() * sizeof(Announcement), "announcements"));
  return std::unique_ptr<Communicator>(
      new MessageCommunicator(endpoint, channel, std::move(members), options, std::move(announcements)));
}

}  // namespace meshseal::runtime

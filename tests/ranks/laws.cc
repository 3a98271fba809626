#include "tests/ranks/laws.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "schema/reason.h"

namespace meshseal::support {
namespace {

using runtime::Communicator;
using runtime::Piece;
using runtime::StatusLane;

// Every member draws the same numbers, also those of the others.
class Laws {
 public:
  Laws(Communicator& c, uint64_t seed) : c_(c), random_(seed) {}

  std::vector<std::string> Check() {
    for (int round = 0; round < 4; ++round) {
      const uint64_t count = round == 0 ? 0 : Below(round == 1 ? 4 : 700);
      for (const bool ordered : {true, false}) {
        in_order_ = ordered;
        CheckSums<float>(count);
        CheckSums<int64_t>(count);
        CheckPieces();
      }
      CheckExchange(count % 90);
      CheckHandOffs(round == 3 ? 300'001 : count);
    }
    CheckRefusals();
    return std::move(broken_);
  }

 private:
  uint64_t Below(uint64_t limit) { return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random_); }
  uint32_t size() const { return c_.size(); }
  uint32_t own() const { return c_.rank(); }

  void Expect(bool holds, std::string law) {
    if (!holds) broken_.push_back(absl::StrCat("member ", own(), " of ", size(), ": ", law));
  }
  void ExpectOk(const absl::Status& status, std::string law) {
    Expect(status.ok(), absl::StrCat(law, ": ", status.message()));
  }

  // The next sum's: of sums in member order either one, whose bits are the same.
  void DrawAlgorithm() {
    const ReduceAlgorithm ordered = Below(2) == 0 ? ReduceAlgorithm::kGatherThenSum : ReduceAlgorithm::kExchangeThenSum;
    c_.SetReduceAlgorithm(in_order_ ? ordered : ReduceAlgorithm::kTransport);
  }

  // Large, small, negative, zeros of both signs, infinities, numbers that are none.
  float Float() {
    switch (Below(12)) {
      case 0:
        return -0.0f;
      case 1:
        return Below(40) == 0 ? std::bit_cast<float>(0x7fc12345u) : 1e30f;
      case 2:
        return Below(40) == 0 ? -INFINITY : 1e-40f;
      default:
        return std::ldexp(static_cast<float>(Below(1 << 24)) - 8388608.0f, static_cast<int>(Below(40)) - 40);
    }
  }
  void Draw(float* value) { *value = Float(); }
  void Draw(int64_t* value) { *value = static_cast<int64_t>(Below(uint64_t{1} << 62)) - (int64_t{1} << 61); }

  static bool Same(float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b);
  }
  static bool Same(int64_t a, int64_t b) { return a == b; }
  template <class T>
  static bool SameAll(const std::vector<T>& a, const std::vector<T>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](T x, T y) { return Same(x, y); });
  }

  template <class T>
  static absl::Span<const std::byte> BytesOf(const std::vector<T>& values) {
    return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)};
  }
  template <class T>
  static absl::Span<std::byte> BytesIn(std::vector<T>& values) {
    return absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T));
  }

  static StatusLane LaneOfMember(uint32_t member) {
    StatusLane lane;
    lane.computed_slots = 100 + member;
    lane.routing_digest = member;
    lane.drain = member == 0 ? 1 : 0;
    lane.reserved[2] = 1;
    return lane;
  }
  void ExpectLanes(const StatusLane& sum) {
    const int64_t n = size();
    Expect(sum.errors == 0 && sum.computed_slots == 100 * n + n * (n - 1) / 2 && sum.drain == 1 &&
               sum.routing_digest == n * (n - 1) / 2 && sum.reserved[2] == n,
           "lanes are summed field by field");
  }

  template <class T>
  void CheckSums(uint64_t count) {
    std::vector<std::vector<T>> addends(size(), std::vector<T>(count));
    for (std::vector<T>& addend : addends) {
      for (T& value : addend) {
        Draw(&value);
        if (std::is_same_v<T, int64_t>) value /= static_cast<T>(size());  // sums do not overflow
      }
    }
    std::vector<T> in_order = addends[0];
    for (uint32_t member = 1; member < size(); ++member) {
      for (uint64_t i = 0; i < count; ++i) in_order[i] += addends[member][i];
    }
    const bool ordered = in_order_ || std::is_same_v<T, int64_t> || size() < 3;
    const auto name = [&](const char* law) { return absl::StrCat(law, " of ", count, " x ", sizeof(T), " bytes"); };

    std::vector<T> sum(count, T(77));
    StatusLane lanes;
    DrawAlgorithm();
    ExpectOk(c_.AllReduceSum(addends[own()], LaneOfMember(own()), absl::MakeSpan(sum), &lanes), name("all_reduce_sum"));
    ExpectLanes(lanes);
    if (ordered) Expect(SameAll(sum, in_order), name("an all_reduce_sum is the sum in member order"));

    std::vector<T> in_place = addends[own()];
    DrawAlgorithm();
    ExpectOk(c_.AllReduceSum(absl::MakeConstSpan(in_place), LaneOfMember(own()), absl::MakeSpan(in_place), &lanes),
             name("all_reduce_sum in place"));
    Expect(SameAll(in_place, sum), name("a sum may take its addend's place"));

    std::vector<T> of_all(count * size());
    ExpectOk(c_.AllGather(BytesOf(sum), BytesIn(of_all)), name("all_gather"));
    for (uint32_t member = 0; member < size(); ++member) {
      Expect(count == 0 || std::memcmp(of_all.data() + member * count, of_all.data(), count * sizeof(T)) == 0,
             name("all members get the same bits"));
    }

    // all_reduce_sum = all_gather of reduce_scatter_sum, and that = all_to_all and a local sum.
    const uint64_t part = count / size();
    std::vector<Piece> pieces;
    for (uint32_t member = 0; member < size(); ++member) pieces.push_back({member * part, part});
    std::vector<T> piece(part);
    std::vector<T> gathered(part * size());
    DrawAlgorithm();
    ExpectOk(c_.ReduceScatterSum(addends[own()], pieces, LaneOfMember(own()), absl::MakeSpan(piece), &lanes),
             name("reduce_scatter_sum"));
    ExpectLanes(lanes);
    in_place = addends[own()];
    const absl::Span<T> place = absl::MakeSpan(in_place).subspan(pieces[own()].first, part);
    DrawAlgorithm();
    ExpectOk(c_.ReduceScatterSum(absl::MakeConstSpan(in_place), pieces, LaneOfMember(own()), place, &lanes),
             name("reduce_scatter_sum in place"));
    Expect(SameAll(std::vector<T>(place.begin(), place.end()), piece), name("a piece may take its addend's place"));
    ExpectOk(c_.AllGather(BytesOf(piece), BytesIn(gathered)), name("all_gather"));
    const std::vector<T> expected(in_order.begin(), in_order.begin() + static_cast<ptrdiff_t>(gathered.size()));
    if (ordered) Expect(SameAll(gathered, expected), name("all_reduce_sum is all_gather of reduce_scatter_sum"));

    const std::vector<T> sent(addends[own()].begin(), addends[own()].begin() + static_cast<ptrdiff_t>(part * size()));
    std::vector<T> received(sent.size());
    ExpectOk(c_.AllToAll(BytesOf(sent), BytesIn(received)), name("all_to_all"));
    std::vector<T> local(received.begin(), received.begin() + static_cast<ptrdiff_t>(part));
    for (uint32_t member = 1; member < size(); ++member) {
      for (uint64_t i = 0; i < part; ++i) local[i] += received[member * part + i];
    }
    if (ordered) Expect(SameAll(local, piece), name("reduce_scatter_sum is all_to_all and a local sum"));
    std::vector<T> back(sent.size());
    ExpectOk(c_.AllToAll(BytesOf(received), BytesIn(back)), name("all_to_all"));
    Expect(part == 0 || std::memcmp(back.data(), sent.data(), sent.size() * sizeof(T)) == 0,
           name("all_to_all twice is the identity"));

    if (size() == 1) {
      Expect(count == 0 || std::memcmp(sum.data(), addends[0].data(), count * sizeof(T)) == 0,
             name("one member's sum is its addend, bit for bit"));
    }
  }

  void CheckExchange(uint64_t count) {
    std::vector<uint8_t> sent;
    for (uint32_t to = 0; to < size(); ++to) {
      for (uint64_t i = 0; i < count; ++i) sent.push_back(static_cast<uint8_t>(own() * 16 + to));
    }
    std::vector<uint8_t> received(sent.size());
    ExpectOk(c_.AllToAll(BytesOf(sent), BytesIn(received)), "all_to_all");
    for (uint32_t from = 0; from < size(); ++from) {
      for (uint64_t i = 0; i < count; ++i) {
        Expect(received[from * count + i] == from * 16 + own(), "part m is what member m sent to this one");
      }
    }
  }

  // Ragged pieces, of which neighbours may share one: none is also a piece.
  void CheckPieces() {
    std::vector<Piece> pieces;
    uint64_t end = 0;
    for (uint32_t member = 0; member < size(); ++member) {
      if (member > 0 && Below(3) == 0) {
        pieces.push_back(pieces.back());
        continue;
      }
      pieces.push_back({end, Below(4) == 0 ? 0 : Below(40)});
      end += pieces.back().count;
    }
    std::vector<uint8_t> all(end);
    for (uint8_t& byte : all) byte = static_cast<uint8_t>(Below(256));
    const Piece& mine = pieces[own()];
    const std::vector<uint8_t> part(all.begin() + static_cast<ptrdiff_t>(mine.first),
                                    all.begin() + static_cast<ptrdiff_t>(mine.first + mine.count));
    std::vector<uint8_t> gathered(all.size());
    ExpectOk(c_.AllGather(BytesOf(part), pieces, BytesIn(gathered)), "all_gather of pieces");
    Expect(gathered == all, "all_gather puts every piece in its place");

    std::vector<int64_t> addend(end, own() + 1);
    std::vector<int64_t> sum(mine.count);
    StatusLane lanes;
    DrawAlgorithm();
    ExpectOk(c_.ReduceScatterSum(addend, pieces, LaneOfMember(own()), absl::MakeSpan(sum), &lanes),
             "reduce_scatter_sum of pieces");
    const int64_t n = size();
    Expect(sum == std::vector<int64_t>(mine.count, n * (n + 1) / 2), "members that share a piece get the same sum");

    // In whichever order its addends are added.
    constexpr size_t kMost = 40;
    std::vector<float> drawn(end);
    for (uint32_t member = 0; member < size(); ++member) {
      std::vector<float> of_member(end);
      for (float& value : of_member) value = 1.0f + static_cast<float>(Below(1 << 24)) * 0x1p-20f;
      if (member == own()) drawn = of_member;
    }
    std::vector<float> padded(kMost);
    std::vector<float> of_all(kMost * size());
    DrawAlgorithm();
    ExpectOk(c_.ReduceScatterSum(drawn, pieces, LaneOfMember(own()), absl::MakeSpan(padded).first(mine.count), &lanes),
             "reduce_scatter_sum of pieces");
    ExpectOk(c_.AllGather(BytesOf(padded), BytesIn(of_all)), "all_gather");
    for (uint32_t member = 1; member < size(); ++member) {
      if (pieces[member] != pieces[member - 1]) continue;
      Expect(
          std::memcmp(of_all.data() + member * kMost, of_all.data() + (member - 1) * kMost, kMost * sizeof(float)) == 0,
          "members that share a piece get the same bits");
    }
  }

  // Around the ring, then back.
  void CheckHandOffs(uint64_t count) {
    if (size() == 1) return;
    const uint32_t next = (own() + 1) % size();
    const uint32_t last = (own() + size() - 1) % size();
    std::vector<uint8_t> mine(count);
    for (uint64_t i = 0; i < count; ++i) mine[i] = static_cast<uint8_t>(i * 7 + own());
    std::vector<uint8_t> got(count);
    if (own() == 0) {
      ExpectOk(c_.Send(next, BytesOf(mine)), "send");
      ExpectOk(c_.Receive(last, BytesIn(got)), "receive");
    } else {
      ExpectOk(c_.Receive(last, BytesIn(got)), "receive");
      ExpectOk(c_.Send(next, BytesOf(mine)), "send");
    }
    bool same = true;
    for (uint64_t i = 0; i < count; ++i) same = same && got[i] == static_cast<uint8_t>(i * 7 + last);
    Expect(same, absl::StrCat("a hand-off of ", count, " bytes arrives whole"));
  }

  void ExpectRefused(const absl::Status& status, const std::string& text, Reason reason) {
    Expect(status.message() == text && ReasonOf(status) == reason,
           absl::StrCat("expected '", text, "', got '", status.message(), "'"));
  }

  // Whatever does not fit together is refused on all members with one text, and the group goes on.
  void CheckRefusals() {
    const std::string first = absl::StrCat("rank ", c_.members().front());
    const std::string last = absl::StrCat("rank ", c_.members().back());
    const bool is_last = own() + 1 == size();
    StatusLane lanes;
    std::vector<float> four(4);
    std::vector<float> five(5);
    std::vector<float> sum(5);
    ExpectRefused(c_.AllReduceSum(four, {}, absl::MakeSpan(sum).first(is_last ? 3 : 4), &lanes),
                  absl::StrCat(last, " calls all_reduce_sum with 4 into 3"), Reason::kBug);
    const std::vector<float> large(kLawBytes / sizeof(float) + 1);
    std::vector<float> large_sum(large.size());
    if (size() == 1) return;
    ExpectRefused(c_.AllReduceSum(is_last ? five : four, {}, absl::MakeSpan(sum).first(is_last ? 5 : 4), &lanes),
                  absl::StrCat(first, " calls all_reduce_sum with 4, ", last, " all_reduce_sum with 5"),
                  Reason::kRankRecord);
    ExpectRefused(c_.AllReduceSum(large, {}, absl::MakeSpan(large_sum), &lanes),
                  absl::StrCat(first, " calls all_reduce_sum with ", large.size(), ", more than it reserved"),
                  Reason::kBug);
    c_.SetReduceAlgorithm(is_last ? ReduceAlgorithm::kExchangeThenSum : ReduceAlgorithm::kGatherThenSum);
    ExpectRefused(c_.AllReduceSum(four, {}, absl::MakeSpan(sum).first(4), &lanes),
                  absl::StrCat(first, " calls all_reduce_sum with the algorithm 'all-gather + rank-order sum', ", last,
                               " with 'all-to-all of slices + rank-order sum'"),
                  Reason::kRankRecord);
    const std::vector<int64_t> fixed(4);
    std::vector<int64_t> fixed_sum(4);
    c_.SetReduceAlgorithm(is_last ? ReduceAlgorithm::kTransport : ReduceAlgorithm::kExchangeThenSum);
    ExpectRefused(
        c_.ReduceScatterSum(fixed, std::vector<Piece>(size(), Piece{0, 4}), {}, absl::MakeSpan(fixed_sum), &lanes),
        absl::StrCat(first,
                     " calls reduce_scatter_sum of int64 with the algorithm 'all-to-all of slices + "
                     "rank-order sum', ",
                     last, " with 'as the transport does'"),
        Reason::kRankRecord);
    std::vector<uint8_t> of_all(size());
    ExpectOk(c_.AllGather(BytesOf(std::vector<uint8_t>{1}), BytesIn(of_all)), "what is no sum has no algorithm");
    c_.SetReduceAlgorithm(ReduceAlgorithm::kGatherThenSum);
    ExpectRefused(is_last ? c_.AllReduceSum(fixed, {}, absl::MakeSpan(fixed_sum), &lanes)
                          : c_.AllReduceSum(four, {}, absl::MakeSpan(sum).first(4), &lanes),
                  absl::StrCat(first, " calls all_reduce_sum with 4, ", last, " all_reduce_sum of int64 with 4"),
                  Reason::kRankRecord);
    std::vector<std::byte> all(size() * size_t{4});
    ExpectRefused(is_last ? c_.AllReduceSum(four, {}, absl::MakeSpan(sum).first(4), &lanes)
                          : c_.AllGather(absl::MakeConstSpan(all).first(4), absl::MakeSpan(all)),
                  absl::StrCat(first, " calls all_gather with 4, ", last, " all_reduce_sum with 4"),
                  Reason::kRankRecord);
    std::vector<Piece> pieces(size(), Piece{0, 4});
    ExpectRefused(
        c_.ReduceScatterSum(four, std::vector<Piece>(size(), Piece{2, 3}), {}, absl::MakeSpan(sum).first(3), &lanes),
        absl::StrCat(first, " calls reduce_scatter_sum with 4 in pieces that do not fit"), Reason::kBug);
    if (is_last) pieces[0] = {0, 3};
    ExpectRefused(c_.ReduceScatterSum(four, pieces, {}, absl::MakeSpan(sum).first(4), &lanes),
                  absl::StrCat("ranks ", c_.members().front(), " and ", c_.members().back(),
                               " call reduce_scatter_sum with different pieces"),
                  Reason::kRankRecord);
    // Of a hand-off the two members know.
    if (own() == 0) {
      ExpectRefused(c_.Send(size() - 1, absl::MakeConstSpan(all).first(3)),
                    absl::StrCat(first, " calls send with 3, ", last, " receive with 4"), Reason::kRankRecord);
      ExpectRefused(c_.Send(size() - 1, absl::MakeConstSpan(all).first(3)),
                    absl::StrCat(first, " calls send with 3, ", last, " send with 3"), Reason::kRankRecord);
    } else if (is_last) {
      ExpectRefused(c_.Receive(0, absl::MakeSpan(all).first(4)),
                    absl::StrCat(first, " calls send with 3, ", last, " receive with 4"), Reason::kRankRecord);
      ExpectRefused(c_.Send(0, absl::MakeConstSpan(all).first(3)),
                    absl::StrCat(first, " calls send with 3, ", last, " send with 3"), Reason::kRankRecord);
    }
    std::vector<float> ones(8, 1.0f);
    std::vector<float> after(8);
    ExpectOk(c_.AllReduceSum(ones, {}, absl::MakeSpan(after), &lanes), "the group goes on after a refusal");
    Expect(after == std::vector<float>(8, static_cast<float>(size())), "and its sums are right");
  }

  Communicator& c_;
  bool in_order_ = true;  // sums are made in member order
  std::mt19937_64 random_;
  std::vector<std::string> broken_;
};

}  // namespace

std::vector<std::string> BrokenLaws(Communicator& c, uint64_t seed) { return Laws(c, seed).Check(); }

}  // namespace meshseal::support

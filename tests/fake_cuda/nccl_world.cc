#include "tests/fake_cuda/nccl_world.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/fake_cuda/element_sums.h"

namespace fake_nccl {
namespace {

const char* Name(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return "AllReduce";
    case Kind::kAllGather:
      return "AllGather";
    case Kind::kReduceScatter:
      return "ReduceScatter";
    case Kind::kBroadcast:
      return "Broadcast";
    case Kind::kSend:
      return "Send";
    case Kind::kReceive:
      return "Recv";
  }
  return "";
}

bool Reduces(Kind kind) { return kind == Kind::kAllReduce || kind == Kind::kReduceScatter; }

bool Agree(const Operation& a, const Operation& b) {
  return a.kind == b.kind && a.count == b.count && a.type == b.type && a.reduction == b.reduction && a.peer == b.peer;
}

const std::byte* Bytes(const void* data) { return static_cast<const std::byte*>(data); }

// Ranks in the order in which piece `piece` of as many as ranks is summed.
std::vector<const std::byte*> InOrder(const std::vector<Arrival*>& arrivals, size_t piece, size_t offset,
                                      SumOrder order) {
  std::vector<const std::byte*> parts;
  for (size_t i = 0; i < arrivals.size(); ++i) {
    const size_t rank = order == SumOrder::kRanks ? i : (piece + 1 + i) % arrivals.size();
    parts.push_back(Bytes(arrivals[rank]->operation.send) + offset);
  }
  return parts;
}

// What each rank receives, all of it computed before anything is written: buffers may be used in place.
std::vector<std::vector<std::byte>> Results(const std::vector<Arrival*>& arrivals, SumOrder order) {
  const Operation& first = arrivals[0]->operation;
  const size_t ranks = arrivals.size();
  const size_t bytes = first.count * ElementBytes(first.type);
  std::vector<std::vector<std::byte>> results(ranks);
  if (first.kind == Kind::kAllReduce) {
    std::vector<std::byte> sum(bytes);
    const size_t piece_elements = (first.count + ranks - 1) / ranks;
    for (size_t piece = 0; piece < ranks; ++piece) {
      const size_t begin = std::min(piece * piece_elements, first.count);
      const size_t end = std::min(begin + piece_elements, first.count);
      const size_t offset = begin * ElementBytes(first.type);
      Combine(first.type, first.reduction, InOrder(arrivals, piece, offset, order), end - begin, sum.data() + offset);
    }
    std::fill(results.begin(), results.end(), sum);
  } else if (first.kind == Kind::kReduceScatter) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      results[rank].resize(bytes);
      Combine(first.type, first.reduction, InOrder(arrivals, rank, rank * bytes, order), first.count,
              results[rank].data());
    }
  } else if (first.kind == Kind::kAllGather) {
    std::vector<std::byte> all;
    for (const Arrival* const arrival : arrivals) {
      all.insert(all.end(), Bytes(arrival->operation.send), Bytes(arrival->operation.send) + bytes);
    }
    std::fill(results.begin(), results.end(), all);
  } else {
    const std::byte* const root = Bytes(arrivals[static_cast<size_t>(first.peer)]->operation.send);
    std::fill(results.begin(), results.end(), std::vector<std::byte>(root, root + bytes));
  }
  return results;
}

}  // namespace

Options& CurrentOptions() {
  static Options options;
  return options;
}

std::string Operation::Text() const {
  std::string text = absl::StrCat(Name(kind), " of ", count, " ", TypeName(type));
  if (Reduces(kind)) absl::StrAppend(&text, " (", ReductionName(reduction), ")");
  if (kind == Kind::kBroadcast) absl::StrAppend(&text, " from rank ", peer);
  return text;
}

World::World(uint64_t number_of_world, size_t ranks)
    : number(number_of_world), size(ranks), devices(ranks), left(ranks, false), windows(ranks, 0), calls_(ranks, 0) {}

bool World::complete() const {
  return !broken && std::all_of(devices.begin(), devices.end(), [](const auto& device) { return device.has_value(); });
}

void World::Arrive(size_t rank, Arrival* arrival, const Options& options) {
  const Operation& operation = arrival->operation;
  if (operation.is_point_to_point()) {
    const auto peer = static_cast<size_t>(operation.peer);
    const Pair pair = operation.kind == Kind::kSend ? Pair(rank, peer) : Pair(peer, rank);
    (operation.kind == Kind::kSend ? sends_ : receives_)[pair].push_back(arrival);
    Pass(pair, options);
    return;
  }
  const uint64_t call = calls_[rank]++;
  Meeting& meeting = meetings_[call];
  meeting.arrivals.resize(size);
  meeting.arrivals[rank] = arrival;
  Meet(call, &meeting, options);
}

void World::Meet(uint64_t call, Meeting* meeting, const Options& options) {
  std::vector<Arrival*>& arrivals = meeting->arrivals;
  for (size_t rank = 1; rank < size; ++rank) {
    if (meeting->mismatched || !arrivals[0] || !arrivals[rank]) continue;
    if (Agree(arrivals[0]->operation, arrivals[rank]->operation)) continue;
    meeting->mismatched = true;
    if (!options.name_mismatches) continue;
    fake_cuda::TheMachine().Violate(absl::StrCat("communicator ", number, ", collective ", call + 1, ": rank 0 ",
                                                 arrivals[0]->operation.Text(), ", rank ", rank, " ",
                                                 arrivals[rank]->operation.Text()));
  }
  if (meeting->mismatched || std::find(arrivals.begin(), arrivals.end(), nullptr) != arrivals.end()) return;
  const std::vector<std::vector<std::byte>> results = Results(arrivals, options.order);
  for (size_t rank = 0; rank < size; ++rank) {
    if (!results[rank].empty()) {
      std::memcpy(arrivals[rank]->operation.receive, results[rank].data(), results[rank].size());
    }
    arrivals[rank]->done = true;
  }
  meetings_.erase(call);
}

void World::Pass(const Pair& pair, const Options& options) {
  std::deque<Arrival*>& sends = sends_[pair];
  std::deque<Arrival*>& receives = receives_[pair];
  if (sends.empty() || receives.empty()) return;
  const Operation& send = sends.front()->operation;
  const Operation& receive = receives.front()->operation;
  if (send.count != receive.count || send.type != receive.type) {
    if (options.name_mismatches) {
      fake_cuda::TheMachine().Violate(absl::StrCat("communicator ", number, ": rank ", pair.first, " ", send.Text(),
                                                   ", rank ", pair.second, " ", receive.Text()));
    }
    return;
  }
  if (send.count > 0) std::memmove(receive.receive, send.send, send.count * ElementBytes(send.type));
  sends.front()->done = receives.front()->done = true;
  sends.pop_front();
  receives.pop_front();
}

void World::TakeBack(const Arrival* arrival) {
  for (auto& [call, meeting] : meetings_) {
    for (Arrival*& arrived : meeting.arrivals) {
      if (arrived == arrival) arrived = nullptr;
    }
  }
  for (auto* const side : {&sends_, &receives_}) {
    for (auto& [pair, queue] : *side) queue.erase(std::remove(queue.begin(), queue.end(), arrival), queue.end());
  }
}

CollectiveWork::CollectiveWork(std::shared_ptr<Communicator> communicator, std::vector<Operation> operations,
                               bool captured)
    : communicator_(std::move(communicator)), operations_(std::move(operations)), captured_(captured) {
  ++(captured_ ? communicator_->captured : communicator_->launched);
  const size_t ranks = communicator_->world->size;
  const auto add = [this](const void* data, size_t bytes, const char* what) {
    if (bytes == 0) return;
    const fake_cuda::Allocation* const allocation = fake_cuda::TheMachine().memory().Find(data);
    if (!allocation || bytes > allocation->bytes - static_cast<size_t>(Bytes(data) - allocation->data)) {
      outside_ = true;
    } else {
      operands_.push_back({allocation->number, communicator_->device, what});
    }
  };
  for (const Operation& operation : operations_) {
    const size_t bytes = operation.count * ElementBytes(operation.type);
    const bool sends = operation.kind != Kind::kReceive &&
                       (operation.kind != Kind::kBroadcast || operation.peer == static_cast<int>(communicator_->rank));
    if (sends)
      add(operation.send, operation.kind == Kind::kReduceScatter ? bytes * ranks : bytes, "a collective's input");
    if (operation.kind != Kind::kSend) {
      add(operation.receive, operation.kind == Kind::kAllGather ? bytes * ranks : bytes, "a collective's output");
    }
    arrivals_.push_back({operation});
  }
}

CollectiveWork::~CollectiveWork() {
  CollectiveWork::Withdraw();
  --(captured_ ? communicator_->captured : communicator_->launched);
}

std::shared_ptr<fake_cuda::Work> CollectiveWork::ForOneRun() {
  return std::make_shared<CollectiveWork>(communicator_, operations_, false);
}

std::string CollectiveWork::Text() const {
  return absl::StrCat("rank ", communicator_->rank, "'s ", operations_[0].Text());
}

bool CollectiveWork::AllDone() const {
  return std::all_of(arrivals_.begin(), arrivals_.end(), [](const Arrival& arrival) { return arrival.done; });
}

bool CollectiveWork::Runnable() const {
  if (communicator_->aborted) return true;
  return !communicator_->dead && (!arrived_ || AllDone());
}

fake_cuda::Outcome CollectiveWork::Run(fake_cuda::Lock&) {
  if (communicator_->aborted) return {};
  if (!arrived_) {
    if (outside_) {
      fake_cuda::TheMachine().Violate(absl::StrCat("communicator ", communicator_->world->number, ", rank ",
                                                   communicator_->rank, ": ", operations_[0].Text(),
                                                   " outside of device memory"));
      return {true, cudaErrorIllegalAddress};
    }
    arrived_ = true;
    for (Arrival& arrival : arrivals_) communicator_->world->Arrive(communicator_->rank, &arrival, CurrentOptions());
  }
  return {AllDone()};
}

void CollectiveWork::Withdraw() {
  for (const Arrival& arrival : arrivals_) {
    if (arrived_ && !arrival.done) communicator_->world->TakeBack(&arrival);
  }
  arrived_ = false;
}

}  // namespace fake_nccl

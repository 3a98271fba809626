#include "tests/fake_cuda/nccl_world.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

// What was sent is what is awaited.
bool Fit(const Mailbox& box) {
  return box.last_sent.count == box.last_awaited.count && box.last_sent.type == box.last_awaited.type;
}

const std::byte* Bytes(const void* data) { return static_cast<const std::byte*>(data); }

// What a rank brings to it.
size_t PartBytes(const Operation& operation, size_t rank, size_t ranks) {
  const size_t bytes = operation.count * ElementBytes(operation.type);
  if (operation.kind == Kind::kBroadcast && static_cast<size_t>(operation.peer) != rank) return 0;
  return operation.kind == Kind::kReduceScatter ? bytes * ranks : bytes;
}

using Parts = std::vector<std::vector<std::byte>>;  // by rank

// Parts in the order in which piece `piece` of as many as ranks is summed, from byte `offset` on.
std::vector<const std::byte*> InOrder(const Parts& parts, size_t piece, size_t offset, SumOrder order) {
  std::vector<const std::byte*> ordered;
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t rank = order == SumOrder::kRanks ? i : (piece + 1 + i) % parts.size();
    ordered.push_back(parts[rank].data() + offset);
  }
  return ordered;
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

World::World(uint64_t number_of_world, std::unique_ptr<Meeting> meeting)
    : number(number_of_world), meeting_(std::move(meeting)) {}

bool World::Join(size_t ranks, size_t rank, int device) {
  uint32_t nobody = 0;
  board().size.compare_exchange_strong(nobody, static_cast<uint32_t>(ranks));
  int32_t none = 0;
  if (size() == ranks && board().ranks[rank].device.compare_exchange_strong(none, device + 1)) return true;
  board().broken = true;
  return false;
}

bool World::complete() const {
  if (size() == 0 || board().broken) return false;
  return std::all_of(board().ranks.begin(), board().ranks.begin() + static_cast<ptrdiff_t>(size()),
                     [](const RankBoard& rank) { return rank.device != 0; });
}

std::string World::Duplicate() const {
  const std::vector<fake_cuda::Device>& devices = fake_cuda::TheMachine().options().devices;
  for (size_t a = 0; a < size(); ++a) {
    for (size_t b = a + 1; b < size(); ++b) {
      const int32_t device = board().ranks[a].device;
      if (device != board().ranks[b].device) continue;
      const fake_cuda::Device& shared = devices[static_cast<size_t>(device - 1)];
      return absl::StrFormat("Duplicate GPU detected : rank %d and rank %d both on CUDA device %x", b, a,
                             (uint64_t{shared.pci_bus} << 12) | (uint64_t{shared.pci_device} << 4));
    }
  }
  return "";
}

bool World::EverybodyLeft() const {
  return std::all_of(board().ranks.begin(), board().ranks.begin() + static_cast<ptrdiff_t>(size()),
                     [](const RankBoard& rank) { return rank.left.load(); });
}

bool World::AllRegistered(uint64_t windows) const {
  return std::all_of(board().ranks.begin(), board().ranks.begin() + static_cast<ptrdiff_t>(size()),
                     [windows](const RankBoard& rank) { return rank.windows >= windows; });
}

World::Pair World::PairOf(size_t rank, const Operation& operation) const {
  const auto peer = static_cast<size_t>(operation.peer);
  return operation.kind == Kind::kSend ? Pair(rank, peer) : Pair(peer, rank);
}

void World::Arrive(size_t rank, Arrival* arrival) {
  const Operation& operation = arrival->operation;
  if (!operation.is_point_to_point()) {
    arrival->number = ++calls_[rank];
  } else {
    arrival->number = ++(operation.kind == Kind::kSend ? sends_ : receives_)[PairOf(rank, operation)];
  }
}

bool World::CanMove(size_t rank, const Arrival& arrival) const {
  const Operation& operation = arrival.operation;
  if (arrival.done) return false;
  if (operation.is_point_to_point()) {
    const auto [from, to] = PairOf(rank, operation);
    const Mailbox& box = board().boxes[from][to];
    if (!arrival.posted) return box.received == arrival.number - 1;
    if (operation.kind == Kind::kSend) return box.received == arrival.number;
    return box.sent == arrival.number && Fit(box);
  }
  for (size_t other = 0; other < size(); ++other) {
    const RankBoard& theirs = board().ranks[other];
    // Nobody's part is written before all have read the last ones.
    if (!arrival.posted && theirs.taken != arrival.number - 1) return false;
    if (arrival.posted && (theirs.posted != arrival.number || !Agree(theirs.last, operation))) return false;
  }
  return true;
}

void World::Move(size_t rank, Arrival* arrival, const Options& options) {
  const Operation& operation = arrival->operation;
  if (!arrival->posted) {
    arrival->posted = true;
    if (operation.is_point_to_point()) {
      PostMessage(PairOf(rank, operation), *arrival, options);
    } else {
      PostPart(rank, *arrival, options);
    }
    return;
  }
  arrival->done = true;
  if (operation.is_point_to_point()) {
    if (operation.kind == Kind::kSend) return;
    const auto [from, to] = PairOf(rank, operation);
    const std::vector<std::byte> message =
        meeting_->ReadMessage(from, to, operation.count * ElementBytes(operation.type));
    if (!message.empty()) std::memcpy(operation.receive, message.data(), message.size());
    board().boxes[from][to].received = arrival->number;
    return;
  }
  const std::vector<std::byte> result = Result(rank, operation, options.order);
  if (!result.empty()) std::memcpy(operation.receive, result.data(), result.size());
  board().ranks[rank].taken = arrival->number;
}

void World::PostMessage(const Pair& pair, const Arrival& arrival, const Options& options) {
  const Operation& operation = arrival.operation;
  const auto [from, to] = pair;
  Mailbox& box = board().boxes[from][to];
  if (operation.kind == Kind::kSend) {
    meeting_->WriteMessage(from, to, operation.send, PartBytes(operation, from, size()));
    box.last_sent = operation;
    box.sent = arrival.number;
  } else {
    box.last_awaited = operation;
    box.awaited = arrival.number;
  }
  if (!options.name_mismatches || box.sent != box.awaited || Fit(box)) return;
  fake_cuda::TheMachine().Violate(absl::StrCat("communicator ", number, ": rank ", from, " ", box.last_sent.Text(),
                                               ", rank ", to, " ", box.last_awaited.Text()));
}

void World::PostPart(size_t rank, const Arrival& arrival, const Options& options) {
  RankBoard& own = board().ranks[rank];
  meeting_->WritePart(rank, arrival.operation.send, PartBytes(arrival.operation, rank, size()));
  own.last = arrival.operation;
  own.posted = arrival.number;
  TellMismatch(arrival.number, options);
}

void World::TellMismatch(uint64_t call, const Options& options) {
  const RankBoard& first = board().ranks[0];
  if (!options.name_mismatches || first.posted != call) return;
  for (size_t rank = 1; rank < size(); ++rank) {
    const RankBoard& other = board().ranks[rank];
    if (other.posted != call || Agree(first.last, other.last) || board().told.exchange(call) == call) continue;
    fake_cuda::TheMachine().Violate(absl::StrCat("communicator ", number, ", collective ", call, ": rank 0 ",
                                                 first.last.Text(), ", rank ", rank, " ", other.last.Text()));
  }
}

std::vector<std::byte> World::Result(size_t rank, const Operation& operation, SumOrder order) const {
  Parts parts;
  for (size_t from = 0; from < size(); ++from) {
    parts.push_back(meeting_->ReadPart(from, PartBytes(operation, from, size())));
  }
  const size_t element = ElementBytes(operation.type);
  std::vector<std::byte> result(operation.count * element);
  switch (operation.kind) {
    case Kind::kAllReduce: {
      const size_t piece_elements = (operation.count + size() - 1) / size();
      for (size_t piece = 0; piece < size(); ++piece) {
        const size_t begin = std::min(piece * piece_elements, operation.count);
        const size_t end = std::min(begin + piece_elements, operation.count);
        Combine(operation.type, operation.reduction, InOrder(parts, piece, begin * element, order), end - begin,
                result.data() + begin * element);
      }
      return result;
    }
    case Kind::kReduceScatter:
      Combine(operation.type, operation.reduction, InOrder(parts, rank, rank * result.size(), order), operation.count,
              result.data());
      return result;
    case Kind::kAllGather:
      result.clear();
      for (const std::vector<std::byte>& part : parts) result.insert(result.end(), part.begin(), part.end());
      return result;
    default:
      return parts[static_cast<size_t>(operation.peer)];
  }
}

void World::TakeBack(size_t rank, const Arrival& arrival) {
  if (!arrival.posted || arrival.done) return;
  const Operation& operation = arrival.operation;
  if (operation.is_point_to_point()) {
    const auto [from, to] = PairOf(rank, operation);
    Mailbox& box = board().boxes[from][to];
    (operation.kind == Kind::kSend ? box.sent : box.awaited) = arrival.number - 1;
  } else {
    board().ranks[rank].posted = arrival.number - 1;
  }
}

CollectiveWork::CollectiveWork(std::shared_ptr<Communicator> communicator, std::vector<Operation> operations,
                               bool captured)
    : communicator_(std::move(communicator)), operations_(std::move(operations)), captured_(captured) {
  ++(captured_ ? communicator_->captured : communicator_->launched);
  const size_t ranks = communicator_->world->size();
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
  if (communicator_->dead) return false;
  return !arrived_ || std::any_of(arrivals_.begin(), arrivals_.end(), [this](const Arrival& arrival) {
    return communicator_->world->CanMove(communicator_->rank, arrival);
  });
}

fake_cuda::Outcome CollectiveWork::Run(fake_cuda::Lock&) {
  if (communicator_->aborted) return {};
  World& world = *communicator_->world;
  const size_t rank = communicator_->rank;
  if (!arrived_) {
    if (outside_) {
      fake_cuda::TheMachine().Violate(absl::StrCat("communicator ", world.number, ", rank ", rank, ": ",
                                                   operations_[0].Text(), " outside of device memory"));
      return {true, cudaErrorIllegalAddress};
    }
    arrived_ = true;
    for (Arrival& arrival : arrivals_) world.Arrive(rank, &arrival);
  }
  for (Arrival& arrival : arrivals_) {
    while (world.CanMove(rank, arrival)) world.Move(rank, &arrival, CurrentOptions());
  }
  return {AllDone()};
}

void CollectiveWork::Withdraw() {
  for (const Arrival& arrival : arrivals_) communicator_->world->TakeBack(communicator_->rank, arrival);
  arrivals_.clear();
}

}  // namespace fake_nccl

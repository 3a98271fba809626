// Communicators between threads for tests, and one that passes everything on.
#ifndef MESHSEAL_TESTS_SUPPORT_INPROC_GROUP_H_
#define MESHSEAL_TESTS_SUPPORT_INPROC_GROUP_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/inproc.h"
#include "runtime/comm/message_communicator.h"

namespace meshseal::support {

// A group of its own world, with memory for small messages.
struct InprocGroup {
  std::vector<std::unique_ptr<runtime::Endpoint>> endpoints;
  std::vector<std::unique_ptr<runtime::Communicator>> members;  // go first

  size_t size() const { return members.size(); }
  runtime::Communicator& operator[](size_t member) const { return *members[member]; }
};

// Members are the world ranks `first`, `first` + 1 and so on, so that a member's number can differ from its rank.
inline InprocGroup MakeInprocGroup(uint32_t size, const runtime::MessageOptions& options = {}, uint32_t first = 0,
                                   uint64_t bytes = 1 << 20) {
  InprocGroup group;
  group.endpoints = runtime::MakeInprocEndpoints(first + size, first + size);
  std::vector<uint32_t> ranks;
  for (uint32_t i = 0; i < size; ++i) ranks.push_back(first + i);
  for (const uint32_t rank : ranks) {
    group.members.push_back(
        runtime::MakeMessageCommunicator(*group.endpoints[rank], runtime::Channel::kExpertGroup, ranks, options)
            .value());
    if (!group.members.back()->Reserve(bytes).ok()) return {};
  }
  return group;
}

class PassingCommunicator : public runtime::Communicator {
 public:
  explicit PassingCommunicator(std::unique_ptr<runtime::Communicator> real) : owned_(std::move(real)), real_(*owned_) {}
  explicit PassingCommunicator(runtime::Communicator& real) : real_(real) {}

  absl::Span<const uint32_t> members() const override { return real_.members(); }
  uint32_t rank() const override { return real_.rank(); }
  absl::Status Reserve(uint64_t bytes) override { return real_.Reserve(bytes); }
  void SetReduceAlgorithm(ReduceAlgorithm algorithm) override { real_.SetReduceAlgorithm(algorithm); }
  absl::Status AllReduceSum(absl::Span<const float> addend, const runtime::StatusLane& lane, absl::Span<float> sum,
                            runtime::StatusLane* lane_sum) override {
    return real_.AllReduceSum(addend, lane, sum, lane_sum);
  }
  absl::Status AllReduceSum(absl::Span<const int64_t> addend, const runtime::StatusLane& lane, absl::Span<int64_t> sum,
                            runtime::StatusLane* lane_sum) override {
    return real_.AllReduceSum(addend, lane, sum, lane_sum);
  }
  absl::Status ReduceScatterSum(absl::Span<const float> addend, absl::Span<const runtime::Piece> pieces,
                                const runtime::StatusLane& lane, absl::Span<float> own,
                                runtime::StatusLane* lane_sum) override {
    return real_.ReduceScatterSum(addend, pieces, lane, own, lane_sum);
  }
  absl::Status ReduceScatterSum(absl::Span<const int64_t> addend, absl::Span<const runtime::Piece> pieces,
                                const runtime::StatusLane& lane, absl::Span<int64_t> own,
                                runtime::StatusLane* lane_sum) override {
    return real_.ReduceScatterSum(addend, pieces, lane, own, lane_sum);
  }
  absl::Status AllGather(absl::Span<const std::byte> own, absl::Span<std::byte> all) override {
    return real_.AllGather(own, all);
  }
  absl::Status AllGather(absl::Span<const std::byte> own, absl::Span<const runtime::Piece> pieces,
                         absl::Span<std::byte> all) override {
    return real_.AllGather(own, pieces, all);
  }
  absl::Status AllToAll(absl::Span<const std::byte> sent, absl::Span<std::byte> received) override {
    return real_.AllToAll(sent, received);
  }
  absl::Status Send(uint32_t member, absl::Span<const std::byte> bytes) override { return real_.Send(member, bytes); }
  absl::Status Receive(uint32_t member, absl::Span<std::byte> bytes) override { return real_.Receive(member, bytes); }
  runtime::CallTotals totals() const override { return real_.totals(); }
  absl::Status Check() override { return real_.Check(); }
  void SetDeadline(std::chrono::milliseconds deadline) override { real_.SetDeadline(deadline); }
  void Abort(const absl::Status& cause) override { real_.Abort(cause); }

 private:
  std::unique_ptr<runtime::Communicator> owned_;
  runtime::Communicator& real_;
};

}  // namespace meshseal::support

#endif  // MESHSEAL_TESTS_SUPPORT_INPROC_GROUP_H_

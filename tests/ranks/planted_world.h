// A world whose endpoints are the test's own: how a fault of the program itself is planted in front of a real
// transport.
#ifndef MESHSEAL_TESTS_RANKS_PLANTED_WORLD_H_
#define MESHSEAL_TESTS_RANKS_PLANTED_WORLD_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/comm/endpoint.h"

namespace meshseal::support {

// Hands everything on.
class PassingEndpoint : public runtime::Endpoint {
 public:
  explicit PassingEndpoint(std::unique_ptr<runtime::Endpoint> real) : real_(std::move(real)) {}
  uint32_t rank() const override { return real_->rank(); }
  uint32_t world() const override { return real_->world(); }
  void BeginCall() override { real_->BeginCall(); }
  void EndCall() override { real_->EndCall(); }
  absl::Status Exchange(runtime::Channel channel, absl::Span<const runtime::Outgoing> out,
                        absl::Span<const runtime::Incoming> in, std::chrono::milliseconds deadline) override {
    return real_->Exchange(channel, out, in, deadline);
  }
  void Come(uint64_t number) override { real_->Come(number); }
  absl::Status AwaitPeer(uint32_t peer, uint64_t number, std::chrono::milliseconds time) override {
    return real_->AwaitPeer(peer, number, time);
  }
  void GiveUpOn(uint32_t peer) override { real_->GiveUpOn(peer); }
  std::chrono::nanoseconds Now() const override { return real_->Now(); }
  absl::Status Check(runtime::Channel channel) override { return real_->Check(channel); }
  void Abort(runtime::Channel channel, const absl::Status& cause) override { real_->Abort(channel, cause); }
  void Keep(runtime::Arena memory) override { real_->Keep(std::move(memory)); }

 private:
  const std::unique_ptr<runtime::Endpoint> real_;
};

// Puts an endpoint of the test in front of a rank's own.
using Plant = std::function<std::unique_ptr<runtime::Endpoint>(std::unique_ptr<runtime::Endpoint>)>;

class PlantedWorld : public runtime::RankWorld {
 public:
  PlantedWorld(std::shared_ptr<runtime::RankWorld> real, Plant plant)
      : real_(std::move(real)), plant_(std::move(plant)) {}
  Transport transport() const override { return real_->transport(); }
  std::string library() const override { return real_->library(); }
  absl::StatusOr<std::vector<std::unique_ptr<runtime::Endpoint>>> Connect(uint32_t world, uint32_t scope) override {
    absl::StatusOr<std::vector<std::unique_ptr<runtime::Endpoint>>> ends = real_->Connect(world, scope);
    if (!ends.ok()) return ends;
    for (std::unique_ptr<runtime::Endpoint>& end : *ends) end = plant_(std::move(end));
    return ends;
  }

 private:
  const std::shared_ptr<runtime::RankWorld> real_;
  const Plant plant_;
};

}  // namespace meshseal::support

#endif  // MESHSEAL_TESTS_RANKS_PLANTED_WORLD_H_

#include "runtime/weights/weight_memory.h"

#include <utility>

#include "runtime/memory/arena.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

class HostPlacer : public WeightPlacer {
 public:
  explicit HostPlacer(absl::Span<std::byte> block) : block_(block) {}

  absl::Span<std::byte> Stage(uint64_t offset, uint64_t bytes) override { return block_.subspan(offset, bytes); }
  absl::Status Put() override { return absl::OkStatus(); }

 private:
  const absl::Span<std::byte> block_;
};

class HostWeightMemory : public WeightMemory {
 public:
  explicit HostWeightMemory(Arena block) : block_(std::move(block)) {}

  absl::Span<std::byte> bytes() const override { return block_.bytes(); }
  absl::StatusOr<std::unique_ptr<WeightPlacer>> MakePlacer(uint64_t) const override {
    return std::make_unique<HostPlacer>(block_.bytes());
  }

 private:
  const Arena block_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WeightMemory>> ReserveHostWeights(uint64_t bytes) {
  MESHSEAL_ASSIGN_OR_RETURN(Arena block, Arena::Reserve(bytes, "weights"));
  return std::make_unique<HostWeightMemory>(std::move(block));
}

}  // namespace meshseal::runtime

#include "runtime/cuda/step_scratch.h"

#include <algorithm>

#include "runtime/cuda/kernels/combine.h"
#include "runtime/cuda/kernels/down_exact.h"
#include "runtime/cuda/kernels/shared_down_exact.h"

namespace meshseal::cuda {
namespace {

constexpr uint64_t kAlignment = 256;

class Placer {
 public:
  explicit Placer(std::byte* block) : block_(block) {}

  template <class T>
  void Place(uint64_t count, T** place) {
    if (block_ != nullptr) *place = reinterpret_cast<T*>(block_ + bytes_);
    bytes_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* const block_;
  uint64_t bytes_ = 0;
};

}  // namespace

PlacedScratch PlaceScratch(absl::Span<const runtime::RankProgram* const> programs, uint32_t ranks, std::byte* block) {
  uint64_t logits = 0;
  uint64_t tokens = 0;
  uint64_t slots = 0;
  uint64_t experts = 0;
  uint64_t output = 0;
  uint64_t shared = 0;
  for (const runtime::RankProgram* const program : programs) {
    const uint64_t most = program->max_tokens();
    const uint64_t most_slots = most * program->layer_class().top_k;
    const uint32_t hidden = program->hidden();
    tokens = std::max(tokens, most);
    slots = std::max(slots, most_slots);
    logits = std::max(logits, most * program->layer_class().experts);
    experts = std::max<uint64_t>(experts, program->local_experts());
    const bool exact = program->fixed_point().has_value();
    output = std::max(output, exact ? most_slots * DownExactFailures(hidden) : most * CombineChunks(hidden));
    shared = std::max(shared, most * (exact ? SharedDownExactFailures(hidden) : CombineChunks(hidden)));
  }
  PlacedScratch placed;
  StepScratch& s = placed.scratch;
  Placer placer(block);
  placer.Place(1, &s.parameters);
  placer.Place(1, &s.report);
  placer.Place(ranks, &s.lanes);
  placer.Place(logits, &s.logits);
  placer.Place(tokens, &s.shares);
  placer.Place(slots, &s.computed);
  placer.Place(tokens, &s.route_failures);
  placer.Place(1, &s.scatter_failure);
  placer.Place(output, &s.output_failures);
  placer.Place(shared, &s.shared_failures);
  placer.Place(slots, &s.local_of_slot);
  placer.Place(experts, &s.counts);
  placed.bytes = placer.bytes();
  return placed;
}

}  // namespace meshseal::cuda

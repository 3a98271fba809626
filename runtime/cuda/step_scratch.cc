#include "runtime/cuda/step_scratch.h"

#include <algorithm>

#include "runtime/cuda/block_places.h"
#include "runtime/cuda/kernels/combine.h"
#include "runtime/cuda/kernels/down_exact.h"
#include "runtime/cuda/kernels/shared_down_exact.h"

namespace meshseal::cuda {
PlacedScratch PlaceScratch(absl::Span<const runtime::RankProgram* const> programs, uint32_t ranks, std::byte* block) {
  uint64_t logits = 0;
  uint64_t tokens = 0;
  uint64_t slots = 0;
  uint64_t experts = 0;
  uint64_t grouped_rows = 0;
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
    grouped_rows = std::max(grouped_rows, program->grouped_rows());
    const bool exact = program->fixed_point().has_value();
    output = std::max(output, exact ? most_slots * DownExactFailures(hidden) : most * CombineChunks(hidden));
    shared = std::max(shared, most * (exact ? SharedDownExactFailures(hidden) : CombineChunks(hidden)));
  }
  PlacedScratch placed;
  StepScratch& s = placed.scratch;
  BlockPlaces places(block);
  places.Place(1, &s.parameters);
  places.Place(ranks, &s.groups);
  places.Place(1, &s.report);
  places.Place(ranks, &s.lanes);
  places.Place(logits, &s.logits);
  places.Place(tokens, &s.shares);
  places.Place(slots, &s.computed);
  places.Place(tokens, &s.route_failures);
  places.Place(1, &s.scatter_failure);
  places.Place(output, &s.output_failures);
  places.Place(shared, &s.shared_failures);
  places.Place(slots, &s.local_of_slot);
  places.Place(experts, &s.counts);
  places.Place(grouped_rows, &s.slot_of_row);
  places.Place(experts + 1, &s.first_row);
  placed.bytes = places.bytes();
  return placed;
}

}  // namespace meshseal::cuda

// `compile --auto`: every way to lay a model on a mesh, ranked by what a step is predicted to cost.
#ifndef MESHSEAL_COMPILER_DRIVER_LAYOUT_SEARCH_H_
#define MESHSEAL_COMPILER_DRIVER_LAYOUT_SEARCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/budget/price.h"
#include "compiler/check/checked_model.h"
#include "schema/plan.h"

namespace meshseal::compiler {

// One choice of degrees. Refused ones say the rules that refuse them; the others what they need and cost.
struct Layout {
  Degrees degrees;
  uint64_t idle = 0;                    // slots without a rank
  std::vector<std::string> refused_by;  // slugs, each once; empty: every rule holds
  uint64_t largest_rank = 0;            // bytes
  uint64_t budget = 0;                  // bytes, of that rank's device
  std::optional<Price> price;           // none where the mesh states no rates
};

struct LayoutSearch {
  std::vector<Layout> layouts;  // legal ones first: by idle slots, then by predicted decode time, then by memory
  std::string unpriced;         // why there are no prices; empty when there are
};

// All (dp, pp, tp, ep) that use every slot of the mesh; where none of them holds every rule, those with the fewest idle
// slots that do, at most 15. dense.tp is tp x ep, or the largest of its divisors that the rules allow.
LayoutSearch FindLayouts(const CheckedDocuments& documents);

// The search as a table of at most `most` legal layouts; with `refused`, the others with their rules below it.
std::string LayoutText(const LayoutSearch& search, size_t most, bool refused);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_DRIVER_LAYOUT_SEARCH_H_

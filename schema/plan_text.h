// A plan as people read it: a listing with half-open ranges, units and the lines of the documents. It may change
// between versions; scripts read plan_json.h.
#ifndef MESHSEAL_SCHEMA_PLAN_TEXT_H_
#define MESHSEAL_SCHEMA_PLAN_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/plan.h"

namespace meshseal {

struct ListingOptions {
  std::optional<uint32_t> rank;   // what this rank holds and does; absent: the whole plan
  std::optional<uint32_t> layer;  // of this layer alone; absent: of every class of layers
};

// "[0,4)+[8,9)" for 0, 1, 2, 3, 8; "none" for nothing.
std::string RangesText(const std::vector<uint32_t>& ascending);

// `id` is the plan id as 64 digits, `standing` what is known of the file: "sealed", or why it was refused. The plan
// passed the meaning gate, or at least the structure gate: then what does not add up is printed as it stands. Reason
// kUsage when the plan has no such rank or MoE layer.
absl::StatusOr<std::string> ListPlan(const Plan& plan, absl::string_view id, absl::string_view standing,
                                     const ListingOptions& options);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_PLAN_TEXT_H_

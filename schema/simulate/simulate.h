// A sealed plan, played for all its ranks: do they fit each other, how long does a step take, and where does it go.
#ifndef MESHSEAL_SCHEMA_SIMULATE_SIMULATE_H_
#define MESHSEAL_SCHEMA_SIMULATE_SIMULATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/plan.h"
#include "schema/simulate/calibration.h"
#include "schema/simulate/plan_scripts.h"
#include "schema/simulate/play.h"

namespace meshseal {

struct SimulationOptions {
  std::optional<Phase> phase;      // both, if none
  std::optional<uint32_t> tokens;  // of each replica; a step's, or a chunk's, if none
  std::optional<uint32_t> layer;   // this layer's program alone
};

struct PlayedPhase {
  PlayedWork work;
  Played played;
  std::optional<uint64_t> sealed_nanoseconds;  // the plan's own prediction of the same step
};

// What a bench measured of this plan, and what is predicted for it.
struct ComparedCall {
  MeasuredCall measured;
  double predicted = 0;  // seconds
};

struct Simulation {
  std::string missing;  // which rates are not known; empty where times are predicted
  std::vector<PlayedPhase> phases;
  std::vector<ComparedCall> compared;  // empty without a calibration, or without times
};

// Needs a plan that passed all gates, whose id is `id`. `calibration` may be null. Reasons: those of ScriptsOf and of
// Play.
absl::StatusOr<Simulation> Simulate(const Plan& plan, absl::string_view id, const SimulationOptions& options,
                                    const Calibration* calibration);

// For people, and as versioned JSON.
std::string SimulationText(const Plan& plan, absl::string_view id, const Simulation& simulation,
                           const Calibration* calibration);
std::string SimulationJson(const Plan& plan, absl::string_view id, const Simulation& simulation,
                           const Calibration* calibration);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SIMULATE_SIMULATE_H_

// Measured terms in place of a mesh's: what `meshseal bench --format jsonl` wrote, one object a line.
//
// A rate is the highest that any line's slowest rank came to, which no model of it may exceed. A collective's latency
// and bandwidth are the line of least squares through (bytes, seconds) of the lines that measured one: they must be of
// at least two sizes, of which the larger takes longer. A latency below 0 counts as 0.
#ifndef MESHSEAL_SCHEMA_SIMULATE_CALIBRATION_H_
#define MESHSEAL_SCHEMA_SIMULATE_CALIBRATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/simulate/mesh_rates.h"
#include "schema/terms.h"

namespace meshseal {

// Raised when a field of such a line changes its meaning or goes away.
inline constexpr int kBenchLineVersion = 1;

// One line's call.
struct MeasuredCall {
  std::string plan;  // id, 64 hexadecimal digits
  Phase phase = Phase::kInvalid;
  uint32_t layer = 0;
  uint32_t tokens = 0;  // of all replicas
  double seconds = 0;   // median
};

struct Calibration {
  MeasuredRates rates;
  uint32_t lines = 0;             // that say weights and arithmetic
  uint32_t collective_lines = 0;  // that say what a collective took
  std::vector<MeasuredCall> calls;
};

// Reason kUsage, naming file and line, for what is no such line and for lines of several backends.
absl::StatusOr<Calibration> ParseCalibration(absl::string_view file, absl::string_view text);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SIMULATE_CALIBRATION_H_

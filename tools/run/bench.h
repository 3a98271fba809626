// Times one layer of a plan on its ranks, beside what the machine can do at most, and checks what it computes.
#ifndef MESHSEAL_TOOLS_RUN_BENCH_H_
#define MESHSEAL_TOOLS_RUN_BENCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schema/plan.h"
#include "tools/cli/policy_flags.h"
#include "tools/run/bench_collective.h"
#include "tools/run/machine_limits.h"

namespace meshseal::tools {

struct BenchFlags {
  std::string plan;
  PolicyFlags policy;
  std::string weights;
  std::string digests;
  bool unverified_weights = false;
  bool emulate = false;
  bool without_management_library = false;  // devices are used although their modes are not known
  std::string backend = "reference";
  std::string ranks;   // empty: the backend's own
  std::string tokens;  // empty: 1, 2, 4, ... up to the limit of the phase
  std::string phase = "auto";
  std::optional<uint32_t> layer;  // none: the first with experts
  uint32_t repeat = 5;
  std::string format = "md";
};

// What was measured of one number of tokens.
struct BenchRow {
  Phase phase = Phase::kInvalid;
  uint32_t layer = 0;
  uint32_t tokens = 0;
  uint32_t repeats = 0;
  double median = 0;  // seconds of a call
  double least = 0;
  double most = 0;
  uint64_t weight_bytes = 0;  // of all ranks
  uint64_t operations = 0;
  // Of the machine's limit: what a call must take at least, to what it takes; none where no limit is known.
  std::optional<double> share;
  // The rank that computed longest, in the median call: without its collectives, or a calibration counted them twice.
  uint32_t slowest_rank = 0;
  double rank_seconds = 0;
  uint64_t rank_weight_bytes = 0;
  uint64_t rank_operations = 0;
  double waited = 0;  // in the median call, by the rank that waited longest for the others of its group
  std::optional<BenchCollective> collective;
  uint64_t wrong = 0;
};

// What stands above, or beside, all rows.
struct BenchHead {
  std::string plan_id;
  std::string version;
  std::string backend;
  bool emulated = false;
  uint32_t ranks = 0;
  MachineFacts machine;
  std::optional<MachineLimits> limits;  // none: devices compute, whose limits are not measured
};

// "md", "csv" or "jsonl" (versioned, stable: schema/simulate/calibration.h reads it).
std::string BenchHeadText(const BenchHead& head, absl::string_view format);
std::string BenchRowText(const BenchHead& head, const BenchRow& row, absl::string_view format);

// Prints to standard output, a row as soon as it is there. Reasons: those of SealedPlan::Open, of Session::Create and
// Session::Run; kUsage; those of ComputeOf; kLimit for a number of tokens above the plan's limit, before anything runs;
// kDiffers where a result is wrong.
absl::Status RunBench(const BenchFlags& flags);

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_RUN_BENCH_H_

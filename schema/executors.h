// Who executes plans in this version, and what they do not execute of what a plan can say. The compiler says it when a
// plan is made, `show` when one is looked at, and whoever binds one refuses it, all from the same table.
#ifndef MESHSEAL_SCHEMA_EXECUTORS_H_
#define MESHSEAL_SCHEMA_EXECUTORS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schema/plan.h"

namespace meshseal {

#define MESHSEAL_EXECUTORS(X)                                          \
  X(kReference, "reference") /* a backend of the host: threads, MPI */ \
  X(kCuda, "cuda")           /* NVIDIA GPUs of compute capability 8.0 and above */

enum class ExecutorKind : uint8_t {
#define MESHSEAL_ROW(enumerator, name) enumerator,
  MESHSEAL_EXECUTORS(MESHSEAL_ROW)
#undef MESHSEAL_ROW
};

inline constexpr ExecutorKind kExecutors[] = {
#define MESHSEAL_ROW(enumerator, name) ExecutorKind::enumerator,
    MESHSEAL_EXECUTORS(MESHSEAL_ROW)
#undef MESHSEAL_ROW
};

absl::string_view NameOf(ExecutorKind executor);
std::optional<ExecutorKind> ExecutorNamed(absl::string_view name);
std::vector<std::string> ExecutorNames();

// Whose plan it is: cuda where ranks have devices.
ExecutorKind ExecutorOf(const Plan& plan);

// The part of a plan's documents that a gap is about.
enum class GapPlace : uint8_t { kBasis, kRotation, kTokens, kRepack, kIdentity, kExperts, kDevice };

struct ExecutionGap {
  GapPlace place;
  std::string what;           // what the plan asks for
  absl::string_view nearest;  // what is executed instead
  uint32_t device_kind = 0;   // of kDevice: index into Mesh::device_kinds
};

// What `executor` does not do of what the plan asks for, each once; empty: it executes it. Of any plan, also one that a
// gate refuses.
std::vector<ExecutionGap> GapsOf(const Plan& plan, ExecutorKind executor);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_EXECUTORS_H_

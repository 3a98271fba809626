// What all ranks must agree on before anything is reserved.
#ifndef MESHSEAL_RUNTIME_SESSION_PREFLIGHT_H_
#define MESHSEAL_RUNTIME_SESSION_PREFLIGHT_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/comm/communicator.h"
#include "schema/sealed_plan.h"
#include "schema/sha256.h"

namespace meshseal::runtime {

// The version of this record and of the protocol behind it.
inline constexpr uint32_t kProtocol = 1;

// One rank's side, of a fixed size. All fields but `rank` are the same on all ranks.
struct RankRecord {
  uint32_t protocol = kProtocol;
  uint32_t world = 0;
  uint32_t rank = 0;
  Sha256Digest plan_id{};
  Sha256Digest execution_fingerprint{};
  std::array<char, 16> backend{};  // its name, cut and padded with zeros
};

RankRecord RecordOf(const SealedPlan& plan, uint32_t rank, absl::string_view backend);

// Collective over the world. Compares the records of all ranks; the verdict is the same on each of them.
// Reasons: kWorldSize for another number of ranks than the plan's, kRankRecord for a field that differs,
// which the text names with both values and the ranks that hold each; those of the communicator.
absl::Status Preflight(Communicator& world, const RankRecord& own);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_PREFLIGHT_H_

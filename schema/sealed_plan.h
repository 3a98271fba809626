// SealedPlan: a plan that passed every gate. The only thing a Session is made from, and only Open makes one.
#ifndef MESHSEAL_SCHEMA_SEALED_PLAN_H_
#define MESHSEAL_SCHEMA_SEALED_PLAN_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/gate.h"
#include "schema/plan.h"
#include "schema/seal.h"
#include "schema/sha256.h"

namespace meshseal {

// What the operator asks of a plan, beyond that it is sealed and coherent.
struct Policy {
  std::optional<Sha256Digest> pinned_id;
  uint64_t min_serial = 0;
};

// Move-only and immutable; safe to share between threads. A moved-from SealedPlan may only be destroyed.
class SealedPlan {
 public:
  // All gates over `file`, which is copied first: the caller's memory may change meanwhile. A refusal carries its
  // Reason and its text starts with the gate's name.
  static absl::StatusOr<SealedPlan> Open(absl::string_view file, const Policy& policy);

  SealedPlan(SealedPlan&&) noexcept = default;
  SealedPlan& operator=(SealedPlan&&) noexcept = default;
  SealedPlan(const SealedPlan&) = delete;
  SealedPlan& operator=(const SealedPlan&) = delete;
  ~SealedPlan() = default;

  const Plan& plan() const { return content_->plan; }
  const Sha256Digest& id() const { return content_->facts.plan_id; }
  uint64_t serial() const { return content_->facts.serial; }

 private:
  struct Content {
    SealFacts facts;
    Plan plan;
  };
  explicit SealedPlan(std::unique_ptr<const Content> content) : content_(std::move(content)) {}

  std::unique_ptr<const Content> content_;
};

// The gate that a refusal of SealedPlan::Open came from; nothing for any other status.
std::optional<Gate> GateOf(const absl::Status& refusal);

// The bytes of a plan file, read once into private memory: a regular file, no link followed, at most header + payload
// cap. Reason kUsage for a file that cannot be opened, kPayloadTooLarge for one above the cap.
absl::StatusOr<std::string> ReadPlanFile(const std::filesystem::path& path);

// Seals `plan` as of `serial` and opens the result: a plan that would be refused is never written. A refusal means a
// fault of the caller, the compiler.
absl::StatusOr<std::string> SealPlan(const Plan& plan, uint64_t serial);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SEALED_PLAN_H_

// SealedDigests: a digest list that passed every gate. Only Open makes one. Its trust is that of the plan that binds
// its id: it has no signature and no policy of its own.
#ifndef MESHSEAL_SCHEMA_SEALED_DIGESTS_H_
#define MESHSEAL_SCHEMA_SEALED_DIGESTS_H_

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/plan.h"
#include "schema/sha256.h"
#include "schema/weight_digests.h"

namespace meshseal {

// Move-only and immutable; safe to share between threads.
class SealedDigests final {
 public:
  // The gates mark, format, size, digest, structure and meaning over a copy of `file`. Meaning: names ascend, sizes are
  // those of dtype and shape, and every root follows from its leaves. A refusal carries its Reason and its text starts
  // with the gate's name.
  static absl::StatusOr<SealedDigests> Open(absl::string_view file);

  SealedDigests(SealedDigests&&) noexcept = default;
  SealedDigests& operator=(SealedDigests&&) noexcept = default;

  const WeightDigests& digests() const { return *digests_; }
  // What a plan binds.
  const Sha256Digest& id() const { return id_; }

 private:
  SealedDigests(std::unique_ptr<const WeightDigests> digests, const Sha256Digest& id)
      : digests_(std::move(digests)), id_(id) {}

  std::unique_ptr<const WeightDigests> digests_;
  Sha256Digest id_;
};

// The bytes of a sealed digest list. Reasons: those of Open, where the content does not pass.
absl::StatusOr<std::string> SealDigests(const WeightDigests& digests);

// Read once into private memory. Reasons: those of ReadSmallFile.
absl::StatusOr<std::string> ReadDigestsFile(const std::filesystem::path& path);

// Whether `digests` is the list that the plan binds. Reasons: kWeightsDigest for another one, kWeightsUnverified for a
// plan that binds none.
absl::Status CheckBound(const SealedDigests& digests, const Plan& plan);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SEALED_DIGESTS_H_

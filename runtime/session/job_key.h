// The secret that ranks on several hosts share: with it each of them proves that it belongs to the job.
//
// A rank's proof is HMAC-SHA256(key, "meshseal preflight 1" | rank, little-endian 32 bits | SHA-256 of the records of
// all ranks as it gathered them). The records hold a nonce of every rank, so that no proof is good for a second time.
#ifndef MESHSEAL_RUNTIME_SESSION_JOB_KEY_H_
#define MESHSEAL_RUNTIME_SESSION_JOB_KEY_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/sha256.h"

namespace meshseal::runtime {

inline constexpr size_t kFewestJobKeyBytes = 32;
inline constexpr size_t kMostJobKeyBytes = 4096;

// Copies share the bytes, which are wiped with the last of them.
class JobKey {
 public:
  // All bytes of a regular file that its owner alone may read or change. Reason kUsage, with what to do.
  static absl::StatusOr<JobKey> Read(const std::filesystem::path& path);

  // Of bytes that the caller has. Reason kUsage for a wrong number of them.
  static absl::StatusOr<JobKey> Of(absl::string_view bytes);

  Sha256Digest Proof(uint32_t rank, const Sha256Digest& records) const;

 private:
  explicit JobKey(std::shared_ptr<const std::string> bytes) : bytes_(std::move(bytes)) {}

  std::shared_ptr<const std::string> bytes_;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_JOB_KEY_H_

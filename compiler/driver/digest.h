// A checkpoint's digest list as one call: a manifest and files in, sealed bytes or diagnostics out.
#ifndef MESHSEAL_COMPILER_DRIVER_DIGEST_H_
#define MESHSEAL_COMPILER_DRIVER_DIGEST_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/driver/document.h"
#include "compiler/text/diagnostic.h"
#include "schema/hash_tensors.h"
#include "schema/sha256.h"

namespace meshseal::compiler {

struct DigestRequest {
  std::string model;    // path of the manifest
  std::string weights;  // of the checkpoint
  uint64_t segments = 1;
  std::optional<uint64_t> shared_segments;  // of the shared expert; nothing: as many
  unsigned threads = 1;
};

// Either diagnostics with errors, or sealed bytes and the figures.
struct DigestResult {
  SourceFiles files;
  Diagnostics diagnostics;
  std::string sealed;
  Sha256Digest id{};
  size_t tensors = 0;
  uint64_t leaves = 0;
  uint64_t bytes = 0;
};

// Hashes every tensor that a step of the model reads; the intermediate axis in as many segments as asked for, of whole
// blocks and tiles, as equal as possible, larger first, and the shared expert's width likewise. Reason kUsage: a file
// cannot be opened, or there are fewer units than segments; weights.*: the checkpoint is refused.
absl::StatusOr<DigestResult> Digest(const DigestRequest& request, ReportProgress report);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_DRIVER_DIGEST_H_

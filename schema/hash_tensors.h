// Hashes tensors of an open checkpoint, leaf by leaf, on several threads. Memory is bounded: a buffer of 4 MiB a
// thread.
#ifndef MESHSEAL_SCHEMA_HASH_TENSORS_H_
#define MESHSEAL_SCHEMA_HASH_TENSORS_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schema/checkpoint_listing.h"
#include "schema/regular_file.h"
#include "schema/weight_digests.h"

namespace meshseal {

struct HashProgress {
  uint64_t hashed_bytes = 0;
  uint64_t all_bytes = 0;
};
// Called on the caller's thread, about ten times a second.
using ReportProgress = absl::FunctionRef<void(const HashProgress&)>;

// The list of a checkpoint: every tensor that `classes` read, with the segments that the classes themselves say
// (segment_ends, shared_expert.segment_ends). The same whatever `threads` (at least 1) there are.
// `files` are those that the listing was made of. Reasons: kWeightsTensor with the tensor's name, and those of
// RegularFile::Read.
absl::StatusOr<WeightDigests> DigestCheckpoint(const std::string& model_name, uint64_t hidden,
                                               absl::Span<const LayerClass> classes, const CheckpointListing& listing,
                                               absl::Span<const RegularFile> files, unsigned threads,
                                               ReportProgress report);

// Whether the checkpoint's bytes are those of the list: every tensor that `classes` read, whole. Reasons:
// kWeightsTensor, kWeightsDigest naming tensor and leaf, and those of RegularFile::Read.
absl::Status VerifyCheckpoint(const WeightDigests& digests, uint64_t hidden, absl::Span<const LayerClass> classes,
                              const CheckpointListing& listing, absl::Span<const RegularFile> files, unsigned threads,
                              ReportProgress report);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_HASH_TENSORS_H_

// Digest lists of checkpoints that tests write.
#ifndef MESHSEAL_TESTS_SUPPORT_DIGEST_LIST_H_
#define MESHSEAL_TESTS_SUPPORT_DIGEST_LIST_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "schema/checkpoint_listing.h"
#include "schema/hash_tensors.h"
#include "schema/plan.h"
#include "schema/regular_file.h"
#include "schema/sealed_digests.h"

namespace meshseal::support {

// The sealed list of the checkpoint at `path`, with the segments of `plan`; the plan then binds it.
inline std::string BindDigests(const std::filesystem::path& path, Plan* plan) {
  std::vector<RegularFile> files;
  const absl::StatusOr<CheckpointListing> listing = CheckpointListing::Open(path, &files);
  EXPECT_TRUE(listing.ok()) << listing.status();
  const absl::StatusOr<WeightDigests> digests = DigestCheckpoint(plan->model_name, plan->hidden, plan->layer_classes,
                                                                 *listing, files, 1, [](const HashProgress&) {});
  EXPECT_TRUE(digests.ok()) << digests.status();
  absl::StatusOr<std::string> sealed = SealDigests(*digests);
  EXPECT_TRUE(sealed.ok()) << sealed.status();
  const absl::StatusOr<SealedDigests> opened = SealedDigests::Open(*sealed);
  EXPECT_TRUE(opened.ok()) << opened.status();
  plan->weights_digest = opened->id();
  return *std::move(sealed);
}

}  // namespace meshseal::support

#endif  // MESHSEAL_TESTS_SUPPORT_DIGEST_LIST_H_

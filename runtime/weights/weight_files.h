// Where weights come from: a checkpoint, held against a plan before a byte of weights is read; or, for a plan of
// synthetic weights, nowhere.
#ifndef MESHSEAL_RUNTIME_WEIGHTS_WEIGHT_FILES_H_
#define MESHSEAL_RUNTIME_WEIGHTS_WEIGHT_FILES_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/weights/atom.h"
#include "schema/atom_bytes.h"
#include "schema/checkpoint_listing.h"
#include "schema/regular_file.h"
#include "schema/sealed_plan.h"
#include "schema/weight_digests.h"

namespace meshseal::runtime {

// Move-only. Const members may be called from several threads at once. Holds every file open from the check on, so that
// what is read is what was checked, whatever happens to the paths.
class WeightFiles {
 public:
  // Opens the checkpoint at `path` (CheckpointListing says what that may be) and checks the headers: every tensor that
  // a role of the plan reads is there as the plan says, and every other one is covered by one of the plan's ignored
  // patterns. Synthetic weights have no path. `digests`, if any, are the list that the plan binds; every tensor that is
  // read must be one of it, as the file stores it. They must live longer. Reasons: weights.*, kUsage.
  static absl::StatusOr<WeightFiles> Open(const SealedPlan& plan, const std::filesystem::path& path,
                                          const WeightDigests* digests);

  // The atom's bytes in the order of StoredTensor::Atom into `out`, whose size is theirs; a scale that gate and up
  // share is given to each. Reasons: kWeightsTruncated for a file that has become shorter, kWeightsFile, kBug for
  // another size.
  absl::Status Read(const Atom& atom, absl::Span<std::byte> out) const;

  // Whether the atom's bytes, as Read gave them, are those of the digest list; OK where there is none. Reason
  // kWeightsDigest, with file, tensor and leaf.
  absl::Status Verify(const Atom& atom, absl::Span<const std::byte> bytes) const;

  // A place in the order of the bytes on disk: file and offset.
  std::pair<uint32_t, uint64_t> PlaceOf(const Atom& atom) const;

  // "FILE: tensor 'NAME'", for messages.
  std::string PlaceText(const Atom& atom) const;

 private:
  explicit WeightFiles(uint64_t seed) : seed_(seed) {}
  WeightFiles(std::filesystem::path path, CheckpointListing listing, std::vector<RegularFile> files,
              const WeightDigests* digests)
      : path_(std::move(path)), listing_(std::move(listing)), files_(std::move(files)), digests_(digests) {}

  // "FILE: tensor 'NAME'".
  std::string Who(const ListedTensor& listed) const;
  absl::StatusOr<const ListedTensor*> Find(absl::string_view name) const;
  // The tensor as its file stores it; a refusal when that is not as the plan says.
  absl::StatusOr<StoredTensor> Stored(const LayerTensor& of, const ListedTensor& listed) const;
  // Where a tensor of the plan's layer lies in the digest list, which has it as the file stores it.
  absl::StatusOr<TensorLeaves> Leaves(const StoredTensor& stored, const ListedTensor& listed, const Atom& atom) const;

  uint64_t seed_ = 0;
  std::filesystem::path path_;
  std::optional<CheckpointListing> listing_;  // none: the weights are synthetic
  std::vector<RegularFile> files_;            // of listing_
  const WeightDigests* digests_ = nullptr;    // null: nothing is verified
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_WEIGHTS_WEIGHT_FILES_H_

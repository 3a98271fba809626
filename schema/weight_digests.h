// The digests of a checkpoint's weights: what a sealed digest list says, and how its trees are made.
//
// A tensor's leaves are its atoms (atom_bytes.h), expert by expert and in each expert segment by segment. An atom above
// 4 MiB is several leaves: of as many rows as fit in 4 MiB, at least one, in order.
//
//   leaf  SHA-256(00 || u64 length || bytes)
//   node  SHA-256(01 || left || right), level by level; a last odd node moves up as it is
//   root  SHA-256(02 || u64 length of the name || name || u8 dtype || u64 axes || u64 of each axis, slowest first ||
//                 u64 leaves || top)
//
// All integers are little-endian; a dtype is its value in dtypes.def; axes are those of the file. So a tensor keeps its
// root when shards are regrouped, and another packing of the same numbers is another root.
#ifndef MESHSEAL_SCHEMA_WEIGHT_DIGESTS_H_
#define MESHSEAL_SCHEMA_WEIGHT_DIGESTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/atom_bytes.h"
#include "schema/dtype.h"
#include "schema/plan.h"
#include "schema/sha256.h"
#include "schema/terms.h"

namespace meshseal {

inline constexpr uint16_t kDigestsFormatMajor = 0;
inline constexpr uint16_t kDigestsFormatMinor = 1;

inline constexpr uint64_t kLeafBytes = uint64_t{4} << 20;

// The canonical segments of some layers.
struct LayerSegments {
  std::vector<LayerRange> layers;      // ascending, disjoint
  std::vector<uint32_t> segment_ends;  // of the intermediate axis, ascending
  std::vector<uint32_t> shared_ends;   // of the shared expert's width; empty without one
  friend bool operator==(const LayerSegments&, const LayerSegments&) = default;
};

// One tensor, as the file stores it.
struct TensorDigests {
  std::string name;
  DType dtype = DType::kInvalid;
  std::vector<uint64_t> shape;  // slowest axis first
  uint64_t bytes = 0;
  Sha256Digest root{};
  std::vector<Sha256Digest> leaves;
  friend bool operator==(const TensorDigests&, const TensorDigests&) = default;
};

// The content of a digest list. It says nothing of the program that made it: equal checkpoints give equal lists.
struct WeightDigests {
  std::string model_name;
  WeightSource source = WeightSource::kInvalid;  // kSafetensors or kGguf
  std::vector<LayerSegments> layers;             // by first layer; no layer twice
  std::vector<TensorDigests> tensors;            // by name; every tensor that a step reads

  // Null where there is none.
  const TensorDigests* Find(absl::string_view name) const;
  const LayerSegments* SegmentsOf(uint32_t layer) const;

  friend bool operator==(const WeightDigests&, const WeightDigests&) = default;
};

// The ends of the segments along the axis that this role's atoms cut.
absl::Span<const uint32_t> EndsFor(const LayerSegments& segments, TensorRole role);

// A leaf, from its length and then its bytes, in pieces of any size.
class LeafHasher {
 public:
  explicit LeafHasher(uint64_t length);
  void Update(absl::Span<const std::byte> bytes);
  // The digest; called once, after `length` bytes.
  Sha256Digest Finish();

 private:
  Sha256Stream stream_;
};
Sha256Digest HashLeaf(absl::Span<const std::byte> bytes);

// The root over `leaves`, of which there is at least one.
Sha256Digest TreeRoot(absl::string_view name, DType dtype, absl::Span<const uint64_t> shape,
                      absl::Span<const Sha256Digest> leaves);

// Which bytes each leaf of a tensor has. Immutable.
class TensorLeaves {
 public:
  // `segment_ends` are not read for a tensor whose atoms are not cut by columns. Reason kWeightsTensor where a segment
  // ends inside a block, or the segments are not all columns.
  static absl::StatusOr<TensorLeaves> Of(const StoredTensor& tensor, absl::Span<const uint32_t> segment_ends);

  const StoredTensor& tensor() const { return tensor_; }
  uint64_t count() const { return tensor_.experts() * LeavesOfExpert(); }
  // Segments of an expert: 1 where atoms are not cut.
  size_t segments() const { return last_leaf_.size(); }
  // The columns of a segment; [0,0) where atoms are not cut.
  Interval ColumnsOf(size_t segment) const;

  // Leaf numbers [first, last) of an atom; `expert` as StoredTensor::Atom takes it. Where atoms are not cut, segment 0.
  struct Range {
    uint64_t first = 0;
    uint64_t last = 0;
  };
  Range LeavesOf(uint64_t expert, size_t segment) const;

  // The bytes of leaf `leaf`, below count(), in the order in which they are hashed.
  std::vector<ByteRuns> BytesOf(uint64_t leaf) const;

 private:
  explicit TensorLeaves(const StoredTensor& tensor) : tensor_(tensor) {}

  uint64_t LeavesOfExpert() const { return last_leaf_.back(); }
  // The atom's bytes: of a segment that Of has seen.
  std::vector<ByteRuns> Atom(uint64_t expert, size_t segment) const;

  StoredTensor tensor_;
  std::vector<uint32_t> segment_ends_;  // empty where atoms are not cut
  std::vector<uint64_t> last_leaf_;     // per segment: one past its last leaf, of an expert
};

// The bytes of some runs.
uint64_t SizeOf(absl::Span<const ByteRuns> runs);

// How `tensor` of the list lies in leaves. `tensor` and `digests` belong together. Reasons: kWeightsDigest where the
// list has another number of leaves, and that of TensorLeaves.
absl::StatusOr<TensorLeaves> LeavesInList(const StoredTensor& tensor, const TensorDigests& digests,
                                          absl::Span<const uint32_t> segment_ends);

// One tensor of a checkpoint that steps read, by its own name.
struct ReadTensor {
  std::string name;
  uint32_t layer = 0;
  uint32_t expert = 0;  // of a tensor per expert; 0 otherwise
  LayerTensor tensor;
};
// All of them: by layer class, layer, role, side and expert. `classes` must outlive the result.
std::vector<ReadTensor> ReadTensors(uint64_t hidden, absl::Span<const LayerClass> classes);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_WEIGHT_DIGESTS_H_

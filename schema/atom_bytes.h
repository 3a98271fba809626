// Which bytes of a stored tensor are an atom: the part of one expert that belongs to a run of columns of the
// intermediate axis (or of the shared expert's width). One geometry for digests, loading and checking.
//
// A stored tensor is one matrix for each expert it holds, the slow axis in rows. An atom's bytes are in row order:
// where the columns lie along the slow axis, whole rows; where they lie along the fast axis, a piece of every row, one
// row after the other. Of fused gate and up in halves the gate part comes first, then the up part, both likewise;
// interleaved rows stay pairs. A block of a block format is never parted. Scale tensors are cut on their own grid, and
// a scalar is never cut: it belongs to every atom of its expert. What has no such columns (router, biases of it, token
// table, down's bias) has the same bytes for all columns.
#ifndef MESHSEAL_SCHEMA_ATOM_BYTES_H_
#define MESHSEAL_SCHEMA_ATOM_BYTES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schema/intervals.h"
#include "schema/plan.h"

namespace meshseal {

// One tensor of a layer: a weight (`side` null) or a side tensor of it. Of the layer class, experts, top_k,
// intermediate, the router's vocabulary and the shared expert's width are read. All must outlive the LayerTensor.
struct LayerTensor {
  uint64_t hidden = 0;
  const LayerClass* layer_class = nullptr;
  const TensorClass* tensor = nullptr;
  const SideTensor* side = nullptr;
};

// One way in which a file stores a tensor.
struct StoredForm {
  DType dtype = DType::kInvalid;
  std::vector<uint64_t> shape;  // slowest axis first
  friend bool operator==(const StoredForm&, const StoredForm&) = default;
};

// How files of `source` may store the tensor, the usual way first: 4-bit weights with scales apart are bytes of two, or
// blocks as an axis of their own; a scale of a whole matrix may have axes of length 1, or be one for all experts. Empty
// for a role, an axis or a dtype outside their tables, or blocks of size 0.
std::vector<StoredForm> StoredForms(const LayerTensor& tensor, WeightSource source);

// Whether a shape that a file of `source` has is the `expected` one: GGUF drops the slowest axes of length 1.
bool IsStoredShape(absl::Span<const uint64_t> found, absl::Span<const uint64_t> expected, WeightSource source);

// `count` rows of `bytes` each: the first at `begin` from the tensor's first byte, each next one `stride` further on.
// Where bytes == stride they are one run.
struct ByteRuns {
  uint64_t begin = 0;
  uint64_t bytes = 0;
  uint64_t stride = 0;
  uint64_t count = 0;
  friend bool operator==(const ByteRuns&, const ByteRuns&) = default;
};

// A tensor of a layer as a file stores it. Immutable. Every offset and size is below bytes().
class StoredTensor {
 public:
  // `found` is what the file's header says. Reason kWeightsTensor, found and expected without the tensor's name, where
  // it is none of StoredForms.
  static absl::StatusOr<StoredTensor> Of(const LayerTensor& tensor, WeightSource source, const StoredForm& found);

  // Whole, as the header says.
  uint64_t bytes() const { return matrices_ * MatrixBytes(); }
  // How many experts it holds apart: all of the layer in one tensor, or 1, also where one scalar is for all of them.
  uint64_t experts() const { return matrices_; }
  // The length of the axis that atoms cut; 0 where they do not.
  uint32_t columns() const { return columns_; }

  // The atom's bytes, in this order: one ByteRuns, or two of the same row size for gate and up in halves. `expert` is
  // an index among experts(), and not read where that is 1. `columns` are not empty and inside [0, columns()); not read
  // where that is 0. Reason kWeightsTensor for a cut inside a block or a tile. Where gate's last scale block holds rows
  // of up too, only all columns together are an atom, in one ByteRuns.
  absl::StatusOr<std::vector<ByteRuns>> Atom(uint64_t expert, const Interval& columns) const;

 private:
  enum class Cut : uint8_t { kNone, kRows, kPieces };

  StoredTensor() = default;

  uint64_t MatrixBytes() const { return rows_ * row_bytes_; }
  absl::StatusOr<Interval> Units(uint32_t part, const Interval& columns) const;

  uint64_t matrices_ = 1;
  uint64_t rows_ = 1;  // of one matrix
  uint64_t row_bytes_ = 0;
  Cut cut_ = Cut::kNone;
  uint32_t columns_ = 0;
  // The cut axis is `parts_` times the columns, `per_column_` elements for each; a stored unit holds `block_` of them,
  // counted from the beginning of each part (own_blocks_) or of the axis.
  uint32_t parts_ = 1;
  uint32_t per_column_ = 1;
  uint32_t block_ = 1;
  bool own_blocks_ = false;
  uint64_t unit_bytes_ = 0;  // along the fast axis
};

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_ATOM_BYTES_H_

#include "schema/weight_digests.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "schema/checked_math.h"
#include "schema/meaning/shape_facts.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/tensor_name.h"

namespace meshseal {
namespace {

// The first byte of what is hashed: no leaf can be taken for a node.
constexpr uint8_t kLeafMark = 0;
constexpr uint8_t kNodeMark = 1;
constexpr uint8_t kRootMark = 2;

void AddByte(Sha256Stream& stream, uint8_t byte) { stream.Update(&byte, 1); }

void AddNumber(Sha256Stream& stream, uint64_t number) {
  std::array<uint8_t, 8> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(number >> (8 * i));
  stream.Update(bytes.data(), bytes.size());
}

Sha256Digest HashNode(const Sha256Digest& left, const Sha256Digest& right) {
  Sha256Stream stream;
  AddByte(stream, kNodeMark);
  stream.Update(left.data(), left.size());
  stream.Update(right.data(), right.size());
  return stream.Finish();
}

uint64_t RowsPerLeaf(uint64_t row_bytes) { return std::max<uint64_t>(1, kLeafBytes / row_bytes); }

uint64_t RowsOf(absl::Span<const ByteRuns> atom) {
  uint64_t rows = 0;
  for (const ByteRuns& runs : atom) rows += runs.count;
  return rows;
}

}  // namespace

const TensorDigests* WeightDigests::Find(absl::string_view name) const {
  const auto at = std::lower_bound(tensors.begin(), tensors.end(), name,
                                   [](const TensorDigests& t, absl::string_view wanted) { return t.name < wanted; });
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

const LayerSegments* WeightDigests::SegmentsOf(uint32_t layer) const {
  for (const LayerSegments& segments : layers) {
    for (const LayerRange& range : segments.layers) {
      if (range.first <= layer && layer < range.last) return &segments;
    }
  }
  return nullptr;
}

absl::Span<const uint32_t> EndsFor(const LayerSegments& segments, TensorRole role) {
  const meaning::RoleFacts* facts = meaning::FactsOf(role);
  return facts != nullptr && facts->per_expert ? segments.segment_ends : segments.shared_ends;
}

LeafHasher::LeafHasher(uint64_t length) {
  AddByte(stream_, kLeafMark);
  AddNumber(stream_, length);
}

void LeafHasher::Update(absl::Span<const std::byte> bytes) { stream_.Update(bytes.data(), bytes.size()); }

Sha256Digest LeafHasher::Finish() { return stream_.Finish(); }

Sha256Digest HashLeaf(absl::Span<const std::byte> bytes) {
  LeafHasher hasher(bytes.size());
  hasher.Update(bytes);
  return hasher.Finish();
}

Sha256Digest TreeRoot(absl::string_view name, DType dtype, absl::Span<const uint64_t> shape,
                      absl::Span<const Sha256Digest> leaves) {
  std::vector<Sha256Digest> level(leaves.begin(), leaves.end());
  while (level.size() > 1) {
    const size_t pairs = level.size() / 2;
    for (size_t i = 0; i < pairs; ++i) level[i] = HashNode(level[2 * i], level[2 * i + 1]);
    if (level.size() % 2 == 1) level[pairs] = level.back();
    level.resize(pairs + level.size() % 2);
  }
  Sha256Stream stream;
  AddByte(stream, kRootMark);
  AddNumber(stream, name.size());
  stream.Update(name.data(), name.size());
  AddByte(stream, static_cast<uint8_t>(dtype));
  AddNumber(stream, shape.size());
  for (const uint64_t extent : shape) AddNumber(stream, extent);
  AddNumber(stream, leaves.size());
  stream.Update(level.front().data(), level.front().size());
  return stream.Finish();
}

absl::StatusOr<TensorLeaves> TensorLeaves::Of(const StoredTensor& tensor, absl::Span<const uint32_t> segment_ends) {
  TensorLeaves leaves(tensor);
  const bool cut = tensor.columns() > 0;
  if (cut) leaves.segment_ends_.assign(segment_ends.begin(), segment_ends.end());
  if (cut && (segment_ends.empty() || segment_ends.back() != tensor.columns())) {
    return Refuse(Reason::kWeightsTensor,
                  absl::StrCat("segments up to column ", segment_ends.empty() ? 0 : segment_ends.back(), " of ",
                               tensor.columns()));
  }
  uint64_t last = 0;
  for (size_t segment = 0; segment < (cut ? segment_ends.size() : 1); ++segment) {
    MESHSEAL_ASSIGN_OR_RETURN(const std::vector<ByteRuns> atom, tensor.Atom(0, leaves.ColumnsOf(segment)));
    last += CeilDiv(RowsOf(atom), RowsPerLeaf(atom.front().bytes));
    leaves.last_leaf_.push_back(last);
  }
  return leaves;
}

Interval TensorLeaves::ColumnsOf(size_t segment) const {
  if (segment_ends_.empty()) return {};
  return {segment == 0 ? 0 : segment_ends_[segment - 1], segment_ends_[segment]};
}

TensorLeaves::Range TensorLeaves::LeavesOf(uint64_t expert, size_t segment) const {
  const uint64_t before = tensor_.experts() == 1 ? 0 : expert * LeavesOfExpert();
  return {before + (segment == 0 ? 0 : last_leaf_[segment - 1]), before + last_leaf_[segment]};
}

std::vector<ByteRuns> TensorLeaves::Atom(uint64_t expert, size_t segment) const {
  return tensor_.Atom(expert, ColumnsOf(segment)).value();
}

std::vector<ByteRuns> TensorLeaves::BytesOf(uint64_t leaf) const {
  const uint64_t expert = leaf / LeavesOfExpert();
  const uint64_t of_expert = leaf % LeavesOfExpert();
  const auto segment =
      static_cast<size_t>(std::upper_bound(last_leaf_.begin(), last_leaf_.end(), of_expert) - last_leaf_.begin());
  const std::vector<ByteRuns> atom = Atom(expert, segment);
  // The rows of the atom that are in the leaf.
  const uint64_t per_leaf = RowsPerLeaf(atom.front().bytes);
  uint64_t skipped = (leaf - LeavesOf(expert, segment).first) * per_leaf;
  uint64_t wanted = per_leaf;
  std::vector<ByteRuns> bytes;
  for (const ByteRuns& runs : atom) {
    const uint64_t rows = std::min(wanted, runs.count - std::min(skipped, runs.count));
    if (rows > 0) bytes.push_back({runs.begin + skipped * runs.stride, runs.bytes, runs.stride, rows});
    skipped -= std::min(skipped, runs.count);
    wanted -= rows;
  }
  return bytes;
}

uint64_t SizeOf(absl::Span<const ByteRuns> runs) {
  uint64_t size = 0;
  for (const ByteRuns& run : runs) size += run.bytes * run.count;
  return size;
}

absl::StatusOr<TensorLeaves> LeavesInList(const StoredTensor& tensor, const TensorDigests& digests,
                                          absl::Span<const uint32_t> segment_ends) {
  MESHSEAL_ASSIGN_OR_RETURN(TensorLeaves leaves, TensorLeaves::Of(tensor, segment_ends));
  if (leaves.count() == digests.leaves.size()) return leaves;
  return Refuse(Reason::kWeightsDigest,
                absl::StrCat(digests.leaves.size(), " leaves in the digest list, expected ", leaves.count()));
}

std::vector<ReadTensor> ReadTensors(uint64_t hidden, absl::Span<const LayerClass> classes) {
  std::vector<ReadTensor> read;
  for (const LayerClass& c : classes) {
    for (const LayerRange& range : c.layers) {
      for (uint32_t layer = range.first; layer < range.last; ++layer) {
        for (const TensorClass& tensor : c.tensors) {
          const meaning::RoleFacts* facts = meaning::FactsOf(tensor.role);
          const bool by_name = facts != nullptr && facts->per_expert &&
                               (tensor.shape.empty() || tensor.shape.front() != ShapeAxis::kExperts);
          const uint32_t experts = by_name ? c.experts : 1;
          const auto add = [&](const std::string& pattern, const SideTensor* side) {
            for (uint32_t expert = 0; expert < experts; ++expert) {
              read.push_back({TensorName(pattern, layer, expert), layer, expert, {hidden, &c, &tensor, side}});
            }
          };
          add(tensor.name, nullptr);
          for (const SideTensor& side : tensor.sides) add(side.name, &side);
        }
      }
    }
  }
  return read;
}

}  // namespace meshseal

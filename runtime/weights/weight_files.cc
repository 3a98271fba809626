#include "runtime/weights/weight_files.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/weights/synthetic_weights.h"
#include "schema/meaning/shape_facts.h"
#include "schema/nearest.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/tensor_name.h"

namespace meshseal::runtime {
namespace {

// Pieces below a page are copied out of the rows that they lie in: the disk reads those in any case.
constexpr uint64_t kSmallPiece = 4096;
constexpr uint64_t kRowsAtOnce = uint64_t{1} << 20;  // bytes

bool IsIgnored(const Plan& plan, absl::string_view name) {
  return std::any_of(plan.ignored_tensors.begin(), plan.ignored_tensors.end(),
                     [name](const std::string& pattern) { return MatchesPattern(pattern, name); });
}

// Where the byte that the tensor has at `offset` lies in the atom's, which has it.
uint64_t PlaceInAtom(absl::Span<const ByteRuns> atom, uint64_t offset) {
  uint64_t before = 0;
  for (const ByteRuns& runs : atom) {
    const uint64_t distance = offset - runs.begin;  // wraps where the byte lies before the run: the row is no row of it
    if (distance / runs.stride < runs.count && distance % runs.stride < runs.bytes) {
      return before + distance / runs.stride * runs.bytes + distance % runs.stride;
    }
    before += runs.bytes * runs.count;
  }
  return before;  // no byte of it: the caller's sizes do not fit
}

absl::Status ReadRuns(const RegularFile& file, uint64_t begin, const ByteRuns& runs, absl::Span<std::byte> out) {
  const uint64_t first = begin + runs.begin;
  if (runs.bytes == runs.stride || runs.count == 1) return file.Read(first, out);
  if (runs.bytes >= kSmallPiece) {
    for (uint64_t row = 0; row < runs.count; ++row) {
      MESHSEAL_RETURN_IF_ERROR(file.Read(first + row * runs.stride, out.subspan(row * runs.bytes, runs.bytes)));
    }
    return absl::OkStatus();
  }
  const uint64_t at_once = std::max<uint64_t>(1, kRowsAtOnce / runs.stride);
  std::vector<std::byte> rows;
  for (uint64_t row = 0; row < runs.count; row += at_once) {
    const uint64_t count = std::min(at_once, runs.count - row);
    rows.resize((count - 1) * runs.stride + runs.bytes);  // not past the tensor's last piece
    MESHSEAL_RETURN_IF_ERROR(file.Read(first + row * runs.stride, absl::MakeSpan(rows)));
    for (uint64_t i = 0; i < count; ++i) {
      std::memcpy(out.data() + (row + i) * runs.bytes, rows.data() + i * runs.stride, runs.bytes);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WeightFiles> WeightFiles::Open(const SealedPlan& sealed, const std::filesystem::path& path,
                                              const WeightDigests* digests) {
  const Plan& plan = sealed.plan();
  if (plan.weight_source == WeightSource::kSynthetic) {
    if (path.empty()) return WeightFiles(plan.weight_seed);
    return Refuse(Reason::kUsage, absl::StrCat(path.string(), ": the plan's weights are synthetic, nothing is read"));
  }
  std::vector<RegularFile> opened;
  MESHSEAL_ASSIGN_OR_RETURN(CheckpointListing listing, CheckpointListing::Open(path, &opened));
  if (listing.source() != plan.weight_source) {
    return Refuse(Reason::kWeightsFile, absl::StrCat(path.string(), ": holds ", WordOf(listing.source()),
                                                     " weights, the plan's are ", WordOf(plan.weight_source)));
  }
  WeightFiles files(path, std::move(listing), std::move(opened), digests);
  const absl::Span<const ListedTensor> tensors = files.listing_->tensors();
  std::vector<bool> is_read(tensors.size(), false);
  for (const ReadTensor& read : ReadTensors(plan.hidden, plan.layer_classes)) {
    MESHSEAL_ASSIGN_OR_RETURN(const ListedTensor* const listed, files.Find(read.name));
    MESHSEAL_ASSIGN_OR_RETURN(const StoredTensor stored, files.Stored(read.tensor, *listed));
    if (digests != nullptr) {
      MESHSEAL_RETURN_IF_ERROR(files.Leaves(stored, *listed, {read.tensor, read.layer, read.expert, {}}).status());
    }
    is_read[static_cast<size_t>(listed - tensors.data())] = true;
  }
  for (size_t i = 0; i < is_read.size(); ++i) {
    if (is_read[i] || IsIgnored(plan, tensors[i].name)) continue;
    return Refuse(Reason::kWeightsTensor,
                  absl::StrCat(files.Who(tensors[i]), ": no step reads it and no ignored pattern covers it"));
  }
  return files;
}

std::string WeightFiles::Who(const ListedTensor& listed) const {
  return absl::StrCat(files_[listed.file].path(), ": tensor ", QuotedName(listed.name));
}

absl::StatusOr<const ListedTensor*> WeightFiles::Find(absl::string_view name) const {
  const ListedTensor* const listed = listing_->Find(name);
  if (listed != nullptr) return listed;
  std::vector<absl::string_view> names;
  names.reserve(listing_->tensors().size());
  for (const ListedTensor& tensor : listing_->tensors()) names.push_back(tensor.name);
  const std::optional<absl::string_view> nearest = Nearest(name, names);
  const bool one = files_.size() == 1;
  return Refuse(Reason::kWeightsTensor,
                absl::StrCat(one ? files_.front().path() : path_.string(), ": tensor ", QuotedName(name),
                             ": not in the ", one ? "file" : "files",
                             nearest.has_value() ? absl::StrCat(", did you mean ", QuotedName(*nearest), "?") : ""));
}

absl::StatusOr<StoredTensor> WeightFiles::Stored(const LayerTensor& of, const ListedTensor& listed) const {
  absl::StatusOr<StoredTensor> stored = StoredTensor::Of(of, listing_->source(), {listed.dtype, listed.shape});
  if (stored.ok()) return stored;
  return Refuse(*ReasonOf(stored.status()), absl::StrCat(Who(listed), ": ", stored.status().message()));
}

absl::Status WeightFiles::Read(const Atom& atom, absl::Span<std::byte> out) const {
  if (!listing_.has_value()) return MakeSynthetic(seed_, atom, out);
  MESHSEAL_ASSIGN_OR_RETURN(const ListedTensor* const listed, Find(NameOf(atom)));
  MESHSEAL_ASSIGN_OR_RETURN(const StoredTensor stored, Stored(atom.of, *listed));
  const absl::StatusOr<std::vector<ByteRuns>> runs = stored.Atom(atom.expert, atom.columns);
  if (!runs.ok()) {
    return Refuse(*ReasonOf(runs.status()), absl::StrCat(Who(*listed), ": ", runs.status().message()));
  }
  const uint64_t bytes = SizeOf(*runs);
  const bool shared_scale = atom.of.side != nullptr && !meaning::HasBlock(*atom.of.side) && out.size() == 2 * bytes;
  if (out.size() != bytes && !shared_scale) {
    return Refuse(Reason::kBug, absl::StrCat(Who(*listed), ": ", out.size(), " bytes for an atom of ", bytes));
  }
  uint64_t filled = 0;
  for (const ByteRuns& part : *runs) {
    const uint64_t size = part.bytes * part.count;
    MESHSEAL_RETURN_IF_ERROR(ReadRuns(files_[listed->file], listed->begin, part, out.subspan(filled, size)));
    filled += size;
  }
  if (shared_scale) std::memcpy(out.data() + bytes, out.data(), bytes);
  return absl::OkStatus();
}

absl::StatusOr<TensorLeaves> WeightFiles::Leaves(const StoredTensor& stored, const ListedTensor& listed,
                                                 const Atom& atom) const {
  const auto refuse = [&](absl::string_view what) {
    return Refuse(Reason::kWeightsDigest, absl::StrCat(Who(listed), ": ", what));
  };
  const TensorDigests* const known = digests_->Find(listed.name);
  if (known == nullptr) return refuse("is not in the digest list");
  if (known->dtype != listed.dtype || known->shape != listed.shape) {
    return refuse(absl::StrCat("is ", std::string(DTypeName(listed.dtype)), " [", absl::StrJoin(listed.shape, ", "),
                               "] in the file, in the digest list ", std::string(DTypeName(known->dtype)), " [",
                               absl::StrJoin(known->shape, ", "), "]"));
  }
  const LayerSegments* const segments = digests_->SegmentsOf(atom.layer);
  if (segments == nullptr) return refuse(absl::StrCat("the digest list has no layer ", atom.layer));
  absl::StatusOr<TensorLeaves> leaves = LeavesInList(stored, *known, EndsFor(*segments, atom.of.tensor->role));
  return leaves.ok() ? std::move(leaves) : refuse(leaves.status().message());
}

absl::Status WeightFiles::Verify(const Atom& atom, absl::Span<const std::byte> bytes) const {
  if (digests_ == nullptr) return absl::OkStatus();
  MESHSEAL_ASSIGN_OR_RETURN(const ListedTensor* const listed, Find(NameOf(atom)));
  MESHSEAL_ASSIGN_OR_RETURN(const StoredTensor stored, Stored(atom.of, *listed));
  MESHSEAL_ASSIGN_OR_RETURN(const TensorLeaves leaves, Leaves(stored, *listed, atom));
  MESHSEAL_ASSIGN_OR_RETURN(const std::vector<ByteRuns> atom_runs, stored.Atom(atom.expert, atom.columns));
  const std::vector<Sha256Digest>& expected = digests_->Find(listed->name)->leaves;
  uint64_t covered = 0;
  for (size_t segment = 0; segment < leaves.segments(); ++segment) {
    const Interval columns = leaves.ColumnsOf(segment);
    const bool whole = stored.columns() == 0;
    if (!whole && (columns.first < atom.columns.first || columns.last > atom.columns.last)) continue;
    const TensorLeaves::Range range = leaves.LeavesOf(atom.expert, segment);
    for (uint64_t leaf = range.first; leaf < range.last; ++leaf) {
      const std::vector<ByteRuns> leaf_runs = leaves.BytesOf(leaf);
      LeafHasher hasher(SizeOf(leaf_runs));
      covered += SizeOf(leaf_runs);
      for (const ByteRuns& runs : leaf_runs) {
        for (uint64_t row = 0; row < runs.count; ++row) {
          hasher.Update(bytes.subspan(PlaceInAtom(atom_runs, runs.begin + row * runs.stride), runs.bytes));
        }
      }
      if (hasher.Finish() == expected[leaf]) continue;
      return Refuse(Reason::kWeightsDigest,
                    absl::StrCat(Who(*listed), ": expert ", atom.expert, ", leaf ", leaf, " of ", expected.size(),
                                 ": the bytes are not those of the digest list"));
    }
  }
  if (covered == SizeOf(atom_runs)) return absl::OkStatus();
  return Refuse(Reason::kWeightsDigest, absl::StrCat(Who(*listed), ": columns [", atom.columns.first, ",",
                                                     atom.columns.last, ") are no whole segments of the digest list"));
}

std::pair<uint32_t, uint64_t> WeightFiles::PlaceOf(const Atom& atom) const {
  const ListedTensor* const listed = listing_.has_value() ? listing_->Find(NameOf(atom)) : nullptr;
  if (listed == nullptr) return {0, 0};
  const bool stacked =
      atom.of.tensor->shape.front() == ShapeAxis::kExperts && meaning::FactsOf(atom.of.tensor->role)->per_expert;
  return {listed->file, listed->begin + (stacked ? listed->bytes / atom.of.layer_class->experts * atom.expert : 0)};
}

std::string WeightFiles::PlaceText(const Atom& atom) const {
  const std::string name = NameOf(atom);
  const ListedTensor* const listed = listing_.has_value() ? listing_->Find(name) : nullptr;
  return listed == nullptr ? absl::StrCat("tensor ", QuotedName(name)) : Who(*listed);
}

}  // namespace meshseal::runtime

#include "schema/hash_tensors.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/within_memory.h"

namespace meshseal {
namespace {

// What is hashed: a tensor of the listing and its leaves.
struct HashedTensor {
  const ListedTensor* listed = nullptr;
  TensorLeaves leaves;
};

constexpr size_t kBufferBytes = size_t{4} << 20;
constexpr std::chrono::milliseconds kReportEvery(100);

// The work of all threads: leaves, in one row over all tensors.
class Hashing {
 public:
  Hashing(absl::Span<const HashedTensor> tensors, absl::Span<const RegularFile> files)
      : tensors_(tensors), files_(files), digests_(tensors.size()) {
    uint64_t leaves = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
      digests_[i].resize(tensors[i].leaves.count());
      leaves += digests_[i].size();
      last_leaf_.push_back(leaves);
      all_bytes_ += tensors[i].listed->bytes;
    }
  }

  // What one thread does until there is no work left, or somebody fails.
  void Work() {
    const absl::Status done = WithinMemory([this] {
      std::vector<std::byte> buffer(kBufferBytes);
      for (uint64_t leaf = next_++; leaf < LeafCount() && !failed_; leaf = next_++) {
        if (absl::Status hashed = HashOne(leaf, absl::MakeSpan(buffer)); !hashed.ok()) Fail(leaf, std::move(hashed));
      }
      return absl::OkStatus();
    });
    if (!done.ok()) Fail(0, done);  // memory: no leaf's own fault
    const std::lock_guard<std::mutex> lock(mutex_);
    ++finished_;
    changed_.notify_all();
  }

  // Until `threads` of them are done.
  void Wait(size_t threads, ReportProgress report) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!changed_.wait_for(lock, kReportEvery, [&] { return finished_ == threads; })) {
      lock.unlock();
      report({hashed_bytes_, all_bytes_});
      lock.lock();
    }
  }

  // After all threads have joined.
  absl::StatusOr<std::vector<std::vector<Sha256Digest>>> Take() {
    MESHSEAL_RETURN_IF_ERROR(failure_);
    return std::move(digests_);
  }

 private:
  uint64_t LeafCount() const { return last_leaf_.empty() ? 0 : last_leaf_.back(); }

  absl::Status HashOne(uint64_t number, absl::Span<std::byte> buffer) {
    const auto at =
        static_cast<size_t>(std::upper_bound(last_leaf_.begin(), last_leaf_.end(), number) - last_leaf_.begin());
    const uint64_t leaf = number - (at == 0 ? 0 : last_leaf_[at - 1]);
    const ListedTensor& listed = *tensors_[at].listed;
    const RegularFile& file = files_[listed.file];
    const std::vector<ByteRuns> bytes = tensors_[at].leaves.BytesOf(leaf);
    LeafHasher hasher(SizeOf(bytes));
    size_t filled = 0;
    // Small pieces are hashed together.
    const auto add = [&](uint64_t offset, uint64_t size) -> absl::Status {
      while (size > 0) {
        const auto part = static_cast<size_t>(std::min<uint64_t>(size, buffer.size() - filled));
        MESHSEAL_RETURN_IF_ERROR(file.Read(offset, buffer.subspan(filled, part)));
        offset += part;
        size -= part;
        filled += part;
        if (filled < buffer.size()) continue;
        hasher.Update(buffer);
        filled = 0;
      }
      return absl::OkStatus();
    };
    for (const ByteRuns& runs : bytes) {
      const uint64_t begin = listed.begin + runs.begin;
      if (runs.bytes == runs.stride) {
        MESHSEAL_RETURN_IF_ERROR(add(begin, runs.bytes * runs.count));
        continue;
      }
      for (uint64_t row = 0; row < runs.count; ++row) {
        MESHSEAL_RETURN_IF_ERROR(add(begin + row * runs.stride, runs.bytes));
      }
    }
    hasher.Update(buffer.first(filled));
    digests_[at][leaf] = hasher.Finish();
    hashed_bytes_ += SizeOf(bytes);
    return absl::OkStatus();
  }

  // Of several failures the one of the first leaf is told.
  void Fail(uint64_t leaf, absl::Status failure) {
    const std::lock_guard<std::mutex> lock(mutex_);
    failed_ = true;
    if (!failure_.ok() && failed_leaf_ <= leaf) return;
    failure_ = std::move(failure);
    failed_leaf_ = leaf;
  }

  const absl::Span<const HashedTensor> tensors_;
  const absl::Span<const RegularFile> files_;
  std::vector<std::vector<Sha256Digest>> digests_;  // each leaf is written by one thread
  std::vector<uint64_t> last_leaf_;                 // per tensor: one past its last leaf
  uint64_t all_bytes_ = 0;
  std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> hashed_bytes_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  size_t finished_ = 0;
  absl::Status failure_;
  uint64_t failed_leaf_ = 0;
};

// Joins whatever happens: every worker comes to its end by itself.
struct Workers {
  std::vector<std::thread> threads;
  ~Workers() {
    for (std::thread& thread : threads) thread.join();
  }
};

// The leaf digests of each tensor, in the order of `tensors` and of their leaves. Of several refusals, the one of the
// tensor that comes first.
absl::StatusOr<std::vector<std::vector<Sha256Digest>>> HashTensors(absl::Span<const HashedTensor> tensors,
                                                                   absl::Span<const RegularFile> files,
                                                                   unsigned threads, ReportProgress report) {
  Hashing hashing(tensors, files);
  {
    Workers workers;
    workers.threads.reserve(threads);
    try {
      while (workers.threads.size() < threads) workers.threads.emplace_back([&hashing] { hashing.Work(); });
    } catch (const std::system_error&) {
      // Fewer do as well; without any, this one does it.
      if (workers.threads.empty()) hashing.Work();
    }
    hashing.Wait(std::max<size_t>(workers.threads.size(), 1), report);
  }
  return hashing.Take();
}

// A refusal, led by the tensor's name.
absl::Status Named(const std::string& name, const absl::Status& refusal) {
  const std::optional<Reason> reason = ReasonOf(refusal);
  if (!reason.has_value() || reason == Reason::kOutOfMemory) return refusal;
  return Refuse(*reason, absl::StrCat("tensor ", QuotedName(name), ": ", std::string(refusal.message())));
}

struct Found {
  const ListedTensor* listed = nullptr;
  StoredTensor stored;
};

absl::StatusOr<Found> FindStored(const ReadTensor& read, const CheckpointListing& listing) {
  const ListedTensor* listed = listing.Find(read.name);
  if (listed == nullptr) {
    return Refuse(Reason::kWeightsTensor, absl::StrCat("tensor ", QuotedName(read.name), ": is not in the files"));
  }
  absl::StatusOr<StoredTensor> stored = StoredTensor::Of(read.tensor, listing.source(), {listed->dtype, listed->shape});
  MESHSEAL_RETURN_IF_ERROR(Named(read.name, stored.status()));
  return Found{listed, *std::move(stored)};
}

LayerSegments SegmentsOf(const LayerClass& c) { return {c.layers, c.segment_ends, c.shared_expert.segment_ends}; }

}  // namespace

absl::StatusOr<WeightDigests> DigestCheckpoint(const std::string& model_name, uint64_t hidden,
                                               absl::Span<const LayerClass> classes, const CheckpointListing& listing,
                                               absl::Span<const RegularFile> files, unsigned threads,
                                               ReportProgress report) {
  return WithinMemory([&]() -> absl::StatusOr<WeightDigests> {
    WeightDigests list;
    list.model_name = model_name;
    list.source = listing.source();
    for (const LayerClass& c : classes) list.layers.push_back(SegmentsOf(c));
    std::sort(list.layers.begin(), list.layers.end(), [](const LayerSegments& a, const LayerSegments& b) {
      return a.layers.front().first < b.layers.front().first;
    });
    std::vector<HashedTensor> tensors;
    for (const ReadTensor& read : ReadTensors(hidden, classes)) {
      MESHSEAL_ASSIGN_OR_RETURN(const Found found, FindStored(read, listing));
      absl::StatusOr<TensorLeaves> leaves =
          TensorLeaves::Of(found.stored, EndsFor(SegmentsOf(*read.tensor.layer_class), read.tensor.tensor->role));
      MESHSEAL_RETURN_IF_ERROR(Named(read.name, leaves.status()));
      tensors.push_back({found.listed, *std::move(leaves)});
    }
    // The listing is sorted by name.
    std::sort(tensors.begin(), tensors.end(),
              [](const HashedTensor& a, const HashedTensor& b) { return a.listed < b.listed; });
    MESHSEAL_ASSIGN_OR_RETURN(std::vector<std::vector<Sha256Digest>> leaves,
                              HashTensors(tensors, files, threads, report));
    for (size_t i = 0; i < tensors.size(); ++i) {
      const ListedTensor& listed = *tensors[i].listed;
      const Sha256Digest root = TreeRoot(listed.name, listed.dtype, listed.shape, leaves[i]);
      list.tensors.push_back({listed.name, listed.dtype, listed.shape, listed.bytes, root, std::move(leaves[i])});
    }
    return list;
  });
}

absl::Status VerifyCheckpoint(const WeightDigests& digests, uint64_t hidden, absl::Span<const LayerClass> classes,
                              const CheckpointListing& listing, absl::Span<const RegularFile> files, unsigned threads,
                              ReportProgress report) {
  return WithinMemory([&]() -> absl::Status {
    std::vector<HashedTensor> tensors;
    std::vector<const TensorDigests*> expected;
    for (const ReadTensor& read : ReadTensors(hidden, classes)) {
      MESHSEAL_ASSIGN_OR_RETURN(const Found found, FindStored(read, listing));
      const TensorDigests* const in_list = digests.Find(read.name);
      const LayerSegments* const segments = digests.SegmentsOf(read.layer);
      if (in_list == nullptr || segments == nullptr) {
        return Named(read.name, Refuse(Reason::kWeightsDigest, "is not in the digest list"));
      }
      if (in_list->dtype != found.listed->dtype || in_list->shape != found.listed->shape) {
        return Named(read.name, Refuse(Reason::kWeightsDigest,
                                       absl::StrCat(std::string(DTypeName(found.listed->dtype)), " [",
                                                    absl::StrJoin(found.listed->shape, ", "), "] in the file, ",
                                                    std::string(DTypeName(in_list->dtype)), " [",
                                                    absl::StrJoin(in_list->shape, ", "), "] in the digest list")));
      }
      absl::StatusOr<TensorLeaves> leaves =
          LeavesInList(found.stored, *in_list, EndsFor(*segments, read.tensor.tensor->role));
      MESHSEAL_RETURN_IF_ERROR(Named(read.name, leaves.status()));
      tensors.push_back({found.listed, *std::move(leaves)});
      expected.push_back(in_list);
    }
    MESHSEAL_ASSIGN_OR_RETURN(const std::vector<std::vector<Sha256Digest>> found,
                              HashTensors(tensors, files, threads, report));
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto [leaf, listed] = std::mismatch(found[i].begin(), found[i].end(), expected[i]->leaves.begin());
      if (leaf == found[i].end()) continue;
      return Named(expected[i]->name,
                   Refuse(Reason::kWeightsDigest,
                          absl::StrCat("leaf ", leaf - found[i].begin(), " of ", found[i].size(), " hashes to ",
                                       HexOf(*leaf), ", in the digest list it is ", HexOf(*listed))));
    }
    return absl::OkStatus();
  });
}

}  // namespace meshseal

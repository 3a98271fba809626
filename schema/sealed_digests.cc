#include "schema/sealed_digests.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/digests_codec.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/sealed_file.h"
#include "schema/small_file.h"
#include "schema/status_macros.h"
#include "schema/utf8.h"
#include "schema/within_memory.h"

namespace meshseal {
namespace {

using Fault = std::optional<std::string>;

Fault CheckIdentity(const WeightDigests& digests, const SealFacts& facts) {
  if (digests.model_name.empty() || !IsUtf8(digests.model_name) || HasControlCharacter(digests.model_name)) {
    return absl::StrCat("the model's name ", QuotedName(digests.model_name), " is not printable");
  }
  if (digests.source != WeightSource::kSafetensors && digests.source != WeightSource::kGguf) {
    return absl::StrCat("weights of source ", WordOf(digests.source));
  }
  if (facts.stream != StreamOf(digests.model_name)) {
    return absl::StrCat("the sealed stream is not that of model ", QuotedName(digests.model_name));
  }
  if (facts.serial != 0) return absl::StrCat("serial ", facts.serial, ", a digest list has 0");
  return std::nullopt;
}

// Whether the ends of some segments ascend from above 0.
bool Ascend(const std::vector<uint32_t>& ends) {
  uint32_t before = 0;
  for (const uint32_t end : ends) {
    if (end <= before) return false;
    before = end;
  }
  return true;
}

Fault CheckLayers(const WeightDigests& digests) {
  if (digests.layers.empty()) return "there are no layers";
  std::vector<LayerRange> all;
  uint32_t before = 0;
  for (const LayerSegments& segments : digests.layers) {
    if (segments.layers.empty()) return "segments of no layers";
    const uint32_t first = segments.layers.front().first;
    if (!all.empty() && first <= before) {
      return absl::StrCat("segments of layer ", first, " after those of layer ", before);
    }
    before = first;
    uint32_t end = 0;
    for (const LayerRange& range : segments.layers) {
      if (range.first < end || range.first >= range.last) {
        return absl::StrCat("layers [", range.first, ",", range.last, ") after layer ", end);
      }
      end = range.last;
      all.push_back(range);
    }
    if (segments.segment_ends.empty() || !Ascend(segments.segment_ends) || !Ascend(segments.shared_ends)) {
      return absl::StrCat("the segments of layer ", first, " do not ascend");
    }
  }
  std::sort(all.begin(), all.end(), [](const LayerRange& a, const LayerRange& b) { return a.first < b.first; });
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i].first < all[i - 1].last) return absl::StrCat("layer ", all[i].first, " has segments twice");
  }
  return std::nullopt;
}

Fault CheckTensors(const WeightDigests& digests) {
  if (digests.tensors.empty()) return "there are no tensors";
  const TensorDigests* before = nullptr;
  for (const TensorDigests& tensor : digests.tensors) {
    const std::string who = absl::StrCat("tensor ", QuotedName(tensor.name));
    if (before != nullptr && before->name >= tensor.name) {
      return absl::StrCat(who, " after ", QuotedName(before->name), ", names ascend");
    }
    before = &tensor;
    const std::optional<uint64_t> elements = ElementsOf(tensor.shape);
    const std::optional<uint64_t> bytes = elements.has_value() ? BytesOf(tensor.dtype, *elements) : std::nullopt;
    if (bytes != tensor.bytes || tensor.bytes == 0) {
      return absl::StrCat(who, " has ", tensor.bytes, " bytes, which is not the size of its ",
                          std::string(DTypeName(tensor.dtype)), " elements");
    }
    if (tensor.leaves.empty() || tensor.leaves.size() > tensor.bytes) {
      return absl::StrCat(who, " has ", tensor.leaves.size(), " leaves of ", tensor.bytes, " bytes");
    }
    const Sha256Digest root = TreeRoot(tensor.name, tensor.dtype, tensor.shape, tensor.leaves);
    if (root != tensor.root) {
      return absl::StrCat(who, " has root ", HexOf(tensor.root), ", its leaves make ", HexOf(root));
    }
  }
  return std::nullopt;
}

absl::Status CheckDigestsMeaning(const WeightDigests& digests, const SealFacts& facts) {
  Fault fault = CheckIdentity(digests, facts);
  if (!fault.has_value()) fault = CheckLayers(digests);
  if (!fault.has_value()) fault = CheckTensors(digests);
  return fault.has_value() ? Refuse(Reason::kMeaning, *fault) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<SealedDigests> SealedDigests::Open(absl::string_view file) {
  return WithinMemory([&]() -> absl::StatusOr<SealedDigests> {
    const std::string copy(file);
    MESHSEAL_RETURN_IF_ERROR(CheckEnvelope(copy, PayloadType::kWeightDigests));
    const SealFacts facts = FactsOf(copy);
    absl::StatusOr<WeightDigests> digests = DecodeDigests(PayloadOf(copy));
    MESHSEAL_RETURN_IF_ERROR(AtGate(Gate::kStructure, digests.status()));
    MESHSEAL_RETURN_IF_ERROR(AtGate(Gate::kMeaning, CheckDigestsMeaning(*digests, facts)));
    return SealedDigests(std::make_unique<const WeightDigests>(*std::move(digests)), facts.plan_id);
  });
}

absl::StatusOr<std::string> SealDigests(const WeightDigests& digests) {
  return WithinMemory([&]() -> absl::StatusOr<std::string> {
    std::string file =
        SealPayload(EncodeDigests(digests), PayloadType::kWeightDigests, 0, StreamOf(digests.model_name));
    MESHSEAL_RETURN_IF_ERROR(SealedDigests::Open(file).status());
    return file;
  });
}

absl::StatusOr<std::string> ReadDigestsFile(const std::filesystem::path& path) {
  return ReadSmallFile(path, "a digest list", kSealSize + kMaxPayload, Reason::kPayloadTooLarge);
}

absl::Status CheckBound(const SealedDigests& digests, const Plan& plan) {
  if (!BindsWeights(plan)) return Refuse(Reason::kWeightsUnverified, "the plan binds no digest list");
  if (digests.id() == plan.weights_digest) return absl::OkStatus();
  return Refuse(Reason::kWeightsDigest, absl::StrCat("the digest list is ", HexOf(digests.id()), ", the plan binds ",
                                                     HexOf(plan.weights_digest)));
}

}  // namespace meshseal

#include "schema/digests_codec.h"

#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/flat_payload.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "weight_digests_generated.h"

namespace meshseal {
namespace {

using flatbuffers::Offset;
using flatbuffers::Vector;

constexpr size_t kUsualSize = 65536;  // of a list, in bytes

class Encoder : private FlatWriter {
 public:
  explicit Encoder(size_t expected) : FlatWriter(expected) {}

  // Valid as long as the encoder. Called once.
  absl::string_view Encode(const WeightDigests& digests) {
    wire::digests::FinishWeightDigestsBuffer(builder_, Pack(digests));
    return Finished();
  }

 private:
  Offset<wire::digests::LayerSegments> Pack(const LayerSegments& segments) {
    const auto layers = Structs<wire::digests::LayerRangeStruct>(
        segments.layers, [](const LayerRange& r) { return wire::digests::LayerRangeStruct(r.first, r.last); });
    const auto ends = builder_.CreateVector(segments.segment_ends);
    const auto shared = builder_.CreateVector(segments.shared_ends);
    return wire::digests::CreateLayerSegments(builder_, layers, ends, shared);
  }

  Offset<wire::digests::Tensor> Pack(const TensorDigests& tensor) {
    const auto name = Text(tensor.name);
    const auto shape = builder_.CreateVector(tensor.shape);
    const auto root = PackDigest<wire::digests::Digest>(tensor.root);
    const auto leaves = Structs<wire::digests::Digest>(
        tensor.leaves, [](const Sha256Digest& leaf) { return PackDigest<wire::digests::Digest>(leaf); });
    return wire::digests::CreateTensor(builder_, name, Wire(tensor.dtype), shape, tensor.bytes, &root, leaves);
  }

  Offset<wire::digests::WeightDigests> Pack(const WeightDigests& digests) {
    const auto model_name = Text(digests.model_name);
    std::vector<Offset<wire::digests::LayerSegments>> layers;
    layers.reserve(digests.layers.size());
    for (const LayerSegments& segments : digests.layers) layers.push_back(Pack(segments));
    const auto packed_layers = builder_.CreateVector(layers);
    std::vector<Offset<wire::digests::Tensor>> tensors;
    tensors.reserve(digests.tensors.size());
    for (const TensorDigests& tensor : digests.tensors) tensors.push_back(Pack(tensor));
    const auto packed_tensors = builder_.CreateVector(tensors);
    return wire::digests::CreateWeightDigests(builder_, kDigestsFormatMajor, kDigestsFormatMinor, model_name,
                                              Wire(digests.source), packed_layers, packed_tensors);
  }
};

// Copies a verified buffer out.
class Decoder : public FlatReader {
 public:
  explicit Decoder(size_t payload_size) : FlatReader(payload_size) {}

  WeightDigests Decode(const wire::digests::WeightDigests& from) {
    WeightDigests digests;
    digests.model_name = Text(from.model_name());
    digests.source = static_cast<WeightSource>(from.source());
    digests.layers = TablesBy<LayerSegments>(
        from.layers(), [this](const wire::digests::LayerSegments& segments) { return Unpack(segments); });
    digests.tensors =
        TablesBy<TensorDigests>(from.tensors(), [this](const wire::digests::Tensor& tensor) { return Unpack(tensor); });
    return digests;
  }

 private:
  LayerSegments Unpack(const wire::digests::LayerSegments& from) {
    return {Structs<LayerRange>(from.layers(),
                                [](const wire::digests::LayerRangeStruct& r) {
                                  return LayerRange{r.first(), r.last()};
                                }),
            Scalars(from.segment_ends()), Scalars(from.shared_ends())};
  }

  TensorDigests Unpack(const wire::digests::Tensor& from) {
    return {Text(from.name()),
            static_cast<DType>(from.dtype()),
            Scalars(from.shape()),
            from.bytes(),
            UnpackDigest(*from.root()),
            Structs<Sha256Digest>(from.leaves(), [](const wire::digests::Digest& leaf) { return UnpackDigest(leaf); })};
  }
};

}  // namespace

std::string EncodeDigests(const WeightDigests& digests) { return std::string(Encoder(kUsualSize).Encode(digests)); }

absl::StatusOr<WeightDigests> DecodeDigests(absl::string_view payload) {
  MESHSEAL_RETURN_IF_ERROR(VerifyPayload(
      payload, [](flatbuffers::Verifier& verifier) { return wire::digests::VerifyWeightDigestsBuffer(verifier); }));
  const wire::digests::WeightDigests& root = *wire::digests::GetWeightDigests(payload.data());
  if (root.format_major() != kDigestsFormatMajor || root.format_minor() != kDigestsFormatMinor) {
    return Refuse(Reason::kPlanFormat, absl::StrCat("digest list format ", root.format_major(), ".",
                                                    root.format_minor(), ", this version reads ", kDigestsFormatMajor,
                                                    ".", kDigestsFormatMinor, "; digest the checkpoint again"));
  }
  Decoder decoder(payload.size());
  WeightDigests digests = decoder.Decode(root);
  MESHSEAL_RETURN_IF_ERROR(decoder.fault());
  Encoder encoder(payload.size() + kUsualSize);
  MESHSEAL_RETURN_IF_ERROR(CheckCanonical(payload, encoder.Encode(digests)));
  return digests;
}

}  // namespace meshseal

// The payload of a digest list, sealed by the target: what decodes has one encoding, and what opens is coherent and
// finds each of its tensors.
#include <string>

#include "schema/digests_codec.h"
#include "schema/reason.h"
#include "schema/seal.h"
#include "schema/sealed_digests.h"
#include "tests/fuzz/fuzz_target.h"

namespace meshseal::fuzz {
namespace {

void TryPayload(absl::string_view bytes) {
  const std::string payload(bytes);  // aligned
  absl::StatusOr<WeightDigests> list = DecodeDigests(payload);
  if (!list.ok()) {
    Expect(ReasonOf(list.status()).has_value(), "a refusal without a reason");
    return;
  }
  Expect(EncodeDigests(*list) == payload, "two encodings of one list");
  // Behind the roots, which no change of a leaf keeps.
  for (TensorDigests& tensor : list->tensors) {
    if (tensor.leaves.empty()) continue;
    tensor.root = TreeRoot(tensor.name, tensor.dtype, tensor.shape, tensor.leaves);
  }
  const absl::StatusOr<std::string> file = SealDigests(*list);
  if (!file.ok()) {
    Expect(ReasonOf(file.status()) == Reason::kMeaning, "refused, but not for its meaning");
    return;
  }
  const absl::StatusOr<SealedDigests> opened = SealedDigests::Open(*file);
  Expect(opened.ok() && opened->digests() == *list, "what was sealed does not open as it was");
  for (const TensorDigests& tensor : list->tensors) {
    Expect(opened->digests().Find(tensor.name) != nullptr, "a tensor that is not found");
  }
  for (const LayerSegments& segments : list->layers) {
    for (const LayerRange& range : segments.layers) {
      const LayerSegments* found = opened->digests().SegmentsOf(range.last - 1);
      Expect(found != nullptr && *found == segments, "a layer with other segments");
    }
  }
  ++accepted;
}

}  // namespace
}  // namespace meshseal::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  meshseal::fuzz::TryPayload(meshseal::fuzz::TextOf(data, size));
  return 0;
}

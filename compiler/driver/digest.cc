#include "compiler/driver/digest.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/check/checked_model.h"
#include "compiler/check/grain.h"
#include "compiler/check/tensor_classes.h"
#include "compiler/check/tensor_table.h"
#include "compiler/placement/placement.h"
#include "schema/checkpoint_listing.h"
#include "schema/reason.h"
#include "schema/seal.h"
#include "schema/sealed_digests.h"
#include "schema/status_macros.h"
#include "schema/within_memory.h"

namespace meshseal::compiler {
namespace {

// The ends of `segments` runs of whole units of the axis. What the products' operands are rounded to is the
// deployment's, so its blocks are not among the units.
absl::StatusOr<std::vector<uint32_t>> SegmentEnds(const LayerGroup& group, ShapeAxis axis, uint64_t width,
                                                  uint64_t segments, const char* flag) {
  const uint64_t unit = std::min(CutUnit(GrainsOf(group.moe, axis, {Basis::kF32, {}})), width);
  const uint64_t units = (width + unit - 1) / unit;
  if (segments == 0 || segments > units) {
    return Refuse(Reason::kUsage,
                  absl::StrCat(flag, " ", segments, ": ", WordOf(axis), " ", width, " of layer ",
                               group.layers.front().first, " has ", units, units == 1 ? " unit of " : " units of ",
                               unit, unit == 1 ? " column" : " columns"));
  }
  return EvenEnds(static_cast<uint32_t>(width), static_cast<uint32_t>(segments), static_cast<uint32_t>(unit));
}

absl::StatusOr<std::vector<LayerClass>> SegmentedLayers(const Manifest& model, const DigestRequest& request) {
  std::vector<LayerClass> classes;
  for (const LayerGroup& group : model.groups) {
    LayerClass layers = StoredLayersOf(group);
    MESHSEAL_ASSIGN_OR_RETURN(layers.segment_ends, SegmentEnds(group, ShapeAxis::kIntermediate, layers.intermediate,
                                                               request.segments, "--segments"));
    if (group.moe.shared_expert.has_value()) {
      MESHSEAL_ASSIGN_OR_RETURN(layers.shared_expert.segment_ends,
                                SegmentEnds(group, ShapeAxis::kShared, layers.shared_expert.width,
                                            request.shared_segments.value_or(request.segments),
                                            request.shared_segments.has_value() ? "--shared-segments" : "--segments"));
    }
    classes.push_back(std::move(layers));
  }
  return classes;
}

}  // namespace

absl::StatusOr<DigestResult> Digest(const DigestRequest& request, ReportProgress report) {
  return WithinMemory([&]() -> absl::StatusOr<DigestResult> {
    DigestResult result;
    MESHSEAL_ASSIGN_OR_RETURN(const Document document, OpenDocument(request.model, result.files, result.diagnostics));
    if (!Is(document, DocumentKind::kModel, "model", result.diagnostics)) return result;
    const std::optional<Manifest> model = ReadManifest(*document.file, *document.root, result.diagnostics);
    if (!model.has_value()) return result;
    CheckManifest(*model, result.diagnostics);
    if (!result.diagnostics.ok()) return result;
    MESHSEAL_ASSIGN_OR_RETURN(const std::vector<LayerClass> classes, SegmentedLayers(*model, request));
    std::vector<RegularFile> files;
    MESHSEAL_ASSIGN_OR_RETURN(const CheckpointListing listing, CheckpointListing::Open(request.weights, &files));
    CheckTensorTable(*model, listing, result.diagnostics);
    if (!result.diagnostics.ok()) return result;
    MESHSEAL_ASSIGN_OR_RETURN(const WeightDigests digests,
                              DigestCheckpoint(model->name.value, model->hidden_size.value, classes, listing, files,
                                               request.threads, report));
    result.tensors = digests.tensors.size();
    for (const TensorDigests& tensor : digests.tensors) {
      result.leaves += tensor.leaves.size();
      result.bytes += tensor.bytes;
    }
    MESHSEAL_ASSIGN_OR_RETURN(result.sealed, SealDigests(digests));
    result.id = FactsOf(result.sealed).plan_id;
    return result;
  });
}

}  // namespace meshseal::compiler

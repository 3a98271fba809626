#include "compiler/driver/bind_digests.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/check/tensor_classes.h"
#include "schema/quoted_name.h"

namespace meshseal::compiler {
namespace {

std::string FormText(DType dtype, const std::vector<uint64_t>& shape) {
  return absl::StrCat(std::string(DTypeName(dtype)), " [", absl::StrJoin(shape, ", "), "]");
}

// What is wrong with the list's tensor; empty when nothing is.
std::string FaultOf(const ReadTensor& read, WeightSource source, const TensorDigests& listed,
                    const LayerSegments& segments) {
  const absl::StatusOr<StoredTensor> stored = StoredTensor::Of(read.tensor, source, {listed.dtype, listed.shape});
  if (!stored.ok()) {
    const StoredForm usual = StoredForms(read.tensor, source).front();
    return absl::StrCat("is ", FormText(listed.dtype, listed.shape), " in the digest list, expected ",
                        FormText(usual.dtype, usual.shape));
  }
  const absl::StatusOr<TensorLeaves> leaves =
      LeavesInList(*stored, listed, EndsFor(segments, read.tensor.tensor->role));
  if (leaves.ok()) return "";
  return absl::StrCat("does not fit the digest list: ", std::string(leaves.status().message()));
}

// Tensors of one row of the manifest, told once.
struct Failures {
  Span span;
  std::string text;
  size_t count = 0;
};

void CheckTensors(const Manifest& model, const WeightDigests& digests, Diagnostics& diagnostics) {
  std::map<std::pair<uint32_t, uint32_t>, Failures> failures;  // by line and column of the row
  size_t found = 0;
  for (const LayerGroup& group : model.groups) {
    const LayerClass stored = StoredLayersOf(group);
    for (const ReadTensor& read : ReadTensors(model.hidden_size.value, absl::MakeConstSpan(&stored, 1))) {
      const LayerSegments* segments = digests.SegmentsOf(read.layer);
      const TensorDigests* listed = digests.Find(read.name);
      std::string fault;
      if (segments == nullptr) {
        fault = absl::StrCat("the digest list has no layer ", read.layer);
      } else if (listed == nullptr) {
        fault = absl::StrCat("the digest list has no ", QuotedName(read.name));
      } else {
        ++found;
        fault = FaultOf(read, digests.source, *listed, *segments);
        if (!fault.empty()) fault = absl::StrCat(QuotedName(read.name), " ", fault);
      }
      if (fault.empty()) continue;
      const Span span = group.moe.FindTensor(read.tensor.tensor->role)->name.span;
      Failures& failed = failures[{span.line, span.column}];
      if (failed.count++ > 0) continue;
      failed.span = span;
      failed.text = absl::StrCat("tensor '", WordOf(read.tensor.tensor->role), "': ", fault);
    }
  }
  for (const auto& [place, failed] : failures) {
    diagnostics.Error(
        "digests-fit-model", failed.span,
        failed.count == 1 ? failed.text : absl::StrCat(failed.text, "; and ", failed.count - 1, " more like it"));
  }
  if (found == digests.tensors.size() || !failures.empty()) return;
  diagnostics.Error(
      "digests-fit-model", model.tensors_span,
      absl::StrCat("the digest list has ", digests.tensors.size(), " tensors, steps read ", found, " of them"));
}

// Where ranks' parts end.
struct Cut {
  const char* what;
  std::vector<uint32_t> ends;
  Span span;
};

void CheckCut(const Cut& cut, uint32_t layer, const std::vector<uint32_t>& segment_ends, Diagnostics& diagnostics) {
  for (const uint32_t end : cut.ends) {
    if (end == 0 || std::binary_search(segment_ends.begin(), segment_ends.end(), end)) continue;
    Diagnostic& error = diagnostics.Error("digests-fit-cuts", cut.span,
                                          absl::StrCat(cut.what, " of layer ", layer, " is cut at column ", end,
                                                       ", and no segment of the digest list ends there"));
    error.notes.push_back({cut.span, absl::StrCat("its segments end at ", absl::StrJoin(segment_ends, ", "))});
    return;
  }
}

}  // namespace

void CheckDigests(const CheckedModel& checked, const Placement& placement, const WeightDigests& digests,
                  Diagnostics& diagnostics) {
  const Manifest& model = checked.model();
  if (digests.model_name != model.name.value) {
    diagnostics.Error("digests-fit-model", model.name.span,
                      absl::StrCat("the digest list is of model ", QuotedName(digests.model_name), ", this is ",
                                   QuotedName(model.name.value)));
    return;
  }
  if (digests.source != model.source.value) {
    diagnostics.Error("digests-fit-model", model.source.span,
                      absl::StrCat("the digest list is of ", WordOf(digests.source), " files, weights.source is ",
                                   WordOf(model.source.value)));
    return;
  }
  CheckTensors(model, digests, diagnostics);
  if (!diagnostics.ok()) return;
  const Deployment& deployment = checked.deployment();
  for (const ClassPlacement& placed : placement.classes()) {
    std::vector<uint32_t> ends;
    for (const uint32_t segment : placed.tp_segment_ends) ends.push_back(placed.segment_ends[segment - 1]);
    const LayerSegments* told = nullptr;
    for (const LayerRange& range : placed.layers) {
      for (uint32_t layer = range.first; layer < range.last; ++layer) {
        const LayerSegments* segments = digests.SegmentsOf(layer);
        if (segments == told) continue;
        told = segments;
        CheckCut({"intermediate_size", ends, deployment.tp.span}, layer, segments->segment_ends, diagnostics);
        if (placed.shared_ends.empty()) continue;
        CheckCut({"the shared expert", placed.shared_ends, deployment.shared_expert->span}, layer,
                 segments->shared_ends, diagnostics);
      }
    }
  }
}

}  // namespace meshseal::compiler

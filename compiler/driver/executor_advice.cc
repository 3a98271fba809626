#include "compiler/driver/executor_advice.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schema/mesh_view.h"
#include "schema/terms.h"

namespace meshseal::compiler {
namespace {

Span PlaceOf(const ExecutionGap& gap, const CheckedModel& checked) {
  const Deployment& d = checked.deployment();
  const MeshSpec& mesh = checked.mesh();
  switch (gap.place) {
    case GapPlace::kBasis:
      return d.gate_up_basis.span;
    case GapPlace::kRotation:
      return checked.model().tensors_span;
    case GapPlace::kTokens:
      return d.prefill_chunk.span;
    case GapPlace::kRepack:
      return d.repack.span;
    case GapPlace::kIdentity:
      return mesh.nodes_span;
    case GapPlace::kExperts:
      return checked.model().layers.span;
    case GapPlace::kDevice:
      return mesh.device_kinds[gap.device_kind].shared_memory_per_block->span;
  }
  return {};
}

// Of ranks that meet over something that cannot be captured.
void WarnOfEagerDecode(const CheckedModel& checked, Diagnostics& diagnostics) {
  const Deployment& d = checked.deployment();
  const MeshSpec& mesh = checked.mesh();
  const uint64_t group = d.tp.value * d.ep.value;
  if (d.capture.value == 0 || group == 1 || mesh.capturable.value) return;
  diagnostics
      .Warning("collectives-are-captured", d.capture.span,
               absl::StrCat("capture is charged, and the ", group, " ranks of an expert group meet over ",
                            WordOf(mesh.transport.value), ", which the mesh does not call capturable: all of them run ",
                            "their decode programs uncaptured, step by step"))
      .notes.push_back({mesh.transport.span, "capturable: true, where it is"});
}

}  // namespace

void CheckExecutor(const CheckedModel& checked, const Plan& plan, std::optional<ExecutorKind> required,
                   Diagnostics& diagnostics) {
  const ExecutorKind executor = required.value_or(ExecutorOf(plan));
  if (executor == ExecutorKind::kCuda) WarnOfEagerDecode(checked, diagnostics);
  for (const ExecutionGap& gap : GapsOf(plan, executor)) {
    const Span place = PlaceOf(gap, checked);
    const std::string text =
        absl::StrCat("executor '", NameOf(executor), "' of this version does not execute ", gap.what);
    const bool is_of_device = gap.place == GapPlace::kExperts || gap.place == GapPlace::kDevice;
    Diagnostic& found = is_of_device           ? diagnostics.Error("kernels-fit-device", place, text)
                        : required.has_value() ? diagnostics.Error("executor-takes-plan", place, text)
                                               : diagnostics.Warning("executor-takes-plan", place, text);
    found.notes.push_back({place, absl::StrCat("nearest that it executes: ", gap.nearest)});
  }
}

}  // namespace meshseal::compiler

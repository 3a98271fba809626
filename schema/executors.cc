#include "schema/executors.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/byte_text.h"
#include "schema/quoted_name.h"
#include "schema/route_workspace.h"
#include "schema/step.h"
#include "schema/terms.h"

namespace meshseal {
namespace {

using Gaps = std::vector<ExecutionGap>;

void AddOnce(ExecutionGap gap, Gaps* gaps) {
  const bool is_known = std::any_of(gaps->begin(), gaps->end(), [&gap](const ExecutionGap& other) {
    return other.place == gap.place && other.what == gap.what;
  });
  if (!is_known) gaps->push_back(std::move(gap));
}

// Null in a plan whose numbers lead nowhere.
const DeviceKind* DeviceKindOf(const Plan& plan, const RankSlot& slot) {
  if (slot.node >= plan.mesh.nodes.size()) return nullptr;
  const uint32_t kind = plan.mesh.nodes[slot.node].device_kind;
  return kind < plan.mesh.device_kinds.size() ? &plan.mesh.device_kinds[kind] : nullptr;
}

void FindRotatedOperands(const Plan& plan, Gaps* gaps) {
  for (const LayerClass& c : plan.layer_classes) {
    const auto add = [gaps](absl::string_view field, Basis basis) {
      if (basis != Basis::kRotated) return;
      AddOnce({GapPlace::kBasis, absl::StrCat("activation_basis.", field, " ", WordOf(basis)),
               "f32, bf16, f16 or q8, and weights that are not rotated"},
              gaps);
    };
    add("gate_up", c.gate_up_basis);
    add("down", c.down_basis);
  }
}

void FindRotatedWeights(const Plan& plan, Gaps* gaps) {
  for (const LayerClass& c : plan.layer_classes) {
    for (const TensorClass& tensor : c.tensors) {
      if (tensor.rotation == 0) continue;
      AddOnce({GapPlace::kRotation, absl::StrCat("tensor ", WordOf(tensor.role), " with a rotation"),
               "weights as they were before their rotation"},
              gaps);
    }
  }
}

void FindWideIndices(const Plan& plan, Gaps* gaps) {
  for (const LayerClass& c : plan.layer_classes) {
    for (const Program& program : c.programs) {
      if (program.index_bits <= 32) continue;
      AddOnce(
          {GapPlace::kTokens, "values of more than 2^31 - 1 elements", "fewer decode_tokens, a shorter prefill_chunk"},
          gaps);
    }
  }
}

void FindRepacking(const Plan& plan, Gaps* gaps) {
  if (plan.limits.repack == Repack::kNone) return;
  AddOnce({GapPlace::kRepack, "repacked weights", "repack: none"}, gaps);
}

void FindPinnedDevices(const Plan& plan, Gaps* gaps) {
  for (const Node& node : plan.mesh.nodes) {
    if (node.identity.empty()) continue;
    AddOnce({GapPlace::kIdentity, "devices pinned by identity", "a mesh whose nodes pin none"}, gaps);
  }
}

void FindManyExperts(const Plan& plan, Gaps* gaps) {
  for (const LayerClass& c : plan.layer_classes) {
    if (c.router.scoring == Scoring::kPrecomputed) continue;
    const uint64_t bytes = RouteWorkspaceBytes(c.experts, c.top_k, c.router.groups.count);
    if (bytes <= kKernelSharedBytes) continue;
    AddOnce({GapPlace::kExperts,
             absl::StrCat("a choice among ", c.experts, " experts: a token's scores take ", ByteText(bytes),
                          " of shared memory, kernels have ", ByteText(kKernelSharedBytes)),
             "about 6,000 experts in a layer"},
            gaps);
  }
}

struct KernelRow {
  absl::string_view file;
  uint64_t bytes;
  StepKind step;
};

constexpr KernelRow kKernels[] = {
#define MESHSEAL_KERNEL(file, bytes, step) {file, bytes, step},
#include "schema/kernels.def"
#undef MESHSEAL_KERNEL
};

// The kernel of the plan's programs that takes the most shared memory; null: none takes any.
const KernelRow* LargestKernel(const Plan& plan) {
  std::set<StepKind> steps;
  for (const LayerClass& c : plan.layer_classes) {
    for (const Program& program : c.programs) {
      for (const Step& step : program.steps) steps.insert(step.kind);
    }
  }
  const KernelRow* largest = nullptr;
  for (const KernelRow& kernel : kKernels) {
    if (steps.count(kernel.step) == 0) continue;
    if (largest == nullptr || kernel.bytes > largest->bytes) largest = &kernel;
  }
  return largest;
}

void FindSmallDevices(const Plan& plan, Gaps* gaps) {
  const KernelRow* kernel = LargestKernel(plan);
  if (kernel == nullptr) return;
  for (const RankSlot& slot : plan.mesh.rank_slots) {
    const DeviceKind* found = DeviceKindOf(plan, slot);
    if (found == nullptr) continue;
    const DeviceKind& device = *found;
    const auto number = static_cast<uint32_t>(found - plan.mesh.device_kinds.data());
    if (device.shared_memory == 0 || device.shared_memory >= kernel->bytes) continue;
    AddOnce({GapPlace::kDevice,
             absl::StrCat("programs on devices of kind ", QuotedName(device.name), ": kernel ", kernel->file, " takes ",
                          kernel->bytes, " B of shared memory a block, they have ", device.shared_memory, " B"),
             "devices of compute capability 8.0 and above, which have 101,376 B and more", number},
            gaps);
  }
}

// One row for each thing that an executor may lack.
struct GapRow {
  void (*find)(const Plan&, Gaps*);
  bool reference;  // whether the reference backend lacks it
  bool cuda;
};

constexpr GapRow kGaps[] = {
    {FindRotatedOperands, true, true}, {FindRotatedWeights, true, true}, {FindWideIndices, true, true},
    {FindRepacking, true, false},      {FindPinnedDevices, true, false}, {FindManyExperts, false, true},
    {FindSmallDevices, false, true},
};

}  // namespace

absl::string_view NameOf(ExecutorKind executor) {
  constexpr absl::string_view kNames[] = {
#define MESHSEAL_ROW(enumerator, name) name,
      MESHSEAL_EXECUTORS(MESHSEAL_ROW)
#undef MESHSEAL_ROW
  };
  return kNames[static_cast<size_t>(executor)];
}

std::optional<ExecutorKind> ExecutorNamed(absl::string_view name) {
  for (const ExecutorKind executor : kExecutors) {
    if (NameOf(executor) == name) return executor;
  }
  return std::nullopt;
}

std::vector<std::string> ExecutorNames() {
  std::vector<std::string> names;
  for (const ExecutorKind executor : kExecutors) names.emplace_back(NameOf(executor));
  return names;
}

ExecutorKind ExecutorOf(const Plan& plan) {
  const auto has_device = [&plan](const RankSlot& slot) {
    const DeviceKind* kind = DeviceKindOf(plan, slot);
    return kind != nullptr && kind->memory_kind != MemoryKind::kHost;
  };
  const std::vector<RankSlot>& slots = plan.mesh.rank_slots;
  return std::any_of(slots.begin(), slots.end(), has_device) ? ExecutorKind::kCuda : ExecutorKind::kReference;
}

std::vector<ExecutionGap> GapsOf(const Plan& plan, ExecutorKind executor) {
  Gaps gaps;
  for (const GapRow& row : kGaps) {
    if (executor == ExecutorKind::kReference ? row.reference : row.cuda) row.find(plan, &gaps);
  }
  return gaps;
}

}  // namespace meshseal

// The rule on memory: every line of every rank, derived again from shapes, cuts and owners in checked arithmetic.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/meaning/rules.h"
#include "schema/meaning/shape_facts.h"
#include "schema/meaning/size.h"
#include "schema/mesh_view.h"

namespace meshseal::meaning {
namespace {

constexpr uint64_t kStatusLaneBytes = 64;
constexpr uint64_t kExactAddendBytes = 8;  // int64
constexpr uint64_t kAttentionBytes = 2;    // per weight of K and V, bf16

Size ScaleBytes(const SideTensor& side, bool fused, uint64_t outputs, uint64_t inputs) {
  const uint64_t bytes = FindDType(side.dtype)->block_bits / 8;
  if (!HasBlock(side)) return fused ? 2 * bytes : bytes;  // gate and up may have one each
  // Blocks of each half start with it.
  const uint64_t halves = fused && side.of == ScaleOf::kHalf ? 2 : 1;
  return Size(outputs / halves).DividedUp(side.block_rows) * halves * Size(inputs).DividedUp(side.block_columns) *
         bytes;
}

// What `outputs` rows of `inputs` elements take as stored: whole blocks, and the scales beside them.
Size StoredBytes(const TensorClass& tensor, uint64_t outputs, uint64_t inputs) {
  if (outputs == 0 || inputs == 0) return 0;
  const DTypeRow& row = *FindDType(tensor.dtype);
  const bool apart = row.packed_bits > 0 && FindSide(tensor, SideKind::kScale) != nullptr;
  const Size blocks = Size(outputs) * Size(inputs).DividedUp(apart ? 1 : row.block_elements);
  Size bytes = (blocks * (apart ? row.packed_bits : row.block_bits)).DividedUp(8);
  for (const SideTensor& side : tensor.sides) {
    bytes = bytes + ScaleBytes(side, tensor.layout != GateUpLayout::kInvalid, outputs, inputs);
  }
  return bytes;
}

enum class Share : uint8_t { kReplicated, kShared, kPerExpert };

// Bytes of a layer's tensors of one share, with the rank's columns of both axes.
Size LayerBytes(const Plan& plan, const LayerClass& c, Share share, uint64_t columns, uint64_t shared) {
  Size bytes = 0;
  for (const TensorClass& tensor : c.tensors) {
    const RoleFacts& facts = *FactsOf(tensor.role);
    const Share own = facts.per_expert ? Share::kPerExpert : facts.weight ? Share::kShared : Share::kReplicated;
    if (own != share) continue;
    bytes = bytes + StoredBytes(tensor, ExtentOf(facts.outputs, plan, c, columns, shared),
                                ExtentOf(facts.inputs, plan, c, columns, shared));
  }
  return bytes;
}

// Buffers of a program's collective, and of its gather, for its largest step. Needs algorithm-fits-reduction.
Size CollectiveBytes(const Plan& plan, const Program& program) {
  const uint64_t ranks = GroupSize(plan.degrees);
  const uint64_t dense_groups = DenseGroups(plan.degrees);
  const bool gathers = Gathers(plan.degrees);
  const Limits& limits = plan.limits;
  const uint32_t own = program.phase == Phase::kDecode ? limits.rank_decode_tokens : limits.rank_prefill_tokens;
  const Size rows = Size(gathers ? own : program.max_tokens) * plan.hidden;
  const uint64_t element = plan.reduction == Reduction::kExact ? kExactAddendBytes : kAddendBytes;
  const Size slice = rows * element + kStatusLaneBytes;
  const bool in_rank_order = program.reduce_algorithm != ReduceAlgorithm::kTransport;
  if (gathers) {
    // In rank order, a slice of every rank. What is added up as it arrives takes the memory of gathered tokens.
    return slice * (in_rank_order ? ranks : dense_groups) + rows * kAddendBytes * dense_groups;
  }
  if (program.reduce_algorithm == ReduceAlgorithm::kGatherThenSum) return slice * ranks;
  // What is sent, and of the rank's own piece every rank's addends, or those that are added next.
  return ranks == 1 ? slice : slice + rows.DividedUp(ranks) * element * (in_rank_order ? ranks : 1);
}

// What the lines of all ranks read of a layer class, computed once.
class ClassFacts {
 public:
  ClassFacts(const Plan& plan, const LayerClass& c)
      : class_(c),
        degrees_(plan.degrees),
        experts_(ExpertsPerOwner(c, plan.degrees.ep)),
        columns_(ColumnsPerTp(c)),
        replicated_(LayerBytes(plan, c, Share::kReplicated, 0, 0)) {
    for (const Program& program : c.programs) collective_ = collective_.OrMore(CollectiveBytes(plan, program));
    for (const uint32_t columns : columns_) per_expert_.push_back(LayerBytes(plan, c, Share::kPerExpert, columns, 0));
    shared_.emplace(0, LayerBytes(plan, c, Share::kShared, 0, 0));
    uint32_t begin = 0;
    for (const uint32_t end : c.shared_expert.part_ends) {
      const uint32_t part = end - begin;
      if (shared_.count(part) == 0) shared_.emplace(part, LayerBytes(plan, c, Share::kShared, 0, part));
      begin = end;
    }
  }

  uint32_t ExpertsAt(uint32_t ep) const { return experts_[ep]; }
  const Size& PerExpertAt(uint32_t tp) const { return per_expert_[tp]; }
  const Size& collective() const { return collective_; }  // of both phases

  // One layer's weights on a rank.
  Size WeightsAt(uint32_t tp, uint32_t ep) const {
    const Size& shared = shared_.find(SharedColumnsOf(class_, degrees_, tp, ep))->second;
    return replicated_ + shared + per_expert_[tp] * experts_[ep];
  }

  // The arena of a program on a rank. Needs capacity-is-proven: there is one, and they ascend.
  uint64_t ArenaAt(const Program& program, uint32_t tp, uint32_t ep) const {
    using Shape = std::array<uint32_t, 3>;
    const Shape shape = {experts_[ep], columns_[tp], SharedColumnsOf(class_, degrees_, tp, ep)};
    const auto layout = std::lower_bound(program.layouts.begin(), program.layouts.end(), shape,
                                         [](const WorkLayout& l, const Shape& wanted) {
                                           return Shape{l.experts, l.columns, l.shared_columns} < wanted;
                                         });
    return layout->arena_bytes;
  }

  const LayerClass& layer_class() const { return class_; }

 private:
  const LayerClass& class_;
  const Degrees& degrees_;
  std::vector<uint32_t> experts_;
  std::vector<uint32_t> columns_;
  Size replicated_;
  Size collective_ = 0;
  std::vector<Size> per_expert_;     // per tp coordinate
  std::map<uint32_t, Size> shared_;  // by shared columns
};

struct StageClass {
  const ClassFacts* facts = nullptr;
  uint64_t layers = 0;
};

// Per stage: the classes with layers in it. Linear in ranges and in the stages that each of them reaches.
std::vector<std::vector<StageClass>> StagesOf(const Plan& plan, const std::vector<ClassFacts>& classes) {
  std::vector<std::vector<StageClass>> stages(plan.stage_ends.size());
  for (const ClassFacts& facts : classes) {
    for (const LayerRange& range : facts.layer_class().layers) {
      auto stage = static_cast<size_t>(std::upper_bound(plan.stage_ends.begin(), plan.stage_ends.end(), range.first) -
                                       plan.stage_ends.begin());
      for (uint32_t first = range.first; first < range.last; ++stage) {
        const uint32_t end = std::min(range.last, plan.stage_ends[stage]);
        std::vector<StageClass>& in_stage = stages[stage];
        if (in_stage.empty() || in_stage.back().facts != &facts) in_stage.push_back({&facts, 0});
        in_stage.back().layers += end - first;
        first = end;
      }
    }
  }
  return stages;
}

// What is not MoE on a rank of stage `pp`, and the KV heads that it holds beyond its share.
Size OtherBytes(const Plan& plan, uint32_t pp) {
  const uint64_t dense_tp = plan.degrees.dense_tp;
  const uint64_t stage_layers = plan.stage_ends[pp] - (pp == 0 ? 0 : plan.stage_ends[pp - 1]);
  Size stage = (Size(plan.other_weights.layers) * stage_layers).DividedUp(plan.layers);
  if (pp == 0) stage = stage + plan.other_weights.first;
  if (pp + 1 == plan.degrees.pp) stage = stage + plan.other_weights.last;
  const Size other = stage.DividedUp(dense_tp);
  const uint64_t kv_heads = plan.attention.kv_heads;
  if (plan.kv_heads != KvHeads::kReplicate || kv_heads == 0 || dense_tp <= kv_heads) return other;
  // K and V of one head, of which kv_heads / dense_tp are in the share.
  const Size full = Size(2 * kAttentionBytes) * plan.attention.head_dim * plan.hidden * stage_layers;
  const Size charged = full * kv_heads;
  if (!charged.value().has_value()) return charged;
  return other + (*full.value() - *charged.value() / dense_tp);
}

struct MemoryLines {
  Size weights = 0;
  Size other = 0;
  Size staging = 0;
  Size decode_work = 0;
  Size prefill_work = 0;
  Size collective = 0;
};

// The lines that follow from a rank's (pp, tp, ep), at (pp * TP + tp) * EP + ep.
std::vector<MemoryLines> LinesOf(const Plan& plan) {
  const Degrees& d = plan.degrees;
  std::vector<ClassFacts> classes;
  classes.reserve(plan.layer_classes.size());
  for (const LayerClass& c : plan.layer_classes) classes.emplace_back(plan, c);
  const std::vector<std::vector<StageClass>> stages = StagesOf(plan, classes);
  const Repack repack = plan.limits.repack;
  std::vector<MemoryLines> all;
  all.reserve(size_t{d.pp} * d.tp * d.ep);
  for (uint32_t pp = 0; pp < d.pp; ++pp) {
    const Size other = OtherBytes(plan, pp);
    for (uint32_t tp = 0; tp < d.tp; ++tp) {
      for (uint32_t ep = 0; ep < d.ep; ++ep) {
        MemoryLines lines;
        lines.other = other;
        for (const StageClass& in_stage : stages[pp]) {
          const ClassFacts& facts = *in_stage.facts;
          lines.weights = lines.weights + facts.WeightsAt(tp, ep) * in_stage.layers;
          lines.collective = lines.collective.OrMore(facts.collective());
          if (repack == Repack::kByExpert) lines.staging = lines.staging.OrMore(facts.PerExpertAt(tp));
          if (repack == Repack::kByTensor) {
            lines.staging = lines.staging.OrMore(facts.PerExpertAt(tp) * facts.ExpertsAt(ep));
          }
          const std::vector<Program>& programs = facts.layer_class().programs;
          lines.decode_work = lines.decode_work.OrMore(facts.ArenaAt(programs[0], tp, ep));
          lines.prefill_work = lines.prefill_work.OrMore(facts.ArenaAt(programs[1], tp, ep));
        }
        all.push_back(lines);
      }
    }
  }
  return all;
}

// What a rank's memory must be; an overflow of a line is in the total, too.
struct Expected {
  RankMemory memory;
  Size sessions = 0;
  Size total = 0;
};

Expected ExpectedOf(const Plan& plan, uint32_t rank, const MemoryLines& lines) {
  const Limits& limits = plan.limits;
  const DeviceKind& device = DeviceKindOf(plan.mesh, rank);
  const uint64_t left = device.memory_bytes - std::min(device.memory_bytes, limits.headroom_bytes);
  Expected expected;
  expected.sessions = Size(limits.sessions) * limits.per_session_bytes;
  RankMemory& memory = expected.memory;
  memory.weights = lines.weights.value().value_or(0);
  memory.other = lines.other.value().value_or(0);
  memory.repacked = limits.repacked_bytes;
  memory.staging = lines.staging.value().value_or(0);
  memory.decode_work = lines.decode_work.value().value_or(0);
  memory.prefill_work = lines.prefill_work.value().value_or(0);
  memory.collective = lines.collective.value().value_or(0);
  memory.communicator = GroupSize(plan.degrees) > 1 ? device.communicator_bytes : 0;
  memory.capture = limits.capture_bytes;
  memory.sessions = expected.sessions.value().value_or(0);
  memory.budget = std::min(left, device.usable_bytes);
  expected.total = lines.weights + lines.other + memory.repacked +
                   lines.staging.OrMore(lines.decode_work).OrMore(lines.prefill_work) + lines.collective +
                   memory.communicator + memory.capture + expected.sessions;
  memory.total = expected.total.value().value_or(0);
  return expected;
}

// The line of `found` that is not as expected.
Fault Differs(uint32_t rank, const RankMemory& found, const MemoryLines& lines, const Expected& expected) {
  const auto line = [rank](const char* what, uint64_t value, const Size& derived) -> Fault {
    if (derived.Is(value)) return std::nullopt;
    return absl::StrCat("rank ", rank, " ", what, " ", value, " bytes, derived are ", derived.Text());
  };
  const RankMemory& e = expected.memory;
  return FirstOf({line("weights", found.weights, lines.weights), line("other weights", found.other, lines.other),
                  line("repacked", found.repacked, e.repacked), line("staging", found.staging, lines.staging),
                  line("decode work", found.decode_work, lines.decode_work),
                  line("prefill work", found.prefill_work, lines.prefill_work),
                  line("collective", found.collective, lines.collective),
                  line("communicator", found.communicator, e.communicator), line("capture", found.capture, e.capture),
                  line("sessions", found.sessions, expected.sessions), line("total", found.total, expected.total),
                  line("budget", found.budget, e.budget)});
}

// The ranks by device, each device's in their order. A plan nearly always has them so already.
std::vector<uint32_t> ByDevice(const Mesh& mesh) {
  std::vector<uint32_t> ranks(mesh.rank_slots.size());
  std::iota(ranks.begin(), ranks.end(), 0u);
  const auto before = [&mesh](uint32_t a, uint32_t b) { return DeviceOf(mesh, a) < DeviceOf(mesh, b); };
  if (!std::is_sorted(ranks.begin(), ranks.end(), before)) std::stable_sort(ranks.begin(), ranks.end(), before);
  return ranks;
}

}  // namespace

Fault MemoryAddsUp(const Plan& plan, const SealFacts&) {
  if (plan.memory.size() != plan.mesh.rank_slots.size()) {
    return absl::StrCat(plan.memory.size(), " ranks have a memory plan, the world has ", plan.mesh.rank_slots.size());
  }
  const std::vector<MemoryLines> all_lines = LinesOf(plan);
  for (uint32_t rank = 0; rank < plan.memory.size(); ++rank) {
    // dp varies slowest, and changes nothing.
    const MemoryLines& lines = all_lines[rank % all_lines.size()];
    const Expected expected = ExpectedOf(plan, rank, lines);
    if (expected.total.value().has_value() && plan.memory[rank] == expected.memory) continue;
    return Differs(rank, plan.memory[rank], lines, expected);
  }
  Size sum = 0;
  const std::vector<uint32_t> ranks = ByDevice(plan.mesh);
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankMemory& memory = plan.memory[ranks[i]];
    const bool same_device = i > 0 && DeviceOf(plan.mesh, ranks[i]) == DeviceOf(plan.mesh, ranks[i - 1]);
    sum = same_device ? sum + memory.total : Size(memory.total);
    if (sum.value().has_value() && *sum.value() <= memory.budget) continue;
    return absl::StrCat("the ranks on the device of rank ", ranks[i], " need ", sum.Text(), " bytes, its budget is ",
                        memory.budget);
  }
  return std::nullopt;
}

}  // namespace meshseal::meaning

// Rules on who owns which experts and which columns.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/meaning/rules.h"
#include "schema/meaning/shape_facts.h"
#include "schema/meaning/size.h"

namespace meshseal::meaning {
namespace {

// How many ranks hold each expert.
std::vector<uint32_t> HoldersOf(const LayerClass& c) {
  std::vector<uint32_t> holders(c.experts, 1);
  for (const ExpertCopy& copy : c.expert_copies) ++holders[copy.expert];
  return holders;
}

// The most slots of an ep rank: with experts in contiguous parts as even as possible, the larger ones first.
Size BusiestContiguous(const LayerClass& c, uint32_t ep) {
  Size busiest = 0;
  uint32_t expert = 0;
  for (uint32_t owner = 0; owner < ep; ++owner) {
    Size sum = 0;
    const uint32_t end = expert + c.experts / ep + (owner < c.experts % ep ? 1 : 0);
    for (; expert < end; ++expert) sum = sum + c.load.slots[expert];
    busiest = busiest.OrMore(sum);
  }
  return busiest;
}

// And with experts as placed.
Size BusiestPlaced(const LayerClass& c, uint32_t ep) {
  const std::vector<uint32_t> holders = HoldersOf(c);
  std::vector<Size> sums(ep, 0);
  const auto add = [&](uint32_t expert, uint32_t owner) {
    sums[owner] = sums[owner] + Size(c.load.slots[expert]).DividedUp(holders[expert]);
  };
  for (uint32_t expert = 0; expert < c.experts; ++expert) add(expert, c.expert_shards[expert].owner);
  for (const ExpertCopy& copy : c.expert_copies) add(copy.expert, copy.owner);
  Size busiest = 0;
  for (const Size& sum : sums) busiest = busiest.OrMore(sum);
  return busiest;
}

Fault CheckLoad(const LayerClass& c, bool balanced, uint32_t ep) {
  const LoadBalance& load = c.load;
  if (!balanced) {
    if (load == LoadBalance{}) return std::nullopt;
    return std::string("a measured load of experts that are not balanced");
  }
  if (load.slots.size() != c.experts) {
    return absl::StrCat(load.slots.size(), " experts have a measured load, the layers have ", c.experts);
  }
  const auto figure = [](const char* what, uint64_t found, const Size& expected) -> Fault {
    if (expected.Is(found)) return std::nullopt;
    return absl::StrCat("the busiest rank ", what, " has ", found, " slots, derived are ", expected.Text());
  };
  if (Fault fault = FirstOf({figure("of contiguous experts", load.busiest_contiguous, BusiestContiguous(c, ep)),
                             figure("as placed", load.busiest, BusiestPlaced(c, ep))})) {
    return fault;
  }
  // Copies take places on ranks, and a share is rounded up: with them this is a wish.
  if (c.expert_copies.empty() && load.busiest > load.busiest_contiguous) {
    return absl::StrCat("the busiest rank has ", load.busiest, " slots, with contiguous experts it had ",
                        load.busiest_contiguous);
  }
  return std::nullopt;
}

// Ends that ascend from above 0 to `last`.
Fault CheckEnds(const char* what, const std::vector<uint32_t>& ends, const char* whole, uint32_t last) {
  uint32_t end = 0;
  for (const uint32_t next : ends) {
    if (next <= end) return absl::StrCat("a ", what, " ends at ", next, " and starts at ", end);
    end = next;
  }
  if (end == last) return std::nullopt;
  return absl::StrCat("the ", what, "s end at ", end, ", the ", whole, " is ", last);
}

// What an end along an axis must be a multiple of.
struct Grain {
  uint64_t size;
  const TensorClass* tensor;
};

std::vector<Grain> GrainsOf(const LayerClass& c, ShapeAxis axis, ShapeAxis fused) {
  std::vector<Grain> grains;
  for (const TensorClass& tensor : c.tensors) {
    const RoleFacts& facts = *FactsOf(tensor.role);
    if (!facts.weight) continue;
    const SideTensor* scale = FindSide(tensor, SideKind::kScale);
    const bool tiled = scale != nullptr && HasBlock(*scale);
    if (facts.inputs == axis) {
      grains.push_back({tiled ? scale->block_columns : FindDType(tensor.dtype)->block_elements, &tensor});
      if (tensor.rotation > 0) grains.push_back({tensor.rotation, &tensor});
      if (c.down_basis == Basis::kQ8) grains.push_back({kQ8Block, &tensor});
    } else if (tiled && (facts.outputs == axis || facts.outputs == fused)) {
      // Interleaved rows are cut in pairs.
      const uint64_t rows = scale->block_rows;
      const bool pairs = tensor.layout == GateUpLayout::kInterleaved;
      grains.push_back({pairs ? rows / std::gcd(rows, uint64_t{2}) : rows, &tensor});
    }
  }
  return grains;
}

// `cut`: whether ranks hold parts of the axis.
Fault CheckGrains(const LayerClass& c, ShapeAxis axis, ShapeAxis fused, const std::vector<uint32_t>& ends, bool cut) {
  for (const Grain& grain : GrainsOf(c, axis, fused)) {
    for (size_t i = 0; i + 1 < ends.size(); ++i) {
      if (ends[i] % grain.size == 0) continue;
      return absl::StrCat("a cut of ", WordOf(axis), " at ", ends[i], ", inside a block of ", grain.size,
                          " of tensor '", grain.tensor->name, "'");
    }
  }
  if (!cut) return std::nullopt;
  // Gate's rows, then up's: where tiles count the fused rows, up's must start with a tile of its own.
  for (const TensorClass& tensor : c.tensors) {
    const SideTensor* scale = FindSide(tensor, SideKind::kScale);
    if (FactsOf(tensor.role)->outputs != fused || scale == nullptr || scale->of != ScaleOf::kFused) continue;
    if (tensor.layout != GateUpLayout::kHalves || ends.back() % scale->block_rows == 0) continue;
    return absl::StrCat("a cut of tensor '", tensor.name, "', whose half of ", ends.back(),
                        " rows ends inside a block of ", scale->block_rows);
  }
  return std::nullopt;
}

// Where segments end is in the bits of their sums: their number decides it. Needs columns-are-owned-once.
Fault CheckCanonical(const LayerClass& c, ShapeAxis axis, ShapeAxis fused, const std::vector<uint32_t>& ends) {
  if (ends.empty()) return std::nullopt;
  const uint64_t width = ends.back();
  uint64_t unit = 1;
  for (const Grain& grain : GrainsOf(c, axis, fused)) unit = std::min(std::lcm(unit, grain.size), width);
  const uint64_t units = (width + unit - 1) / unit;
  const uint64_t segments = ends.size();
  for (uint64_t i = 0; i < segments; ++i) {
    // The first `units mod segments` segments have one unit more.
    const uint64_t expected =
        std::min(width, ((i + 1) * (units / segments) + std::min(i + 1, units % segments)) * unit);
    if (ends[i] == expected) continue;
    return absl::StrCat("segment ", i, " of ", segments, " of ", WordOf(axis), " ends at ", ends[i], ", derived is ",
                        expected);
  }
  return std::nullopt;
}

}  // namespace

Fault ExpertsAreOwnedOnce(const Plan& plan, const SealFacts&) {
  for (const LayerClass& c : plan.layer_classes) {
    if (c.expert_shards.size() != c.experts) {
      return absl::StrCat(c.expert_shards.size(), " experts have an owner, the layers have ", c.experts);
    }
    std::vector<uint32_t> next(plan.degrees.ep, 0);
    for (size_t expert = 0; expert < c.expert_shards.size(); ++expert) {
      const ExpertShard& shard = c.expert_shards[expert];
      if (shard.owner >= plan.degrees.ep) {
        return absl::StrCat("expert ", expert, " is owned by ep ", shard.owner, ", ep is ", plan.degrees.ep);
      }
      if (shard.local != next[shard.owner]) {
        return absl::StrCat("expert ", expert, " is number ", shard.local, " of ep ", shard.owner, ", the next one is ",
                            next[shard.owner]);
      }
      ++next[shard.owner];
    }
    // A rank may hold nothing but copies.
    for (const ExpertCopy& copy : c.expert_copies) {
      if (copy.owner < next.size()) ++next[copy.owner];
    }
    for (size_t owner = 0; owner < next.size(); ++owner) {
      if (next[owner] == 0) return absl::StrCat("ep ", owner, " owns no expert");
    }
  }
  return std::nullopt;
}

Fault CopiesAreApart(const Plan& plan, const SealFacts&) {
  for (const LayerClass& c : plan.layer_classes) {
    std::vector<uint32_t> next(plan.degrees.ep, 0);
    for (const ExpertShard& shard : c.expert_shards) ++next[shard.owner];
    // The last owner that holds each expert, plus 1: owners ascend, so an owner's copies stand together.
    std::vector<uint32_t> held_by(c.experts, 0);
    uint32_t owner_before = 0;
    for (const ExpertCopy& copy : c.expert_copies) {
      if (copy.expert >= c.experts || copy.owner >= plan.degrees.ep) {
        return absl::StrCat("a copy of expert ", copy.expert, " on ep ", copy.owner, ", which does not exist");
      }
      if (copy.owner < owner_before) {
        return absl::StrCat("a copy on ep ", copy.owner, " after one on ep ", owner_before, ", copies ascend");
      }
      owner_before = copy.owner;
      if (copy.local != next[copy.owner]) {
        return absl::StrCat("a copy of expert ", copy.expert, " is number ", copy.local, " of ep ", copy.owner,
                            ", the next one is ", next[copy.owner]);
      }
      ++next[copy.owner];
      if (c.expert_shards[copy.expert].owner == copy.owner || held_by[copy.expert] == copy.owner + 1) {
        return absl::StrCat("ep ", copy.owner, " holds expert ", copy.expert, " twice");
      }
      held_by[copy.expert] = copy.owner + 1;
    }
  }
  return std::nullopt;
}

Fault PlacementIsAsNamed(const Plan& plan, const SealFacts&) {
  for (const LayerClass& c : plan.layer_classes) {
    uint32_t owner_before = 0;
    for (uint32_t expert = 0; expert < c.experts; ++expert) {
      const uint32_t owner = c.expert_shards[expert].owner;
      if (plan.expert_placement == ExpertPlacement::kRoundRobin && owner != expert % plan.degrees.ep) {
        return absl::StrCat("expert ", expert, " lies on ep ", owner, ", round robin puts it on ",
                            expert % plan.degrees.ep);
      }
      const bool contiguous = plan.expert_placement == ExpertPlacement::kContiguous && c.expert_copies.empty();
      if (contiguous && owner < owner_before) {
        return absl::StrCat("expert ", expert, " lies on ep ", owner, ", contiguous experts are past ep ",
                            owner_before);
      }
      owner_before = owner;
    }
  }
  return std::nullopt;
}

Fault LoadIsBalanced(const Plan& plan, const SealFacts&) {
  const bool balanced = plan.expert_placement == ExpertPlacement::kBalanced;
  for (const LayerClass& c : plan.layer_classes) {
    if (Fault fault = CheckLoad(c, balanced, plan.degrees.ep)) return fault;
  }
  return std::nullopt;
}

Fault ColumnsAreOwnedOnce(const Plan& plan, const SealFacts&) {
  for (const LayerClass& c : plan.layer_classes) {
    if (Fault fault = CheckEnds("column segment", c.segment_ends, "intermediate size", c.intermediate)) return fault;
    if (c.tp_segment_ends.size() != plan.degrees.tp) {
      return absl::StrCat(c.tp_segment_ends.size(), " tp ranks own columns, tp is ", plan.degrees.tp);
    }
    uint32_t owned = 0;
    for (const uint32_t segment_end : c.tp_segment_ends) {
      if (segment_end <= owned) return std::string("a tp rank owns no column segment");
      owned = segment_end;
    }
    if (owned != c.segment_ends.size()) {
      return absl::StrCat("tp ranks own ", owned, " column segments, there are ", c.segment_ends.size());
    }
    const SharedExpert& shared = c.shared_expert;
    if (Fault fault = FirstOf({CheckEnds("shared part", shared.part_ends, "shared width", shared.width),
                               CheckEnds("shared segment", shared.segment_ends, "shared width", shared.width)})) {
      return fault;
    }
    if (shared.width == 0) continue;
    const bool split = shared.placement == SharedPlacement::kSplit;
    const uint32_t parts = split ? GroupSize(plan.degrees) : plan.degrees.tp;
    if (shared.part_ends.size() != parts) {
      return absl::StrCat(shared.part_ends.size(), " ranks own shared columns, expected ", parts);
    }
    for (const uint32_t end : shared.part_ends) {
      if (std::binary_search(shared.segment_ends.begin(), shared.segment_ends.end(), end)) continue;
      return absl::StrCat("a shared part ends at ", end, ", inside a segment");
    }
    if (plan.reduction != Reduction::kExact && shared.segment_ends.size() != parts) {
      return absl::StrCat(shared.segment_ends.size(), " shared segments of ", parts, " parts, and the sum is ",
                          WordOf(plan.reduction));
    }
  }
  return std::nullopt;
}

Fault SegmentsKeepBlocks(const Plan& plan, const SealFacts&) {
  for (const LayerClass& c : plan.layer_classes) {
    if (Fault fault = CheckGrains(c, ShapeAxis::kIntermediate, ShapeAxis::kTwoIntermediate, c.segment_ends,
                                  plan.degrees.tp > 1)) {
      return fault;
    }
    const SharedExpert& shared = c.shared_expert;
    if (Fault fault = CheckGrains(c, ShapeAxis::kShared, ShapeAxis::kTwoShared, shared.segment_ends,
                                  shared.part_ends.size() > 1)) {
      return fault;
    }
  }
  return std::nullopt;
}

Fault SegmentsAreCanonical(const Plan& plan, const SealFacts&) {
  if (plan.reduction != Reduction::kExact) return std::nullopt;
  for (const LayerClass& c : plan.layer_classes) {
    if (Fault fault =
            FirstOf({CheckCanonical(c, ShapeAxis::kIntermediate, ShapeAxis::kTwoIntermediate, c.segment_ends),
                     CheckCanonical(c, ShapeAxis::kShared, ShapeAxis::kTwoShared, c.shared_expert.segment_ends)})) {
      return fault;
    }
  }
  return std::nullopt;
}

}  // namespace meshseal::meaning

// Rules on the work arenas: layouts, capacity, buffers and indices, in checked arithmetic.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/meaning/rules.h"
#include "schema/meaning/shape_facts.h"
#include "schema/meaning/size.h"

namespace meshseal::meaning {
namespace {

constexpr uint64_t kBufferAlignment = 64;
constexpr uint32_t kLargestTile = 1024;
constexpr uint64_t kElementBytes = 4;     // float32, or int32 in index values
constexpr uint64_t kFixedPointBytes = 8;  // int64
constexpr uint64_t kReachOf32Bits = (uint64_t{1} << 31) - 1;

// Experts, columns and shared columns of a rank.
using RankShape = std::array<uint32_t, 3>;

// Those that ranks of a layer class have, ascending.
std::vector<RankShape> ShapesOf(const Plan& plan, const LayerClass& c) {
  const std::vector<uint32_t> experts = ExpertsPerOwner(c, plan.degrees.ep);
  const std::vector<uint32_t> columns = ColumnsPerTp(c);
  std::vector<RankShape> shapes;
  shapes.reserve(GroupSize(plan.degrees));
  for (uint32_t tp = 0; tp < plan.degrees.tp; ++tp) {
    for (uint32_t ep = 0; ep < plan.degrees.ep; ++ep) {
      shapes.push_back({experts[ep], columns[tp], SharedColumnsOf(c, plan.degrees, tp, ep)});
    }
  }
  std::sort(shapes.begin(), shapes.end());
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  return shapes;
}

// The most rows a grouped value takes on a rank with `experts` experts: each token reaches at most min(k, experts) of
// them, and only experts with a row pad a tile. Sizes, tokens and tiles are bounded, so 64 bits hold it.
uint64_t GroupedRows(const LayerClass& c, const Program& program, uint64_t experts) {
  const uint64_t tile = program.tile_rows;
  const uint64_t tokens = program.max_tokens;
  const uint64_t rows = tokens * std::min<uint64_t>(c.top_k, experts);
  const uint64_t active = std::min(experts, rows);
  const uint64_t by_rows = tile * (active + (rows - active) / tile);
  const uint64_t by_tokens = experts * tile * ((tokens + tile - 1) / tile);
  return std::min(by_rows, by_tokens);
}

uint64_t ElementBytes(const Value& value) { return value.fixed_point ? kFixedPointBytes : kElementBytes; }

Size BytesOfValue(const Plan& plan, const LayerClass& c, const Program& program, const WorkLayout& layout,
                  const Value& value) {
  const uint64_t element = ElementBytes(value);
  const Size tokens = program.max_tokens;
  const Size slots = tokens * c.top_k;
  Size rows = tokens;
  switch (value.order) {
    case ValueOrder::kRouting:  // an expert id and a weight per slot
      return slots * (2 * kElementBytes);
    case ValueOrder::kGrouping:  // slot of a row, row of a slot, first row of each expert and the end
      return (Size(layout.grouped_rows) + slots + Size(layout.experts) + 1) * kElementBytes;
    case ValueOrder::kTokenId:
      return tokens * kElementBytes;
    case ValueOrder::kSlot:
      rows = slots;
      break;
    case ValueOrder::kRow:
      rows = layout.grouped_rows;
      break;
    case ValueOrder::kToken:
      if (value.rows == RowSet::kPart) {
        rows = program.phase == Phase::kDecode ? plan.limits.rank_decode_tokens : plan.limits.rank_prefill_tokens;
      }
      break;
    case ValueOrder::kShared:
    case ValueOrder::kInvalid:
      break;
  }
  switch (value.width) {
    case ValueWidth::kColumns:
      return rows * layout.columns * element;
    case ValueWidth::kTwoColumns:
      return rows * layout.columns * (2 * element);
    case ValueWidth::kSharedColumns:
      return rows * layout.shared_columns * element;
    case ValueWidth::kTwoSharedColumns:
      return rows * layout.shared_columns * (2 * element);
    case ValueWidth::kHidden:
    case ValueWidth::kIndex:
    case ValueWidth::kInvalid:
      break;
  }
  return rows * plan.hidden * element;
}

// First and last step at which a value's bytes must be intact; the layer's inputs live before the first step, its
// output after the last.
struct Lifetime {
  size_t first = 0;
  size_t last = 0;
};

std::vector<Lifetime> LifetimesOf(const Program& program) {
  std::vector<Lifetime> lifetimes(program.values.size());
  for (size_t i = 0; i < program.steps.size(); ++i) {
    for (const uint32_t output : program.steps[i].outputs) lifetimes[output] = {i, i};
    for (const uint32_t input : program.steps[i].inputs) lifetimes[input].last = i;
  }
  for (const uint32_t output : program.steps.back().outputs) lifetimes[output].last = program.steps.size();
  return lifetimes;
}

Fault CheckBuffers(const Plan& plan, const LayerClass& c, const Program& program, const WorkLayout& layout) {
  if (layout.buffers.size() != program.values.size()) {
    return absl::StrCat(layout.buffers.size(), " buffers for ", program.values.size(), " values");
  }
  Size end = 0;
  for (size_t i = 0; i < layout.buffers.size(); ++i) {
    const Buffer& buffer = layout.buffers[i];
    const Size bytes = BytesOfValue(plan, c, program, layout, program.values[i]);
    if (!bytes.Is(buffer.bytes)) {
      return absl::StrCat("the buffer of %", i, " has ", buffer.bytes, " bytes, the value ", bytes.Text());
    }
    if (buffer.offset % kBufferAlignment != 0) {
      return absl::StrCat("the buffer of %", i, " starts at ", buffer.offset, ", not at a multiple of ",
                          kBufferAlignment);
    }
    const Size buffer_end = Size(buffer.offset) + buffer.bytes;
    if (!buffer_end.value().has_value()) return absl::StrCat("the buffer of %", i, " ends beyond 64 bits");
    end = end.OrMore(buffer_end);
  }
  if (!end.RoundedUp(kBufferAlignment).Is(layout.arena_bytes)) {
    return absl::StrCat("the arena has ", layout.arena_bytes, " bytes, its buffers end at ", end.Text());
  }
  // Two buffers that are live at one step: neither is on an in-place list, as no step has one.
  const std::vector<Lifetime> lifetimes = LifetimesOf(program);
  for (size_t i = 0; i < layout.buffers.size(); ++i) {
    for (size_t j = i + 1; j < layout.buffers.size(); ++j) {
      if (lifetimes[i].last < lifetimes[j].first || lifetimes[j].last < lifetimes[i].first) continue;
      const Buffer& a = layout.buffers[i];
      const Buffer& b = layout.buffers[j];
      if (a.bytes == 0 || b.bytes == 0) continue;
      if (a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes) {
        return absl::StrCat("the buffers of %", i, " and %", j, " overlap while both are live");
      }
    }
  }
  return std::nullopt;
}

std::string Where(const LayerClass& c, const Program& program) {
  return absl::StrCat("layer ", c.layers.front().first, " ", WordOf(program.phase));
}

// Runs `check` on every layout until one has a fault.
template <class F>
Fault ForEachLayout(const Plan& plan, F check) {
  for (const LayerClass& c : plan.layer_classes) {
    for (const Program& program : c.programs) {
      for (const WorkLayout& layout : program.layouts) {
        if (Fault fault = check(c, program, layout)) {
          const std::string shared =
              c.shared_expert.width > 0 ? absl::StrCat(" and ", layout.shared_columns, " shared ones") : "";
          return absl::StrCat(Where(c, program), ", ranks with ", layout.experts, " experts and ", layout.columns,
                              " columns", shared, ": ", *fault);
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Fault CapacityIsProven(const Plan& plan, const SealFacts&) {
  for (const LayerClass& c : plan.layer_classes) {
    const std::vector<RankShape> shapes = ShapesOf(plan, c);
    for (const Program& program : c.programs) {
      if ((program.tile_rows == 0) != (program.phase == Phase::kDecode) || program.tile_rows > kLargestTile) {
        return absl::StrCat("the ", WordOf(program.phase), " program has tiles of ", program.tile_rows, " rows");
      }
      std::vector<RankShape> found;
      for (const WorkLayout& layout : program.layouts) {
        found.push_back({layout.experts, layout.columns, layout.shared_columns});
      }
      if (found != shapes) {
        return absl::StrCat(found.size(), " layouts, not one for each of the ", shapes.size(),
                            " shapes of rank in order");
      }
    }
  }
  return ForEachLayout(plan, [](const LayerClass& c, const Program& program, const WorkLayout& layout) -> Fault {
    const uint64_t rows = program.phase == Phase::kPrefill ? GroupedRows(c, program, layout.experts) : 0;
    if (layout.grouped_rows == rows) return std::nullopt;
    return absl::StrCat("room for ", layout.grouped_rows, " grouped rows, proven are ", rows);
  });
}

Fault BuffersDoNotOverlap(const Plan& plan, const SealFacts&) {
  return ForEachLayout(plan, [&plan](const LayerClass& c, const Program& program, const WorkLayout& layout) {
    return CheckBuffers(plan, c, program, layout);
  });
}

Fault IndicesReachElements(const Plan& plan, const SealFacts&) {
  for (const LayerClass& c : plan.layer_classes) {
    for (const Program& program : c.programs) {
      uint64_t most = 0;
      for (const WorkLayout& layout : program.layouts) {
        for (size_t i = 0; i < layout.buffers.size(); ++i) {
          most = std::max(most, layout.buffers[i].bytes / ElementBytes(program.values[i]));
        }
      }
      const uint32_t bits = most <= kReachOf32Bits ? 32 : 64;
      if (program.index_bits != bits) {
        return absl::StrCat(Where(c, program), ": indices of ", program.index_bits, " bits, the largest value has ",
                            most, " elements");
      }
    }
  }
  return std::nullopt;
}

}  // namespace meshseal::meaning

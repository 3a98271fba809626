// Rules on capacity, buffers and memory: bytes derived again from shapes, cuts and owners, in checked arithmetic.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/checked_math.h"
#include "schema/meaning/rules.h"
#include "schema/meaning/shape_facts.h"
#include "schema/mesh_view.h"

namespace meshseal::meaning {
namespace {

constexpr uint64_t kBufferAlignment = 64;
constexpr uint64_t kStatusLaneBytes = 64;
constexpr uint32_t kLargestTile = 1024;

// A number of bytes or rows that may have overflowed on its way; an overflow sticks.
class Size {
 public:
  Size(uint64_t value) : value_(value) {}  // NOLINT(google-explicit-constructor): reads as a number
  Size operator*(Size other) const { return Both(other, CheckedMul); }
  Size operator+(Size other) const { return Both(other, CheckedAdd); }
  Size RoundedUp(uint64_t unit) const {
    const Size padded = *this + Size(unit - 1);
    return padded.value_.has_value() ? Size(*padded.value_ / unit * unit) : padded;
  }
  bool Is(uint64_t expected) const { return value_ == expected; }
  std::string Text() const {
    return value_.has_value() ? absl::StrCat(*value_) : std::string("more than 64 bits hold");
  }
  uint64_t ValueOr(uint64_t otherwise) const { return value_.value_or(otherwise); }

 private:
  Size Both(Size other, std::optional<uint64_t> (*operation)(uint64_t, uint64_t)) const {
    Size result(0);
    result.value_ = value_.has_value() && other.value_.has_value() ? operation(*value_, *other.value_) : std::nullopt;
    return result;
  }
  std::optional<uint64_t> value_;
};

// The (experts, columns) that ranks of a layer class own, ascending.
std::set<std::pair<uint32_t, uint32_t>> RankShapes(const Plan& plan, const LayerClass& c) {
  std::set<std::pair<uint32_t, uint32_t>> shapes;
  for (const uint32_t experts : ExpertsPerOwner(c, plan.degrees.ep)) {
    for (const uint32_t columns : ColumnsPerTp(c)) shapes.emplace(experts, columns);
  }
  return shapes;
}

// The most rows a grouped value takes on a rank with `experts` experts: each token reaches at most min(k, experts) of
// them, and only experts with a row pad a tile.
uint64_t GroupedRows(const LayerClass& c, const Program& program, uint64_t experts) {
  const uint64_t tile = program.tile_rows;
  const uint64_t tokens = program.max_tokens;
  const uint64_t rows = tokens * std::min<uint64_t>(c.top_k, experts);
  const uint64_t active = std::min(experts, rows);
  const uint64_t by_rows = tile * (active + (rows - active) / tile);
  const uint64_t by_tokens = experts * tile * ((tokens + tile - 1) / tile);
  return std::min(by_rows, by_tokens);
}

// Elements are 4 bytes: float32, or int32 in index values.
Size BytesOfValue(const Plan& plan, const LayerClass& c, const Program& program, const WorkLayout& layout,
                  const Value& value) {
  const Size tokens = program.max_tokens;
  const Size slots = tokens * c.top_k;
  Size rows = tokens;
  switch (value.order) {
    case ValueOrder::kRouting:  // an expert id and a weight per slot
      return slots * 8;
    case ValueOrder::kGrouping:  // slot of a row, row of a slot, first row of each expert and the end
      return (Size(layout.grouped_rows) + slots + Size(layout.experts) + 1) * 4;
    case ValueOrder::kSlot:
      rows = slots;
      break;
    case ValueOrder::kRow:
      rows = layout.grouped_rows;
      break;
    case ValueOrder::kToken:
    case ValueOrder::kInvalid:
      break;
  }
  Size columns = plan.hidden;
  if (value.width == ValueWidth::kColumns) columns = layout.columns;
  if (value.width == ValueWidth::kTwoColumns) columns = Size(layout.columns) * 2;
  return rows * columns * 4;
}

// First and last step at which a value's bytes must be intact; the layer's input lives before the first step, its
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
  uint64_t end = 0;
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
    const std::optional<uint64_t> buffer_end = CheckedAdd(buffer.offset, buffer.bytes);
    if (!buffer_end.has_value()) return absl::StrCat("the buffer of %", i, " ends beyond 64 bits");
    end = std::max(end, *buffer_end);
  }
  if (!Size(end).RoundedUp(kBufferAlignment).Is(layout.arena_bytes)) {
    return absl::StrCat("the arena has ", layout.arena_bytes, " bytes, its buffers end at ", end);
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

// Runs `check` on every layout until one has a fault.
template <class F>
Fault ForEachLayout(const Plan& plan, F check) {
  for (const LayerClass& c : plan.layer_classes) {
    for (const Program& program : c.programs) {
      for (const WorkLayout& layout : program.layouts) {
        if (Fault fault = check(c, program, layout)) {
          return absl::StrCat("layer ", c.layers.front().first, " ", WordOf(program.phase), ", ranks with ",
                              layout.experts, " experts and ", layout.columns, " columns: ", *fault);
        }
      }
    }
  }
  return std::nullopt;
}

// The layers of `c` inside pipeline stage `pp`.
uint64_t LayersInStage(const Plan& plan, const LayerClass& c, uint32_t pp) {
  const uint32_t begin = pp == 0 ? 0 : plan.stage_ends[pp - 1];
  const uint32_t end = plan.stage_ends[pp];
  uint64_t layers = 0;
  for (const LayerRange& range : c.layers) {
    const uint32_t first = std::max(range.first, begin);
    const uint32_t last = std::min(range.last, end);
    if (first < last) layers += last - first;
  }
  return layers;
}

Size TensorBytes(DType dtype, Size elements) {
  const std::optional<uint64_t> bytes = BytesOf(dtype, elements.ValueOr(UINT64_MAX));
  return bytes.has_value() ? Size(*bytes) : Size(UINT64_MAX) * 2;
}

// Bytes of one layer's weights on a rank with `experts` experts and `columns` columns.
Size LayerWeights(const Plan& plan, const LayerClass& c, uint64_t experts, uint64_t columns) {
  Size bytes = 0;
  for (const TensorClass& tensor : c.tensors) {
    if (tensor.role == TensorRole::kRouter) {
      bytes = bytes + TensorBytes(tensor.dtype, Size(c.experts) * plan.hidden);
    } else {
      bytes = bytes + TensorBytes(tensor.dtype, Size(experts) * columns * plan.hidden);
    }
  }
  return bytes;
}

struct MemoryLines {
  Size weights = 0;
  Size work = 0;
  Size collective = 0;
};

MemoryLines LinesOf(const Plan& plan, const Coordinate& at) {
  MemoryLines lines;
  for (const LayerClass& c : plan.layer_classes) {
    const uint64_t layers = LayersInStage(plan, c, at.pp);
    if (layers == 0) continue;
    const uint32_t experts = ExpertsPerOwner(c, plan.degrees.ep)[at.ep];
    const uint32_t columns = ColumnsPerTp(c)[at.tp];
    lines.weights = lines.weights + LayerWeights(plan, c, experts, columns) * layers;
    for (const Program& program : c.programs) {
      for (const WorkLayout& layout : program.layouts) {
        if (layout.experts != experts || layout.columns != columns) continue;
        lines.work = std::max(lines.work.ValueOr(UINT64_MAX), layout.arena_bytes);
      }
      // all-gather: one slice of every rank of the expert group
      const Size slice = Size(program.max_tokens) * plan.hidden * 4 + kStatusLaneBytes;
      const Size gathered = slice * plan.degrees.tp * plan.degrees.ep;
      lines.collective = std::max(lines.collective.ValueOr(UINT64_MAX), gathered.ValueOr(UINT64_MAX));
    }
  }
  return lines;
}

// Ranks of one device share its memory; ranks of a host's slots share the host's.
std::pair<uint32_t, uint32_t> SharedBy(const Mesh& mesh, const RankSlot& slot) {
  const bool host = mesh.device_kinds[mesh.nodes[slot.node].device_kind].memory_kind == MemoryKind::kHost;
  return {slot.node, host ? 0 : slot.slot};
}

}  // namespace

Fault CapacityIsProven(const Plan& plan, const SealFacts&) {
  for (const LayerClass& c : plan.layer_classes) {
    const std::set<std::pair<uint32_t, uint32_t>> shapes = RankShapes(plan, c);
    for (const Program& program : c.programs) {
      if ((program.tile_rows == 0) != (program.phase == Phase::kDecode) || program.tile_rows > kLargestTile) {
        return absl::StrCat("the ", WordOf(program.phase), " program has tiles of ", program.tile_rows, " rows");
      }
      std::vector<std::pair<uint32_t, uint32_t>> found;
      for (const WorkLayout& layout : program.layouts) found.emplace_back(layout.experts, layout.columns);
      if (!std::equal(found.begin(), found.end(), shapes.begin(), shapes.end())) {
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

Fault MemoryAddsUp(const Plan& plan, const SealFacts&) {
  if (plan.memory.size() != plan.mesh.rank_slots.size()) {
    return absl::StrCat(plan.memory.size(), " ranks have a memory plan, the world has ", plan.mesh.rank_slots.size());
  }
  // Ranks at the same (pp, tp, ep) have the same lines.
  std::map<std::vector<uint32_t>, MemoryLines> lines_at;
  std::map<std::pair<uint32_t, uint32_t>, Size> used;
  for (uint32_t rank = 0; rank < plan.memory.size(); ++rank) {
    const RankMemory& found = plan.memory[rank];
    const Coordinate at = CoordinateOf(plan.degrees, rank);
    const std::vector<uint32_t> key = {at.pp, at.tp, at.ep};
    auto known = lines_at.find(key);
    if (known == lines_at.end()) known = lines_at.emplace(key, LinesOf(plan, at)).first;
    const MemoryLines& lines = known->second;
    const uint64_t parts = uint64_t{plan.degrees.dense_tp} * plan.degrees.pp;
    const Size other = Size(plan.other_weights_bytes).RoundedUp(parts).ValueOr(UINT64_MAX) / parts;
    const Size sessions = Size(plan.limits.sessions) * plan.limits.per_session_bytes;
    const RankSlot& slot = plan.mesh.rank_slots[rank];
    const DeviceKind& device = plan.mesh.device_kinds[plan.mesh.nodes[slot.node].device_kind];
    const bool has_peers = plan.degrees.tp * plan.degrees.ep > 1;
    const Size collective = lines.collective + (has_peers ? device.communicator_bytes : 0);
    const Size total = lines.weights + other + lines.work + collective + sessions;
    const uint64_t memory = device.memory_bytes;
    const uint64_t headroom = plan.limits.headroom_bytes;
    const Size budget = std::min(memory > headroom ? memory - headroom : 0, device.usable_bytes);
    const auto line = [rank](const char* what, uint64_t value, const Size& expected) -> Fault {
      if (expected.Is(value)) return std::nullopt;
      return absl::StrCat("rank ", rank, " ", what, " ", value, " bytes, derived are ", expected.Text());
    };
    for (const Fault& fault : {line("weights", found.weights, lines.weights), line("other weights", found.other, other),
                               line("work", found.work, lines.work), line("collective", found.collective, collective),
                               line("sessions", found.sessions, sessions), line("total", found.total, total),
                               line("budget", found.budget, budget)}) {
      if (fault.has_value()) return fault;
    }
    Size& sum = used.try_emplace(SharedBy(plan.mesh, slot), 0).first->second;
    sum = sum + total;
    if (sum.ValueOr(UINT64_MAX) > budget.ValueOr(0)) {
      return absl::StrCat("the ranks on the device of rank ", rank, " need ", sum.Text(), " bytes, its budget is ",
                          budget.Text());
    }
  }
  return std::nullopt;
}

}  // namespace meshseal::meaning

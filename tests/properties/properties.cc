#include "tests/properties/properties.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/properties/stored_array.h"

namespace meshseal::properties {
namespace {

constexpr uint64_t kReassembledBytes = 160 << 10;  // of one plan, at most
constexpr uint64_t kMostRoutes = 4000;             // that are all tried
constexpr uint64_t kMostSlots = 2048;              // of a route that is made up

uint64_t CeilDiv(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

template <class A, class B>
void Expect(const A& found, const B& expected, const std::string& what, Faults& faults) {
  if (found == expected) return;
  faults.push_back(absl::StrCat(what, ": found ", found, ", expected ", expected));
}

void ExpectThat(bool holds, const std::string& what, Faults& faults) {
  if (!holds) faults.push_back(what);
}

// The class of each layer, by the plan; of a layer in several, the last.
std::vector<const LayerClass*> ClassOfLayer(const Plan& plan) {
  std::vector<const LayerClass*> classes(plan.layers, nullptr);
  for (const LayerClass& c : plan.layer_classes) {
    for (const LayerRange& range : c.layers) {
      for (uint32_t layer = range.first; layer < range.last && layer < plan.layers; ++layer) classes[layer] = &c;
    }
  }
  return classes;
}

// A class of the plan with the kind of layers that it stands for.
struct Pair {
  const LayerClass* c;
  const DeclaredLayers* kind;
};

std::vector<Pair> PairsOf(const RandomDeployment& random, const Plan& plan) {
  std::vector<Pair> pairs;
  for (const LayerClass& c : plan.layer_classes) {
    if (c.layers.empty() || c.layers.front().first >= random.layers) continue;
    const std::optional<size_t> kind = random.kind_of[c.layers.front().first];
    if (kind.has_value()) pairs.push_back({&c, &random.kinds[*kind]});
  }
  return pairs;
}

std::string LayersText(const LayerClass& c) { return absl::StrCat("layers from ", c.layers.front().first); }

// [begin, end) of part `part` of ascending ends.
Run PartOf(const std::vector<uint32_t>& ends, size_t part) {
  if (part >= ends.size()) return {};
  return {part == 0 ? 0 : ends[part - 1], ends[part]};
}

// Columns of the intermediate axis of a tp coordinate.
Run ColumnsOf(const LayerClass& c, uint32_t tp) {
  const Run segments = PartOf(c.tp_segment_ends, tp);
  if (segments.begin >= segments.end || segments.end > c.segment_ends.size()) return {};
  return {segments.begin == 0 ? 0 : c.segment_ends[segments.begin - 1], c.segment_ends[segments.end - 1]};
}

// Columns of the shared expert at (tp, ep).
Run SharedColumnsOf(const RandomDeployment& random, const LayerClass& c, uint32_t tp, uint32_t ep) {
  if (random.shared_placement == SharedPlacement::kSplit) {
    return PartOf(c.shared_expert.part_ends, size_t{tp} * random.degrees.ep + ep);
  }
  return ep == 0 ? PartOf(c.shared_expert.part_ends, tp) : Run{};
}

// Experts of each ep coordinate, by their local number.
std::vector<std::vector<uint32_t>> HeldExperts(const LayerClass& c, uint32_t ep) {
  std::vector<std::vector<uint32_t>> held(ep);
  const auto hold = [&](uint32_t expert, uint32_t owner, uint32_t local) {
    if (owner >= ep) return;
    if (held[owner].size() <= local && local < 100000) held[owner].resize(local + 1, UINT32_MAX);
    held[owner][local] = expert;
  };
  for (uint32_t e = 0; e < c.expert_shards.size(); ++e) hold(e, c.expert_shards[e].owner, c.expert_shards[e].local);
  for (const ExpertCopy& copy : c.expert_copies) hold(copy.expert, copy.owner, copy.local);
  return held;
}

// Who holds an expert, copy 0 first.
std::vector<std::vector<uint32_t>> Holders(const LayerClass& c) {
  std::vector<std::vector<uint32_t>> holders;
  for (const ExpertShard& shard : c.expert_shards) holders.push_back({shard.owner});
  for (const ExpertCopy& copy : c.expert_copies) {
    if (copy.expert < holders.size()) holders[copy.expert].push_back(copy.owner);
  }
  return holders;
}

void CheckTensors(const DeclaredLayers& kind, const LayerClass& c, const std::string& where, Faults& faults) {
  const std::vector<DeclaredTensor> declared = kind.Tensors();
  if (declared.size() != c.tensors.size()) {
    faults.push_back(absl::StrCat(where, ": ", c.tensors.size(), " tensors, ", declared.size(), " are read"));
    return;
  }
  for (size_t i = 0; i < declared.size(); ++i) {
    const DeclaredTensor& d = declared[i];
    const TensorClass& t = c.tensors[i];
    const std::string who = absl::StrCat(where, ", ", WordOf(d.role));
    ExpectThat(t.role == d.role && t.dtype == d.dtype && t.name == d.name && t.shape == d.shape &&
                   t.layout == d.layout && t.rotation == d.rotation && t.sides.size() == d.sides.size(),
               absl::StrCat(who, " is not as declared"), faults);
    if (t.sides.size() != d.sides.size()) continue;
    std::vector<DeclaredSide> sides = d.sides;
    std::sort(sides.begin(), sides.end(), [](const DeclaredSide& a, const DeclaredSide& b) { return a.kind < b.kind; });
    for (size_t s = 0; s < sides.size(); ++s) {
      const SideTensor& found = t.sides[s];
      ExpectThat(found.kind == sides[s].kind && found.dtype == sides[s].dtype && found.block_rows == sides[s].rows &&
                     found.block_columns == sides[s].columns && found.applies == sides[s].applies &&
                     found.of == sides[s].of && found.name == absl::StrCat(d.name, "_", WordOf(sides[s].kind)),
                 absl::StrCat(who, ".", WordOf(sides[s].kind), " is not as declared"), faults);
    }
  }
}

void CheckKind(const RandomDeployment& random, const DeclaredLayers& kind, const LayerClass& c, Faults& faults) {
  const std::string where = LayersText(c);
  Expect(c.experts, kind.experts, absl::StrCat(where, ", experts"), faults);
  Expect(c.top_k, kind.top_k, absl::StrCat(where, ", top-k"), faults);
  Expect(c.intermediate, kind.intermediate, absl::StrCat(where, ", intermediate"), faults);
  const DeclaredRouter& r = kind.router;
  Expect(std::string(WordOf(c.router.scoring)), r.scoring, absl::StrCat(where, ", scoring"), faults);
  Expect(std::string(WordOf(c.router.order)), r.order, absl::StrCat(where, ", order"), faults);
  Expect(std::string(WordOf(c.router.renormalize)), r.renormalize, absl::StrCat(where, ", renormalize"), faults);
  Expect(c.router.guard, r.guard.empty() ? 0.0f : 1e-20f, absl::StrCat(where, ", guard"), faults);
  Expect(c.router.epsilon, r.epsilon.empty() ? 0.0f : 0.01f, absl::StrCat(where, ", eps"), faults);
  Expect(c.router.scale, std::stof(r.scale), absl::StrCat(where, ", scale"), faults);
  Expect(std::string(WordOf(c.router.weight_applied)), r.weight_applied, absl::StrCat(where, ", weight"), faults);
  Expect(std::string(WordOf(c.router.input)), r.input_dtype, absl::StrCat(where, ", router input"), faults);
  Expect(c.router.groups.count, r.groups, absl::StrCat(where, ", groups"), faults);
  Expect(c.router.groups.keep, r.keep, absl::StrCat(where, ", kept groups"), faults);
  if (r.groups > 0) {
    Expect(std::string(WordOf(c.router.groups.score)), r.group_score, absl::StrCat(where, ", group score"), faults);
  }
  Expect(c.router.vocabulary, kind.token_table ? random.vocabulary : 0, absl::StrCat(where, ", vocabulary"), faults);
  const auto is_kind = [](const std::string& map, ActivationKind found) {
    return absl::StartsWith(map,
                            absl::StrCat("{kind: ", WordOf(found), map.find(',') == std::string::npos ? "}" : ","));
  };
  ExpectThat(is_kind(kind.activation, c.activation.kind), absl::StrCat(where, ": another activation"), faults);
  Expect(c.shared_expert.width, kind.shared.width, absl::StrCat(where, ", shared width"), faults);
  if (kind.shared.width > 0) {
    ExpectThat(is_kind(kind.shared.activation == "same" ? kind.activation : kind.shared.activation,
                       c.shared_expert.activation.kind),
               absl::StrCat(where, ": another activation of the shared expert"), faults);
    ExpectThat((c.shared_expert.gate == SharedGate::kSigmoid) == kind.shared.gate,
               absl::StrCat(where, ": another gate of the shared expert"), faults);
    ExpectThat(c.shared_expert.placement == random.shared_placement,
               absl::StrCat(where, ": the shared expert lies elsewhere"), faults);
  }
  ExpectThat((c.residual == Residual::kAdd) == random.residual, absl::StrCat(where, ": another residual"), faults);
  CheckTensors(kind, c, where, faults);
}

// What one rank of the group holds of an array, in bytes.
uint64_t HeldBytes(const StoredArray& array, uint64_t experts, Run columns, Run shared) {
  const bool has_shared = shared.begin < shared.end;
  switch (array.division) {
    case Division::kWhole:
      return array.Bytes();
    case Division::kExperts:
      return experts * array.Bytes();
    case Division::kExpertColumns:
      return experts * array.BytesOf(columns.begin, columns.end);
    case Division::kShared:
      return has_shared ? array.Bytes() : 0;
    case Division::kSharedColumns:
      return has_shared ? array.BytesOf(shared.begin, shared.end) : 0;
  }
  return 0;
}

// What all ranks of a group hold of an array together, from the declared replication alone.
uint64_t ReplicatedBytes(const RandomDeployment& random, const DeclaredLayers& kind, const StoredArray& array) {
  const uint64_t tp = random.degrees.tp;
  const uint64_t ep = random.degrees.ep;
  switch (array.division) {
    case Division::kWhole:
      return tp * ep * array.Bytes();
    case Division::kExperts:
      return tp * (kind.experts + random.copies) * array.Bytes();
    case Division::kExpertColumns:
      return (kind.experts + random.copies) * array.Bytes();
    case Division::kShared:
      return (random.shared_placement == SharedPlacement::kSplit ? tp * ep : tp) * array.Bytes();
    case Division::kSharedColumns:
      return array.Bytes();
  }
  return 0;
}

uint32_t StageOf(const Plan& plan, uint32_t layer) {
  uint32_t stage = 0;
  while (stage + 1 < plan.stage_ends.size() && layer >= plan.stage_ends[stage]) ++stage;
  return stage;
}

// Bytes that differ from their neighbours and from those of the next block, row or expert.
uint8_t Fill(uint64_t at) {
  at *= 0x9E3779B97F4A7C15u;
  return static_cast<uint8_t>(at >> 56);
}

using Bytes = std::vector<uint8_t>;

void CopyRuns(const Bytes& from, uint64_t base, const std::vector<Run>& runs, Bytes& to) {
  for (const Run& run : runs) {
    to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(base + run.begin),
              from.begin() + static_cast<std::ptrdiff_t>(base + run.end));
  }
}

// Cuts an array as the plan says, and puts it together from the ranks' shards.
void Reassemble(const RandomDeployment& random, const LayerClass& c, const DeclaredLayers& kind,
                const StoredArray& array, const std::string& what, Coverage& coverage, Faults& faults) {
  const uint32_t tp = random.degrees.tp;
  const uint32_t ep = random.degrees.ep;
  const uint64_t grids = array.IsPerExpert() ? kind.experts : 1;
  Bytes file(grids * array.Bytes());
  for (uint64_t i = 0; i < file.size(); ++i) file[i] = Fill(i);

  const std::vector<std::vector<uint32_t>> held = HeldExperts(c, ep);
  Bytes again(file.size(), 0);
  std::vector<uint8_t> writers(file.size(), 0);
  uint64_t shard_bytes = 0;
  std::vector<Bytes> shards;  // per rank, tp-major
  for (uint32_t t = 0; t < tp; ++t) {
    for (uint32_t e = 0; e < ep; ++e) {
      Run columns;
      if (array.division == Division::kExpertColumns) columns = ColumnsOf(c, t);
      const bool shared = array.division == Division::kSharedColumns || array.division == Division::kShared;
      if (shared) columns = SharedColumnsOf(random, c, t, e);
      const bool absent = shared && columns.begin == columns.end;
      const std::vector<Run> runs = absent ? std::vector<Run>{} : array.FileRunsOf(columns.begin, columns.end);
      Bytes shard;
      if (array.IsPerExpert()) {
        for (const uint32_t expert : held[e]) {
          if (expert < kind.experts) CopyRuns(file, expert * array.Bytes(), runs, shard);
        }
      } else {
        CopyRuns(file, 0, runs, shard);
      }
      shard_bytes += shard.size();
      // Back from the shard, expert after expert. Copies write the same bytes a second time.
      uint64_t at = 0;
      const std::vector<uint32_t> one = {0};
      for (const uint32_t expert : array.IsPerExpert() ? held[e] : one) {
        if (expert >= grids) continue;
        for (const Run& run : runs) {
          const uint64_t begin = expert * array.Bytes() + run.begin;
          const uint64_t size = run.end - run.begin;
          std::memcpy(again.data() + begin, shard.data() + at, size);
          for (uint64_t i = 0; i < size; ++i) ++writers[begin + i];
          at += size;
        }
      }
      if (at != shard.size()) faults.push_back(absl::StrCat(what, ": a shard has bytes left"));
      shards.push_back(std::move(shard));
    }
  }
  coverage.reassembled_bytes += file.size();
  ExpectThat(again == file, absl::StrCat(what, ": put together again, it is not the same"), faults);
  // Each byte of a cut array is on one rank for each holder of its expert, not on two neighbours.
  if (array.HasColumns()) {
    const std::vector<std::vector<uint32_t>> holders = Holders(c);
    for (uint64_t grid = 0; grid < grids; ++grid) {
      const uint64_t expected = array.IsPerExpert() ? holders[grid].size() : 1;
      for (uint64_t i = grid * array.Bytes(); i < (grid + 1) * array.Bytes(); ++i) {
        if (writers[i] == expected) continue;
        faults.push_back(absl::StrCat(what, ": byte ", i, " is on ", writers[i], " ranks, expected ", expected));
        return;
      }
    }
  }
  Expect(shard_bytes, ReplicatedBytes(random, kind, array), absl::StrCat(what, ", bytes of all shards"), faults);
  // Shards of two tp ranks have the same size; in each other's place they are noticed.
  const Bytes& first = shards.front();
  const Bytes& last_tp = shards[size_t{tp - 1} * ep];
  if (array.division == Division::kExpertColumns && tp > 1 && first.size() == last_tp.size()) {
    ++coverage.swapped_shards;
    ExpectThat(first != last_tp, absl::StrCat(what, ": the shards of two ranks are the same"), faults);
  }
  // Halves, cut as if they were one matrix, give ranks rows that are not theirs.
  const bool halves = array.rows == StoredArray::Rows::kHalves && array.division == Division::kExpertColumns;
  if (!halves || tp == 1 || array.cell_columns > 1) return;
  const Run columns = ColumnsOf(c, 0);
  StoredArray naive = array;
  naive.rows = StoredArray::Rows::kPlain;
  Bytes shard;
  CopyRuns(file, 0, naive.FileRunsOf(2 * columns.begin, 2 * columns.end), shard);
  Bytes own;
  CopyRuns(file, 0, array.FileRunsOf(columns.begin, columns.end), own);
  ++coverage.naive_cuts;
  ExpectThat(shard.size() == own.size() && shard != own, absl::StrCat(what, ": a cut of halves is a cut of the whole"),
             faults);
}

// First and last step at which a value must be intact; -1: before the first.
struct Lifetime {
  int64_t first = -1;
  int64_t last = -1;
};

std::vector<Lifetime> LifetimesOf(const Program& program) {
  std::vector<Lifetime> lifetimes(program.values.size());
  for (size_t i = 0; i < program.steps.size(); ++i) {
    for (const uint32_t value : program.steps[i].outputs) {
      lifetimes.at(value) = {static_cast<int64_t>(i), static_cast<int64_t>(i)};
    }
    for (const uint32_t value : program.steps[i].inputs) lifetimes.at(value).last = static_cast<int64_t>(i);
  }
  for (const uint32_t value : program.steps.back().outputs) {
    lifetimes.at(value).last = static_cast<int64_t>(program.steps.size());
  }
  return lifetimes;
}

uint64_t BytesOfValue(const RandomDeployment& random, const DeclaredLayers& kind, const Program& program,
                      const WorkLayout& layout, const Value& value) {
  const bool prefill = program.phase == Phase::kPrefill;
  const uint64_t tokens = prefill ? random.prefill_chunk : random.decode_tokens;
  const uint64_t own_tokens = prefill ? random.rank_prefill_tokens : random.rank_decode_tokens;
  const uint64_t slots = tokens * kind.top_k;
  uint64_t rows = value.rows == RowSet::kPart ? own_tokens : tokens;
  if (value.order == ValueOrder::kRouting) return slots * (4 + 4);  // an id and a weight
  if (value.order == ValueOrder::kTokenId) return tokens * 4;
  // Slot of a row, row of a slot, where an expert's rows begin, where the last ones end.
  if (value.order == ValueOrder::kGrouping) return 4 * (layout.grouped_rows + slots + layout.experts + 1);
  if (value.order == ValueOrder::kSlot) rows = slots;
  if (value.order == ValueOrder::kRow) rows = layout.grouped_rows;
  const std::map<ValueWidth, uint64_t> widths = {{ValueWidth::kHidden, random.hidden},
                                                 {ValueWidth::kColumns, layout.columns},
                                                 {ValueWidth::kTwoColumns, 2 * uint64_t{layout.columns}},
                                                 {ValueWidth::kSharedColumns, layout.shared_columns},
                                                 {ValueWidth::kTwoSharedColumns, 2 * uint64_t{layout.shared_columns}}};
  const auto width = widths.find(value.width);
  return width == widths.end() ? 0 : (value.fixed_point ? 8 : 4) * rows * width->second;
}

// A token's experts, and how many rows each rank gets of all tokens.
using Route = std::vector<std::vector<uint32_t>>;

class RowCounter {
 public:
  RowCounter(const LayerClass& c, uint32_t ep, uint64_t tile)
      : holders_(Holders(c)), rows_(ep, std::vector<uint64_t>(c.experts, 0)), tile_(tile) {}

  // Rows of every ep coordinate, padded to tiles. Of an expert's copies, the token's number chooses one.
  std::vector<uint64_t> RowsOf(const Route& route) {
    for (std::vector<uint64_t>& rows : rows_) std::fill(rows.begin(), rows.end(), 0);
    for (size_t token = 0; token < route.size(); ++token) {
      for (const uint32_t expert : route[token]) {
        const std::vector<uint32_t>& holders = holders_[expert];
        ++rows_[holders[token % holders.size()]][expert];
      }
    }
    std::vector<uint64_t> padded;
    for (const std::vector<uint64_t>& rows : rows_) {
      uint64_t sum = 0;
      for (const uint64_t count : rows) sum += CeilDiv(count, tile_) * tile_;
      padded.push_back(sum);
    }
    return padded;
  }

 private:
  std::vector<std::vector<uint32_t>> holders_;
  std::vector<std::vector<uint64_t>> rows_;  // per rank and expert
  uint64_t tile_;
};

// The route that fills the most tiles of a rank with `held` experts: one row for each of as many as can be, then whole
// tiles, then what is left. Tokens take turns, so none has an expert twice.
Route AdversarialRoute(const LayerClass& c, const std::vector<uint32_t>& held, uint64_t tokens, uint64_t tile) {
  const uint64_t each = std::min<uint64_t>(c.top_k, held.size());
  uint64_t left = tokens * each;
  std::vector<uint64_t> counts(held.size(), 0);
  for (uint64_t& count : counts) {
    if (left == 0) break;
    count = 1;
    --left;
  }
  for (uint64_t& count : counts) {
    while (count > 0 && left >= tile && count + tile <= tokens) {
      count += tile;
      left -= tile;
    }
  }
  for (uint64_t& count : counts) {
    const uint64_t more = std::min(left, tokens - count);
    count += more;
    left -= more;
  }
  Route route(tokens);
  uint64_t at = 0;
  for (size_t i = 0; i < held.size(); ++i) {
    for (uint64_t row = 0; row < counts[i]; ++row) route[at++ % tokens].push_back(held[i]);
  }
  for (std::vector<uint32_t>& experts : route) {
    const std::set<uint32_t> own(held.begin(), held.end());
    for (uint32_t expert = 0; experts.size() < c.top_k && expert < c.experts; ++expert) {
      if (own.count(expert) == 0) experts.push_back(expert);
    }
  }
  return route;
}

// All sets of top_k experts.
std::vector<std::vector<uint32_t>> Choices(uint32_t experts, uint32_t top_k) {
  std::vector<std::vector<uint32_t>> choices;
  if (experts > 12) return choices;
  for (uint32_t set = 0; set < (1u << experts); ++set) {
    std::vector<uint32_t> chosen;
    for (uint32_t e = 0; e < experts; ++e) {
      if ((set >> e & 1) != 0) chosen.push_back(e);
    }
    if (chosen.size() == top_k) choices.push_back(chosen);
  }
  return choices;
}

void CheckCapacity(const RandomDeployment& random, const LayerClass& c, const Program& program, Coverage& coverage,
                   Faults& faults) {
  const std::string where = absl::StrCat(LayersText(c), ", capacity");
  const uint32_t ep = random.degrees.ep;
  const uint64_t tokens = random.prefill_chunk;
  const uint64_t tile = program.tile_rows;
  if (tile == 0) {
    faults.push_back(absl::StrCat(where, ": tiles without rows"));
    return;
  }
  const std::vector<std::vector<uint32_t>> held = HeldExperts(c, ep);
  std::vector<uint64_t> capacity(ep, UINT64_MAX);
  for (uint32_t e = 0; e < ep; ++e) {
    for (const WorkLayout& layout : program.layouts) {
      if (layout.experts != held[e].size()) continue;
      ExpectThat(capacity[e] == UINT64_MAX || capacity[e] == layout.grouped_rows,
                 absl::StrCat(where, ": it depends on the columns"), faults);
      capacity[e] = layout.grouped_rows;
    }
    ExpectThat(capacity[e] != UINT64_MAX, absl::StrCat(where, ": no layout has ", held[e].size(), " experts"), faults);
  }
  RowCounter counter(c, ep, tile);
  std::vector<uint64_t> most(ep, 0);
  const auto try_route = [&](const Route& route) {
    ++coverage.routes;
    const std::vector<uint64_t> rows = counter.RowsOf(route);
    for (uint32_t e = 0; e < ep; ++e) most[e] = std::max(most[e], rows[e]);
  };
  const std::vector<std::vector<uint32_t>> choices = Choices(c.experts, c.top_k);
  uint64_t routes = choices.size();
  for (uint64_t token = 1; token < tokens && routes <= kMostRoutes; ++token) routes *= choices.size();
  const bool all = !choices.empty() && routes <= kMostRoutes;
  if (all) {
    ++coverage.exhausted;
    std::vector<size_t> choice(tokens, 0);
    for (uint64_t n = 0; n < routes; ++n) {
      uint64_t rest = n;
      Route route;
      for (uint64_t token = 0; token < tokens; ++token) {
        route.push_back(choices[rest % choices.size()]);
        rest /= choices.size();
      }
      try_route(route);
    }
  } else if (tokens * c.top_k <= kMostSlots) {
    Dice dice(random.seed + c.layers.front().first);
    for (int i = 0; i < 2; ++i) {
      Route route(tokens);
      for (std::vector<uint32_t>& experts : route) {
        std::set<uint32_t> chosen;
        while (chosen.size() < c.top_k) chosen.insert(dice.Below(c.experts));
        experts.assign(chosen.begin(), chosen.end());
      }
      try_route(route);
    }
    std::set<size_t> tried;
    for (uint32_t e = 0; e < ep; ++e) {
      if (tried.insert(held[e].size()).second) try_route(AdversarialRoute(c, held[e], tokens, tile));
    }
  } else {
    return;
  }
  std::map<size_t, uint64_t> most_of_size;
  for (uint32_t e = 0; e < ep; ++e) {
    uint64_t& rows = most_of_size[held[e].size()];
    rows = std::max(rows, most[e]);
    ExpectThat(most[e] <= capacity[e],
               absl::StrCat(where, " of ep ", e, " is ", capacity[e], " rows, a route needs ", most[e]), faults);
  }
  if (!c.expert_copies.empty()) return;  // a copy takes only some of the tokens
  for (uint32_t e = 0; e < ep; ++e) {
    ++coverage.full_capacities;
    Expect(capacity[e], most_of_size[held[e].size()], absl::StrCat(where, " of ep ", e, " against the worst route"),
           faults);
  }
}

}  // namespace

void CheckDeclared(const RandomDeployment& random, const Plan& plan, Faults& faults) {
  const Degrees& d = random.degrees;
  ExpectThat(plan.degrees == d, "other degrees", faults);
  Expect(plan.hidden, random.hidden, "hidden", faults);
  Expect(plan.layers, random.layers, "layers", faults);
  std::vector<uint32_t> ends;
  uint32_t end = 0;
  for (const uint32_t layers : random.stage_layers) ends.push_back(end += layers);
  ExpectThat(plan.stage_ends == ends, absl::StrCat("stages end at ", absl::StrJoin(plan.stage_ends, ", ")), faults);
  Expect(plan.memory.size(), size_t{d.dp} * d.pp * d.tp * d.ep, "ranks", faults);
  Expect(plan.mesh.rank_slots.size(), plan.memory.size(), "ranks with a slot", faults);
  ExpectThat(plan.other_weights == random.other_weights, "other weights are not as declared", faults);
  Expect(plan.limits.decode_tokens, random.decode_tokens, "decode tokens", faults);
  Expect(plan.limits.prefill_chunk, random.prefill_chunk, "prefill chunk", faults);
  Expect(plan.limits.rank_decode_tokens, random.rank_decode_tokens, "a rank's decode tokens", faults);
  Expect(plan.limits.rank_prefill_tokens, random.rank_prefill_tokens, "a rank's prefill tokens", faults);
  ExpectThat(plan.reduction == random.reduction, "another reduction", faults);
  ExpectThat(plan.expert_placement == random.placement, "another placement of experts", faults);

  std::vector<uint32_t> stands(random.layers, 0);
  for (const LayerClass& c : plan.layer_classes) {
    for (const LayerRange& range : c.layers) {
      for (uint32_t layer = range.first; layer < range.last; ++layer) {
        if (layer >= random.layers) {
          faults.push_back(absl::StrCat("layer ", layer, " is not in the model"));
          return;
        }
        ++stands[layer];
      }
    }
  }
  const std::vector<const LayerClass*> classes = ClassOfLayer(plan);
  for (uint32_t layer = 0; layer < random.layers; ++layer) {
    Expect(stands[layer], random.kind_of[layer].has_value() ? 1u : 0u, absl::StrCat("classes of layer ", layer),
           faults);
    if (stands[layer] == 0 || !random.kind_of[layer].has_value()) continue;
    const DeclaredLayers& kind = random.kinds[*random.kind_of[layer]];
    if (classes[layer]->layers.front().first == layer) CheckKind(random, kind, *classes[layer], faults);
    ExpectThat(*random.kind_of[layer] == random.kind_of[classes[layer]->layers.front().first],
               absl::StrCat("layer ", layer, " is in the class of another kind of layers"), faults);
    ExpectThat(classes[layer]->load.slots == random.loads[layer], absl::StrCat("layer ", layer, " has another load"),
               faults);
  }
}

void CheckOwnership(const RandomDeployment& random, const Plan& plan, Faults& faults) {
  const uint32_t ep = random.degrees.ep;
  for (const Pair& pair : PairsOf(random, plan)) {
    const LayerClass* c = pair.c;
    const DeclaredLayers* kind = pair.kind;
    const std::string where = LayersText(*c);
    Expect(c->expert_shards.size(), kind->experts, absl::StrCat(where, ", shards"), faults);
    Expect(c->expert_copies.size(), random.copies, absl::StrCat(where, ", copies"), faults);
    if (c->expert_shards.size() != kind->experts) continue;
    // Locals in order: primaries by expert, then copies as they are listed.
    std::vector<uint32_t> next(ep, 0);
    std::vector<std::set<uint32_t>> experts(ep);
    std::vector<uint64_t> busy(ep, 0);
    const std::vector<std::vector<uint32_t>> holders = Holders(*c);
    const auto take = [&](uint32_t expert, uint32_t owner, uint32_t local) {
      if (expert >= kind->experts || owner >= ep) {
        faults.push_back(absl::StrCat(where, ": expert ", expert, " of rank ", owner));
        return;
      }
      Expect(local, next[owner]++, absl::StrCat(where, ", local number of expert ", expert), faults);
      ExpectThat(experts[owner].insert(expert).second, absl::StrCat(where, ": expert ", expert, " twice on ", owner),
                 faults);
      if (!c->load.slots.empty()) busy[owner] += CeilDiv(c->load.slots[expert], holders[expert].size());
    };
    std::vector<uint32_t> primaries(ep, 0);
    for (uint32_t expert = 0; expert < kind->experts; ++expert) {
      const ExpertShard& shard = c->expert_shards[expert];
      take(expert, shard.owner, shard.local);
      if (shard.owner < ep) ++primaries[shard.owner];
      if (random.placement == ExpertPlacement::kRoundRobin) {
        Expect(shard.owner, expert % ep, absl::StrCat(where, ", owner of expert ", expert), faults);
      } else if (random.placement == ExpertPlacement::kContiguous && random.copies == 0) {
        // The first (experts mod ep) ranks have one more.
        const uint32_t more = kind->experts % ep;
        const uint32_t size = kind->experts / ep;
        const uint32_t owner =
            expert < more * (size + 1) ? expert / (size + 1) : more + (expert - more * (size + 1)) / size;
        Expect(shard.owner, owner, absl::StrCat(where, ", owner of expert ", expert), faults);
      }
    }
    std::pair<uint32_t, uint32_t> last = {0, 0};
    for (const ExpertCopy& copy : c->expert_copies) {
      take(copy.expert, copy.owner, copy.local);
      ExpectThat(std::make_pair(copy.owner, copy.local) >= last, absl::StrCat(where, ": copies out of order"), faults);
      last = {copy.owner, copy.local};
    }
    const auto [least, most] = std::minmax_element(next.begin(), next.end());
    ExpectThat(*least > 0, absl::StrCat(where, ": a rank without an expert"), faults);
    ExpectThat(*most - *least <= (random.uneven_experts ? 1 : 0),
               absl::StrCat(where, ": ranks have ", *least, " to ", *most, " experts"), faults);
    if (random.placement != ExpertPlacement::kBalanced || c->load.slots.size() != kind->experts) continue;
    Expect(c->load.busiest, *std::max_element(busy.begin(), busy.end()), absl::StrCat(where, ", the busiest rank"),
           faults);
    std::vector<uint64_t> even(ep, 0);
    for (uint32_t expert = 0, owner = 0, left = 0; expert < kind->experts; ++expert) {
      if (left == 0 && expert > 0) ++owner;
      if (left == 0) left = kind->experts / ep + (owner < kind->experts % ep ? 1 : 0);
      even[owner] += c->load.slots[expert];
      --left;
    }
    const uint64_t contiguous = *std::max_element(even.begin(), even.end());
    Expect(c->load.busiest_contiguous, contiguous, absl::StrCat(where, ", the busiest contiguous rank"), faults);
    // A copy takes a place even where no expert is busier than the others, and its share is rounded up.
    if (random.copies > 0) continue;
    ExpectThat(
        c->load.busiest <= contiguous,
        absl::StrCat(where, ": balanced, the busiest rank has ", c->load.busiest, " slots, contiguous ", contiguous),
        faults);
  }
}

void CheckColumns(const RandomDeployment& random, const Plan& plan, Faults& faults) {
  const uint32_t tp = random.degrees.tp;
  const auto check = [&](const std::vector<uint32_t>& ends, uint32_t width, uint32_t unit, size_t parts,
                         const std::string& what) {
    Expect(ends.size(), parts, absl::StrCat(what, ", number"), faults);
    uint32_t last = 0;
    for (size_t i = 0; i < ends.size(); ++i) {
      ExpectThat(ends[i] > last, absl::StrCat(what, ": part ", i, " is empty"), faults);
      ExpectThat(ends[i] % unit == 0 || i + 1 == ends.size(),
                 absl::StrCat(what, ": part ", i, " ends at ", ends[i], " inside a unit of ", unit), faults);
      last = ends[i];
    }
    Expect(last, width, absl::StrCat(what, ", the end"), faults);
  };
  for (const auto& [c, kind] : PairsOf(random, plan)) {
    const std::string where = LayersText(*c);
    const size_t segments = random.reduction == Reduction::kExact ? random.segments : tp;
    check(c->segment_ends, kind->intermediate, ColumnUnit(*kind, false, random.q8_down), segments,
          absl::StrCat(where, ", segments"));
    check(c->tp_segment_ends, static_cast<uint32_t>(segments), 1, tp, absl::StrCat(where, ", segments of ranks"));
    uint64_t end = 0;
    for (uint32_t t = 0; t < tp; ++t) {
      const Run columns = ColumnsOf(*c, t);
      Expect(columns.begin, end, absl::StrCat(where, ", columns of tp ", t), faults);
      end = columns.end;
      if (random.uneven_cuts) continue;
      Expect(columns.end - columns.begin, uint64_t{kind->intermediate / tp}, absl::StrCat(where, ", columns of tp ", t),
             faults);
    }
    Expect(end, uint64_t{kind->intermediate}, absl::StrCat(where, ", columns"), faults);
    const std::vector<uint32_t>& parts = c->shared_expert.part_ends;
    if (kind->shared.width == 0) {
      ExpectThat(parts.empty(), absl::StrCat(where, ": parts of no shared expert"), faults);
      continue;
    }
    const size_t number = random.shared_placement == SharedPlacement::kSplit ? size_t{tp} * random.degrees.ep : tp;
    const uint32_t unit = ColumnUnit(*kind, true, random.q8_down);
    check(parts, kind->shared.width, unit, number, absl::StrCat(where, ", shared"));
    const bool exact = random.reduction == Reduction::kExact;
    check(c->shared_expert.segment_ends, kind->shared.width, unit, exact ? random.shared_segments : number,
          absl::StrCat(where, ", shared segments"));
    for (size_t part = 0; part < parts.size() && !random.uneven_cuts; ++part) {
      const Run columns = PartOf(parts, part);
      Expect(columns.end - columns.begin, uint64_t{kind->shared.width} / number,
             absl::StrCat(where, ", shared part ", part), faults);
    }
  }
}

void CheckOwnedBytes(const RandomDeployment& random, const Plan& plan, Faults& faults) {
  const Degrees& d = random.degrees;
  if (plan.memory.size() != size_t{d.dp} * d.pp * d.tp * d.ep) return;  // told elsewhere
  const std::vector<const LayerClass*> classes = ClassOfLayer(plan);
  std::vector<uint64_t> weights(plan.memory.size() / d.dp, 0);  // of the ranks of a replica
  uint64_t replica = 0;
  std::vector<std::vector<StoredArray>> arrays;
  for (const DeclaredLayers& kind : random.kinds) {
    arrays.push_back(StoredArraysOf(kind, random.hidden, random.vocabulary));
  }
  for (uint32_t layer = 0; layer < random.layers; ++layer) {
    if (!random.kind_of[layer].has_value() || classes[layer] == nullptr) continue;
    const LayerClass& c = *classes[layer];
    const DeclaredLayers& kind = random.kinds[*random.kind_of[layer]];
    const std::vector<std::vector<uint32_t>> held = HeldExperts(c, d.ep);
    const size_t first = size_t{StageOf(plan, layer)} * d.tp * d.ep;
    for (const StoredArray& array : arrays[*random.kind_of[layer]]) {
      replica += ReplicatedBytes(random, kind, array);
      for (uint32_t t = 0; t < d.tp; ++t) {
        for (uint32_t e = 0; e < d.ep; ++e) {
          weights[first + size_t{t} * d.ep + e] +=
              HeldBytes(array, held[e].size(), ColumnsOf(c, t), SharedColumnsOf(random, c, t, e));
        }
      }
    }
  }
  for (size_t rank = 0; rank < plan.memory.size(); ++rank) {
    const uint64_t expected = weights[rank % weights.size()];
    if (plan.memory[rank].weights == expected) continue;
    Expect(plan.memory[rank].weights, expected, absl::StrCat("bytes of weights of rank ", rank), faults);
    break;  // one rank says it
  }
  for (uint32_t dp = 0; dp < d.dp; ++dp) {
    uint64_t sum = 0;
    for (size_t rank = 0; rank < weights.size(); ++rank) sum += plan.memory[dp * weights.size() + rank].weights;
    Expect(sum, replica, absl::StrCat("bytes of replica ", dp, " against the model times its replication"), faults);
  }
}

void CheckReassembly(const RandomDeployment& random, const Plan& plan, Coverage& coverage, Faults& faults) {
  uint64_t left = kReassembledBytes;
  for (const auto& [c, kind] : PairsOf(random, plan)) {
    if (c->expert_shards.size() != kind->experts || c->experts != kind->experts) continue;  // told elsewhere
    for (const StoredArray& array : StoredArraysOf(*kind, random.hidden, random.vocabulary)) {
      const uint64_t bytes = array.Bytes() * (array.IsPerExpert() ? kind->experts : 1);
      if (bytes > left) continue;
      left -= bytes;
      Reassemble(random, *c, *kind, array, absl::StrCat(LayersText(*c), ", ", array.what), coverage, faults);
    }
  }
}

void CheckCollectives(const RandomDeployment& random, const Plan& plan, Faults& faults) {
  for (const LayerClass& c : plan.layer_classes) {
    Expect(c.programs.size(), size_t{2}, absl::StrCat(LayersText(c), ", programs"), faults);
    for (const Program& program : c.programs) {
      const std::string where = absl::StrCat(LayersText(c), ", ", WordOf(program.phase));
      size_t count = 0;
      for (size_t i = 0; i < program.steps.size(); ++i) {
        const Step& step = program.steps[i];
        Expect(step.collectives.size(), size_t{step.kind == StepKind::kCollective ? 1u : 0u},
               absl::StrCat(where, ", collectives of step ", i), faults);
        if (step.kind != StepKind::kCollective) continue;
        ++count;
        const StepKind before = i == 0 ? StepKind::kInvalid : program.steps[i - 1].kind;
        ExpectThat(before == StepKind::kCombine || before == StepKind::kCombineShared,
                   absl::StrCat(where, ": the collective does not follow the combining step"), faults);
        if (step.collectives.size() != 1) continue;
        const Collective& collective = step.collectives.front();
        Expect(collective.over_tp, random.degrees.tp > 1, absl::StrCat(where, ", sum over tp"), faults);
        Expect(collective.over_ep, random.degrees.ep > 1, absl::StrCat(where, ", sum over ep"), faults);
        ExpectThat(collective.op == (random.Gathers() ? CollectiveOp::kReduceScatter : CollectiveOp::kSum),
                   absl::StrCat(where, ": another operation of the collective"), faults);
      }
      Expect(count, size_t{1}, absl::StrCat(where, ", collectives"), faults);
    }
  }
}

void CheckArenas(const RandomDeployment& random, const Plan& plan, Faults& faults) {
  for (const auto& [c, kind] : PairsOf(random, plan)) {
    for (const Program& program : c->programs) {
      const std::string where = absl::StrCat(LayersText(*c), ", ", WordOf(program.phase));
      if (program.steps.empty()) continue;
      std::vector<bool> fixed(program.values.size(), false);  // the addends of an exact sum
      for (const Step& step : program.steps) {
        const bool addends = step.kind == StepKind::kDown || step.kind == StepKind::kSharedDown ||
                             step.kind == StepKind::kCombine || step.kind == StepKind::kCombineShared;
        for (const uint32_t value : step.outputs) fixed.at(value) = addends && random.reduction == Reduction::kExact;
      }
      for (size_t i = 0; i < fixed.size(); ++i) {
        ExpectThat(program.values[i].fixed_point == fixed[i], absl::StrCat(where, ", number format of value ", i),
                   faults);
      }
      const std::vector<Lifetime> lives = LifetimesOf(program);
      uint64_t elements = 0;
      for (const WorkLayout& layout : program.layouts) {
        if (layout.buffers.size() != program.values.size()) {
          faults.push_back(absl::StrCat(where, ": ", layout.buffers.size(), " buffers"));
          continue;
        }
        uint64_t end = 0;
        for (size_t i = 0; i < layout.buffers.size(); ++i) {
          const Buffer& a = layout.buffers[i];
          Expect(a.bytes, BytesOfValue(random, *kind, program, layout, program.values[i]),
                 absl::StrCat(where, ", bytes of value ", i), faults);
          end = std::max(end, a.offset + a.bytes);
          elements = std::max(elements, a.bytes / (program.values[i].fixed_point ? 8 : 4));
          ExpectThat(a.offset % 64 == 0, absl::StrCat(where, ": value ", i, " is not on a cache line"), faults);
          for (size_t j = 0; j < i; ++j) {
            const Buffer& b = layout.buffers[j];
            const bool together = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
            const bool overlap = std::max(a.offset, b.offset) < std::min(a.offset + a.bytes, b.offset + b.bytes);
            ExpectThat(!together || !overlap, absl::StrCat(where, ": values ", j, " and ", i, " share bytes"), faults);
          }
        }
        Expect(layout.arena_bytes, CeilDiv(end, 64) * 64, absl::StrCat(where, ", bytes of the arena"), faults);
      }
      Expect(program.index_bits, elements <= 0x7FFFFFFF ? 32u : 64u, absl::StrCat(where, ", bits of an index"), faults);
    }
  }
}

void CheckCapacities(const RandomDeployment& random, const Plan& plan, Coverage& coverage, Faults& faults) {
  for (const auto& [c, kind] : PairsOf(random, plan)) {
    if (c->experts != kind->experts || c->top_k > c->experts) continue;  // told elsewhere
    for (const Program& program : c->programs) {
      if (program.phase == Phase::kPrefill) {
        CheckCapacity(random, *c, program, coverage, faults);
        continue;
      }
      for (const WorkLayout& layout : program.layouts) {
        Expect(layout.grouped_rows, uint64_t{0}, absl::StrCat(LayersText(*c), ", grouped rows of decode"), faults);
      }
    }
  }
}

void CheckMemory(const RandomDeployment& random, const Plan& plan, Faults& faults) {
  const Degrees& d = random.degrees;
  for (size_t rank = 0; rank < plan.memory.size(); ++rank) {
    const RankMemory& m = plan.memory[rank];
    const uint64_t arena = std::max({m.staging, m.decode_work, m.prefill_work});
    Expect(m.total, m.weights + m.other + m.repacked + arena + m.collective + m.communicator + m.capture + m.sessions,
           absl::StrCat("total of rank ", rank), faults);
    ExpectThat(m.total <= m.budget, absl::StrCat("rank ", rank, " needs more than it has"), faults);
  }
  if (plan.memory.size() != size_t{d.dp} * d.pp * d.tp * d.ep) return;
  // The work lines of a replica's ranks: the largest arena of the layers of their stage.
  const std::vector<const LayerClass*> classes = ClassOfLayer(plan);
  for (size_t rank = 0; rank < plan.memory.size() / d.dp; ++rank) {
    const uint32_t pp = static_cast<uint32_t>(rank) / (d.tp * d.ep);
    const uint32_t tp = static_cast<uint32_t>(rank) / d.ep % d.tp;
    const uint32_t ep = static_cast<uint32_t>(rank) % d.ep;
    std::set<const LayerClass*> of_stage;
    for (uint32_t layer = 0; layer < plan.layers; ++layer) {
      if (classes[layer] != nullptr && StageOf(plan, layer) == pp) of_stage.insert(classes[layer]);
    }
    uint64_t decode = 0;
    uint64_t prefill = 0;
    for (const LayerClass* c : of_stage) {
      const Run columns = ColumnsOf(*c, tp);
      const Run shared = SharedColumnsOf(random, *c, tp, ep);
      for (const Program& program : c->programs) {
        size_t fits = 0;
        for (const WorkLayout& layout : program.layouts) {
          if (layout.experts != HeldExperts(*c, d.ep)[ep].size() || layout.columns != columns.end - columns.begin ||
              layout.shared_columns != shared.end - shared.begin) {
            continue;
          }
          ++fits;
          uint64_t& line = program.phase == Phase::kPrefill ? prefill : decode;
          line = std::max(line, layout.arena_bytes);
        }
        Expect(fits, size_t{1}, absl::StrCat(LayersText(*c), ", layouts of rank ", rank), faults);
      }
    }
    Expect(plan.memory[rank].decode_work, decode, absl::StrCat("work of rank ", rank, " in decode"), faults);
    Expect(plan.memory[rank].prefill_work, prefill, absl::StrCat("work of rank ", rank, " in prefill"), faults);
  }
  // What is not MoE, of one replica: each of its dense ranks has a part, rounded up.
  uint64_t other = 0;
  for (uint32_t pp = 0; pp < d.pp; ++pp) {
    for (uint32_t rank = 0; rank < d.dense_tp; ++rank) other += plan.memory[pp * d.tp * d.ep + rank].other;
  }
  const uint64_t declared = random.other_weights.first + random.other_weights.layers + random.other_weights.last;
  ExpectThat(other >= declared, absl::StrCat("dense ranks hold ", other, " of ", declared, " bytes"), faults);
  if (plan.kv_heads == KvHeads::kCut) {
    ExpectThat(other <= declared + d.pp * (d.dense_tp + 1), absl::StrCat("dense ranks hold ", other, " of ", declared),
               faults);
  }
}

Faults CheckAll(const RandomDeployment& random, const Plan& plan, Coverage& coverage) {
  Faults faults;
  CheckDeclared(random, plan, faults);
  CheckOwnership(random, plan, faults);
  CheckColumns(random, plan, faults);
  CheckOwnedBytes(random, plan, faults);
  CheckReassembly(random, plan, coverage, faults);
  CheckCollectives(random, plan, faults);
  CheckArenas(random, plan, faults);
  CheckCapacities(random, plan, coverage, faults);
  CheckMemory(random, plan, faults);
  return faults;
}

}  // namespace meshseal::properties

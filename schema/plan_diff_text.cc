#include "schema/plan_diff_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/byte_text.h"
#include "schema/format_text.h"
#include "schema/memory_lines.h"
#include "schema/plan_words.h"

namespace meshseal {
namespace {

// Longest lists that are printed whole.
constexpr size_t kMostLines = 64;    // fields, slots
constexpr size_t kShownSources = 4;  // slots that one slot receives from

std::string MoreText(size_t more, absl::string_view what) {
  return absl::StrCat("  and ", more, " more ", what, ": --format json has them all\n");
}

// "7.1 GiB -> 7.6 GiB"; where that reads the same, the bytes between them.
std::string ByteChangeText(uint64_t a, uint64_t b) {
  std::string text = absl::StrCat(ByteText(a), " -> ", ByteText(b));
  if (ByteText(a) == ByteText(b)) {
    absl::StrAppend(&text, b > a ? " (+" : " (-", b > a ? b - a : a - b, " B)");
  }
  return text;
}

std::string SlotText(const SlotMoves& slot) {
  return absl::StrCat(Shown(slot.node), " slot ", slot.slot, slot.nth == 0 ? "" : absl::StrCat(" #", slot.nth + 1));
}

std::string RankText(const Both<std::optional<uint32_t>>& rank) {
  const auto text = [](const std::optional<uint32_t>& of_plan) {
    return of_plan.has_value() ? absl::StrCat("rank ", *of_plan) : std::string("free");
  };
  return rank.a == rank.b ? text(rank.a) : absl::StrCat(text(rank.a), " -> ", text(rank.b));
}

void AppendFile(absl::string_view which, const PlanFile& file, std::string* text) {
  absl::StrAppend(text, which, " ", Shown(file.path), ":");
  if (!file.title.empty()) absl::StrAppend(text, " plan \"", Shown(file.title), "\"");
  if (!file.id.empty()) absl::StrAppend(text, " id ", file.id);
  if (file.serial.has_value()) absl::StrAppend(text, "  serial ", *file.serial);
  absl::StrAppend(text, "  ", file.standing, "\n");
}

void AppendChanges(absl::string_view title, const FieldChanges& changes, std::string* text) {
  if (changes.empty()) return;
  absl::StrAppend(text, title, "\n");
  for (size_t i = 0; i < changes.size() && i < kMostLines; ++i) {
    const FieldChange& change = changes[i];
    AppendFormat(text, "  %-28s %s -> %s\n", Shown(change.field), Shown(change.a), Shown(change.b));
  }
  if (changes.size() > kMostLines) absl::StrAppend(text, MoreText(changes.size() - kMostLines, "fields"));
}

std::string HoldingText(const Holding& h) {
  const std::pair<const char*, Intervals> kinds[] = {{"stay", Intersection(h.experts.a, h.experts.b)},
                                                     {"leave", Difference(h.experts.a, h.experts.b)},
                                                     {"arrive", Difference(h.experts.b, h.experts.a)}};
  std::vector<std::string> experts;
  for (const auto& [verb, intervals] : kinds) {
    if (!intervals.empty()) experts.push_back(absl::StrCat(IntervalsText(intervals), " ", verb));
  }
  const auto columns = [](const Both<Interval>& of) {
    if (of.a == of.b || Count(of.a) == 0) return IntervalText(of.b);
    return Count(of.b) == 0 ? IntervalText(of.a) : absl::StrCat(IntervalText(of.a), " -> ", IntervalText(of.b));
  };
  const auto count = [](const Interval& of) { return Count(of) == 0 ? "none" : IntervalText(of); };
  const Both<Interval>& shared = h.shared_columns;
  std::string shared_text;
  if (!(shared.a == shared.b)) {
    shared_text = absl::StrCat("; shared columns ", count(shared.a), " -> ", count(shared.b));
  } else if (Count(shared.a) > 0) {
    shared_text = absl::StrCat("; shared columns ", IntervalText(shared.a));
  }
  return absl::StrCat(LayersText(h.layers), ": experts ", absl::StrJoin(experts, ", "), "; columns ",
                      columns(h.columns), shared_text);
}

std::string WeightsText(const WeightBytes& bytes) {
  return absl::StrCat("keeps ", ByteText(bytes.kept), ", drops ", ByteText(bytes.dropped), ", receives ",
                      ByteText(bytes.received));
}

std::string SourcesText(const PlanMoves& moves, const SlotMoves& slot) {
  std::vector<std::string> parts;
  uint64_t rest = slot.unlisted_bytes;
  const size_t all = slot.sources.size() + slot.unlisted_sources;
  for (size_t i = 0; i < slot.sources.size(); ++i) {
    const MoveSource& source = slot.sources[i];
    if (i < kShownSources) {
      parts.push_back(absl::StrCat(ByteText(source.bytes), " from ", SlotText(moves.slots[source.slot])));
    } else {
      rest += source.bytes;
    }
  }
  if (all > kShownSources) {
    parts.push_back(absl::StrCat(ByteText(rest), " from ", all - kShownSources, " more"));
  }
  if (slot.from_checkpoint > 0) parts.push_back(absl::StrCat(ByteText(slot.from_checkpoint), " from the checkpoint"));
  return parts.empty() ? "" : absl::StrCat(": ", absl::StrJoin(parts, ", "));
}

bool Moves(const SlotMoves& slot) {
  return slot.weights.dropped > 0 || slot.weights.received > 0 || slot.rank.a != slot.rank.b;
}

void AppendMoves(const PlanMoves& moves, std::string* text) {
  const auto moving = static_cast<size_t>(std::count_if(moves.slots.begin(), moves.slots.end(), Moves));
  if (moving == 0) {
    absl::StrAppend(text, "weights: every slot keeps what it holds, ", ByteText(moves.weights.kept), "\n");
    return;
  }
  absl::StrAppend(text, "weights: ", moving, " of ", moves.slots.size(), " slots change; together they keep ",
                  ByteText(moves.weights.kept), ", drop ", ByteText(moves.weights.dropped), ", receive ",
                  ByteText(moves.weights.received), " (", ByteText(moves.weights.received - moves.from_checkpoint),
                  " held by another slot, ", ByteText(moves.from_checkpoint), " only in the checkpoint)\n");
  absl::StrAppend(text,
                  moves.same_weights
                      ? "  tensors of the same name, type and shape are taken for equal: no plan binds their bytes\n"
                      : "  another model or weight source: nothing is kept\n");
  size_t listed = 0;
  for (const SlotMoves& slot : moves.slots) {
    if (!Moves(slot)) continue;
    if (listed++ == kMostLines) break;
    absl::StrAppend(text, "  ", SlotText(slot), " (", RankText(slot.rank), ") ", WeightsText(slot.weights),
                    SourcesText(moves, slot), slot.sent == 0 ? "" : absl::StrCat("; sends ", ByteText(slot.sent)),
                    "\n");
    for (size_t i = 0; i < slot.holdings.size() && i < kMostIntervals; ++i) {
      absl::StrAppend(text, "    ", HoldingText(slot.holdings[i]), "\n");
    }
    if (slot.holdings.size() > kMostIntervals) {
      absl::StrAppend(text, "  ", MoreText(slot.holdings.size() - kMostIntervals, "groups of layers"));
    }
  }
  if (moving > kMostLines) absl::StrAppend(text, MoreText(moving - kMostLines, "slots"));
}

std::string MemoryText(const SlotMoves& slot) {
  const std::optional<RankMemory>& a = slot.memory.a;
  const std::optional<RankMemory>& b = slot.memory.b;
  if (!a.has_value() || !b.has_value()) {
    const auto total = [](const std::optional<RankMemory>& memory) {
      return memory.has_value() ? absl::StrCat(ByteText(memory->total), " of ", ByteText(memory->budget))
                                : std::string("none");
    };
    return absl::StrCat("total ", total(a), " -> ", total(b));
  }
  std::vector<std::string> parts;
  for (const MemoryLine& line : kMemoryLines) {
    const uint64_t bytes_a = (*a).*line.bytes;
    const uint64_t bytes_b = (*b).*line.bytes;
    if (bytes_a != bytes_b) parts.push_back(absl::StrCat(line.words, " ", ByteChangeText(bytes_a, bytes_b)));
  }
  if (a->budget == b->budget) parts.push_back(absl::StrCat("budget ", ByteText(b->budget)));
  return absl::StrJoin(parts, ", ");
}

std::string LargestText(const PlanMoves& moves, std::optional<uint32_t> Both<std::optional<uint32_t>>::*member,
                        std::optional<RankMemory> Both<std::optional<RankMemory>>::*memory,
                        const std::optional<uint32_t>& rank) {
  for (const SlotMoves& slot : moves.slots) {
    if (!rank.has_value() || slot.rank.*member != rank || !(slot.memory.*memory).has_value()) continue;
    const RankMemory& of_rank = *(slot.memory.*memory);
    return absl::StrCat("rank ", *rank, " (", SlotText(slot), ") ", ByteText(of_rank.total), " of ",
                        ByteText(of_rank.budget));
  }
  return "none";
}

// Runs of slots whose memory changes alike, each as one line.
void AppendMemory(const PlanDiff& diff, std::string* text) {
  const std::vector<SlotMoves>& slots = diff.moves->slots;
  std::vector<std::string> lines;
  for (size_t i = 0; i < slots.size();) {
    size_t end = i + 1;
    while (end < slots.size() && slots[end].memory.a == slots[i].memory.a && slots[end].memory.b == slots[i].memory.b) {
      ++end;
    }
    if (slots[i].memory.a != slots[i].memory.b) {
      const std::string last = end == i + 1 ? "" : absl::StrCat(" to ", SlotText(slots[end - 1]));
      lines.push_back(absl::StrCat("  ", SlotText(slots[i]), last, ": ", MemoryText(slots[i]), "\n"));
    }
    i = end;
  }
  if (lines.empty()) return;
  absl::StrAppend(text, "memory\n");
  for (size_t i = 0; i < lines.size() && i < kMostLines; ++i) absl::StrAppend(text, lines[i]);
  if (lines.size() > kMostLines) absl::StrAppend(text, MoreText(lines.size() - kMostLines, "runs of slots"));
  absl::StrAppend(text, "  largest: ",
                  LargestText(*diff.moves, &Both<std::optional<uint32_t>>::a, &Both<std::optional<RankMemory>>::a,
                              diff.largest_rank.a),
                  " -> ",
                  LargestText(*diff.moves, &Both<std::optional<uint32_t>>::b, &Both<std::optional<RankMemory>>::b,
                              diff.largest_rank.b),
                  "\n");
}

std::string SameText(const Both<PlanFile>& files, PlanRelation relation) {
  if (relation == PlanRelation::kOrigin) return "same plan but for its origin\n";
  if (files.a.id == files.b.id) return "same plan\n";
  if (files.a.serial == files.b.serial) return "same plan but for its header\n";
  return "same plan but for its serial\n";
}

}  // namespace

std::string PlanDiffText(const Both<PlanFile>& files, const PlanDiff* diff) {
  std::string text;
  AppendFile("A", files.a, &text);
  AppendFile("B", files.b, &text);
  if (diff == nullptr) {
    const char* unread = files.a.title.empty() ? files.b.title.empty() ? "A and B" : "A" : "B";
    return absl::StrCat(text, "not compared: no plan can be read from ", unread, "\n");
  }
  if (diff->relation != PlanRelation::kDifferent) {
    absl::StrAppend(&text, SameText(files, diff->relation));
    AppendChanges("origin", diff->origin, &text);
    return text;
  }
  absl::StrAppend(&text, "different plans, ", diff->same_execution ? "equal" : "different",
                  " execution fingerprints\n");
  AppendChanges("plan", diff->plan, &text);
  AppendChanges("mesh", diff->mesh, &text);
  AppendChanges("limits", diff->limits, &text);
  AppendChanges("numerics", diff->numerics, &text);
  AppendChanges("weights source", diff->weights, &text);
  AppendChanges("origin", diff->origin, &text);
  for (const LayerChanges& layers : diff->layers) AppendChanges(LayersText(layers.layers), layers.changes, &text);
  AppendChanges("predicted, not measured", diff->prices, &text);
  if (!diff->moves.ok()) {
    absl::StrAppend(
        &text, "weights and memory per slot: not compared: ", Shown(std::string(diff->moves.status().message())), "\n");
    return text;
  }
  AppendMoves(*diff->moves, &text);
  AppendMemory(*diff, &text);
  return text;
}

}  // namespace meshseal

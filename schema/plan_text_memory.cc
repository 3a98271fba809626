// The memory plan of a listing, phase by phase, and what a step is predicted to cost.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/byte_text.h"
#include "schema/format_text.h"
#include "schema/plan_text_parts.h"
#include "schema/plan_words.h"

namespace meshseal {
namespace {

// What is there in every phase.
struct BaseLine {
  const char* words;
  uint64_t RankMemory::*bytes;
};

constexpr BaseLine kBase[] = {{"weights", &RankMemory::weights},           {"not MoE", &RankMemory::other},
                              {"repacked", &RankMemory::repacked},         {"collective", &RankMemory::collective},
                              {"communicator", &RankMemory::communicator}, {"captured", &RankMemory::capture},
                              {"sessions", &RankMemory::sessions}};

// What a phase needs beside it.
struct PhaseLine {
  const char* phase;
  const char* words;
  uint64_t RankMemory::*bytes;
};

constexpr PhaseLine kPhases[] = {{"load", "staging", &RankMemory::staging},
                                 {"decode", "work", &RankMemory::decode_work},
                                 {"prefill", "work", &RankMemory::prefill_work}};

uint64_t BaseOf(const RankMemory& memory) {
  uint64_t base = 0;
  for (const BaseLine& line : kBase) base += memory.*line.bytes;  // of a refused plan any sum
  return base;
}

std::string FreeText(uint64_t used, uint64_t budget) {
  return used <= budget ? absl::StrCat(ByteText(budget - used), " free")
                        : absl::StrCat(ByteText(used - budget), " TOO MUCH");
}

// Ranks with equal lines, in the order of their first ranks.
std::vector<std::pair<const RankMemory*, Intervals>> EqualRanks(const Plan& plan) {
  using Key = std::array<uint64_t, std::size(kBase) + std::size(kPhases) + 2>;
  std::vector<std::pair<const RankMemory*, Intervals>> classes;
  std::map<Key, size_t> known;
  for (uint32_t rank = 0; rank < plan.memory.size(); ++rank) {
    const RankMemory& m = plan.memory[rank];
    Key key{};
    size_t i = 0;
    for (const BaseLine& line : kBase) key[i++] = m.*line.bytes;
    for (const PhaseLine& line : kPhases) key[i++] = m.*line.bytes;
    key[i++] = m.total;
    key[i++] = m.budget;
    const auto [found, added] = known.emplace(key, classes.size());
    if (added) classes.emplace_back(&m, Intervals{});
    Append(rank, rank + 1, &classes[found->second].second);
  }
  return classes;
}

// The device, or host, whose ranks together leave the least free.
struct Device {
  uint64_t used = 0;
  uint64_t budget = 0;
  std::string place;
  Intervals ranks;
};

void AppendFullest(const Plan& plan, std::string* text) {
  const auto largest = std::max_element(plan.memory.begin(), plan.memory.end(),
                                        [](const RankMemory& x, const RankMemory& y) { return x.total < y.total; });
  if (largest == plan.memory.end()) return;
  const auto rank = static_cast<uint32_t>(largest - plan.memory.begin());
  absl::StrAppend(text, "  largest: rank ", rank, " (", PlaceText(plan, rank), ") ", ByteText(largest->total), " of ",
                  ByteText(largest->budget), ", ", FreeText(largest->total, largest->budget), "\n");
  std::map<std::pair<uint32_t, uint32_t>, Device> devices;
  for (uint32_t r = 0; r < plan.memory.size() && r < plan.mesh.rank_slots.size(); ++r) {
    const RankSlot& slot = plan.mesh.rank_slots[r];
    const Node* node = At(plan.mesh.nodes, slot.node);
    const DeviceKind* kind = node == nullptr ? nullptr : At(plan.mesh.device_kinds, node->device_kind);
    const bool host = kind != nullptr && kind->memory_kind == MemoryKind::kHost;
    Device& device = devices[{slot.node, host ? 0 : slot.slot}];
    device.place = host ? absl::StrCat("node ", Shown(node->name)) : PlaceText(plan, r);
    device.used += plan.memory[r].total;
    device.budget = plan.memory[r].budget;
    Append(r, r + 1, &device.ranks);
  }
  const Device* fullest = nullptr;
  const auto left = [](const Device& d) { return d.used > d.budget ? 0 : d.budget - d.used; };
  for (const auto& [place, device] : devices) {
    if (Count(device.ranks) < 2) continue;
    if (fullest == nullptr || left(device) < left(*fullest)) fullest = &device;
  }
  if (fullest == nullptr) return;
  absl::StrAppend(text, "  fullest shared: ranks ", NumbersText(fullest->ranks), " on ", fullest->place, " take ",
                  ByteText(fullest->used), " of ", ByteText(fullest->budget), ", ",
                  FreeText(fullest->used, fullest->budget), "\n");
}

// Three digits and a unit.
std::string TimeText(uint64_t nanoseconds) {
  if (nanoseconds < 1000) return absl::StrCat(nanoseconds, " ns");
  constexpr std::array kUnits = {"us", "ms", "s"};
  double value = static_cast<double>(nanoseconds) / 1000;
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return FormatText("%.*f %s", value < 10 ? 2 : value < 100 ? 1 : 0, value, kUnits[unit]);
}

// Floating-point operations with one digit after the point.
std::string OperationsText(uint64_t operations) {
  constexpr std::array kUnits = {"MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  double value = static_cast<double>(operations) / 1e6;
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return FormatText("%.1f %s", value, kUnits[unit]);
}

}  // namespace

void AppendMemory(const Plan& plan, std::string* text) {
  const std::vector<std::pair<const RankMemory*, Intervals>> classes = EqualRanks(plan);
  if (classes.empty()) return;
  std::vector<const BaseLine*> base;  // a line that every rank has at 0 is left out
  for (const BaseLine& line : kBase) {
    const bool used =
        std::any_of(classes.begin(), classes.end(), [&](const auto& c) { return c.first->*line.bytes > 0; });
    if (used) base.push_back(&line);
  }
  std::vector<std::vector<std::string>> rows = {{"ranks"}};
  for (const BaseLine* line : base) rows[0].emplace_back(line->words);
  for (const PhaseLine& line : kPhases) rows[0].push_back(absl::StrCat(line.phase, " (", line.words, ")"));
  for (const char* words : {"total", "budget", "free"}) rows[0].emplace_back(words);
  for (size_t i = 0; i < classes.size() && i < kMostRows; ++i) {
    const RankMemory& m = *classes[i].first;
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(NumbersText(classes[i].second));
    for (const BaseLine* line : base) row.push_back(ByteText(m.*line->bytes));
    for (const PhaseLine& line : kPhases) {
      row.push_back(absl::StrCat(ByteText(BaseOf(m) + m.*line.bytes), " (", ByteText(m.*line.bytes), ")"));
    }
    row.push_back(ByteText(m.total));
    row.push_back(ByteText(m.budget));
    row.push_back(m.total <= m.budget ? ByteText(m.budget - m.total) : "none");
  }
  absl::StrAppend(text, "memory: every phase has all lines before it, and its own\n");
  AppendTable(rows, "  ", text);
  if (classes.size() > kMostRows) absl::StrAppend(text, "  ", MoreText(classes.size() - kMostRows, "kinds of rank"));
  AppendFullest(plan, text);
}

void AppendRankMemory(const Plan& plan, uint32_t rank, std::string* text) {
  const RankMemory* memory = At(plan.memory, rank);
  if (memory == nullptr) return;
  const RankMemory& m = *memory;
  absl::StrAppend(text, "  memory: ", ByteText(m.total), " of ", ByteText(m.budget), ", ", FreeText(m.total, m.budget),
                  " (", ByteText(plan.limits.headroom_bytes), " headroom left out)\n");
  std::vector<std::string> base;
  for (const BaseLine& line : kBase) {
    if (m.*line.bytes > 0) base.push_back(absl::StrCat(line.words, " ", ByteText(m.*line.bytes)));
  }
  std::vector<std::vector<std::string>> rows = {{"always", ByteText(BaseOf(m)), absl::StrJoin(base, " + ")}};
  for (const PhaseLine& line : kPhases) {
    rows.push_back({line.phase, ByteText(BaseOf(m) + m.*line.bytes),
                    absl::StrCat("always + ", line.words, " ", ByteText(m.*line.bytes))});
  }
  AppendTable(rows, "    ", text);
}

void AppendPrices(const Plan& plan, std::string* text) {
  if (plan.prices.empty()) {
    absl::StrAppend(text, "predicted: nothing, the mesh does not state its rates\n");
    return;
  }
  absl::StrAppend(text, "predicted, not measured\n");
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < plan.prices.size(); ++i) {
    const StepPrice& price = plan.prices[i];
    const std::string tokens = CountText(price.tokens, "token");
    rows.push_back(
        {i == 0 ? absl::StrCat("decode step, ", tokens) : absl::StrCat("prefill chunk, ", tokens),
         TimeText(price.nanoseconds), absl::StrCat(ByteText(price.weight_bytes), " of weights"),
         OperationsText(price.operations),
         absl::StrCat(ByteText(price.link_bytes), " inside islands, ", ByteText(price.between_bytes), " between them"),
         CountText(price.messages, "message")});
  }
  AppendTable(rows, "  ", text);
}

}  // namespace meshseal

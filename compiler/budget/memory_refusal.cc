#include "compiler/budget/memory_refusal.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/budget/memory_plan.h"
#include "schema/byte_text.h"
#include "schema/checked_math.h"
#include "schema/mesh_view.h"

namespace meshseal::compiler {
namespace {

constexpr size_t kMostAdjustable = 3;

// A line of a rank's memory that a field of the deployment decides.
struct Adjustable {
  uint64_t bytes = 0;
  Span span;
  std::string text;
};

// The largest ones first.
std::vector<Adjustable> AdjustableLines(const RankMemory& m, const Deployment& d) {
  const uint64_t work = std::max({m.staging, m.decode_work, m.prefill_work});
  std::vector<Adjustable> lines = {
      {m.sessions, d.sessions.span,
       absl::StrCat("sessions: ", d.sessions.value, " of ", ByteText(d.per_session.value))},
      {m.capture, d.capture.span, "capture"},
      {m.repacked, d.repack.span, "repack.kept"},
      {m.collective, d.prefill_chunk.span,
       absl::StrCat("collective buffers for prefill_chunk ", d.prefill_chunk.value, " and decode_tokens ",
                    d.decode_tokens.value)},
  };
  if (work == m.staging) {
    lines.push_back({m.staging, d.repack.span, "staging while weights are repacked"});
  } else if (work == m.prefill_work) {
    lines.push_back({m.prefill_work, d.prefill_chunk.span,
                     absl::StrCat("work of a prefill chunk of ", d.prefill_chunk.value, " tokens")});
  } else {
    lines.push_back({m.decode_work, d.decode_tokens.span,
                     absl::StrCat("work of a decode step of ", d.decode_tokens.value, " tokens")});
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Adjustable& a, const Adjustable& b) { return a.bytes > b.bytes; });
  lines.resize(std::min(lines.size(), kMostAdjustable));
  lines.erase(std::find_if(lines.begin(), lines.end(), [](const Adjustable& line) { return line.bytes == 0; }),
              lines.end());
  return lines;
}

// The ranks of a device; those of a host's slots share the host.
using Sharing = std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>>;

struct Need {
  std::optional<uint64_t> bytes = 0;  // nothing: more than 64 bits count
  uint32_t largest = 0;               // rank
};

Need NeedOf(const std::vector<uint32_t>& members, const std::vector<RankMemory>& ranks) {
  Need need;
  need.largest = members.front();
  for (const uint32_t rank : members) {
    need.bytes = need.bytes.has_value() ? CheckedAdd(*need.bytes, ranks[rank].total) : std::nullopt;
    if (ranks[rank].total > ranks[need.largest].total) need.largest = rank;
  }
  return need;
}

// "98.3 GiB, 96.0 GiB are there (128.0 GiB - 32.0 GiB headroom): 2.3 GiB are missing".
std::string NeedText(const Need& need, uint64_t budget, const DeviceKindSpec& device, uint64_t headroom) {
  const uint64_t memory = device.memory.value;
  const bool by_use = device.usable.value < memory - std::min(headroom, memory);
  const std::string there =
      by_use ? absl::StrCat("seen free, less than ", ByteText(memory), " - ", ByteText(headroom), " headroom")
             : absl::StrCat(ByteText(memory), " - ", ByteText(headroom), " headroom");
  if (!need.bytes.has_value()) return absl::StrCat("more bytes than 64 bits count, ", ByteText(budget), " are there");
  return absl::StrCat(ByteText(*need.bytes), ", ", ByteText(budget), " are there (", there,
                      "): ", ByteText(*need.bytes - budget), " are missing");
}

// Devices with ranks of the same expert group that have room left, the most first.
std::string RoomElsewhere(uint32_t rank, const Degrees& degrees, const Sharing& sharing,
                          const std::vector<RankMemory>& ranks) {
  const uint32_t group = degrees.tp * degrees.ep;
  std::vector<std::pair<uint64_t, uint32_t>> room;  // bytes, rank
  for (const auto& [place, members] : sharing) {
    const Need need = NeedOf(members, ranks);
    const RankMemory& m = ranks[need.largest];
    if (need.largest / group != rank / group || need.largest == rank) continue;
    if (!need.bytes.has_value() || *need.bytes >= m.budget) continue;
    room.emplace_back(m.budget - *need.bytes, need.largest);
  }
  if (room.empty()) return "";
  const auto most = *std::max_element(room.begin(), room.end());
  return absl::StrCat("rank ", most.second, " of the same expert group leaves ", ByteText(most.first), " of ",
                      ByteText(ranks[most.second].budget), " free: the group's ranks have equal parts");
}

}  // namespace

void CheckMemoryFits(const CheckedModel& checked, const Placement& placement, const std::vector<RankMemory>& ranks,
                     Diagnostics& diagnostics) {
  const MeshSpec& mesh = checked.mesh();
  const Deployment& deployment = checked.deployment();
  Sharing sharing;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const RankSlot& slot = placement.rank_slots()[rank];
    const bool host = mesh.KindOfNode(slot.node).memory_kind.value == MemoryKind::kHost;
    sharing[{slot.node, host ? 0 : slot.slot}].push_back(rank);
  }
  // Devices that lack the same are reported once.
  std::map<std::tuple<std::optional<uint64_t>, uint64_t, size_t>, std::pair<Diagnostic*, size_t>> reported;
  for (const auto& [place, members] : sharing) {
    const Need need = NeedOf(members, ranks);
    const RankMemory& m = ranks[need.largest];
    if (need.bytes.has_value() && *need.bytes <= m.budget) continue;
    auto& [error, devices] = reported[{need.bytes, m.budget, members.size()}];
    if (++devices > 1) continue;
    const DeviceKindSpec& device = mesh.KindOfNode(place.first);
    const std::string subject =
        members.size() == 1
            ? absl::StrCat("rank ", need.largest, " (", CoordinateText(CoordinateOf(placement.degrees(), need.largest)),
                           ") needs ")
            : absl::StrCat(members.size(), " ranks on node '", mesh.nodes[place.first].name.value, "' need ");
    error = &diagnostics.Error("memory-fits", device.memory.span,
                               absl::StrCat(subject, NeedText(need, m.budget, device, deployment.headroom.value)));
    error->notes.push_back(
        {deployment.headroom.span, absl::StrCat("the largest rank ", need.largest, ": ", LinesText(m))});
    for (const Adjustable& line : AdjustableLines(m, deployment)) {
      error->notes.push_back({line.span, absl::StrCat("adjustable: ", ByteText(line.bytes), " ", line.text)});
    }
    const std::string room = RoomElsewhere(need.largest, placement.degrees(), sharing, ranks);
    if (!room.empty()) error->notes.push_back({deployment.parallel_span, room});
  }
  for (const auto& [lacking, report] : reported) {
    if (report.second == 1) continue;
    report.first->notes.push_back(
        {mesh.nodes_span, absl::StrCat("and ", report.second - 1,
                                       report.second == 2 ? " more device lacks" : " more devices lack", " the same")});
  }
}

}  // namespace meshseal::compiler

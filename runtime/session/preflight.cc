#include "runtime/session/preflight.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

static_assert(std::is_trivially_copyable_v<RankRecord> && sizeof(RankRecord) <= kMaxGatherBytes);

// The fields that must be the same everywhere, in the order in which they are compared.
struct Field {
  const char* name;
  std::string (*text)(const RankRecord&);
};
constexpr Field kIdenticalFields[] = {
    {"protocol", [](const RankRecord& r) { return absl::StrCat(r.protocol); }},
    {"plan id", [](const RankRecord& r) { return HexOf(r.plan_id); }},
    {"execution fingerprint", [](const RankRecord& r) { return HexOf(r.execution_fingerprint); }},
    {"world", [](const RankRecord& r) { return absl::StrCat(r.world); }},
    {"backend",
     [](const RankRecord& r) {
       return std::string(r.backend.begin(), std::find(r.backend.begin(), r.backend.end(), '\0'));
     }},
};

absl::Status CheckIdentical(const Field& field, absl::Span<const RankRecord> records) {
  const std::string first = field.text(records.front());
  std::vector<size_t> first_ranks;
  std::vector<size_t> other_ranks;
  std::string other;
  for (size_t i = 0; i < records.size(); ++i) {
    const std::string text = field.text(records[i]);
    if (text == first) {
      first_ranks.push_back(i);
    } else if (other_ranks.empty() || text == other) {
      other = text;
      other_ranks.push_back(i);
    }
  }
  if (other_ranks.empty()) return absl::OkStatus();
  return Refuse(Reason::kRankRecord,
                absl::StrCat("preflight: ", field.name, " is ", first, " on ranks ", absl::StrJoin(first_ranks, ", "),
                             " and ", other, " on ranks ", absl::StrJoin(other_ranks, ", ")));
}

}  // namespace

RankRecord RecordOf(const SealedPlan& plan, uint32_t rank, absl::string_view backend) {
  RankRecord record;
  record.world = static_cast<uint32_t>(plan.plan().mesh.rank_slots.size());
  record.rank = rank;
  record.plan_id = plan.id();
  record.execution_fingerprint = plan.plan().execution_fingerprint;
  backend = backend.substr(0, record.backend.size());
  std::copy(backend.begin(), backend.end(), record.backend.begin());
  return record;
}

absl::Status Preflight(Communicator& world, const RankRecord& own) {
  std::vector<RankRecord> records(world.size());
  MESHSEAL_RETURN_IF_ERROR(
      world.AllGather(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&own), sizeof(own)),
                      absl::MakeSpan(reinterpret_cast<std::byte*>(records.data()), records.size() * sizeof(own))));
  for (const Field& field : kIdenticalFields) MESHSEAL_RETURN_IF_ERROR(CheckIdentical(field, records));
  if (own.world != world.size()) {
    return Refuse(Reason::kWorldSize,
                  absl::StrCat("preflight: the plan's world is ", own.world, " ranks, ", world.size(), " are running"));
  }
  for (size_t i = 0; i < records.size(); ++i) {
    if (records[i].rank == i) continue;
    return Refuse(Reason::kRankRecord, absl::StrCat("preflight: rank ", i, " says that it is rank ", records[i].rank));
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime

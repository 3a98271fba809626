#include "runtime/session/preflight.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/checked_math.h"
#include "schema/hmac_sha256.h"
#include "schema/mesh_view.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

using Ranks = std::vector<size_t>;

// A message lists this many at most and counts the others.
constexpr size_t kMostListed = 16;
constexpr size_t kMostLines = 4;

// Values come from peers: nothing of them may steer a terminal.
std::string Printable(absl::string_view text) {
  std::string printable(text);
  for (char& c : printable) {
    if (c < ' ' || c > '~') c = '?';
  }
  return printable;
}

std::string NumberText(uint64_t number) { return absl::StrCat(number); }
std::string FlagText(uint32_t flag) { return flag == 0 ? "no" : "yes"; }
std::string ShortHex(const Sha256Digest& digest) { return HexOf(digest).substr(0, 16); }
std::string DigestText(const Sha256Digest& digest) { return digest == Sha256Digest{} ? "none" : HexOf(digest); }

template <size_t N>
std::string NameText(const std::array<char, N>& name) {
  const std::string text =
      Printable({name.data(), static_cast<size_t>(std::find(name.begin(), name.end(), '\0') - name.begin())});
  return text.empty() ? "none" : text;
}

std::string CoordinateFieldText(const CoordinateField& at) { return CoordinateText({at[0], at[1], at[2], at[3]}); }

std::string BytesHex(const std::array<uint8_t, 16>& bytes) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string NonceText(const Nonce& nonce) { return BytesHex(nonce); }

std::string UuidText(const DeviceUuid& uuid) {
  if (uuid == DeviceUuid{}) return "none";
  const std::string hex = BytesHex(uuid);
  return absl::StrCat("GPU-", hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-", hex.substr(16, 4),
                      "-", hex.substr(20));
}

std::string NetworkText(NetworkTrust trust) {
  return trust == NetworkTrust::kJobKey ? "job key" : trust == NetworkTrust::kIsolated ? "isolated" : "unstated";
}

enum class Rule : uint8_t {
  kIdentical,
  kIdenticalText,
  kRunning,
  kPlace,
  kFromPlan,
  kShown,
  kHosts,
  kOwnDevice,
  kBesideDevice,
  kCharged,
  kLimited,
  kUnique,
  kProven,
  kOneAnIsland
};

struct FieldRow {
  const char* name;
  Rule rule;
  std::string (*text)(const RankRecord&);
  bool (*equal)(const RankRecord&, const RankRecord&);
};

constexpr FieldRow kFields[] = {
#define MESHSEAL_PREFLIGHT_FIELD(enumerator, type, member, name, rule, print)            \
  {name, Rule::rule, [](const RankRecord& r) -> std::string { return print(r.member); }, \
   [](const RankRecord& a, const RankRecord& b) { return a.member == b.member; }},
#include "runtime/session/preflight_fields.def"
#undef MESHSEAL_PREFLIGHT_FIELD
};

// What all ranks sent, on each of them the same.
struct Gathered {
  Communicator& world;
  const SealedPlan& plan;
  const RankStatement& own;
  std::vector<RankRecord> records;
  Sha256Digest digest{};  // of them as they were sent
};

absl::Status Differ(absl::string_view text) { return Refuse(Reason::kRankRecord, absl::StrCat("preflight: ", text)); }

// "rank 2", "ranks 0, 1, 3".
std::string RanksText(const Ranks& ranks) {
  const size_t listed = std::min(ranks.size(), kMostListed);
  std::string text = absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                                  absl::StrJoin(ranks.begin(), ranks.begin() + static_cast<ptrdiff_t>(listed), ", "));
  if (listed < ranks.size()) absl::StrAppend(&text, " and ", ranks.size() - listed, " more");
  return text;
}

struct Holders {
  std::string value;
  Ranks ranks;
};

// "A on ranks 0, 1, 3 and B on rank 2".
std::string HoldersText(const std::vector<Holders>& all) {
  std::string text;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == kMostListed) return absl::StrCat(text, " and ", all.size() - i, " more values");
    if (i > 0) absl::StrAppend(&text, i + 1 == all.size() ? " and " : ", ");
    absl::StrAppend(&text, all[i].value, " on ", RanksText(all[i].ranks));
  }
  return text;
}

// The ranks that hold the same, by first rank; `same(a, b)` says whether two do.
template <class Same>
std::vector<Ranks> RanksByValue(size_t count, Same same) {
  std::vector<Ranks> groups;
  for (size_t rank = 0; rank < count; ++rank) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const Ranks& g) { return same(g[0], rank); });
    if (group == groups.end()) {
      groups.push_back({rank});
    } else {
      group->push_back(rank);
    }
  }
  return groups;
}

std::vector<Ranks> RanksOf(const FieldRow& field, const std::vector<RankRecord>& records) {
  return RanksByValue(records.size(), [&](size_t a, size_t b) { return field.equal(records[a], records[b]); });
}

constexpr size_t kTextBytes = 1024;
constexpr size_t kTextLengthBytes = 2;
constexpr size_t kMostValue = 96;

// A text as it is sent: its length and its lines, long values cut before a digest of the whole, as many as fit.
std::string EncodeText(absl::string_view text) {
  std::string lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    std::string sent(line);
    if (sent.size() > kMostValue)
      sent = absl::StrCat(sent.substr(0, kMostValue - 9), "#", ShortHex(Sha256(line)).substr(0, 8));
    if (kTextLengthBytes + lines.size() + sent.size() + 1 > kTextBytes) break;
    absl::StrAppend(&lines, sent, "\n");
  }
  std::string bytes = {static_cast<char>(lines.size() & 0xff), static_cast<char>(lines.size() >> 8)};
  bytes += lines;
  bytes.resize(kTextBytes, '\0');
  return bytes;
}

using Lines = std::map<std::string, std::string>;  // value by name

Lines DecodeText(absl::string_view bytes) {
  const size_t length = static_cast<unsigned char>(bytes[0]) | size_t{static_cast<unsigned char>(bytes[1])} << 8;
  Lines lines;
  for (const absl::string_view line : absl::StrSplit(
           bytes.substr(kTextLengthBytes, std::min(length, kTextBytes - kTextLengthBytes)), '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    lines[Printable(parts.first)] = Printable(parts.second);
  }
  return lines;
}

// ": OMP_NUM_THREADS is 4 on ranks 0, 1, 3 and not set on rank 2".
std::string DifferingLines(const std::vector<Lines>& texts) {
  Lines names;
  for (const Lines& text : texts) names.insert(text.begin(), text.end());
  std::vector<std::string> differing;
  for (const auto& [name, value] : names) {
    const auto value_of = [&texts, &name = name](size_t rank) -> std::string {
      const auto line = texts[rank].find(name);
      return line == texts[rank].end() ? "not set" : line->second.empty() ? "empty" : line->second;
    };
    const std::vector<Ranks> groups =
        RanksByValue(texts.size(), [&](size_t a, size_t b) { return value_of(a) == value_of(b); });
    if (groups.size() == 1) continue;
    std::vector<Holders> holders;
    for (const Ranks& ranks : groups) holders.push_back({value_of(ranks[0]), ranks});
    differing.push_back(absl::StrCat(name, " is ", HoldersText(holders)));
  }
  if (differing.empty()) return "";
  const size_t listed = std::min(differing.size(), kMostLines);
  std::string text =
      absl::StrCat(": ", absl::StrJoin(differing.begin(), differing.begin() + static_cast<ptrdiff_t>(listed), "; "));
  if (listed < differing.size()) absl::StrAppend(&text, "; and ", differing.size() - listed, " more");
  return text;
}

// Collective: all ranks come here, because all compared the same records.
absl::StatusOr<std::string> DifferenceOfTexts(const Gathered& all, size_t field) {
  const std::string own = EncodeText(all.own.texts[field]);
  std::string gathered(kTextBytes * all.records.size(), '\0');
  MESHSEAL_RETURN_IF_ERROR(
      all.world.AllGather(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(own.data()), own.size()),
                          absl::MakeSpan(reinterpret_cast<std::byte*>(gathered.data()), gathered.size())));
  std::vector<Lines> texts;
  for (size_t rank = 0; rank < all.records.size(); ++rank) {
    texts.push_back(DecodeText(absl::string_view(gathered).substr(rank * kTextBytes, kTextBytes)));
  }
  return DifferingLines(texts);
}

absl::Status CheckIdentical(const Gathered& all, size_t number) {
  const FieldRow& field = kFields[number];
  const std::vector<Ranks> groups = RanksOf(field, all.records);
  if (groups.size() == 1) return absl::OkStatus();
  std::vector<Holders> holders;
  for (const Ranks& ranks : groups) holders.push_back({field.text(all.records[ranks[0]]), ranks});
  std::string difference;
  if (field.rule == Rule::kIdenticalText) {
    MESHSEAL_ASSIGN_OR_RETURN(difference, DifferenceOfTexts(all, number));
  }
  return Differ(absl::StrCat(field.name, " is ", HoldersText(holders), difference));
}

absl::Status CheckRunning(const Gathered& all, size_t number) {
  MESHSEAL_RETURN_IF_ERROR(CheckIdentical(all, number));
  if (all.own.record.world == all.records.size()) return absl::OkStatus();
  return Refuse(Reason::kWorldSize, absl::StrCat("preflight: the plan ", HexOf(all.plan.id()), " is for a world of ",
                                                 all.own.record.world, " ranks, ", all.records.size(), " are running"));
}

absl::Status CheckUnique(const Gathered& all, const FieldRow& field, const std::string& beside = "") {
  for (const Ranks& ranks : RanksOf(field, all.records)) {
    if (ranks.size() == 1) continue;
    return Differ(absl::StrCat(field.name, " ", field.text(all.records[ranks[0]]), beside, " is that of ",
                               RanksText(ranks), ", each rank has its own"));
  }
  return absl::OkStatus();
}

absl::Status CheckPlace(const Gathered& all, const FieldRow& field) {
  MESHSEAL_RETURN_IF_ERROR(CheckUnique(all, field));
  for (size_t rank = 0; rank < all.records.size(); ++rank) {
    if (all.records[rank].rank == rank) continue;
    return Differ(absl::StrCat("rank ", rank, " says that it is rank ", all.records[rank].rank));
  }
  return absl::OkStatus();
}

absl::Status CheckFromPlan(const Gathered& all, const FieldRow& field) {
  for (uint32_t rank = 0; rank < all.records.size(); ++rank) {
    const Coordinate at = CoordinateOf(all.plan.plan().degrees, rank);
    if (all.records[rank].coordinate == CoordinateField{at.dp, at.pp, at.tp, at.ep}) continue;
    return Differ(absl::StrCat(field.name, " of rank ", rank, " is ", field.text(all.records[rank]), ", the plan says ",
                               CoordinateText(at)));
  }
  return absl::OkStatus();
}

bool SameMachine(const RankRecord& a, const RankRecord& b) { return a.machine == b.machine; }

// "host vm (machine 0123456789abcdef)".
std::string HostText(const RankRecord& record) {
  return absl::StrCat("host ", NameText(record.host), " (machine ", ShortHex(record.machine), ")");
}

absl::Status CheckHosts(const Gathered& all) {
  if (all.records[0].emulated != 0) return absl::OkStatus();
  const Mesh& mesh = all.plan.plan().mesh;
  const auto node_of = [&mesh](size_t rank) { return mesh.rank_slots[rank].node; };
  const auto node_text = [&](size_t rank) {
    return absl::StrCat("node '", Printable(mesh.nodes[node_of(rank)].name), "'");
  };
  const auto same_node = [&](size_t a, size_t b) { return node_of(a) == node_of(b); };
  for (const Ranks& on_node : RanksByValue(all.records.size(), same_node)) {
    const std::vector<Ranks> hosts = RanksByValue(on_node.size(), [&](size_t a, size_t b) {
      return SameMachine(all.records[on_node[a]], all.records[on_node[b]]);
    });
    if (hosts.size() == 1) continue;
    std::vector<Holders> holders;
    for (const Ranks& places : hosts) {
      Ranks ranks;
      for (const size_t place : places) ranks.push_back(on_node[place]);
      holders.push_back({HostText(all.records[ranks[0]]), ranks});
    }
    return Differ(absl::StrCat("the ranks of ", node_text(on_node[0]),
                               " of the plan are not on one host: ", HoldersText(holders)));
  }
  for (const Ranks& on_host : RanksByValue(
           all.records.size(), [&](size_t a, size_t b) { return SameMachine(all.records[a], all.records[b]); })) {
    const std::vector<Ranks> nodes =
        RanksByValue(on_host.size(), [&](size_t a, size_t b) { return same_node(on_host[a], on_host[b]); });
    if (nodes.size() == 1) continue;
    std::vector<Holders> holders;
    for (const Ranks& places : nodes) {
      Ranks ranks;
      for (const size_t place : places) ranks.push_back(on_host[place]);
      holders.push_back({node_text(ranks[0]), ranks});
    }
    return Differ(
        absl::StrCat(HostText(all.records[on_host[0]]), " is several nodes of the plan: ", HoldersText(holders)));
  }
  return absl::OkStatus();
}

bool HasDevice(const RankRecord& record) { return record.device != DeviceUuid{}; }

// NCCL takes one rank a device, also where it is not the plan's.
bool UsesNccl(const RankRecord& record) { return record.nccl_version != LongName{}; }

absl::Status CheckOwnDevice(const Gathered& all, const FieldRow& field) {
  const bool nccl = UsesNccl(all.records[0]);
  if (all.records[0].emulated != 0 && !nccl) return absl::OkStatus();
  for (const Ranks& ranks : RanksOf(field, all.records)) {
    const RankRecord& first = all.records[ranks[0]];
    if (ranks.size() == 1 || !HasDevice(first)) continue;
    return Differ(absl::StrCat(field.name, " ", field.text(first), " (PCI id ", NameText(first.pci_id), ", ",
                               HostText(first), ") is that of ", RanksText(ranks), ", each rank has its own",
                               nccl ? "; ranks that share one are an emulation: --ranks loopback" : ""));
  }
  return absl::OkStatus();
}

// Ranks of an island whose devices are of one fabric, as the plan's mesh says.
absl::Status CheckOneAnIsland(const Gathered& all, const FieldRow& field) {
  const Mesh& mesh = all.plan.plan().mesh;
  std::map<uint32_t, uint32_t> first_of;  // rank, by island
  for (uint32_t rank = 0; rank < all.records.size(); ++rank) {
    const RankRecord& record = all.records[rank];
    if (record.emulated != 0 || !HasDevice(record) || !DeviceKindOf(mesh, rank).fabric) continue;
    const uint32_t island = mesh.nodes[mesh.rank_slots[rank].node].island;
    const uint32_t first = first_of.emplace(island, rank).first->second;
    if (field.equal(record, all.records[first])) continue;
    return Differ(absl::StrCat(field.name, " of island ", island, " is ", field.text(all.records[first]), " on rank ",
                               first, " and ", field.text(record), " on rank ", rank,
                               ", the plan's mesh says that it is one"));
  }
  return absl::OkStatus();
}

absl::Status CheckBesideDevice(const Gathered& all, const FieldRow& field) {
  for (size_t rank = 0; rank < all.records.size(); ++rank) {
    const RankRecord& record = all.records[rank];
    if (HasDevice(record) == (record.pci_id != ShortName{})) continue;
    return Differ(absl::StrCat(field.name, " of rank ", rank, " is ", field.text(record), " and its device is ",
                               UuidText(record.device)));
  }
  return absl::OkStatus();
}

// Whether both compute in the memory of one host.
bool ShareHost(const RankRecord& a, const RankRecord& b) { return !HasDevice(a) && !HasDevice(b) && SameMachine(a, b); }

// What the plan charges for `ranks` together.
uint64_t ChargedFor(const Gathered& all, const Ranks& ranks) {
  uint64_t charged = 0;
  for (const size_t rank : ranks) {
    charged = CheckedAdd(charged, all.plan.plan().memory[rank].total).value_or(UINT64_MAX);
  }
  return charged;
}

absl::Status CheckCharged(const Gathered& all) {
  const auto share = [&](size_t a, size_t b) { return ShareHost(all.records[a], all.records[b]); };
  for (const Ranks& ranks : RanksByValue(all.records.size(), share)) {
    const uint64_t charged = ChargedFor(all, ranks);
    uint64_t free = UINT64_MAX;
    for (const size_t rank : ranks) free = std::min(free, all.records[rank].free_memory);
    if (charged <= free) continue;
    const RankRecord& first = all.records[ranks[0]];
    return Refuse(Reason::kOutOfMemory,
                  absl::StrCat("preflight: free memory of ", HostText(first),
                               HasDevice(first) ? absl::StrCat(", device ", UuidText(first.device)) : "", " is ", free,
                               HasDevice(first) ? " bytes" : " bytes (MemAvailable)", ", the plan charges ", charged,
                               " for ", RanksText(ranks)));
  }
  return absl::OkStatus();
}

// Ranks in one control group share what is left below its limit.
absl::Status CheckLimited(const Gathered& all) {
  const auto share = [&](size_t a, size_t b) {
    const RankRecord& one = all.records[a];
    const RankRecord& other = all.records[b];
    return ShareHost(one, other) && one.memory_group_id == other.memory_group_id;
  };
  for (const Ranks& ranks : RanksByValue(all.records.size(), share)) {
    const RankRecord& first = all.records[ranks[0]];
    if (HasDevice(first) || first.memory_group_id == 0) continue;
    const uint64_t charged = ChargedFor(all, ranks);
    uint64_t left = UINT64_MAX;
    for (const size_t rank : ranks) left = std::min(left, all.records[rank].memory_left);
    if (charged <= left) continue;
    return Refuse(Reason::kOutOfMemory,
                  absl::StrCat("preflight: the memory limit of control group ", NameText(first.memory_group), " on ",
                               HostText(first), " leaves ", left, " bytes, the plan charges ", charged, " for ",
                               RanksText(ranks)));
  }
  return absl::OkStatus();
}

absl::Status RefuseKey(absl::string_view text) { return Refuse(Reason::kJobKey, absl::StrCat("preflight: ", text)); }

constexpr const char* kGiveAKey = "give every rank the same --job-key FILE, or say --isolated-network";

absl::Status CheckProofs(const Gathered& all) {
  Sha256Digest proof{};  // stays zero without a key
  if (all.own.job_key.has_value()) proof = all.own.job_key->Proof(all.own.record.rank, all.digest);
  std::vector<Sha256Digest> proofs(all.records.size());
  MESHSEAL_RETURN_IF_ERROR(all.world.AllGather(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(proof.data()), proof.size()),
      absl::MakeSpan(reinterpret_cast<std::byte*>(proofs.data()), proofs.size() * sizeof(Sha256Digest))));
  Ranks missing;
  Ranks wrong;
  for (uint32_t rank = 0; rank < proofs.size(); ++rank) {
    if (EqualTags(proofs[rank], Sha256Digest{})) missing.push_back(rank);
    if (!all.own.job_key.has_value()) continue;
    if (!EqualTags(proofs[rank], all.own.job_key->Proof(rank, all.digest))) wrong.push_back(rank);
  }
  if (!missing.empty()) {
    return RefuseKey(absl::StrCat(RanksText(missing), " sent no proof of the job key: ", kGiveAKey));
  }
  if (!wrong.empty()) {
    return RefuseKey(absl::StrCat("the job key of rank ", all.own.record.rank, " is not that of ", RanksText(wrong),
                                  ", or they were sent other records"));
  }
  return absl::OkStatus();
}

absl::Status CheckProven(const Gathered& all) {
  Ranks unstated;
  bool keys = all.own.job_key.has_value();
  for (size_t rank = 0; rank < all.records.size(); ++rank) {
    const NetworkTrust trust = all.records[rank].network;
    keys = keys || trust == NetworkTrust::kJobKey;
    if (trust != NetworkTrust::kIsolated) unstated.push_back(rank);
  }
  if (keys) return CheckProofs(all);
  const std::vector<Ranks> hosts =
      RanksByValue(all.records.size(), [&](size_t a, size_t b) { return SameMachine(all.records[a], all.records[b]); });
  if (unstated.empty() || hosts.size() == 1) return absl::OkStatus();
  return RefuseKey(absl::StrCat("the ranks are on ", hosts.size(), " hosts, and ", RanksText(unstated),
                                " cannot tell who may join: ", kGiveAKey));
}

absl::Status CheckField(const Gathered& all, size_t number) {
  const FieldRow& field = kFields[number];
  switch (field.rule) {
    case Rule::kIdentical:
    case Rule::kIdenticalText:
      return CheckIdentical(all, number);
    case Rule::kRunning:
      return CheckRunning(all, number);
    case Rule::kPlace:
      return CheckPlace(all, field);
    case Rule::kFromPlan:
      return CheckFromPlan(all, field);
    case Rule::kShown:
      return absl::OkStatus();
    case Rule::kHosts:
      return CheckHosts(all);
    case Rule::kOwnDevice:
      return CheckOwnDevice(all, field);
    case Rule::kBesideDevice:
      return CheckBesideDevice(all, field);
    case Rule::kCharged:
      return CheckCharged(all);
    case Rule::kLimited:
      return CheckLimited(all);
    case Rule::kUnique:
      return CheckUnique(all, field);
    case Rule::kProven:
      return CheckProven(all);
    case Rule::kOneAnIsland:
      return CheckOneAnIsland(all, field);
  }
  return Refuse(Reason::kBug, absl::StrCat("preflight: no rule for ", field.name));
}

}  // namespace

absl::Status Preflight(Communicator& world, const SealedPlan& plan, const RankStatement& own) {
  const std::array<std::byte, kRecordBytes> record = EncodeRecord(own.record);
  std::string bytes(kRecordBytes * world.size(), '\0');
  MESHSEAL_RETURN_IF_ERROR(
      world.AllGather(record, absl::MakeSpan(reinterpret_cast<std::byte*>(bytes.data()), bytes.size())));
  Gathered all{world, plan, own, {}, Sha256(bytes)};
  for (size_t rank = 0; rank < world.size(); ++rank) {
    all.records.push_back(DecodeRecord(reinterpret_cast<const std::byte*>(bytes.data()) + rank * kRecordBytes));
  }
  for (size_t field = 0; field < kPreflightFields; ++field) MESHSEAL_RETURN_IF_ERROR(CheckField(all, field));
  return absl::OkStatus();
}

bool SpansHosts(const Plan& plan, bool emulate) {
  if (plan.mesh.emulated || emulate) return false;
  const std::vector<RankSlot>& slots = plan.mesh.rank_slots;
  return std::any_of(slots.begin(), slots.end(), [&slots](const RankSlot& slot) { return slot.node != slots[0].node; });
}

absl::Status CheckNetworkTrust(const Plan& plan, bool emulate, bool has_job_key, bool isolated_network) {
  if (!SpansHosts(plan, emulate) || has_job_key || isolated_network) return absl::OkStatus();
  return RefuseKey(absl::StrCat("the plan's ranks are on several hosts, and nothing tells who may join: ", kGiveAKey));
}

}  // namespace meshseal::runtime

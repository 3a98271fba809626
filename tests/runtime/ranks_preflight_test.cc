// The preflight: each field of each rank's record altered, every rule, the job key, and that nothing is reserved
// before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/session/preflight.h"
#include "runtime/session/rank_record.h"
#include "runtime/session/session.h"
#include "schema/fingerprint.h"
#include "schema/reason.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/inproc_group.h"
#include "tests/support/open_unsigned.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr uint32_t kWorldSize = 4;

// `ranks` ranks on slots of their own, split over `nodes` hosts.
Plan PlanOf(uint32_t ranks, uint32_t nodes = 1) {
  support::PlanNumbers n;
  n.ep = ranks;
  Plan plan = support::BuildPlan(n);
  plan.mesh.emulated = false;
  const uint32_t slots = ranks / nodes;
  plan.mesh.nodes.clear();
  for (uint32_t node = 0; node < nodes; ++node)
    plan.mesh.nodes.push_back({absl::StrCat("node", node), 0, slots, 0, {}});
  for (uint32_t rank = 0; rank < ranks; ++rank) plan.mesh.rank_slots[rank] = {rank / slots, rank % slots};
  return plan;
}

SealedPlan Sealed(Plan plan) {
  plan.execution_fingerprint = ExecutionFingerprint(plan);
  const absl::StatusOr<std::string> file = SealPlan(plan, 1);
  EXPECT_TRUE(file.ok()) << file.status();
  return *support::OpenUnsigned(*file);
}

JobKey KeyOf(char c) { return *JobKey::Of(std::string(32, c)); }

// What rank `rank` finds on the host of its node.
RankFacts FactsOf(const Plan& plan, uint32_t rank) {
  RankFacts facts;
  const uint32_t node = rank < plan.mesh.rank_slots.size() ? plan.mesh.rank_slots[rank].node : 0;
  facts.local.host = absl::StrCat("host", node);
  facts.local.machine = Sha256(facts.local.host);
  facts.local.free_memory = uint64_t{1} << 40;
  facts.local.build = "version 0.1.0\ncompiler GCC 12.2.0\n";
  facts.local.environment = "NCCL_ALGO Ring\nOMP_NUM_THREADS 4\n";
  facts.local.nonce = {static_cast<uint8_t>(rank + 1)};
  facts.backend = "reference";
  facts.mpi_version = "Open MPI 4.1.4";
  facts.policy = PolicyText({});
  return facts;
}

using Alter = std::function<void(RankFacts&, uint32_t)>;

// The facts of all ranks.
std::vector<RankFacts> AllFacts(const Plan& plan, uint32_t ranks, const Alter& alter) {
  std::vector<RankFacts> all;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    all.push_back(FactsOf(plan, rank));
    if (alter) alter(all.back(), rank);
  }
  return all;
}

std::vector<RankStatement> Statements(const SealedPlan& plan, uint32_t ranks, const Alter& alter = nullptr) {
  std::vector<RankStatement> all;
  for (const RankFacts& facts : AllFacts(plan.plan(), ranks, alter)) {
    all.push_back(StatementOf(plan, static_cast<uint32_t>(all.size()), facts));
  }
  return all;
}

// An end whose gathers a test may change: what goes in, and what came out.
class ChangedEnd : public support::PassingCommunicator {
 public:
  using Before = std::function<void(int gather, std::string& own)>;
  using After = std::function<void(int gather, std::string& all)>;

  ChangedEnd(std::unique_ptr<Communicator> end, Before before, After after)
      : PassingCommunicator(std::move(end)), before_(std::move(before)), after_(std::move(after)) {}

  absl::Status AllGather(absl::Span<const std::byte> own, absl::Span<std::byte> all) override {
    std::string sent(reinterpret_cast<const char*>(own.data()), own.size());
    if (before_) before_(gathers_, sent);
    const absl::Status status =
        PassingCommunicator::AllGather({reinterpret_cast<const std::byte*>(sent.data()), sent.size()}, all);
    std::string got(reinterpret_cast<const char*>(all.data()), all.size());
    if (after_) after_(gathers_, got);
    std::memcpy(all.data(), got.data(), got.size());
    ++gathers_;
    return status;
  }

 private:
  Before before_;
  After after_;
  int gathers_ = 0;
};

using Ends = support::InprocGroup;

Ends World(uint32_t ranks) { return support::MakeInprocGroup(ranks); }

// The verdicts of all ranks; rank r opened plans[r].
std::vector<absl::Status> Verdicts(Ends ends, const std::vector<const SealedPlan*>& plans,
                                   const std::vector<RankStatement>& statements) {
  std::vector<absl::Status> verdicts(ends.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    threads.emplace_back([&, rank] { verdicts[rank] = Preflight(ends[rank], *plans[rank], statements[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  return verdicts;
}

// The one verdict, which all ranks must have.
absl::Status Verdict(const SealedPlan& plan, const std::vector<RankStatement>& statements) {
  const auto ranks = static_cast<uint32_t>(statements.size());
  const std::vector<absl::Status> verdicts =
      Verdicts(World(ranks), std::vector<const SealedPlan*>(ranks, &plan), statements);
  for (const absl::Status& verdict : verdicts) {
    EXPECT_EQ(verdict, verdicts[0]);
    EXPECT_EQ(ReasonOf(verdict), ReasonOf(verdicts[0]));
  }
  return verdicts[0];
}

void ExpectVerdict(const SealedPlan& plan, const std::vector<RankStatement>& statements, const std::string& text,
                   std::optional<Reason> reason) {
  const absl::Status verdict = Verdict(plan, statements);
  EXPECT_EQ(verdict.message(), text);
  EXPECT_EQ(ReasonOf(verdict), reason);
}

// What all ranks but `rank` are called in a message.
std::string Others(uint32_t rank) {
  std::vector<uint32_t> others;
  for (uint32_t other = 0; other < kWorldSize; ++other) {
    if (other != rank) others.push_back(other);
  }
  return absl::StrCat("ranks ", absl::StrJoin(others, ", "));
}

std::string MachineText(const std::string& host) {
  return absl::StrCat("host ", host, " (machine ", HexOf(Sha256(host)).substr(0, 16), ")");
}

TEST(PreflightTest, RanksThatAgreePass) {
  for (const uint32_t ranks : {1u, 2u, 5u}) {
    const SealedPlan plan = Sealed(PlanOf(ranks));
    ExpectVerdict(plan, Statements(plan, ranks), "", std::nullopt);
    if (ranks == 1) continue;
    const uint32_t last = ranks - 1;
    const std::string others = ranks == 2 ? "rank 0" : "ranks 0, 1, 2, 3";
    ExpectVerdict(plan,
                  Statements(plan, ranks,
                             [last](RankFacts& facts, uint32_t rank) {
                               if (rank == last) facts.backend = "cpu";
                             }),
                  absl::StrCat("preflight: backend is reference on ", others, " and cpu on rank ", last),
                  Reason::kRankRecord);
  }
}

// One alteration of a field, what the refusal must begin with and hold beside; `rank` is the altered one.
struct Altered {
  PreflightField field;
  std::function<void(RankStatement&, uint32_t rank)> alter;
  std::function<std::string(uint32_t rank)> begins;
  std::function<std::string(uint32_t rank)> holds;  // null: the field is for messages alone, and the verdict is OK
};

Sha256Digest Other() { return Sha256("other"); }

Altered Identical(PreflightField field, const std::string& name, std::function<void(RankRecord&)> set) {
  return {field, [set = std::move(set)](RankStatement& s, uint32_t) { set(s.record); },
          [name](uint32_t) { return absl::StrCat("preflight: ", name, " is "); },
          [](uint32_t rank) { return absl::StrCat(" on rank ", rank); }};
}

std::vector<Altered> AllAlterations() {
  using F = PreflightField;
  using R = RankRecord;
  std::vector<Altered> all = {
      Identical(F::kProtocol, "protocol", [](R& r) { r.protocol = 9; }),
      Identical(F::kBuild, "build", [](R& r) { r.build = Other(); }),
      Identical(F::kPlanId, "plan id", [](R& r) { r.plan_id = Other(); }),
      Identical(F::kFingerprint, "execution fingerprint", [](R& r) { r.execution_fingerprint = Other(); }),
      Identical(F::kNumerics, "numerics", [](R& r) { r.numerics = Other(); }),
      Identical(F::kWorld, "world", [](R& r) { r.world = 5; }),
      Identical(F::kBackend, "backend",
                [](R& r) {
                  r.backend = {'c', 'p', 'u'};
                }),
      Identical(F::kMpiVersion, "MPI", [](R& r) { r.mpi_version = {}; }),
      Identical(F::kCudaVersion, "CUDA", [](R& r) { r.cuda_version = {'1'}; }),
      Identical(F::kNcclVersion, "NCCL", [](R& r) { r.nccl_version = {'2'}; }),
      Identical(F::kEnvironment, "environment", [](R& r) { r.environment = Other(); }),
      Identical(F::kPolicy, "policy", [](R& r) { r.policy = Other(); }),
      Identical(F::kWeightsDigests, "digest list of weights", [](R& r) { r.weights_digests = Other(); }),
      Identical(F::kEmulated, "emulation", [](R& r) { r.emulated = 1; }),
  };
  const auto pair = [](uint32_t rank) {
    const uint32_t next = (rank + 1) % kWorldSize;
    return absl::StrCat("is that of ranks ", std::min(rank, next), ", ", std::max(rank, next));
  };
  all.push_back({F::kRank, [](RankStatement& s, uint32_t rank) { s.record.rank = (rank + 1) % kWorldSize; },
                 [](uint32_t rank) { return absl::StrCat("preflight: rank ", (rank + 1) % kWorldSize, " "); }, pair});
  all.push_back({F::kCoordinate, [](RankStatement& s, uint32_t) { s.record.coordinate[0] = 1; },
                 [](uint32_t rank) { return absl::StrCat("preflight: coordinate of rank ", rank, " is dp1 "); },
                 [](uint32_t rank) { return absl::StrCat(", the plan says dp0 pp0 tp0 ep", rank); }});
  all.push_back({F::kHost, [](RankStatement& s, uint32_t) { s.record.host = {'x'}; }, nullptr, nullptr});
  all.push_back({F::kMachine, [](RankStatement& s, uint32_t) { s.record.machine = Other(); },
                 [](uint32_t) { return "preflight: the ranks of node 'node0' of the plan are not on one host: "; },
                 [](uint32_t rank) { return absl::StrCat(" on ", Others(rank)); }});
  all.push_back({F::kDevice, [](RankStatement& s, uint32_t) { s.record.device = {1}; },
                 [](uint32_t rank) { return absl::StrCat("preflight: PCI id of rank ", rank, " is none"); },
                 [](uint32_t) { return " and its device is GPU-01000000-0000-0000-0000-000000000000"; }});
  all.push_back({F::kPciId, [](RankStatement& s, uint32_t) { s.record.pci_id = {'0'}; },
                 [](uint32_t rank) { return absl::StrCat("preflight: PCI id of rank ", rank, " is 0"); },
                 [](uint32_t) { return " and its device is none"; }});
  all.push_back({F::kFreeMemory, [](RankStatement& s, uint32_t) { s.record.free_memory = 1; },
                 [](uint32_t) {
                   return absl::StrCat("preflight: free memory of ", MachineText("host0"),
                                       " is 1 bytes (MemAvailable)");
                 },
                 [](uint32_t) { return " for ranks 0, 1, 2, 3"; }});
  all.push_back(
      {F::kNonce,
       [](RankStatement& s, uint32_t rank) { s.record.nonce = {static_cast<uint8_t>((rank + 1) % kWorldSize + 1)}; },
       [](uint32_t) { return "preflight: nonce 0"; }, pair});
  all.push_back(
      {F::kNetwork,
       [](RankStatement& s, uint32_t) {
         s.record.network = NetworkTrust::kUnstated;
         s.job_key.reset();
       },
       [](uint32_t rank) { return absl::StrCat("preflight: rank ", rank, " sent no proof of the job key: "); },
       [](uint32_t) { return "give every rank the same --job-key FILE, or say --isolated-network"; }});
  all.push_back({F::kMemoryGroupId, [](RankStatement& s, uint32_t) { s.record.memory_group_id = 1; },
                 [](uint32_t) { return "preflight: the memory limit of control group none on "; },
                 [](uint32_t) { return " leaves 0 bytes, the plan charges "; }});
  all.push_back({F::kMemoryGroup, [](RankStatement& s, uint32_t) { s.record.memory_group = {'x'}; }, nullptr, nullptr});
  all.push_back({F::kMemoryLeft, [](RankStatement& s, uint32_t) { s.record.memory_left = 1; }, nullptr, nullptr});
  all.push_back({F::kFabric, [](RankStatement& s, uint32_t) { s.record.fabric = {'x'}; }, nullptr, nullptr});
  return all;
}

// N of N: each field, altered on each rank, on that rank only.
TEST(PreflightTest, EachFieldAlteredOnEachRankIsRefusedOnAllRanks) {
  const SealedPlan plan = Sealed(PlanOf(kWorldSize));
  const std::vector<RankStatement> good =
      Statements(plan, kWorldSize, [](RankFacts& facts, uint32_t) { facts.job_key = KeyOf('k'); });
  ExpectVerdict(plan, good, "", std::nullopt);
  const std::vector<Altered> alterations = AllAlterations();
  ASSERT_EQ(alterations.size(), kPreflightFields);
  size_t refused = 0;
  for (size_t i = 0; i < alterations.size(); ++i) {
    const Altered& altered = alterations[i];
    EXPECT_EQ(static_cast<size_t>(altered.field), i);
    for (uint32_t rank = 0; rank < kWorldSize; ++rank) {
      std::vector<RankStatement> statements = good;
      altered.alter(statements[rank], rank);
      const absl::Status verdict = Verdict(plan, statements);
      if (!altered.holds) {
        EXPECT_TRUE(verdict.ok()) << verdict;
        continue;
      }
      EXPECT_FALSE(verdict.ok()) << i;
      EXPECT_THAT(std::string(verdict.message()), StartsWith(altered.begins(rank)));
      EXPECT_THAT(std::string(verdict.message()), HasSubstr(altered.holds(rank)));
      if (altered.field < PreflightField::kRank) {
        EXPECT_THAT(std::string(verdict.message()), HasSubstr(absl::StrCat(" on ", Others(rank))));
      }
      ++refused;
    }
  }
  EXPECT_EQ(refused, (kPreflightFields - 4) * kWorldSize);
}

TEST(PreflightTest, AllValuesAreNamedWithTheRanksThatHoldThem) {
  const SealedPlan plan = Sealed(PlanOf(5));
  ExpectVerdict(plan,
                Statements(plan, 5,
                           [](RankFacts& facts, uint32_t rank) {
                             if (rank == 1) facts.backend = "cpu";
                             if (rank == 3) facts.backend = "x\x1b[2J";
                           }),
                "preflight: backend is reference on ranks 0, 2, 4, cpu on rank 1 and x?[2J on rank 3",
                Reason::kRankRecord);
}

// M11 and C60: another plan file, which differs in one limit.
TEST(PreflightTest, AnotherPlanIsNamedWithWhatDiffersInIt) {
  const SealedPlan plan = Sealed(PlanOf(3));
  Plan content = PlanOf(3);
  content.limits.sessions = 2;
  const SealedPlan other = Sealed(content);
  std::vector<RankStatement> statements = Statements(plan, 3);
  statements[1] = Statements(other, 3)[1];
  const std::vector<absl::Status> verdicts = Verdicts(World(3), {&plan, &other, &plan}, statements);
  for (const absl::Status& verdict : verdicts) {
    EXPECT_EQ(verdict.message(),
              absl::StrCat("preflight: plan id is ", HexOf(plan.id()), " on ranks 0, 2 and ", HexOf(other.id()),
                           " on rank 1: sessions is 1 on ranks 0, 2 and 2 on rank 1"));
    EXPECT_EQ(ReasonOf(verdict), Reason::kRankRecord);
  }
}

std::string ShortDigest(const std::string& text) { return HexOf(Sha256(text)).substr(0, 16); }

// M12
TEST(PreflightTest, AnotherBuildIsNamedWithWhatDiffersInIt) {
  const SealedPlan plan = Sealed(PlanOf(kWorldSize));
  const std::string build = "version 0.1.0\ncompiler GCC 12.2.0\n";
  const std::string other = "version 0.1.0\ncompiler Clang 14.0.6\n";
  ExpectVerdict(plan,
                Statements(plan, kWorldSize,
                           [&](RankFacts& facts, uint32_t rank) {
                             if (rank == 2) facts.local.build = other;
                           }),
                absl::StrCat("preflight: build is ", ShortDigest(build), " on ranks 0, 1, 3 and ", ShortDigest(other),
                             " on rank 2: compiler is GCC 12.2.0 on ranks 0, 1, 3 and Clang 14.0.6 on rank 2"),
                Reason::kRankRecord);
}

// C61
TEST(PreflightTest, AnotherEnvironmentIsNamedByVariable) {
  const SealedPlan plan = Sealed(PlanOf(kWorldSize));
  const std::string one = "NCCL_ALGO Tree\nOMP_NUM_THREADS 4\n";
  const std::string two = "NCCL_ALGO Ring\nNCCL_PROTO \nOMP_NUM_THREADS 4\n";
  ExpectVerdict(
      plan,
      Statements(plan, kWorldSize,
                 [&](RankFacts& facts, uint32_t rank) {
                   if (rank == 1) facts.local.environment = one;
                   if (rank == 2) facts.local.environment = two;
                 }),
      absl::StrCat("preflight: environment is ", ShortDigest("NCCL_ALGO Ring\nOMP_NUM_THREADS 4\n"), " on ranks 0, 3, ",
                   ShortDigest(one), " on rank 1 and ", ShortDigest(two),
                   " on rank 2: NCCL_ALGO is Ring on ranks 0, 2, 3 and Tree on rank 1; NCCL_PROTO is not set on ranks "
                   "0, 1, 3 and empty on rank 2"),
      Reason::kRankRecord);
}

// Long values are cut before a digest of the whole, and texts to what fits: a difference in the cut part shows.
TEST(PreflightTest, LongTextsAreBounded) {
  const SealedPlan plan = Sealed(PlanOf(2));
  const auto verdict = [&plan](const std::string& on_0, const std::string& on_1) {
    return std::string(Verdict(plan, Statements(plan, 2,
                                                [&](RankFacts& facts, uint32_t rank) {
                                                  facts.local.environment = rank == 0 ? on_0 : on_1;
                                                }))
                           .message());
  };
  const std::string value(3000, 'x');
  const std::string text = verdict("UCX_TLS " + value + "a\n", "UCX_TLS " + value + "b\n");
  EXPECT_THAT(text, HasSubstr(absl::StrCat(": UCX_TLS is ", std::string(79, 'x'), "#",
                                           ShortDigest("UCX_TLS " + value + "a").substr(0, 8), " on rank 0 and ")));
  EXPECT_LT(text.size(), 400u);
  std::string many;
  for (int i = 0; i < 200; ++i) absl::StrAppend(&many, "UCX_", i, " value\n");
  EXPECT_THAT(verdict(many, many + "UCX_X y\n"), testing::EndsWith(" on rank 1"));
  EXPECT_THAT(verdict("", "A 1\nB 1\nC 1\nD 1\nE 1\nF 1\n"),
              HasSubstr("D is not set on rank 0 and 1 on rank 1; and 2 more"));
}

// M05 and C08
TEST(PreflightTest, AnotherNumberOfRanksThanThePlans) {
  const SealedPlan plan = Sealed(PlanOf(4));
  for (const uint32_t running : {1u, 3u, 5u, 8u}) {
    ExpectVerdict(
        plan, Statements(plan, running),
        absl::StrCat("preflight: the plan ", HexOf(plan.id()), " is for a world of 4 ranks, ", running, " are running"),
        Reason::kWorldSize);
  }
}

// M06
TEST(PreflightTest, RanksAreTheirPlaces) {
  const SealedPlan plan = Sealed(PlanOf(kWorldSize));
  std::vector<RankStatement> statements = Statements(plan, kWorldSize);
  statements[3].record.rank = 1;
  ExpectVerdict(plan, statements, "preflight: rank 1 is that of ranks 1, 3, each rank has its own",
                Reason::kRankRecord);
  std::swap(statements[0].record.rank, statements[1].record.rank);
  statements[3].record.rank = 3;
  ExpectVerdict(plan, statements, "preflight: rank 0 says that it is rank 1", Reason::kRankRecord);
}

// C56: a rank's coordinate is the plan's.
TEST(PreflightTest, CoordinatesAreThePlans) {
  const SealedPlan plan = Sealed(PlanOf(kWorldSize));
  std::vector<RankStatement> statements = Statements(plan, kWorldSize);
  statements[2].record.coordinate = {0, 0, 2, 0};
  ExpectVerdict(plan, statements, "preflight: coordinate of rank 2 is dp0 pp0 tp2 ep0, the plan says dp0 pp0 tp0 ep2",
                Reason::kRankRecord);
}

TEST(PreflightTest, NodesAreHosts) {
  const SealedPlan plan = Sealed(PlanOf(4, 2));
  const auto isolated = [](RankFacts& facts, uint32_t) { facts.isolated_network = true; };
  ExpectVerdict(plan, Statements(plan, 4, isolated), "", std::nullopt);
  const std::vector<RankStatement> split = Statements(plan, 4, [&](RankFacts& facts, uint32_t rank) {
    facts.isolated_network = true;
    if (rank != 1) return;
    facts.local.host = "host2";
    facts.local.machine = Sha256("host2");
  });
  ExpectVerdict(plan, split,
                absl::StrCat("preflight: the ranks of node 'node0' of the plan are not on one host: ",
                             MachineText("host0"), " on rank 0 and ", MachineText("host2"), " on rank 1"),
                Reason::kRankRecord);
  const auto together = [](RankFacts& facts, uint32_t) {
    facts.isolated_network = true;
    facts.local.host = "host0";
    facts.local.machine = Sha256("host0");
  };
  ExpectVerdict(
      plan, Statements(plan, 4, together),
      absl::StrCat("preflight: ", MachineText("host0"),
                   " is several nodes of the plan: node 'node0' on ranks 0, 1 and node 'node1' on ranks 2, 3"),
      Reason::kRankRecord);
  // Neither where the caller emulates, nor where the mesh does.
  ExpectVerdict(plan,
                Statements(plan, 4,
                           [&](RankFacts& facts, uint32_t rank) {
                             together(facts, rank);
                             facts.emulate = true;
                           }),
                "", std::nullopt);
  Plan content = PlanOf(4, 2);
  content.mesh.emulated = true;
  const SealedPlan emulated = Sealed(content);
  ExpectVerdict(emulated, Statements(emulated, 4, together), "", std::nullopt);
}

// M10 and C57
TEST(PreflightTest, EachRankHasItsDevice) {
  const SealedPlan plan = Sealed(PlanOf(kWorldSize));
  const auto device = [](RankFacts& facts, uint32_t rank) {
    facts.device = {0xab, 0xcd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, static_cast<uint8_t>(rank)};
    facts.pci_id = absl::StrCat("00000000:1", rank, ":00.0");
  };
  ExpectVerdict(plan, Statements(plan, kWorldSize, device), "", std::nullopt);
  const auto shared = [&](RankFacts& facts, uint32_t rank) { device(facts, rank == 3 ? 1 : rank); };
  ExpectVerdict(plan, Statements(plan, kWorldSize, shared),
                absl::StrCat("preflight: device GPU-abcd0000-0000-0000-0000-000000000001 (PCI id 00000000:11:00.0, ",
                             MachineText("host0"), ") is that of ranks 1, 3, each rank has its own"),
                Reason::kRankRecord);
  ExpectVerdict(plan,
                Statements(plan, kWorldSize,
                           [&](RankFacts& facts, uint32_t rank) {
                             shared(facts, rank);
                             facts.emulate = true;
                           }),
                "", std::nullopt);
}

TEST(PreflightTest, TheDevicesOfAnIslandAreOfOneFabricWhereTheMeshSaysSo) {
  Plan content = PlanOf(4, 2);
  content.mesh.emulated = false;
  DeviceKind& kind = content.mesh.device_kinds[0];
  kind.memory_kind = MemoryKind::kDiscrete;
  kind.fabric = true;
  const SealedPlan one_island = Sealed(content);
  const auto device = [](RankFacts& facts, uint32_t rank) {
    facts.device = {static_cast<uint8_t>(rank + 1)};
    facts.pci_id = absl::StrCat(rank);
    facts.fabric = rank < 2 ? "5a.7" : "5a.8";
    facts.isolated_network = true;
    if (rank >= 2) facts.local.host = "host1", facts.local.machine = Other();
  };
  ExpectVerdict(
      one_island, Statements(one_island, 4, device),
      "preflight: fabric of island 0 is 5a.7 on rank 0 and 5a.8 on rank 2, the plan's mesh says that it is one",
      Reason::kRankRecord);
  const auto same = [&](RankFacts& facts, uint32_t rank) {
    device(facts, rank);
    facts.fabric = "5a.7";
  };
  ExpectVerdict(one_island, Statements(one_island, 4, same), "", std::nullopt);
  const auto emulated = [&](RankFacts& facts, uint32_t rank) {
    device(facts, rank);
    facts.emulate = true;
  };
  ExpectVerdict(one_island, Statements(one_island, 4, emulated), "", std::nullopt);
  content.mesh.nodes[1].island = 1;
  const SealedPlan two_islands = Sealed(content);
  ExpectVerdict(two_islands, Statements(two_islands, 4, device), "", std::nullopt);
  content.mesh.nodes[1].island = 0;
  content.mesh.device_kinds[0].fabric = false;
  const SealedPlan unsaid = Sealed(content);
  ExpectVerdict(unsaid, Statements(unsaid, 4, device), "", std::nullopt);
}

TEST(PreflightTest, RanksOfAHostShareItsMemoryAndDevicesHaveTheirOwn) {
  const SealedPlan plan = Sealed(PlanOf(kWorldSize));
  uint64_t all = 0;
  for (const RankMemory& memory : plan.plan().memory) all += memory.total;
  const auto with = [](uint64_t free) {
    return [free](RankFacts& facts, uint32_t) { facts.local.free_memory = free; };
  };
  ExpectVerdict(plan, Statements(plan, kWorldSize, with(all)), "", std::nullopt);
  ExpectVerdict(plan, Statements(plan, kWorldSize, with(all - 1)),
                absl::StrCat("preflight: free memory of ", MachineText("host0"), " is ", all - 1,
                             " bytes (MemAvailable), the plan charges ", all, " for ranks 0, 1, 2, 3"),
                Reason::kOutOfMemory);
  // What one rank was told counts for all.
  ExpectVerdict(
      plan,
      Statements(plan, kWorldSize,
                 [&](RankFacts& facts, uint32_t rank) { facts.local.free_memory = rank == 2 ? all - 1 : all; }),
      absl::StrCat("preflight: free memory of ", MachineText("host0"), " is ", all - 1,
                   " bytes (MemAvailable), the plan charges ", all, " for ranks 0, 1, 2, 3"),
      Reason::kOutOfMemory);

  const uint64_t one = plan.plan().memory[2].total;
  const auto device = [&](uint64_t free) {
    return [&, free](RankFacts& facts, uint32_t rank) {
      facts.device = {static_cast<uint8_t>(rank + 1)};
      facts.pci_id = absl::StrCat(rank);
      facts.local.free_memory = rank == 2 ? free : plan.plan().memory[rank].total;
    };
  };
  ExpectVerdict(plan, Statements(plan, kWorldSize, device(one)), "", std::nullopt);
  ExpectVerdict(plan, Statements(plan, kWorldSize, device(one - 1)),
                absl::StrCat("preflight: free memory of ", MachineText("host0"),
                             ", device GPU-03000000-0000-0000-0000-000000000000 is ", one - 1,
                             " bytes, the plan charges ", one, " for rank 2"),
                Reason::kOutOfMemory);

  // Each host for itself.
  const SealedPlan hosts = Sealed(PlanOf(4, 2));
  const uint64_t on_1 = hosts.plan().memory[2].total + hosts.plan().memory[3].total;
  const auto host_1 = [](uint64_t free) {
    return [free](RankFacts& facts, uint32_t rank) {
      facts.isolated_network = true;
      if (rank >= 2) facts.local.free_memory = free;
    };
  };
  ExpectVerdict(hosts, Statements(hosts, 4, host_1(on_1)), "", std::nullopt);
  ExpectVerdict(hosts, Statements(hosts, 4, host_1(on_1 - 1)),
                absl::StrCat("preflight: free memory of ", MachineText("host1"), " is ", on_1 - 1,
                             " bytes (MemAvailable), the plan charges ", on_1, " for ranks 2, 3"),
                Reason::kOutOfMemory);
}

TEST(PreflightTest, RanksOfAControlGroupShareWhatItsLimitLeaves) {
  const SealedPlan plan = Sealed(PlanOf(kWorldSize));
  const std::vector<RankMemory>& memory = plan.plan().memory;
  const uint64_t low = memory[0].total + memory[1].total;
  const uint64_t high = memory[2].total + memory[3].total;
  // Ranks 0 and 1 in one container of a host, 2 and 3 in another.
  const auto containers = [](uint64_t left, uint64_t other_left) {
    return [=](RankFacts& facts, uint32_t rank) {
      facts.local.memory_limit = rank < 2 ? MemoryLimit{"/", 7, uint64_t{1} << 30, left}
                                          : MemoryLimit{"/pod/second", 8, uint64_t{1} << 30, other_left};
    };
  };
  ExpectVerdict(plan, Statements(plan, kWorldSize, containers(low, high)), "", std::nullopt);
  ExpectVerdict(plan, Statements(plan, kWorldSize, containers(low, high - 1)),
                absl::StrCat("preflight: the memory limit of control group /pod/second on ", MachineText("host0"),
                             " leaves ", high - 1, " bytes, the plan charges ", high, " for ranks 2, 3"),
                Reason::kOutOfMemory);
  ExpectVerdict(plan, Statements(plan, kWorldSize, containers(low - 1, high)),
                absl::StrCat("preflight: the memory limit of control group / on ", MachineText("host0"), " leaves ",
                             low - 1, " bytes, the plan charges ", low, " for ranks 0, 1"),
                Reason::kOutOfMemory);
  // A device's memory is not the group's.
  ExpectVerdict(plan,
                Statements(plan, kWorldSize,
                           [&](RankFacts& facts, uint32_t rank) {
                             containers(1, 1)(facts, rank);
                             facts.device = {static_cast<uint8_t>(rank + 1)};
                             facts.pci_id = absl::StrCat(rank);
                           }),
                "", std::nullopt);
}

constexpr const char* kGive = "give every rank the same --job-key FILE, or say --isolated-network";

TEST(JobKeyPreflightTest, HostsNeedAKeyOrAnIsolatedNetwork) {
  const SealedPlan plan = Sealed(PlanOf(4, 2));
  ExpectVerdict(
      plan, Statements(plan, 4),
      absl::StrCat("preflight: the ranks are on 2 hosts, and ranks 0, 1, 2, 3 cannot tell who may join: ", kGive),
      Reason::kJobKey);
  const auto isolated_but_1 = [](RankFacts& facts, uint32_t rank) { facts.isolated_network = rank != 1; };
  ExpectVerdict(plan, Statements(plan, 4, isolated_but_1),
                absl::StrCat("preflight: the ranks are on 2 hosts, and rank 1 cannot tell who may join: ", kGive),
                Reason::kJobKey);
  const auto keys = [](RankFacts& facts, uint32_t) { facts.job_key = KeyOf('k'); };
  ExpectVerdict(plan, Statements(plan, 4, keys), "", std::nullopt);
  for (const bool isolated : {false, true}) {
    const auto without = [isolated](RankFacts& facts, uint32_t rank) {
      if (rank == 0 || rank == 3) {
        facts.isolated_network = isolated;
      } else {
        facts.job_key = KeyOf('k');
      }
    };
    ExpectVerdict(plan, Statements(plan, 4, without),
                  absl::StrCat("preflight: ranks 0, 3 sent no proof of the job key: ", kGive), Reason::kJobKey);
  }
  // Ranks that are on several hosts although the mesh is emulated.
  Plan content = PlanOf(2);
  content.mesh.emulated = true;
  const SealedPlan emulated = Sealed(content);
  ExpectVerdict(emulated,
                Statements(emulated, 2,
                           [](RankFacts& facts, uint32_t rank) { facts.local.machine = Sha256(absl::StrCat(rank)); }),
                absl::StrCat("preflight: the ranks are on 2 hosts, and ranks 0, 1 cannot tell who may join: ", kGive),
                Reason::kJobKey);
}

TEST(JobKeyPreflightTest, WhatAProcessKnowsAloneIsRefusedBeforeAnythingIsSent) {
  const Plan one = PlanOf(4);
  const Plan two = PlanOf(4, 2);
  EXPECT_FALSE(SpansHosts(one, false));
  EXPECT_TRUE(SpansHosts(two, false));
  EXPECT_FALSE(SpansHosts(two, true));
  EXPECT_TRUE(CheckNetworkTrust(one, false, false, false).ok());
  EXPECT_TRUE(CheckNetworkTrust(two, true, false, false).ok());
  EXPECT_TRUE(CheckNetworkTrust(two, false, true, false).ok());
  EXPECT_TRUE(CheckNetworkTrust(two, false, false, true).ok());
  const absl::Status status = CheckNetworkTrust(two, false, false, false);
  EXPECT_EQ(status.message(),
            absl::StrCat("preflight: the plan's ranks are on several hosts, and nothing tells who may join: ", kGive));
  EXPECT_EQ(ReasonOf(status), Reason::kJobKey);
}

std::vector<absl::Status> VerdictsOf(Ends ends, const SealedPlan& plan, const std::vector<RankStatement>& statements) {
  const std::vector<const SealedPlan*> plans(ends.size(), &plan);
  return Verdicts(std::move(ends), plans, statements);
}

TEST(JobKeyPreflightTest, AWrongProofIsNamedOnEveryRank) {
  const SealedPlan plan = Sealed(PlanOf(4, 2));
  const auto keys = [](RankFacts& facts, uint32_t rank) { facts.job_key = KeyOf(rank == 2 ? 'x' : 'k'); };
  const std::vector<absl::Status> verdicts = VerdictsOf(World(4), plan, Statements(plan, 4, keys));
  for (uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(verdicts[rank].message(),
              absl::StrCat("preflight: the job key of rank ", rank, " is not that of ",
                           rank == 2 ? "ranks 0, 1, 3" : "rank 2", ", or they were sent other records"));
    EXPECT_EQ(ReasonOf(verdicts[rank]), Reason::kJobKey);
  }
}

// A proof that was heard in one run is not one in the next, although nothing but nonces has changed.
TEST(JobKeyPreflightTest, AProofIsGoodOnce) {
  const SealedPlan plan = Sealed(PlanOf(4, 2));
  const auto in_run = [](uint8_t run) {
    return [run](RankFacts& facts, uint32_t rank) {
      facts.job_key = KeyOf('k');
      // The peer without the key says what it said before, its nonce too.
      if (rank != 2) facts.local.nonce[1] = run;
    };
  };
  std::string heard;
  Ends first = World(4);
  first.members[2] = std::make_unique<ChangedEnd>(
      std::move(first.members[2]),
      [&heard](int gather, std::string& own) {
        if (gather == 1) heard = own;
      },
      nullptr);
  for (const absl::Status& verdict : VerdictsOf(std::move(first), plan, Statements(plan, 4, in_run(1)))) {
    EXPECT_TRUE(verdict.ok()) << verdict;
  }
  ASSERT_EQ(heard.size(), 32u);
  Ends second = World(4);
  second.members[2] = std::make_unique<ChangedEnd>(
      std::move(second.members[2]),
      [&heard](int gather, std::string& own) {
        if (gather == 1) own = heard;
      },
      nullptr);
  const std::vector<absl::Status> verdicts = VerdictsOf(std::move(second), plan, Statements(plan, 4, in_run(2)));
  for (const uint32_t rank : {0u, 1u, 3u}) {
    EXPECT_EQ(verdicts[rank].message(), absl::StrCat("preflight: the job key of rank ", rank,
                                                     " is not that of rank 2, or they were sent other records"));
  }
}

// One byte of what one rank gathered is another than what was sent, even where no field lies.
TEST(JobKeyPreflightTest, AllRanksMustHaveSeenTheSameRecords) {
  const SealedPlan plan = Sealed(PlanOf(4, 2));
  const auto keys = [](RankFacts& facts, uint32_t) { facts.job_key = KeyOf('k'); };
  Ends ends = World(4);
  ends.members[3] = std::make_unique<ChangedEnd>(std::move(ends.members[3]), nullptr, [](int gather, std::string& all) {
    if (gather == 0) all[2 * kRecordBytes - 1] ^= 1;
  });
  const std::vector<absl::Status> verdicts = VerdictsOf(std::move(ends), plan, Statements(plan, 4, keys));
  EXPECT_EQ(verdicts[0].message(),
            "preflight: the job key of rank 0 is not that of rank 3, or they were sent other records");
  EXPECT_EQ(verdicts[3].message(),
            "preflight: the job key of rank 3 is not that of ranks 0, 1, 2, or they were sent other records");
}

TEST(RankRecordTest, IsEncodedInAFixedOrderLittleEndian) {
  RankRecord record;
  record.protocol = 0x04030201;
  record.free_memory = 0x1122334455667788;
  record.network = NetworkTrust::kJobKey;
  record.coordinate = {1, 2, 3, 4};
  record.host = {'h'};
  const std::array<std::byte, kRecordBytes> bytes = EncodeRecord(record);
  for (uint8_t i = 0; i < 4; ++i) EXPECT_EQ(bytes[i], std::byte(i + 1));
  const RankRecord decoded = DecodeRecord(bytes.data());
  EXPECT_EQ(decoded.protocol, record.protocol);
  EXPECT_EQ(decoded.free_memory, record.free_memory);
  EXPECT_EQ(decoded.network, record.network);
  EXPECT_EQ(decoded.coordinate, record.coordinate);
  EXPECT_EQ(decoded.host, record.host);
  EXPECT_EQ(EncodeRecord(decoded), bytes);
  // Every byte is a field's or zero.
  EXPECT_EQ(EncodeRecord(RankRecord{}), (std::array<std::byte, kRecordBytes>{}));
}

TEST(RankRecordTest, NamesThatAreTooLongStayDifferent) {
  const SealedPlan plan = Sealed(PlanOf(1));
  RankFacts facts = FactsOf(plan.plan(), 0);
  facts.backend = "sixteen letters!";
  const ShortName whole = StatementOf(plan, 0, facts).record.backend;
  EXPECT_EQ(std::string(whole.begin(), whole.end()), facts.backend);
  facts.backend = "sixteen letters!1";
  const ShortName one = StatementOf(plan, 0, facts).record.backend;
  EXPECT_EQ(std::string(one.begin(), one.end()), "sixteen#" + HexOf(Sha256(facts.backend)).substr(0, 8));
  facts.backend = "sixteen letters!2";
  EXPECT_NE(StatementOf(plan, 0, facts).record.backend, one);
}

TEST(PolicyTextTest, SaysAllOfAPolicy) {
  const std::string plain = PolicyText({});
  EXPECT_EQ(plain, "keyring none\nrequire-signature no\npin none\nmin-serial 0\nallow-unsigned-hosts no\n");
  std::vector<Policy> policies(8);
  policies[0].pinned_id = Sha256("plan");
  policies[1].min_serial = 7;
  policies[2].require_signature = true;
  policies[3].allow_unsigned_hosts = true;
  for (size_t i = 4; i < 8; ++i) policies[i].keyring.emplace();
  policies[5].keyring->keys = {{"name", {}}};
  policies[6].keyring->min_serials = {{{}, 3}};
  policies[7].keyring->revoked_plans = {Sha256("plan")};
  std::vector<std::string> texts = {plain};
  for (const Policy& policy : policies) texts.push_back(PolicyText(policy));
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
}

// Through the session.

TEST(SessionPreflightTest, NothingIsReservedBeforeARefusal) {
  const absl::StatusOr<LocalFacts> local = CollectLocalFacts();
  ASSERT_TRUE(local.ok()) << local.status();
  support::PlanNumbers n;
  n.ep = 2;
  const support::TempFolder folder;
  support::WriteCheckpoint(folder.path(), support::RandomCheckpoint(support::BuildPlan(n), 1));
  const auto create = [&](SealedPlan plan, LoadProgress& progress) {
    SessionOptions options;
    options.isolated_network = true;
    options.weights = {folder.path()};
    options.unverified_weights = true;
    options.progress = &progress;
    return Session::Create(std::move(plan), options).status();
  };
  LoadProgress loaded;
  EXPECT_TRUE(create(support::BuildSealedPlan(n), loaded).ok());
  EXPECT_GT(loaded.total.load(), 0u);

  // The plan charges for more than this machine has.
  n.other_weights.first = uint64_t{1} << 39;
  LoadProgress refused;
  const absl::Status memory = create(support::BuildSealedPlan(n), refused);
  if (local->free_memory < n.other_weights.first) {
    EXPECT_THAT(std::string(memory.message()), HasSubstr("preflight: free memory of host "));
    EXPECT_EQ(ReasonOf(memory), Reason::kOutOfMemory);
    EXPECT_EQ(refused.total.load(), 0u);
  }

  // Two hosts that are one.
  LoadProgress hosts;
  const absl::Status one = create(Sealed(PlanOf(2, 2)), hosts);
  EXPECT_THAT(std::string(one.message()), HasSubstr(" is several nodes of the plan: node 'node0' on rank 0 and node "));
  EXPECT_EQ(ReasonOf(one), Reason::kRankRecord);
  EXPECT_EQ(hosts.total.load(), 0u);
}

}  // namespace
}  // namespace meshseal::runtime

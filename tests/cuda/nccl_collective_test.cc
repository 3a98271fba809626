// What ranks say to NCCL, on a stand-in of it: results, and waits that end.
#include "runtime/cuda/nccl_collective.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/comm/agreement.h"
#include "runtime/comm/element_bytes.h"
#include "runtime/cuda/nccl_settings.h"
#include "runtime/cuda/stream.h"
#include "schema/reason.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fake_nccl.h"
#include "tests/support/inproc_group.h"

namespace meshseal::cuda {
namespace {

using runtime::Communicator;
using testing::HasSubstr;

constexpr uint32_t kRanks = 3;
constexpr std::chrono::milliseconds kDeadline{300};
constexpr std::chrono::milliseconds kPatient{60'000};

// What one rank has.
struct Rank {
  Communicator& group;
  cudaStream_t stream;
  float* memory;  // on its device
};

class NcclCollectiveTest : public testing::Test {
 protected:
  void SetUp() override { Machine(kRanks, {}); }
  void TearDown() override {
    EXPECT_EQ(fake_cuda::LeakReport(), fake_cuda::Alive());
    EXPECT_EQ(fake_nccl::LeakReport(), fake_nccl::Alive());
    EXPECT_EQ(fake_cuda::Violations(), std::vector<std::string>());
  }

  static void Machine(size_t devices, const fake_nccl::Options& nccl) {
    fake_cuda::Options machine;
    machine.seed = 5;
    machine.devices.resize(devices);
    fake_cuda::Reset(machine);
    fake_nccl::Reset(nccl);
  }

  // `body` on a thread for each of `ranks`, whose devices are taken in turn.
  static void OnRanks(uint32_t ranks, int devices, const std::function<void(Rank&)>& body) {
    const support::InprocGroup group = support::MakeInprocGroup(ranks);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        ASSERT_EQ(cudaSetDevice(static_cast<int>(rank) % devices), cudaSuccess);
        void* memory = nullptr;
        ASSERT_EQ(cudaMalloc(&memory, 4096), cudaSuccess);
        const Stream stream = Stream::Make().value();
        Rank own{group[rank], stream.get(), static_cast<float*>(memory)};
        body(own);
        ASSERT_EQ(cudaFree(memory), cudaSuccess);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  static std::unique_ptr<DeviceCollective> Join(const Rank& rank, std::chrono::milliseconds deadline = kPatient) {
    absl::StatusOr<std::unique_ptr<DeviceCollective>> made =
        MakeNcclCollective(rank.group, {deadline}, std::make_shared<NcclEndings>());
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *std::move(made) : nullptr;
  }

  static absl::Status Wait(const Rank& rank, DeviceCollective& collective, std::chrono::milliseconds deadline) {
    const Event done = Event::Make().value();
    EXPECT_EQ(cudaEventRecord(done.get(), rank.stream), cudaSuccess);
    return WaitFor(done.get(), deadline, "the test", [&] { return collective.Check(); });
  }

  // Device memory is the host's here.
  template <class T>
  static std::vector<T> Read(const void* memory, size_t count) {
    const auto* const values = static_cast<const T*>(memory);
    return std::vector<T>(values, values + count);
  }
};

TEST_F(NcclCollectiveTest, MovesAndAdds) {
  OnRanks(kRanks, kRanks, [](Rank& rank) {
    const std::unique_ptr<DeviceCollective> collective = Join(rank);
    ASSERT_NE(collective, nullptr);
    const uint32_t own = collective->rank();
    const auto mine = static_cast<float>(own + 1);

    rank.memory[own] = mine;
    ASSERT_EQ(collective->AllGather(reinterpret_cast<std::byte*>(rank.memory), sizeof(float), rank.stream),
              absl::OkStatus());
    ASSERT_EQ(Wait(rank, *collective, kPatient), absl::OkStatus());
    EXPECT_EQ(Read<float>(rank.memory, kRanks), (std::vector<float>{1, 2, 3}));

    // Member m gets m floats of each, the first one nothing.
    float* const sent = rank.memory;
    float* const received = rank.memory + 16;
    std::vector<absl::Span<const std::byte>> out;
    std::vector<absl::Span<std::byte>> in;
    for (uint32_t member = 0; member < kRanks; ++member) {
      for (uint32_t i = 0; i < member; ++i) sent[member * 4 + i] = mine * 10 + static_cast<float>(member);
      out.push_back(runtime::BytesOf(absl::Span<const float>(sent + member * 4, member)));
      in.push_back(runtime::BytesIn(absl::Span<float>(received + member * own, own)));
    }
    ASSERT_EQ(collective->Exchange(out, in, rank.stream), absl::OkStatus());
    ASSERT_EQ(Wait(rank, *collective, kPatient), absl::OkStatus());
    std::vector<float> expected;
    for (uint32_t member = 0; member < kRanks; ++member) {
      expected.insert(expected.end(), own, static_cast<float>((member + 1) * 10 + own));
    }
    EXPECT_EQ(Read<float>(received, expected.size()), expected);

    // Two sums as one.
    auto* const numbers = reinterpret_cast<int64_t*>(rank.memory + 64);
    rank.memory[0] = mine;
    numbers[0] = int64_t{1} << (own * 20);
    ASSERT_EQ(collective->BeginGroup(), absl::OkStatus());
    ASSERT_EQ(collective->AllReduceSum(rank.memory, 1, rank.stream), absl::OkStatus());
    ASSERT_EQ(collective->AllReduceSum(numbers, 1, rank.stream), absl::OkStatus());
    ASSERT_EQ(collective->EndGroup(), absl::OkStatus());
    ASSERT_EQ(Wait(rank, *collective, kPatient), absl::OkStatus());
    EXPECT_EQ(rank.memory[0], 6);
    EXPECT_EQ(numbers[0], (int64_t{1} << 40) + (int64_t{1} << 20) + 1);

    // Of two values for each member, a member's own.
    for (uint32_t i = 0; i < 2 * kRanks; ++i) numbers[i] = static_cast<int64_t>(mine) * 10 + i;
    ASSERT_EQ(collective->ReduceScatterSum(numbers, 2, rank.stream), absl::OkStatus());
    ASSERT_EQ(Wait(rank, *collective, kPatient), absl::OkStatus());
    EXPECT_EQ(numbers[2 * own], 60 + 3 * static_cast<int64_t>(2 * own));
    EXPECT_EQ(numbers[2 * own + 1], 60 + 3 * static_cast<int64_t>(2 * own + 1));
  });
  EXPECT_EQ(fake_cuda::CallCount("ncclCommDestroy"), kRanks);
  EXPECT_EQ(fake_cuda::CallCount("ncclCommAbort"), 0u);
}

TEST_F(NcclCollectiveTest, RanksThatDisagreeAreEndedAtTheDeadline) {
  OnRanks(kRanks, kRanks, [](Rank& rank) {
    const std::unique_ptr<DeviceCollective> collective = Join(rank);
    ASSERT_NE(collective, nullptr);
    ASSERT_EQ(collective->AllReduceSum(rank.memory, collective->rank() == 1 ? 4 : 8, rank.stream), absl::OkStatus());
    const absl::Status status = Wait(rank, *collective, kDeadline);
    EXPECT_EQ(ReasonOf(status), Reason::kDeadline) << status;
    collective->Abort();
    EXPECT_EQ(ReasonOf(collective->AllReduceSum(rank.memory, 8, rank.stream)), Reason::kDevice);
  });
}

TEST_F(NcclCollectiveTest, AMemberThatDoesNotJoinIsWaitedForUntilTheDeadline) {
  OnRanks(2, 2, [](Rank& rank) {
    if (rank.group.rank() == 1) {  // it comes as far as the id
      ASSERT_EQ(runtime::Agree(rank.group, absl::OkStatus()), absl::OkStatus());
      std::vector<std::byte> all(2 * sizeof(ncclUniqueId));
      ASSERT_EQ(rank.group.AllGather(std::vector<std::byte>(sizeof(ncclUniqueId)), absl::MakeSpan(all)),
                absl::OkStatus());
      // And hears why the other has given up.
      EXPECT_EQ(ReasonOf(runtime::Agree(rank.group, absl::OkStatus())), Reason::kPeerFailed);
      return;
    }
    const absl::Status status = MakeNcclCollective(rank.group, {kDeadline}, std::make_shared<NcclEndings>()).status();
    EXPECT_EQ(ReasonOf(status), Reason::kDeadline);
    EXPECT_EQ(status.message(), "NCCL, a communicator: not done after 300 ms");
  });
}

TEST_F(NcclCollectiveTest, RanksOnOneDeviceAreRefusedByNccl) {
  OnRanks(2, 1, [](Rank& rank) {
    const absl::Status status = MakeNcclCollective(rank.group, {kPatient}, std::make_shared<NcclEndings>()).status();
    if (ReasonOf(status) != Reason::kPeerFailed) {  // the other said so first
      EXPECT_EQ(ReasonOf(status), Reason::kDevice) << status;
    }
    EXPECT_THAT(std::string(status.message()), HasSubstr("Duplicate GPU detected"));
  });
}

TEST_F(NcclCollectiveTest, ACommunicatorThatDoesNotEndWellIsEndedByForce) {
  for (const char* const function : {"ncclCommFinalize", "ncclCommGetAsyncError"}) {
    SCOPED_TRACE(function);
    Machine(2, {});
    OnRanks(2, 2, [function](Rank& rank) {
      std::unique_ptr<DeviceCollective> collective = Join(rank, kDeadline);
      ASSERT_NE(collective, nullptr);
      ASSERT_EQ(runtime::Agree(rank.group, absl::OkStatus()), absl::OkStatus());
      if (rank.group.rank() == 0) {
        fake_cuda::CallFault fault;
        fault.function = function;
        fault.error = ncclSystemError;
        fault.forever = true;
        fake_cuda::FailCall(fault);
      }
      ASSERT_EQ(runtime::Agree(rank.group, absl::OkStatus()), absl::OkStatus());
      collective.reset();
    });
    EXPECT_EQ(fake_cuda::CallCount("ncclCommAbort"), 2u);
    EXPECT_EQ(fake_nccl::LeakReport().communicators, 0u);
  }
}

TEST_F(NcclCollectiveTest, VersionsAreComparedByTheirNumbers) {
  const auto check = [](const char* min, const char* max, const char* found) {
    Mesh mesh;
    mesh.transport_version_min = min;
    mesh.transport_version_max = max;
    const absl::Status status = CheckNccl(mesh, found, [](const char*) { return std::nullopt; });
    if (!status.ok()) {
      EXPECT_EQ(ReasonOf(status), Reason::kRankRecord);
    }
    return std::string(status.message());
  };
  EXPECT_EQ(check("", "", "2.28.9"), "");
  EXPECT_EQ(check("2.28.9", "2.28.9", "2.28.9"), "");
  EXPECT_EQ(check("2.9", "2.30", "2.28.9"), "");
  EXPECT_EQ(check("2.29", "", "2.28.9"), "NCCL is 2.28.9, the plan's mesh takes 2.29 or above");
  EXPECT_EQ(check("", "2.9", "2.28.9"), "NCCL is 2.28.9, the plan's mesh takes up to 2.9");
  EXPECT_EQ(check("2.28.10", "2.29", "2.28.9"), "NCCL is 2.28.9, the plan's mesh takes 2.28.10 to 2.29");
  EXPECT_EQ(NcclVersion().value(), "2.28.9");
}

TEST(NcclSettingsTest, WhoComesFirstDecides) {
  const NcclSettings settings({"HOME=/root", "NCCL_ALGO=Ring"},
                              {"# a file\nNCCL_ALGO=Tree\nNCCL_PROTO=LL=128\nnothing\n", "NCCL_PROTO=Simple\nNCCL_X="});
  EXPECT_EQ(settings.variables(),
            (std::vector<std::string>{"HOME=/root", "NCCL_ALGO=Ring", "NCCL_PROTO=LL=128", "NCCL_X="}));
  EXPECT_EQ(settings.environment()("NCCL_PROTO"), "LL=128");
  EXPECT_EQ(settings.environment()("NCCL_X"), "");
  EXPECT_EQ(settings.environment()("NCCL"), std::nullopt);
}

TEST(NcclSettingsTest, SumsOfFloatsNeedADecisionAboutSwitches) {
  struct Case {
    std::vector<std::string> variables;
    bool decided;
    const char* text;
  };
  const std::vector<Case> cases = {
      {{},
       false,
       "algorithm as NCCL chooses, protocol as NCCL chooses, NVLS not decided; may differ from call to call"},
      {{"NCCL_NVLS_ENABLE="},
       false,
       "algorithm as NCCL chooses, protocol as NCCL chooses, NVLS not decided; may differ from call to call"},
      {{"NCCL_NVLS_ENABLE=0"},
       true,
       "algorithm as NCCL chooses, protocol as NCCL chooses, NVLS off; on the same machines the same in every call"},
      {{"NCCL_NVLS_ENABLE=2", "NCCL_PROTO=Simple"},
       true,
       "algorithm as NCCL chooses, protocol Simple, NVLS where the machine has it; may differ from call to call"},
      {{"NCCL_ALGO=Ring,TREE"},
       true,
       "algorithm Ring,TREE, protocol as NCCL chooses, NVLS off; on the same machines the same in every call"},
      {{"NCCL_ALGO=^Ring"},
       false,
       "algorithm ^Ring, protocol as NCCL chooses, NVLS not decided; may differ from call to call"},
      {{"NCCL_NVLS_ENABLE=0", "NCCL_COLLNET_ENABLE=1"},
       true,
       "algorithm as NCCL chooses, protocol as NCCL chooses, NVLS off, CollNet where the network has it; may differ "
       "from "
       "call to call"}};
  for (const Case& one : cases) {
    const runtime::Environment environment = NcclSettings(one.variables, {}).environment();
    const absl::Status checked = CheckSums(Reduction::kFast, environment);
    EXPECT_EQ(checked.ok(), one.decided) << one.text;
    if (!one.decided) {
      EXPECT_EQ(ReasonOf(checked), Reason::kRankRecord);
      EXPECT_EQ(checked.message(),
                "NCCL_NVLS_ENABLE is not set: NCCL may have switches add, whose float32 sums differ from call to call; "
                "set it to 0, or to 1 where that may be");
    }
    EXPECT_EQ(SumsText(Reduction::kFast, environment), std::string("fast, by NCCL: ") + one.text);
    // NCCL adds no floats there.
    for (const Reduction reduction : {Reduction::kOrdered, Reduction::kExact}) {
      EXPECT_TRUE(CheckSums(reduction, environment).ok());
      EXPECT_EQ(SumsText(reduction, environment), SumsText(reduction, NcclSettings({}, {}).environment()));
    }
  }
}

TEST_F(NcclCollectiveTest, VariablesThatTakeAwayWhatRanksAgreedOnAreRefused) {
  const auto check = [](const std::string& name, const std::string& value) {
    const absl::Status status = CheckNccl(Mesh(), "2.28.9", [&](const char* asked) -> std::optional<std::string> {
      if (asked == name) return value;
      return std::nullopt;
    });
    return std::string(status.message());
  };
  EXPECT_EQ(check("NCCL_COMM_ID", ""),
            "NCCL_COMM_ID is '': ranks would meet there, and not as they have agreed; unset it");
  EXPECT_EQ(check("CUDA_LAUNCH_BLOCKING", "1"),
            "CUDA_LAUNCH_BLOCKING is '1': a launch would wait for other ranks, past any deadline; unset it");
  EXPECT_EQ(check("CUDA_LAUNCH_BLOCKING", "0"), "");
  EXPECT_EQ(check("NCCL_DEBUG", "INFO"), "");
}

}  // namespace
}  // namespace meshseal::cuda

#include "tests/fake_cuda/fake_nccl.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <set>
#include <thread>

#include "tests/fake_cuda/test_kernels.h"

namespace fake_nccl {
namespace {

using fake_cuda::Device;
using fake_cuda::Launch;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kRanks = 4;

// One rank's things: its device is current in its thread.
struct Rank {
  int rank = 0;
  cudaStream_t stream = nullptr;
  ncclComm_t comm = nullptr;
};

class NcclTest : public fake_cuda::FakeCudaTest {
 protected:
  void SetUp() override { RestartWorld({}); }
  void TearDown() override {
    Reset();
    FakeCudaTest::TearDown();
  }

  void RestartWorld(const Options& options, uint64_t seed = 0, int hang_ms = 10000) {
    fake_cuda::Options machine{std::vector<Device>(kRanks)};
    machine.seed = seed;
    machine.hang_limit = std::chrono::milliseconds(hang_ms);
    Restart(machine);
    Reset(options);
    ASSERT_EQ(ncclGetUniqueId(&id_), ncclSuccess);
  }

  static ncclConfig_t Config(int blocking) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking;
    return config;
  }

  // Runs `body` in a thread for each rank, with a stream and a communicator.
  void OnRanks(int ranks, const std::function<void(Rank&)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
        Rank own{rank, NewStream()};
        ncclConfig_t config = Config(1);
        ASSERT_EQ(ncclCommInitRankConfig(&own.comm, ranks, id_, rank, &config), ncclSuccess);
        body(own);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // The same communicators in this thread, one after the other. They do not block.
  std::vector<Rank> MakeRanks(int ranks) {
    std::vector<Rank> made;
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(cudaSetDevice(rank), cudaSuccess);
      made.push_back({rank, NewStream()});
      ncclConfig_t config = Config(0);
      EXPECT_EQ(ncclCommInitRankConfig(&made.back().comm, ranks, id_, rank, &config), ncclInProgress);
    }
    for (const Rank& rank : made) EXPECT_EQ(Settle(rank), ncclSuccess);
    return made;
  }

  static ncclResult_t State(const Rank& rank) {
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(rank.comm, &state), ncclSuccess);
    return state;
  }

  // Polls until the communicator is no longer in progress; or a while.
  static ncclResult_t Settle(const Rank& rank) {
    ncclResult_t state = ncclInProgress;
    for (int i = 0; i < 100 && state == ncclInProgress; ++i) state = State(rank);
    return state;
  }

  std::vector<float> Values(int rank, size_t count) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(rank * 100) + static_cast<float>(i);
    return values;
  }

  ncclUniqueId id_ = {};
};

TEST_F(NcclTest, RanksKnowTheirPlaces) {
  OnRanks(3, [](Rank& own) {
    int value = -1;
    EXPECT_EQ(ncclCommCount(own.comm, &value), ncclSuccess);
    EXPECT_EQ(value, 3);
    EXPECT_EQ(ncclCommUserRank(own.comm, &value), ncclSuccess);
    EXPECT_EQ(value, own.rank);
    EXPECT_EQ(ncclCommCuDevice(own.comm, &value), ncclSuccess);
    EXPECT_EQ(value, own.rank);
    EXPECT_EQ(ncclCommFinalize(own.comm), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(own.comm), ncclSuccess);
  });
  EXPECT_EQ(LeakReport(), Alive());
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, 22809);
  EXPECT_EQ(fake_cuda::CallCount("ncclCommDestroy"), 3u);
}

TEST_F(NcclTest, CollectivesMoveWhatTheyShould) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    RestartWorld({}, seed);
    OnRanks(kRanks, [this](Rank& own) {
      const size_t n = 3;
      float* const in = DeviceFloats(Values(own.rank, n * kRanks));
      float* const out = DeviceFloats(std::vector<float>(n * kRanks, -1));
      ASSERT_EQ(ncclAllReduce(in, out, n, ncclFloat, ncclSum, own.comm, own.stream), ncclSuccess);
      EXPECT_THAT(Read(out, 4, own.stream), ElementsAre(600, 604, 608, -1));
      ASSERT_EQ(ncclAllReduce(in, out, n, ncclFloat, ncclMax, own.comm, own.stream), ncclSuccess);
      EXPECT_THAT(Read(out, 3, own.stream), ElementsAre(300, 301, 302));
      ASSERT_EQ(ncclAllGather(in, out, n, ncclFloat, own.comm, own.stream), ncclSuccess);
      EXPECT_THAT(Read(out, 12, own.stream), ElementsAre(0, 1, 2, 100, 101, 102, 200, 201, 202, 300, 301, 302));
      ASSERT_EQ(ncclReduceScatter(in, out, n, ncclFloat, ncclSum, own.comm, own.stream), ncclSuccess);
      const auto first = static_cast<float>(600 + 12 * own.rank);
      EXPECT_THAT(Read(out, 3, own.stream), ElementsAre(first, first + 4, first + 8));
      ASSERT_EQ(ncclBroadcast(in, out, n, ncclFloat, 2, own.comm, own.stream), ncclSuccess);
      EXPECT_THAT(Read(out, 3, own.stream), ElementsAre(200, 201, 202));
      // In place.
      ASSERT_EQ(ncclAllGather(in + n * static_cast<size_t>(own.rank), in, n, ncclFloat, own.comm, own.stream),
                ncclSuccess);
      EXPECT_THAT(Read(in, 12, own.stream), ElementsAre(0, 1, 2, 103, 104, 105, 206, 207, 208, 309, 310, 311));
      EXPECT_EQ(ncclCommDestroy(own.comm), ncclSuccess);
    });
  }
}

TEST_F(NcclTest, SendsMeetTheirReceives) {
  OnRanks(kRanks, [this](Rank& own) {
    // Slices to everybody: slice r of rank s becomes slice s of rank r.
    float* const in = DeviceFloats(Values(own.rank, kRanks));
    float* const out = DeviceFloats(std::vector<float>(kRanks, -1));
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int peer = 0; peer < kRanks; ++peer) {
      ASSERT_EQ(ncclSend(in + peer, 1, ncclFloat, peer, own.comm, own.stream), ncclSuccess);
      ASSERT_EQ(ncclRecv(out + peer, 1, ncclFloat, peer, own.comm, own.stream), ncclSuccess);
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    const auto r = static_cast<float>(own.rank);
    EXPECT_THAT(Read(out, kRanks, own.stream), ElementsAre(r, 100 + r, 200 + r, 300 + r));
    EXPECT_EQ(ncclCommDestroy(own.comm), ncclSuccess);
  });
}

// 2^24, 1, -2^24 and 1 of ranks 0 to 3: what is left of the ones depends on the order.
TEST_F(NcclTest, ARingSumsInAnotherOrder) {
  for (const SumOrder order : {SumOrder::kRanks, SumOrder::kRing}) {
    Options options;
    options.order = order;
    RestartWorld(options);
    OnRanks(kRanks, [this, order](Rank& own) {
      const float addends[] = {16777216.0f, 1.0f, -16777216.0f, 1.0f};
      float* const values = DeviceFloats(std::vector<float>(4, addends[own.rank]));
      float* const piece = DeviceFloats({0});
      ASSERT_EQ(ncclReduceScatter(values, piece, 1, ncclFloat, ncclSum, own.comm, own.stream), ncclSuccess);
      ASSERT_EQ(ncclAllReduce(values, values, 4, ncclFloat, ncclSum, own.comm, own.stream), ncclSuccess);
      const std::vector<float> sums = Read(values, 4, own.stream);
      if (order == SumOrder::kRanks) {
        EXPECT_THAT(sums, Each(1.0f));
      } else {
        EXPECT_THAT(sums, ElementsAre(2.0f, 2.0f, 0.0f, 1.0f));
      }
      EXPECT_EQ(Read(piece, 1, own.stream)[0], sums[static_cast<size_t>(own.rank)]);
      EXPECT_EQ(ncclCommDestroy(own.comm), ncclSuccess);
    });
  }
}

TEST_F(NcclTest, SumsRoundToTheirType) {
  OnRanks(2, [](Rank& own) {
    void* data = nullptr;
    ASSERT_EQ(cudaMalloc(&data, 64), cudaSuccess);
    const auto sum = [&](auto mine, ncclDataType_t type) {
      EXPECT_EQ(cudaMemcpyAsync(data, &mine, sizeof mine, cudaMemcpyHostToDevice, own.stream), cudaSuccess);
      EXPECT_EQ(ncclAllReduce(data, data, 1, type, ncclSum, own.comm, own.stream), ncclSuccess);
      EXPECT_EQ(cudaMemcpyAsync(&mine, data, sizeof mine, cudaMemcpyDeviceToHost, own.stream), cudaSuccess);
      return mine;
    };
    const bool first = own.rank == 0;
    // 256 + 1 has nine bits: a tie, to the even 256. 2048 + 1 likewise in float16.
    EXPECT_EQ(__bfloat162float(sum(__float2bfloat16(first ? 256.0f : 1.0f), ncclBfloat16)), 256.0f);
    EXPECT_EQ(__half2float(sum(__float2half(first ? 2048.0f : 1.0f), ncclFloat16)), 2048.0f);
    EXPECT_EQ(sum(first ? int64_t{1} << 62 : (int64_t{1} << 62) - 1, ncclInt64), INT64_MAX);
    EXPECT_EQ(sum(first ? INT64_MAX : int64_t{1}, ncclInt64), INT64_MIN);
    EXPECT_EQ(sum(uint8_t{200}, ncclUint8), 144);
    EXPECT_EQ(sum(first ? 1e300 : 1.0, ncclFloat64), 1e300);
    EXPECT_EQ(ncclCommDestroy(own.comm), ncclSuccess);
  });
}

TEST_F(NcclTest, ACollectiveWaitsForAllRanks) {
  const std::vector<Rank> ranks = MakeRanks(2);
  std::vector<float*> data;
  for (const Rank& rank : ranks) {
    ASSERT_EQ(cudaSetDevice(rank.rank), cudaSuccess);
    data.push_back(DeviceFloats({1}));
  }
  ASSERT_EQ(ncclAllReduce(data[0], data[0], 1, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream), ncclInProgress);
  ASSERT_EQ(Settle(ranks[0]), ncclSuccess);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(cudaStreamQuery(ranks[0].stream), cudaErrorNotReady);
  ASSERT_EQ(ncclAllReduce(data[1], data[1], 1, ncclFloat, ncclSum, ranks[1].comm, ranks[1].stream), ncclInProgress);
  ASSERT_EQ(Settle(ranks[1]), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(ranks[0].stream), cudaSuccess);
  EXPECT_THAT(Read(data[1], 1, ranks[1].stream), ElementsAre(2.0f));
}

TEST_F(NcclTest, InitIsInProgressUntilTheLastRankComes) {
  Options options;
  options.init_polls = 2;
  RestartWorld(options);
  ncclConfig_t config = Config(0);
  Rank first;
  Rank second;
  ASSERT_EQ(ncclCommInitRankConfig(&first.comm, 2, id_, 0, &config), ncclInProgress);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(State(first), ncclInProgress);
  int count = 0;
  EXPECT_EQ(ncclCommCount(first.comm, &count), ncclInvalidArgument);
  EXPECT_STREQ(ncclGetLastError(nullptr),
               "Attempt to use communicator before the previous operation returned ncclSuccess");
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(ncclCommInitRankConfig(&second.comm, 2, id_, 1, &config), ncclInProgress);
  EXPECT_EQ(State(first), ncclInProgress);
  EXPECT_EQ(State(first), ncclInProgress);
  EXPECT_EQ(State(first), ncclSuccess);
  EXPECT_EQ(ncclCommCount(first.comm, &count), ncclSuccess);
  EXPECT_EQ(Settle(second), ncclSuccess);
}

TEST_F(NcclTest, ARankThatNeverComesIsLeftByAbort) {
  ncclConfig_t config = Config(0);
  Rank alone;
  ASSERT_EQ(ncclCommInitRankConfig(&alone.comm, 2, id_, 0, &config), ncclInProgress);
  EXPECT_EQ(Settle(alone), ncclInProgress);
  EXPECT_EQ(ncclCommAbort(alone.comm), ncclSuccess);
  EXPECT_EQ(LeakReport(), Alive());
}

TEST_F(NcclTest, ABlockingInitHangsWithoutTheOthers) {
  RestartWorld({}, 0, 50);
  ncclConfig_t config = Config(1);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id_, 0, &config), ncclInternalError);
  EXPECT_EQ(comm, nullptr);
  ExpectViolations({"ncclCommInitRankConfig would wait for ever"});
}

// Runs `body` in a child process, for rank 1, whose device it is; what it returns is the child's exit code. The child
// knows nothing of what this process has made, but for the id.
pid_t InAnotherProcess(const std::function<int(Rank&)>& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  Reset();
  fake_cuda::Options machine{std::vector<Device>(kRanks)};
  fake_cuda::Reset(machine);
  Rank own{1};
  static_cast<void>(cudaSetDevice(1));
  static_cast<void>(cudaStreamCreateWithFlags(&own.stream, cudaStreamNonBlocking));
  ::_exit(body(own));
}

int ExitCode(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(NcclTest, RanksMayBeProcesses) {
  // Rank r's values become sums, three times by a graph, and are exchanged.
  constexpr size_t kCount = 3;
  const auto run = [this](Rank& own) -> std::vector<float> {
    ncclConfig_t config = Config(1);
    if (ncclCommInitRankConfig(&own.comm, 2, id_, own.rank, &config) != ncclSuccess) return {};
    float* data = nullptr;
    if (cudaMalloc(reinterpret_cast<void**>(&data), 4 * kCount * sizeof(float)) != cudaSuccess) return {};
    float* const other = data + 2 * kCount;
    const std::vector<float> values = Values(own.rank, kCount);
    static_cast<void>(cudaMemcpyAsync(data, values.data(), kCount * sizeof(float), cudaMemcpyHostToDevice, own.stream));
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    if (cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess ||
        ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, own.comm, own.stream) != ncclSuccess ||
        cudaStreamEndCapture(own.stream, &graph) != cudaSuccess ||
        cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess || cudaGraphDestroy(graph) != cudaSuccess) {
      return {};
    }
    for (int i = 0; i < 3; ++i) {
      if (cudaGraphLaunch(exec, own.stream) != cudaSuccess) return {};
    }
    if (ncclGroupStart() != ncclSuccess ||
        ncclSend(data, kCount, ncclFloat, 1 - own.rank, own.comm, own.stream) != ncclSuccess ||
        ncclRecv(other, kCount, ncclFloat, 1 - own.rank, own.comm, own.stream) != ncclSuccess ||
        ncclGroupEnd() != ncclSuccess) {
      return {};
    }
    std::vector<float> found(kCount);
    static_cast<void>(cudaMemcpyAsync(found.data(), other, kCount * sizeof(float), cudaMemcpyDeviceToHost, own.stream));
    if (cudaStreamSynchronize(own.stream) != cudaSuccess || cudaGraphExecDestroy(exec) != cudaSuccess ||
        ncclCommDestroy(own.comm) != ncclSuccess)
      return {};
    return found;
  };
  const std::vector<float> expected = {400, 408, 416};
  const pid_t child = InAnotherProcess([&](Rank& own) { return run(own) == expected ? 0 : 1; });
  Rank own{0, NewStream()};
  EXPECT_EQ(run(own), expected);
  EXPECT_EQ(ExitCode(child), 0);
}

TEST_F(NcclTest, AProcessThatEndsIsARankThatNeverComes) {
  Options options;
  options.launch_polls = 0;
  RestartWorld(options);
  const pid_t child = InAnotherProcess([&](Rank& own) {
    ncclConfig_t config = Config(1);
    return ncclCommInitRankConfig(&own.comm, 2, id_, 1, &config) == ncclSuccess ? ::raise(SIGKILL) : 1;
  });
  Rank own{0, NewStream()};
  ncclConfig_t config = Config(0);
  ASSERT_EQ(ncclCommInitRankConfig(&own.comm, 2, id_, 0, &config), ncclInProgress);
  EXPECT_EQ(ExitCode(child), 128 + SIGKILL);
  ASSERT_EQ(Settle(own), ncclSuccess);
  float* const data = DeviceFloats({1});
  ASSERT_EQ(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, own.comm, own.stream), ncclSuccess);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(cudaStreamQuery(own.stream), cudaErrorNotReady);
  EXPECT_EQ(State(own), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(own.comm), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(own.stream), cudaSuccess);
}

TEST_F(NcclTest, RanksThatDisagreeAboutTheWorldNeverMeet) {
  Options options;
  options.name_mismatches = true;
  RestartWorld(options);
  ncclConfig_t config = Config(0);
  Rank ranks[3];
  ASSERT_EQ(ncclCommInitRankConfig(&ranks[0].comm, 2, id_, 0, &config), ncclInProgress);
  ASSERT_EQ(ncclCommInitRankConfig(&ranks[1].comm, 3, id_, 1, &config), ncclInProgress);
  ASSERT_EQ(ncclCommInitRankConfig(&ranks[2].comm, 2, id_, 0, &config), ncclInProgress);
  for (const Rank& rank : ranks) EXPECT_EQ(Settle(rank), ncclInProgress);
  ExpectViolations({"communicator 1: ranks for 2 and for 3", "communicator 1: rank 0 came twice"});
}

TEST_F(NcclTest, TwoRanksOnOneDeviceAreRefused) {
  ncclConfig_t config = Config(0);
  Rank ranks[2];
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(ncclCommInitRankConfig(&ranks[rank].comm, 2, id_, rank, &config), ncclInProgress);
  }
  for (const Rank& rank : ranks) {
    EXPECT_EQ(Settle(rank), ncclInvalidUsage);
    EXPECT_STREQ(ncclGetLastError(rank.comm), "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000");
    EXPECT_EQ(ncclCommDestroy(rank.comm), ncclSuccess);
  }
}

TEST_F(NcclTest, ArgumentsAreChecked) {
  ncclConfig_t config = Config(0);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id_, 2, &config), ncclInvalidArgument);
  EXPECT_STREQ(ncclGetLastError(nullptr), "Invalid rank requested : 2/2");
  ncclConfig_t unset = {};
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id_, 0, &unset), ncclInvalidArgument);
  ncclUniqueId unknown = {};
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, unknown, 0, &config), ncclInvalidArgument);
  const std::vector<Rank> ranks = MakeRanks(2);
  const Rank& own = ranks[1];
  float* const data = DeviceFloats({1});
  EXPECT_EQ(ncclAllReduce(data, data, 1, ncclNumTypes, ncclSum, own.comm, own.stream), ncclInvalidArgument);
  EXPECT_EQ(ncclBroadcast(data, data, 1, ncclFloat, 2, own.comm, own.stream), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, nullptr, own.stream), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, own.comm, ranks[0].stream), ncclUnhandledCudaError);
  EXPECT_EQ(ncclAllReduce(data, data, 0, ncclFloat, ncclSum, own.comm, own.stream), ncclSuccess);  // nothing to do
  EXPECT_EQ(ncclAllReduce(data, data, 1, ncclFloat, ncclAvg, own.comm, own.stream), ncclInvalidArgument);
  ExpectViolations({"ncclAllReduce: the stand-in does not compute reduction 4 of float32"});
}

TEST_F(NcclTest, ALaunchIsOnItsStreamOnlyWhenItIsNoLongerInProgress) {
  Options options;
  options.launch_polls = 2;
  RestartWorld(options);
  const std::vector<Rank> ranks = MakeRanks(1);
  float* const data = DeviceFloats({1});
  ASSERT_EQ(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream), ncclInProgress);
  EXPECT_EQ(cudaStreamQuery(ranks[0].stream), cudaSuccess);  // too early: nothing is there
  EXPECT_EQ(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream), ncclInvalidArgument);
  EXPECT_EQ(State(ranks[0]), ncclInProgress);
  EXPECT_EQ(State(ranks[0]), ncclInProgress);
  EXPECT_EQ(State(ranks[0]), ncclSuccess);
  fake_cuda::FailWork({.outcome = fake_cuda::WorkFault::Outcome::kDelay, .delay = 2});
  EXPECT_EQ(cudaStreamQuery(ranks[0].stream), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamSynchronize(ranks[0].stream), cudaSuccess);
}

// Mismatched launches of rank 1, whose rank 0 sums 4 floats.
TEST_F(NcclTest, RanksThatDisagreeWaitForEver) {
  struct Case {
    std::function<ncclResult_t(float*, const Rank&)> call;
    const char* text;
  };
  const std::vector<Case> cases = {
      {[](float* data, const Rank& own) {
         return ncclAllReduce(data, data, 3, ncclFloat, ncclSum, own.comm, own.stream);
       },
       "AllReduce of 3 float32 (sum)"},
      {[](float* data, const Rank& own) {
         return ncclAllReduce(data, data, 4, ncclInt32, ncclSum, own.comm, own.stream);
       },
       "AllReduce of 4 int32 (sum)"},
      {[](float* data, const Rank& own) {
         return ncclAllReduce(data, data, 4, ncclFloat, ncclMax, own.comm, own.stream);
       },
       "AllReduce of 4 float32 (largest)"},
      {[](float* data, const Rank& own) { return ncclBroadcast(data, data, 4, ncclFloat, 0, own.comm, own.stream); },
       "Broadcast of 4 float32 from rank 0"},
  };
  for (const bool named : {false, true}) {
    for (const Case& one : cases) {
      Options options;
      options.launch_polls = 0;
      options.name_mismatches = named;
      RestartWorld(options);
      const std::vector<Rank> ranks = MakeRanks(2);
      ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
      float* const first = DeviceFloats({1, 1, 1, 1});
      ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
      float* const second = DeviceFloats({1, 1, 1, 1});
      ASSERT_EQ(ncclAllReduce(first, first, 4, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream), ncclSuccess);
      ASSERT_EQ(one.call(second, ranks[1]), ncclSuccess);
      for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(cudaStreamQuery(ranks[0].stream), cudaErrorNotReady);
        EXPECT_EQ(cudaStreamQuery(ranks[1].stream), cudaErrorNotReady);
      }
      std::vector<std::string> told;
      if (named) {
        told = {std::string("communicator 1, collective 1: rank 0 AllReduce of 4 float32 (sum), rank 1 ") + one.text};
      }
      ExpectViolations(told);
    }
  }
}

TEST_F(NcclTest, ASendAndAReceiveOfOtherSizesWaitForEver) {
  Options options;
  options.launch_polls = 0;
  options.name_mismatches = true;
  RestartWorld(options);
  const std::vector<Rank> ranks = MakeRanks(2);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  float* const first = DeviceFloats({1, 1});
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  float* const second = DeviceFloats({1, 1});
  ASSERT_EQ(ncclSend(first, 2, ncclFloat, 1, ranks[0].comm, ranks[0].stream), ncclSuccess);
  ASSERT_EQ(ncclRecv(second, 1, ncclFloat, 0, ranks[1].comm, ranks[1].stream), ncclSuccess);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(cudaStreamQuery(ranks[0].stream), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(ranks[1].stream), cudaErrorNotReady);
  ExpectViolations({"communicator 1: rank 0 Send of 2 float32, rank 1 Recv of 1 float32"});
}

TEST_F(NcclTest, AnAsynchronousErrorStays) {
  const std::vector<Rank> ranks = MakeRanks(2);
  FailCommunicator(ranks[0].comm, ncclSystemError);
  EXPECT_EQ(State(ranks[0]), ncclSystemError);
  EXPECT_EQ(State(ranks[0]), ncclSystemError);
  EXPECT_EQ(State(ranks[1]), ncclSuccess);
  float* const data = DeviceFloats({1});
  EXPECT_EQ(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream), ncclSystemError);
}

TEST_F(NcclTest, ARankThatDiesLeavesTheOthersWaitingAndMayBeNoticed) {
  for (const bool noticed : {false, true}) {
    Options options;
    options.launch_polls = 0;
    RestartWorld(options);
    const std::vector<Rank> ranks = MakeRanks(2);
    EXPECT_EQ(Communicators(), std::vector<ncclComm_t>({ranks[0].comm, ranks[1].comm}));
    for (const Rank& rank : ranks) {
      ASSERT_EQ(cudaSetDevice(rank.rank), cudaSuccess);
      float* const data = DeviceFloats({1});
      if (rank.rank == 1) Kill(rank.comm, noticed);
      ASSERT_EQ(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, rank.comm, rank.stream), ncclSuccess);
    }
    for (int i = 0; i < 20; ++i) EXPECT_EQ(cudaStreamQuery(ranks[0].stream), cudaErrorNotReady);
    EXPECT_EQ(State(ranks[0]), noticed ? ncclRemoteError : ncclSuccess);
    EXPECT_EQ(ncclCommAbort(ranks[0].comm), ncclSuccess);
    EXPECT_EQ(cudaStreamSynchronize(ranks[0].stream), cudaSuccess);
  }
}

TEST_F(NcclTest, AbortFromAnotherThreadEndsAWait) {
  Options options;
  options.launch_polls = 0;
  RestartWorld(options);
  const std::vector<Rank> ranks = MakeRanks(2);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  float* const data = DeviceFloats({1});
  ASSERT_EQ(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream), ncclSuccess);
  std::thread waiting([&] { EXPECT_EQ(cudaStreamSynchronize(ranks[0].stream), cudaSuccess); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(ncclCommAbort(ranks[0].comm), ncclSuccess);
  waiting.join();
  EXPECT_EQ(ncclCommAbort(ranks[0].comm), ncclInvalidArgument);
}

TEST_F(NcclTest, CollectivesAreCaptured) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    RestartWorld({}, seed);
    OnRanks(kRanks, [this](Rank& own) {
      float* const data = DeviceFloats({1});
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t exec = nullptr;
      ASSERT_EQ(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
      ASSERT_EQ(Launch(own.stream, fake_cuda::AddKernel, data, 1u, 1.0f), cudaSuccess);
      ASSERT_EQ(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, own.comm, own.stream), ncclSuccess);
      ASSERT_EQ(cudaStreamEndCapture(own.stream, &graph), cudaSuccess);
      cudaGraphNode_t nodes[3] = {};
      size_t count = 3;
      ASSERT_EQ(cudaGraphGetNodes(graph, nodes, &count), cudaSuccess);
      ASSERT_EQ(count, 2u);
      cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
      EXPECT_EQ(cudaGraphNodeGetType(nodes[1], &type), cudaSuccess);
      EXPECT_EQ(type, cudaGraphNodeTypeKernel);
      cudaKernelNodeParams params = {};
      EXPECT_EQ(cudaGraphKernelNodeGetParams(nodes[1], &params), cudaErrorInvalidDeviceFunction);
      ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
      ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
      for (int i = 0; i < 3; ++i) ASSERT_EQ(cudaGraphLaunch(exec, own.stream), cudaSuccess);
      EXPECT_THAT(Read(data, 1, own.stream), ElementsAre(148.0f));
      ASSERT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
      EXPECT_EQ(ncclCommDestroy(own.comm), ncclSuccess);
    });
  }
}

TEST_F(NcclTest, AGraphThatOutlivesItsCommunicatorIsTold) {
  RestartWorld({}, 0, 50);
  const std::vector<Rank> ranks = MakeRanks(1);
  float* const data = DeviceFloats({1});
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(ranks[0].stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream), ncclInProgress);
  ASSERT_EQ(Settle(ranks[0]), ncclSuccess);
  ASSERT_EQ(cudaStreamEndCapture(ranks[0].stream, &graph), cudaSuccess);
  EXPECT_EQ(ncclCommFinalize(ranks[0].comm), ncclInProgress);
  EXPECT_EQ(Settle(ranks[0]), ncclInProgress);
  EXPECT_EQ(ncclCommDestroy(ranks[0].comm), ncclInternalError);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(Settle(ranks[0]), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(ranks[0].comm), ncclSuccess);
  const std::string text =
      " of rank 0: a graph holds a collective of it; NCCL waits until all such graphs are destroyed";
  ExpectViolations({"ncclCommFinalize" + text, "ncclCommDestroy" + text});
}

TEST_F(NcclTest, FinalizeWaitsForWhatWasLaunched) {
  Options options;
  options.launch_polls = 0;
  RestartWorld(options);
  const std::vector<Rank> ranks = MakeRanks(1);
  float* const data = DeviceFloats({1});
  fake_cuda::FailWork({.kernels_only = true, .outcome = fake_cuda::WorkFault::Outcome::kDelay, .delay = 5});
  ASSERT_EQ(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream), ncclSuccess);
  EXPECT_EQ(ncclCommFinalize(ranks[0].comm), ncclInProgress);
  EXPECT_EQ(Settle(ranks[0]), ncclInProgress);
  EXPECT_EQ(cudaStreamSynchronize(ranks[0].stream), cudaSuccess);
  EXPECT_EQ(Settle(ranks[0]), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(ranks[0].comm), ncclSuccess);
}

TEST_F(NcclTest, DestroyWaitsForTheOtherRanks) {
  RestartWorld({}, 0, 50);
  const std::vector<Rank> ranks = MakeRanks(2);
  EXPECT_EQ(ncclCommDestroy(ranks[0].comm), ncclInternalError);
  ExpectViolations({"ncclCommDestroy would wait for ever"});
  EXPECT_EQ(ncclCommFinalize(ranks[1].comm), ncclInProgress);
  EXPECT_EQ(ncclCommDestroy(ranks[0].comm), ncclSuccess);
  EXPECT_EQ(Settle(ranks[1]), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(ranks[1].comm), ncclSuccess);
  EXPECT_EQ(LeakReport(), Alive());
}

TEST_F(NcclTest, WhoWaitsForEverIsToldForWhat) {
  Options options;
  options.launch_polls = 0;
  RestartWorld(options, 0, 50);
  const std::vector<Rank> ranks = MakeRanks(2);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  float* const data = DeviceFloats({1});
  const cudaStream_t other = NewStream();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(other, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(ncclBroadcast(data, data, 1, ncclFloat, 1, ranks[0].comm, other), ncclSuccess);
  ASSERT_EQ(cudaStreamEndCapture(other, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  ASSERT_EQ(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream), ncclSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, other), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(ranks[0].stream), cudaErrorLaunchTimeout);
  ExpectViolations(
      {"cudaStreamSynchronize would wait for ever: stream 1 at rank 0's AllReduce of 1 float32 (sum), stream "
       "4 at a graph at rank 0's Broadcast of 1 float32 from rank 1"});
}

TEST_F(NcclTest, BuffersAreDeviceMemoryOfTheRank) {
  Options options;
  options.launch_polls = 0;
  RestartWorld(options);
  const std::vector<Rank> ranks = MakeRanks(1);
  float* const data = DeviceFloats({1});
  ASSERT_EQ(ncclAllReduce(data, data, 2, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(ranks[0].stream), cudaErrorIllegalAddress);
  ExpectViolations({"communicator 1, rank 0: AllReduce of 2 float32 (sum) outside of device memory"});
}

TEST_F(NcclTest, ALostDevicesCollectiveNeverArrives) {
  Options options;
  options.launch_polls = 0;
  RestartWorld(options);
  const std::vector<Rank> ranks = MakeRanks(2);
  fake_cuda::FailWork({.device = 1, .kernels_only = true});
  for (const Rank& rank : ranks) {
    ASSERT_EQ(cudaSetDevice(rank.rank), cudaSuccess);
    float* const data = DeviceFloats({1});
    ASSERT_EQ(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, rank.comm, rank.stream), ncclSuccess);
  }
  EXPECT_EQ(cudaStreamSynchronize(ranks[1].stream), cudaErrorIllegalAddress);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(cudaStreamQuery(ranks[0].stream), cudaErrorIllegalAddress);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(ranks[0].stream), cudaErrorNotReady);
}

TEST_F(NcclTest, WindowsAreRegisteredByAllOnNcclsOwnMemory) {
  Options options;
  options.window_polls = 0;
  RestartWorld(options);
  const std::vector<Rank> ranks = MakeRanks(2);
  ncclWindow_t windows[2] = {};
  void* buffers[2] = {};
  for (const Rank& rank : ranks) {
    ASSERT_EQ(cudaSetDevice(rank.rank), cudaSuccess);
    ASSERT_EQ(ncclMemAlloc(&buffers[rank.rank], 8192), ncclSuccess);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffers[rank.rank]) % NCCL_WIN_REQUIRED_ALIGNMENT, 0u);
  }
  auto* const inside = static_cast<std::byte*>(buffers[0]) + 256;
  EXPECT_EQ(ncclCommWindowRegister(ranks[0].comm, inside, 256, &windows[0], NCCL_WIN_COLL_SYMMETRIC),
            ncclInvalidArgument);
  EXPECT_STREQ(ncclGetLastError(nullptr), "Window address must be suitably aligned.");
  EXPECT_EQ(ncclCommWindowRegister(ranks[0].comm, buffers[0], 8193, &windows[0], NCCL_WIN_COLL_SYMMETRIC),
            ncclInvalidArgument);
  EXPECT_EQ(ncclCommWindowRegister(ranks[0].comm, buffers[0], 8192, &windows[0], NCCL_WIN_COLL_SYMMETRIC),
            ncclInProgress);
  EXPECT_EQ(Settle(ranks[0]), ncclInProgress);
  EXPECT_EQ(ncclCommWindowRegister(ranks[1].comm, buffers[1], 8192, &windows[1], NCCL_WIN_COLL_SYMMETRIC), ncclSuccess);
  EXPECT_EQ(Settle(ranks[0]), ncclSuccess);
  EXPECT_EQ(LeakReport().windows, 2u);
  EXPECT_EQ(ncclMemFree(buffers[1]), ncclSuccess);
  EXPECT_EQ(ncclCommWindowDeregister(ranks[0].comm, windows[1]), ncclInvalidArgument);
  EXPECT_EQ(ncclCommWindowDeregister(ranks[0].comm, windows[0]), ncclSuccess);
  EXPECT_EQ(ncclMemFree(buffers[0]), ncclSuccess);
  EXPECT_EQ(cudaFree(buffers[0]), cudaErrorInvalidValue);
  ExpectViolations({"ncclMemFree: a window is registered on device 1, allocation 2 (8192 bytes)",
                    "cudaFree: not what was allocated, or freed before"});
}

TEST_F(NcclTest, CallsFailWhereTheTestWantsIt) {
  const std::vector<Rank> ranks = MakeRanks(1);
  float* const data = DeviceFloats({1});
  fake_cuda::FailCall({"ncclAllReduce", 1, ncclUnhandledCudaError});
  EXPECT_EQ(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream), ncclUnhandledCudaError);
  EXPECT_STREQ(ncclGetErrorString(ncclUnhandledCudaError),
               "unhandled cuda error (run with NCCL_DEBUG=INFO for details)");
}

TEST_F(NcclTest, AGroupInitialisesRanksOfOneThread) {
  ncclComm_t comms[2] = {};
  ncclConfig_t config = Config(1);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
    ASSERT_EQ(ncclCommInitRankConfig(&comms[rank], 2, id_, rank, &config), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  int rank = -1;
  EXPECT_EQ(ncclCommUserRank(comms[1], &rank), ncclSuccess);
  EXPECT_EQ(rank, 1);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

}  // namespace
}  // namespace fake_nccl

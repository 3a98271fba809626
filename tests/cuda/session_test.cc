// Whole sessions on devices: plans run through the executor on a stand-in CUDA runtime, unmodified, with the
// kernels under the SIMT shim; compared with the reference backend.
#include "runtime/session/session.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/cuda/cuda_compute.h"
#include "schema/reason.h"
#include "schema/safetensors.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/runtime/oracle.h"
#include "tests/runtime/recorded_model.h"
#include "tests/simt/run_kernel.h"
#include "tests/support/plan_builder.h"

namespace meshseal::cuda {
namespace {

using runtime::RunResult;
using runtime::Session;
using runtime::SessionOptions;
using support::PlanNumbers;

constexpr uint32_t kTokens = 7;

// A machine with devices, whose kernels the shim runs.
class CudaSessionTest : public testing::Test {
 protected:
  void SetUp() override { Machine(0); }
  void TearDown() override {
    EXPECT_EQ(fake_cuda::LeakReport(), fake_cuda::Alive());
    EXPECT_EQ(fake_cuda::Violations(), std::vector<std::string>());
  }

  // Another one, with a device, whose streams take turns by `seed`.
  static void Machine(uint64_t seed) {
    fake_cuda::Options machine;
    machine.seed = seed;
    machine.devices[0].memory_bytes = uint64_t{1} << 30;
    fake_cuda::Reset(machine);
    fake_cuda::SetKernelRunner(simt::RunKernel);
    fake_cuda::SetKernelLookup(simt::ParameterBytes);
  }

  static SessionOptions OptionsFor(std::shared_ptr<runtime::Compute> compute) {
    SessionOptions options;
    options.weights = {runtime::RecordedFolder()};
    options.unverified_weights = true;
    options.emulate = true;
    options.deadline = std::chrono::minutes(10);  // kernels on the host take seconds
    options.compute = std::move(compute);
    return options;
  }

  static std::shared_ptr<runtime::Compute> Devices() {
    CudaOptions options;
    options.without_management_library = true;
    return MakeLoopbackCompute(options);
  }

  // Layer 0 of the recorded model.
  static absl::Status RunLayer(Session& session, Phase phase, std::vector<float>* output, RunResult* result) {
    const absl::StatusOr<SafetensorsFile> file =
        SafetensorsFile::Open(runtime::RecordedFolder() / "recorded" / "prompt-7.safetensors");
    if (!file.ok()) return file.status();
    const std::vector<float> hidden = runtime::Recorded<float>(*file, "layer.0.hidden_in");
    output->assign(hidden.size(), 0);
    return session.Run({0, phase, kTokens, hidden, absl::MakeSpan(*output)}, result);
  }
};

PlanNumbers Recorded(uint32_t tp, uint32_t ep, Reduction reduction) {
  PlanNumbers n = runtime::RecordedModel();
  n.tp = tp;
  n.ep = ep;
  n.reduction = reduction;
  if (reduction == Reduction::kExact) n.segments = 2;
  n.decode_tokens = 8;
  n.prefill_tokens = 8;
  n.prefill_chunk = 8;
  n.capture_bytes = 1 << 20;
  if (ep == 4) n.prefill_tokens = n.prefill_chunk = 768;  // of so many tokens slices are exchanged, in decode gathered
  return n;
}

struct Case {
  uint32_t tp = 1;
  uint32_t ep = 1;
  Reduction reduction = Reduction::kOrdered;
};

class CudaPlans : public CudaSessionTest, public testing::WithParamInterface<Case> {};

TEST_P(CudaPlans, GiveWhatTheReferenceGives) {
  const Case& c = GetParam();
  Machine(3);
  const PlanNumbers n = Recorded(c.tp, c.ep, c.reduction);
  absl::StatusOr<std::unique_ptr<Session>> reference =
      Session::Create(support::BuildSealedPlan(n), OptionsFor(nullptr));
  ASSERT_TRUE(reference.ok()) << reference.status();
  absl::StatusOr<std::unique_ptr<Session>> devices =
      Session::Create(support::BuildSealedPlan(n), OptionsFor(Devices()));
  ASSERT_TRUE(devices.ok()) << devices.status();
  const std::vector<Program>& programs = (*devices)->plan()->plan().layer_classes[0].programs;
  EXPECT_EQ(programs[0].reduce_algorithm != programs[1].reduce_algorithm, c.ep == 4);
  for (const Phase phase : {Phase::kDecode, Phase::kPrefill, Phase::kDecode}) {
    SCOPED_TRACE(WordOf(phase));
    std::vector<float> expected;
    std::vector<float> found;
    RunResult expected_result;
    RunResult result;
    absl::Status status = RunLayer(**reference, phase, &expected, &expected_result);
    ASSERT_TRUE(status.ok()) << status;
    status = RunLayer(**devices, phase, &found, &result);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(result.expert_ids, expected_result.expert_ids);
    EXPECT_LE(support::RelativeDifference(found, expected), 2e-6);
    if (c.reduction == Reduction::kExact) {
      EXPECT_EQ(result.expert_weights, expected_result.expert_weights);
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(expected[i])) << i;
      }
    }
    for (size_t rank = 0; rank < result.ranks.size(); ++rank) {
      EXPECT_EQ(result.ranks[rank].counters.down_slots, expected_result.ranks[rank].counters.down_slots);
    }
  }
  // Of one rank, decode is a graph: one bucket of one layer.
  EXPECT_EQ(fake_cuda::LeakReport().graph_execs, c.tp * c.ep == 1 ? 1u : 0u);
}

INSTANTIATE_TEST_SUITE_P(Worlds, CudaPlans,
                         testing::Values(Case{}, Case{1, 1, Reduction::kExact}, Case{1, 4},
                                         Case{1, 3, Reduction::kFast}, Case{2, 2, Reduction::kFast},
                                         Case{2, 2, Reduction::kExact}));

TEST_F(CudaSessionTest, EveryCallThatFailsIsACleanRefusal) {
  const PlanNumbers n = Recorded(1, 1, Reduction::kOrdered);
  // Once without a fault, to count the calls.
  const auto run = [&]() -> absl::Status {
    absl::StatusOr<std::unique_ptr<Session>> session =
        Session::Create(support::BuildSealedPlan(n), OptionsFor(Devices()));
    if (!session.ok()) return session.status();
    std::vector<float> output;
    RunResult result;
    return RunLayer(**session, Phase::kDecode, &output, &result);
  };
  ASSERT_TRUE(run().ok());
  const size_t calls = fake_cuda::CallLog().size();
  ASSERT_GT(calls, 40u);
  size_t refused = 0;
  for (uint64_t nth = 1; nth <= calls; nth += 7) {
    Machine(0);
    fake_cuda::CallFault fault;
    fault.nth = nth;
    fault.error = cudaErrorUnknown;
    fake_cuda::FailCall(fault);
    const absl::Status status = run();
    if (status.ok()) continue;  // a call whose result nobody needs: that of a destructor
    ++refused;
    EXPECT_EQ(ReasonOf(status), Reason::kDevice) << nth << ": " << status;
    EXPECT_EQ(fake_cuda::Violations(), std::vector<std::string>()) << nth;
  }
  EXPECT_GT(refused, 10u);
  Machine(0);
}

TEST_F(CudaSessionTest, ScratchThatThePlanDoesNotChargeIsRefused) {
  PlanNumbers n = Recorded(1, 1, Reduction::kOrdered);
  n.capture_bytes = 1024;
  const absl::Status status = Session::Create(support::BuildSealedPlan(n), OptionsFor(Devices())).status();
  EXPECT_EQ(ReasonOf(status), Reason::kOutOfMemory);
  EXPECT_NE(status.message().find("the plan charges 1.0 KiB: the deployment's limits.capture"), std::string::npos)
      << status;
}

TEST_F(CudaSessionTest, RanksThatStandInForDevicesAreAnEmulation) {
  SessionOptions options = OptionsFor(Devices());
  options.emulate = false;
  const absl::Status status =
      Session::Create(support::BuildSealedPlan(Recorded(1, 1, Reduction::kOrdered)), options).status();
  EXPECT_EQ(status.message(),
            "backend 'cuda-loopback' stands in for the plan's devices: that is an emulation, and not allowed");
  EXPECT_EQ(ReasonOf(status), Reason::kUsage);
  EXPECT_EQ(fake_cuda::CallLog(), std::vector<std::string>());  // what is refused touches no device
}

}  // namespace
}  // namespace meshseal::cuda

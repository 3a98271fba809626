// Whole sessions on devices: plans run through the executor on a stand-in CUDA runtime, unmodified, with the
// kernels under the SIMT shim; compared with the reference backend.
#include "runtime/session/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/cuda/cuda_compute.h"
#include "schema/fingerprint.h"
#include "schema/reason.h"
#include "tests/cuda/device_session.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/runtime/oracle.h"
#include "tests/simt/run_kernel.h"
#include "tests/simt/symbol_name.h"
#include "tests/support/plan_builder.h"

namespace meshseal::cuda {
namespace {

using runtime::RunResult;
using runtime::Session;
using runtime::SessionOptions;
using support::PlanNumbers;

// Symbols of the kernels that ran since it was cleared.
std::set<std::string>& RunKernels() {
  static std::set<std::string> names;
  return names;
}

bool RunAndNote(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, void** args, uint64_t seed,
                std::string* error) {
  RunKernels().insert(simt::SymbolName(kernel));
  return simt::RunKernel(kernel, grid, block, shared_bytes, args, seed, error);
}

void NoteKernels() {
  RunKernels().clear();
  fake_cuda::SetKernelRunner(RunAndNote);
}

bool HasRun(const std::string& kernel) {
  return std::any_of(RunKernels().begin(), RunKernels().end(),
                     [&](const std::string& name) { return name.find(kernel) != std::string::npos; });
}

class CudaSessionTest : public DeviceSessionTest {
 protected:
  static std::shared_ptr<runtime::Compute> Devices() { return MakeLoopbackCompute(Unmanaged()); }
};

struct Case {
  uint32_t tp = 1;
  uint32_t ep = 1;
  Reduction reduction = Reduction::kOrdered;
  Basis basis = Basis::kF32;  // bf16, as the weights: grouped rows are tensor cores' work
};

class CudaPlans : public CudaSessionTest, public testing::WithParamInterface<Case> {};

TEST_P(CudaPlans, GiveWhatTheReferenceGives) {
  const Case& c = GetParam();
  Machine(3, 2);  // of two devices all ranks share one
  NoteKernels();
  PlanNumbers n = RecordedFor(c.tp, c.ep, c.reduction);
  n.gate_up_basis = n.down_basis = c.basis;
  absl::StatusOr<std::unique_ptr<Session>> reference =
      Session::Create(support::BuildSealedPlan(n), OptionsFor(nullptr));
  ASSERT_TRUE(reference.ok()) << reference.status();
  absl::StatusOr<std::unique_ptr<Session>> devices =
      Session::Create(support::BuildSealedPlan(n), OptionsFor(Devices()));
  ASSERT_TRUE(devices.ok()) << devices.status();
  const std::vector<Program>& programs = (*devices)->plan()->plan().layer_classes[0].programs;
  EXPECT_EQ(programs[0].reduce_algorithm != programs[1].reduce_algorithm, c.ep == 4);
  for (const Phase phase : {Phase::kDecode, Phase::kPrefill, Phase::kDecode}) {
    std::vector<float> found;
    ASSERT_NO_FATAL_FAILURE(ExpectSame(**reference, **devices, phase, c.reduction, &found));
  }
  EXPECT_TRUE(HasRun("GateUpActivationKernel"));  // of decode
  EXPECT_EQ(HasRun("GroupedTilesKernel"), c.basis == Basis::kBf16);
  EXPECT_EQ(HasRun("GateUpGroupedKernel"), c.basis != Basis::kBf16);
  // Of one rank, decode is a graph: one bucket of one layer.
  EXPECT_EQ(fake_cuda::LeakReport().graph_execs, c.tp * c.ep == 1 ? 1u : 0u);
}

INSTANTIATE_TEST_SUITE_P(Worlds, CudaPlans,
                         testing::Values(Case{}, Case{1, 1, Reduction::kExact}, Case{1, 4},
                                         Case{1, 1, Reduction::kOrdered, Basis::kBf16},
                                         Case{1, 1, Reduction::kOrdered, Basis::kF16},
                                         Case{2, 2, Reduction::kOrdered, Basis::kBf16}, Case{1, 3, Reduction::kFast},
                                         Case{2, 2, Reduction::kFast}, Case{2, 2, Reduction::kExact}));

// By tensor cores where a step has many tokens, and decode by lanes.
TEST_F(CudaSessionTest, TheSharedExpertOfManyTokensIsTensorCoresWork) {
  for (const Basis basis : {Basis::kBf16, Basis::kF32}) {
    SCOPED_TRACE(WordOf(basis));
    PlanNumbers n;
    n.hidden = 64;
    n.intermediate = 16;
    n.shared_width = 32;
    n.shared_gate = SharedGate::kSigmoid;
    n.dtype = DType::kBf16;
    n.gate_up_basis = n.down_basis = basis;
    n.weight_source = WeightSource::kSynthetic;
    n.decode_tokens = n.prefill_tokens = n.prefill_chunk = 4;
    n.capture_bytes = 1 << 20;
    const auto options = [](std::shared_ptr<runtime::Compute> compute) {
      SessionOptions of = OptionsFor(std::move(compute));
      of.weights.clear();
      return of;
    };
    absl::StatusOr<std::unique_ptr<Session>> reference = Session::Create(support::BuildSealedPlan(n), options(nullptr));
    ASSERT_TRUE(reference.ok()) << reference.status();
    absl::StatusOr<std::unique_ptr<Session>> devices = Session::Create(support::BuildSealedPlan(n), options(Devices()));
    ASSERT_TRUE(devices.ok()) << devices.status();
    for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
      NoteKernels();
      const std::vector<float> hidden(3 * 64, 0.5F);
      std::vector<float> expected(hidden.size());
      std::vector<float> found(hidden.size());
      RunResult result;
      ASSERT_TRUE((*reference)->Run({0, phase, 3, hidden, absl::MakeSpan(expected)}, &result).ok());
      ASSERT_TRUE((*devices)->Run({0, phase, 3, hidden, absl::MakeSpan(found)}, &result).ok());
      EXPECT_LE(support::RelativeDifference(found, expected), 2e-5);
      const bool by_tiles = phase == Phase::kPrefill && basis == Basis::kBf16;
      EXPECT_EQ(HasRun("SharedTilesKernel"), by_tiles) << WordOf(phase);
      EXPECT_EQ(HasRun("SharedGateUpKernel"), !by_tiles) << WordOf(phase);
      EXPECT_EQ(HasRun("SharedDownKernel"), !by_tiles) << WordOf(phase);
    }
  }
}

// Gate, up and activation are one launch, but not where the plan has the activation take the place of what they read.
TEST_F(CudaSessionTest, AnActivationInThePlaceOfItsTokensIsALaunchOfItsOwn) {
  NoteKernels();
  Plan plan = support::BuildPlan(RecordedFor(2, 1, Reduction::kOrdered));
  Program& decode = plan.layer_classes[0].programs[0];
  const auto step = [&](StepKind kind) {
    return *std::find_if(decode.steps.begin(), decode.steps.end(), [&](const auto& one) { return one.kind == kind; });
  };
  for (WorkLayout& layout : decode.layouts) {
    const Buffer& tokens = layout.buffers[step(StepKind::kGateUp).inputs[0]];
    Buffer& activation = layout.buffers[step(StepKind::kActivation).outputs[0]];
    ASSERT_LE(activation.bytes, tokens.bytes);
    activation.offset = tokens.offset;
  }
  plan.execution_fingerprint = ExecutionFingerprint(plan);
  std::vector<float> expected;
  std::vector<float> found;
  RunResult result;
  absl::StatusOr<std::unique_ptr<Session>> reference = Session::Create(support::Seal(plan), OptionsFor(nullptr));
  ASSERT_TRUE(reference.ok()) << reference.status();
  ASSERT_TRUE(RunRecorded(**reference, Phase::kDecode, &expected, &result).ok());
  absl::StatusOr<std::unique_ptr<Session>> devices = Session::Create(support::Seal(plan), OptionsFor(Devices()));
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_TRUE(RunRecorded(**devices, Phase::kDecode, &found, &result).ok());
  EXPECT_LE(support::RelativeDifference(found, expected), 2e-6);
  EXPECT_TRUE(HasRun("GateUpKernel"));
  EXPECT_FALSE(HasRun("GateUpActivationKernel"));
}

TEST_F(CudaSessionTest, EveryCallThatFailsIsACleanRefusal) {
  const PlanNumbers n = RecordedFor(1, 1, Reduction::kOrdered);
  // Once without a fault, to count the calls.
  const auto run = [&]() -> absl::Status {
    absl::StatusOr<std::unique_ptr<Session>> session =
        Session::Create(support::BuildSealedPlan(n), OptionsFor(Devices()));
    if (!session.ok()) return session.status();
    std::vector<float> output;
    RunResult result;
    return RunRecorded(**session, Phase::kDecode, &output, &result);
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
  PlanNumbers n = RecordedFor(1, 1, Reduction::kOrdered);
  n.capture_bytes = 1024;
  const absl::Status status = Session::Create(support::BuildSealedPlan(n), OptionsFor(Devices())).status();
  EXPECT_EQ(ReasonOf(status), Reason::kOutOfMemory);
  EXPECT_NE(status.message().find("the plan charges 1.0 KiB: see the deployment's field capture"), std::string::npos)
      << status;
}

TEST_F(CudaSessionTest, RanksThatStandInForDevicesAreAnEmulation) {
  SessionOptions options = OptionsFor(Devices());
  options.emulate = false;
  const absl::Status status =
      Session::Create(support::BuildSealedPlan(RecordedFor(1, 1, Reduction::kOrdered)), options).status();
  EXPECT_EQ(status.message(),
            "backend 'cuda-loopback' stands in for the plan's devices: that is an emulation, and not allowed");
  EXPECT_EQ(ReasonOf(status), Reason::kUsage);
  EXPECT_EQ(fake_cuda::CallLog(), std::vector<std::string>());  // what is refused touches no device
}

}  // namespace
}  // namespace meshseal::cuda

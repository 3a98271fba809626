// Sessions on devices of plans that repack weights, against the reference backend on weights as stored.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/cuda/cuda_compute.h"
#include "runtime/session/session.h"
#include "schema/reason.h"
#include "tests/cuda/device_session.h"
#include "tests/cuda/kernel_buffers.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/runtime/oracle.h"
#include "tests/support/plan_builder.h"

namespace meshseal::cuda {
namespace {

using runtime::RunResult;
using runtime::Session;
using runtime::SessionOptions;
using support::PlanNumbers;

class RepackedSessionTest : public DeviceSessionTest {
 protected:
  static constexpr uint32_t kTokens = 2;

  static PlanNumbers Quantised(DType dtype, uint32_t tp, uint32_t ep) {
    PlanNumbers n;
    n.tp = tp;
    n.ep = ep;
    n.experts = n.top_k = 2;
    n.hidden = 256;
    n.intermediate = 256 * tp;
    n.shared_width = 256 * tp * ep;
    n.column_unit = 256;
    n.weight_dtype = dtype;
    n.biases = true;
    n.fused = ep > 1;
    n.weight_source = WeightSource::kSynthetic;
    n.decode_tokens = n.prefill_tokens = n.prefill_chunk = 2;
    n.gate_up_basis = n.down_basis = Basis::kBf16;
    n.capture_bytes = 1 << 20;
    return n;
  }

  static SessionOptions Options(std::shared_ptr<runtime::Compute> compute) {
    SessionOptions options = OptionsFor(std::move(compute));
    options.weights.clear();
    return options;
  }

  static absl::StatusOr<std::unique_ptr<Session>> OnDevices(const PlanNumbers& n) {
    return Session::Create(support::BuildSealedPlan(n), Options(MakeLoopbackCompute(Unmanaged())));
  }

  static absl::Status Run(Session& session, Phase phase, std::vector<float>* output) {
    std::mt19937 random(1);
    std::vector<float> hidden(kTokens * 256);
    for (float& value : hidden) value = std::normal_distribution<float>()(random);
    output->assign(hidden.size(), 0);
    RunResult result;
    return session.Run({0, phase, kTokens, hidden, absl::MakeSpan(*output)}, &result);
  }
};

TEST_F(RepackedSessionTest, GiveTheBitsOfWeightsAsStored) {
  struct Case {
    DType dtype;
    uint32_t tp;
    uint32_t ep;
    Repack repack;
  };
  for (const Case& c : {Case{DType::kQ8_0, 1, 2, Repack::kByExpert}, Case{DType::kQ4K, 2, 1, Repack::kByExpert},
                        Case{DType::kQ6K, 1, 1, Repack::kByTensor}}) {
    SCOPED_TRACE(DTypeName(c.dtype));
    PlanNumbers n = Quantised(c.dtype, c.tp, c.ep);
    absl::StatusOr<std::unique_ptr<Session>> reference = Session::Create(support::BuildSealedPlan(n), Options(nullptr));
    ASSERT_TRUE(reference.ok()) << reference.status();
    absl::StatusOr<std::unique_ptr<Session>> stored = OnDevices(n);
    ASSERT_TRUE(stored.ok()) << stored.status();
    n.repack = c.repack;
    absl::StatusOr<std::unique_ptr<Session>> repacked = OnDevices(n);
    ASSERT_TRUE(repacked.ok()) << repacked.status();
    EXPECT_EQ((*repacked)->resident_weight_bytes(0), (*stored)->resident_weight_bytes(0));
    for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
      if (phase == Phase::kPrefill && c.tp * c.ep > 1) continue;  // takes seconds here
      std::vector<float> expected;
      std::vector<float> of_stored;
      std::vector<float> of_repacked;
      ASSERT_TRUE(Run(**reference, phase, &expected).ok());
      ASSERT_TRUE(Run(**stored, phase, &of_stored).ok());
      ASSERT_TRUE(Run(**repacked, phase, &of_repacked).ok());
      EXPECT_TRUE(SameBits(of_repacked, of_stored)) << WordOf(phase);
      EXPECT_LE(support::RelativeDifference(of_repacked, expected), 2e-5) << WordOf(phase);
    }
  }
}

TEST_F(RepackedSessionTest, AHostHasThemAsStored) {
  PlanNumbers n = Quantised(DType::kQ8_0, 1, 1);
  n.repack = Repack::kByExpert;
  const absl::Status status = Session::Create(support::BuildSealedPlan(n), Options(nullptr)).status();
  EXPECT_EQ(ReasonOf(status), Reason::kNotBuilt);
  EXPECT_NE(status.message().find("repacked weights (nearest: repack: none)"), std::string::npos) << status;
}

// Whatever fails while weights are brought, the model that is there stays, and nothing else.
TEST_F(RepackedSessionTest, ALoadThatFailsLeavesWhatWasThere) {
  PlanNumbers n = Quantised(DType::kQ4K, 1, 1);
  n.repack = Repack::kByExpert;
  absl::StatusOr<std::unique_ptr<Session>> session = OnDevices(n);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto replace = [&] {
    return (*session)->Replace(support::BuildSealedPlan(n), Options(MakeLoopbackCompute(Unmanaged()))).status();
  };
  const uint64_t until = fake_cuda::CallCount("cudaMemcpyAsync");
  ASSERT_TRUE(replace().ok());
  const uint64_t copies = fake_cuda::CallCount("cudaMemcpyAsync") - until;
  // Of each expert, and of the shared one, three matrices of two planes; three biases, and the router.
  ASSERT_GE(copies, 3u * 3 * 2 + 2 * 3 + 1);
  std::vector<float> before;
  ASSERT_TRUE(Run(**session, Phase::kDecode, &before).ok());
  const fake_cuda::Alive alive = fake_cuda::LeakReport();
  struct Fault {
    const char* function;
    uint64_t nth;
  };
  for (const Fault& one : {Fault{"cudaMemcpyAsync", 1}, Fault{"cudaMemcpyAsync", 2}, Fault{"cudaMemcpyAsync", 15},
                           Fault{"cudaStreamSynchronize", 7}, Fault{"cudaMallocHost", 1}, Fault{"cudaMalloc", 1}}) {
    fake_cuda::CallFault fault;
    fault.function = one.function;
    fault.nth = one.nth;
    fault.error = cudaErrorMemoryAllocation;
    fake_cuda::FailCall(fault);
    EXPECT_FALSE(replace().ok()) << one.function << ", " << one.nth;
    EXPECT_EQ(fake_cuda::LeakReport(), alive) << one.function << ", " << one.nth;
  }
  std::vector<float> after;
  ASSERT_TRUE(Run(**session, Phase::kDecode, &after).ok());
  EXPECT_TRUE(SameBits(after, before));
}

TEST_F(RepackedSessionTest, MemoryThatIsNotThereIsRefused) {
  PlanNumbers n = Quantised(DType::kQ8_0, 1, 1);
  n.repack = Repack::kByExpert;
  for (const uint64_t memory : {uint64_t{1} << 20, uint64_t{1} << 22}) {
    fake_cuda::Options machine;
    machine.devices.resize(1);
    machine.devices[0].memory_bytes = memory;
    fake_cuda::Reset(machine);
    const absl::Status status = OnDevices(n).status();
    if (memory > (uint64_t{1} << 21)) {
      EXPECT_TRUE(status.ok()) << status;
      continue;
    }
    EXPECT_EQ(ReasonOf(status), Reason::kOutOfMemory) << status;
    EXPECT_EQ(fake_cuda::LeakReport(), fake_cuda::Alive());
  }
  n.capture_bytes = 1024;
  EXPECT_EQ(ReasonOf(OnDevices(n).status()), Reason::kOutOfMemory);
}

}  // namespace
}  // namespace meshseal::cuda

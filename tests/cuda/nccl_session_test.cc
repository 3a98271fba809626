// Whole sessions whose ranks have a device each and meet over NCCL, on stand-ins of CUDA's libraries: what they compute
// is compared with the reference backend.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/cuda/cuda_compute.h"
#include "runtime/session/session.h"
#include "tests/cuda/device_session.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fake_nccl.h"
#include "tests/support/plan_builder.h"

namespace meshseal::cuda {
namespace {

using runtime::Session;
using support::PlanNumbers;

struct Case {
  uint32_t tp = 1;
  uint32_t ep = 1;
  Reduction reduction = Reduction::kOrdered;
  fake_nccl::SumOrder order = fake_nccl::SumOrder::kRanks;
};

class NcclPlans : public DeviceSessionTest, public testing::WithParamInterface<Case> {};

TEST_P(NcclPlans, GiveWhatTheReferenceGives) {
  const Case& c = GetParam();
  const uint32_t ranks = c.tp * c.ep;
  fake_nccl::Options nccl;
  nccl.order = c.order;
  Machine(3, ranks, nccl);
  PlanNumbers n = RecordedFor(c.tp, c.ep, c.reduction);
  n.transport = Transport::kNccl;
  absl::StatusOr<std::unique_ptr<Session>> reference =
      Session::Create(support::BuildSealedPlan(n), OptionsFor(nullptr));
  ASSERT_TRUE(reference.ok()) << reference.status();
  absl::StatusOr<std::unique_ptr<Session>> devices =
      Session::Create(support::BuildSealedPlan(n), OptionsFor(MakeNcclCompute(Unmanaged())));
  ASSERT_TRUE(devices.ok()) << devices.status();
  std::vector<float> decoded;
  // Decode runs as it is, is captured, and replayed.
  for (const Phase phase : {Phase::kPrefill, Phase::kDecode, Phase::kDecode, Phase::kDecode}) {
    std::vector<float> found;
    ASSERT_NO_FATAL_FAILURE(ExpectSame(**reference, **devices, phase, c.reduction, &found));
    if (phase == Phase::kDecode) {
      if (!decoded.empty()) {
        EXPECT_EQ(found, decoded);
      }
      decoded = found;
    }
  }
  EXPECT_EQ(fake_cuda::LeakReport().graph_execs, ranks);
  EXPECT_EQ(fake_nccl::LeakReport().communicators, ranks);
  devices->reset();
  EXPECT_EQ(fake_cuda::CallCount("ncclCommDestroy"), ranks);  // together, and not by force
  EXPECT_EQ(fake_cuda::CallCount("ncclCommAbort"), 0u);
}

INSTANTIATE_TEST_SUITE_P(Worlds, NcclPlans,
                         testing::Values(Case{1, 4}, Case{1, 3, Reduction::kFast, fake_nccl::SumOrder::kRing},
                                         Case{2, 2, Reduction::kExact, fake_nccl::SumOrder::kRing}));

}  // namespace
}  // namespace meshseal::cuda

// The C interface of a library with the CUDA backend, on stand-ins of CUDA's libraries: its sessions are the programs',
// and what is missing is said by the same words.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "runtime/include/meshseal/meshseal.h"
#include "tests/cuda/device_session.h"
#include "tests/runtime/c_error_text.h"
#include "tests/support/plan_builder.h"

namespace meshseal::cuda {
namespace {

using runtime::TextOf;

class CudaCApiTest : public DeviceSessionTest {
 protected:
  CudaCApiTest() {
    support::PlanNumbers n;
    n.ep = 2;
    n.weight_source = WeightSource::kSynthetic;
    n.reduction = Reduction::kExact;
    n.segments = 2;
    n.transport = Transport::kNccl;
    n.decode_tokens = n.prefill_tokens = n.prefill_chunk = 4;
    n.capture_bytes = 1 << 20;
    Plan plan = support::BuildPlan(n);
    plan.mesh.emulated = false;
    plan.mesh.nodes[0].slots = 2;
    plan.mesh.rank_slots = {{0, 0}, {0, 1}};
    file_ = *SealPlan(plan, 1);
  }

  // One decode of two tokens; what create, or the run, refuses.
  std::string Run(const meshseal_session_options& options, std::vector<float>* output) {
    meshseal_policy policy = MESHSEAL_POLICY;
    meshseal_plan* plan = nullptr;
    std::string text = TextOf(meshseal_plan_open(file_.data(), file_.size(), nullptr, 0, &policy, &plan));
    meshseal_session* session = nullptr;
    if (text == "ok") text = TextOf(meshseal_session_create(plan, &options, &session));
    if (text == "ok") {
      const std::vector<float> hidden(size_t{2} * meshseal_plan_hidden(plan), 0.25f);
      output->assign(hidden.size(), 0);
      meshseal_run run = MESHSEAL_RUN;
      run.phase = MESHSEAL_DECODE;
      run.tokens = 2;
      run.elements = hidden.size();
      run.hidden = hidden.data();
      run.output = output->data();
      text = TextOf(meshseal_session_run(session, &run));
    }
    meshseal_session_destroy(session);
    meshseal_plan_close(plan);
    return text;
  }

  static meshseal_session_options OptionsOf(const char* backend) {
    meshseal_session_options options = MESHSEAL_SESSION_OPTIONS;
    options.backend = backend;
    options.unverified_weights = 1;
    options.emulate = 1;
    options.without_management_library = 1;
    return options;
  }

  std::string file_;
};

TEST_F(CudaCApiTest, EveryBackendGivesTheSameBits) {
  std::vector<float> reference;
  ASSERT_EQ(Run(OptionsOf("reference"), &reference), "ok");
  Machine(1, 2);
  std::vector<float> nccl;
  meshseal_session_options options = OptionsOf("cuda");
  options.emulate = 0;
  ASSERT_EQ(Run(options, &nccl), "ok");
  EXPECT_EQ(nccl, reference);
  EXPECT_EQ(fake_cuda::CallCount("ncclCommDestroy"), 2u);
  Machine(1, 1);
  std::vector<float> loopback;
  ASSERT_EQ(Run(OptionsOf("cuda-loopback"), &loopback), "ok");
  EXPECT_EQ(loopback, reference);
}

TEST_F(CudaCApiTest, WhatIsMissingIsSaid) {
  std::vector<float> output;
  meshseal_session_options options = OptionsOf("cuda-loopback");
  options.emulate = 0;
  EXPECT_TRUE(absl::StartsWith(Run(options, &output), "2 usage: "));
  fake_cuda::CallFault fault;
  fault.function = "cudaGetDeviceCount";
  fault.error = cudaErrorNoDevice;
  fake_cuda::FailCall(fault);
  EXPECT_TRUE(absl::StartsWith(Run(OptionsOf("cuda"), &output),
                               "7 device.failed: backend 'cuda': the NVIDIA driver has no device for this process: "));
  Machine(1, 2);
  options = OptionsOf("cuda");
  options.without_management_library = 0;
  const std::string driver = Run(options, &output);
  EXPECT_TRUE(absl::StartsWith(driver, "7 device.failed: ") && absl::StrContains(driver, "libnvidia-ml.so.1"))
      << driver;
  EXPECT_TRUE(output.empty());
}

}  // namespace
}  // namespace meshseal::cuda

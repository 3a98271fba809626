// Sessions on a stand-in machine: devices whose kernels the shim runs, and NCCL.
#ifndef MESHSEAL_TESTS_CUDA_DEVICE_SESSION_H_
#define MESHSEAL_TESTS_CUDA_DEVICE_SESSION_H_

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/cuda_compute.h"
#include "runtime/session/session.h"
#include "schema/safetensors.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fake_nccl.h"
#include "tests/runtime/oracle.h"
#include "tests/runtime/recorded_model.h"
#include "tests/simt/run_kernel.h"
#include "tests/support/plan_builder.h"

namespace meshseal::cuda {

class DeviceSessionTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("NCCL_NVLS_ENABLE", "0", 1), 0);  // fast sums ask for a decision
    Machine(0);
  }
  void TearDown() override { ExpectNothingLeft(); }

  // Another machine, whose streams take turns by `seed`.
  static void Machine(uint64_t seed, size_t devices = 1, const fake_nccl::Options& nccl = {}) {
    fake_cuda::Options machine;
    machine.seed = seed;
    machine.devices.resize(devices);
    for (fake_cuda::Device& device : machine.devices) device.memory_bytes = uint64_t{1} << 30;
    fake_cuda::Reset(machine);
    fake_nccl::Reset(nccl);
    fake_cuda::SetKernelRunner(simt::RunKernel);
    fake_cuda::SetKernelLookup(simt::ParameterBytes);
  }

  static void ExpectNothingLeft() {
    EXPECT_EQ(fake_cuda::LeakReport(), fake_cuda::Alive());
    EXPECT_EQ(fake_nccl::LeakReport(), fake_nccl::Alive());
    EXPECT_EQ(fake_cuda::Violations(), std::vector<std::string>());
  }

  static CudaOptions Unmanaged() {
    CudaOptions options;
    options.without_management_library = true;
    return options;
  }

  static runtime::SessionOptions OptionsFor(std::shared_ptr<runtime::Compute> compute) {
    runtime::SessionOptions options;
    options.weights = {runtime::RecordedFolder()};
    options.unverified_weights = true;
    options.emulate = true;
    options.deadline = std::chrono::minutes(10);  // kernels on the host take seconds
    options.compute = std::move(compute);
    return options;
  }

  // The recorded model for those ranks, and for its seven tokens at a time.
  static support::PlanNumbers RecordedFor(uint32_t tp, uint32_t ep, Reduction reduction) {
    support::PlanNumbers n = runtime::RecordedModel();
    n.tp = tp;
    n.ep = ep;
    n.reduction = reduction;
    if (reduction == Reduction::kExact) n.segments = 2;
    n.decode_tokens = 8;
    n.prefill_tokens = 8;
    n.prefill_chunk = 8;
    n.capture_bytes = 1 << 20;
    if (ep == 4) n.prefill_tokens = n.prefill_chunk = 768;  // of so many, slices are exchanged; in decode gathered
    return n;
  }

  // Its layer 0.
  static absl::Status RunRecorded(runtime::Session& session, Phase phase, std::vector<float>* output,
                                  runtime::RunResult* result) {
    const absl::StatusOr<SafetensorsFile> file =
        SafetensorsFile::Open(runtime::RecordedFolder() / "recorded" / "prompt-7.safetensors");
    if (!file.ok()) return file.status();
    const std::vector<float> hidden = runtime::Recorded<float>(*file, "layer.0.hidden_in");
    output->assign(hidden.size(), 0);
    return session.Run({0, phase, 7, hidden, absl::MakeSpan(*output)}, result);
  }

  // Runs it on both: the same experts and slots, and the same output but for a bound; of an exact plan in every bit.
  static void ExpectSame(runtime::Session& reference, runtime::Session& devices, Phase phase, Reduction reduction,
                         std::vector<float>* found) {
    SCOPED_TRACE(WordOf(phase));
    std::vector<float> expected;
    runtime::RunResult expected_result;
    runtime::RunResult result;
    absl::Status status = RunRecorded(reference, phase, &expected, &expected_result);
    ASSERT_TRUE(status.ok()) << status;
    status = RunRecorded(devices, phase, found, &result);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(result.expert_ids, expected_result.expert_ids);
    EXPECT_LE(support::RelativeDifference(*found, expected), 2e-6);
    if (reduction == Reduction::kExact) {
      EXPECT_EQ(result.expert_weights, expected_result.expert_weights);
      for (size_t i = 0; i < found->size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>((*found)[i]), std::bit_cast<uint32_t>(expected[i])) << i;
      }
    }
    for (size_t rank = 0; rank < result.ranks.size(); ++rank) {
      EXPECT_EQ(result.ranks[rank].counters.down_slots, expected_result.ranks[rank].counters.down_slots);
    }
  }
};

}  // namespace meshseal::cuda

#endif  // MESHSEAL_TESTS_CUDA_DEVICE_SESSION_H_

// Kernels for the tests of the stand-ins, which need no shim: each is one host function.
#ifndef MESHSEAL_TESTS_FAKE_CUDA_TEST_KERNELS_H_
#define MESHSEAL_TESTS_FAKE_CUDA_TEST_KERNELS_H_

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/fake_cuda/fake_cuda.h"

namespace fake_cuda {

// values[i] += by
void AddKernel(float* values, uint32_t count, float by);
// values[i] *= by
void ScaleKernel(float* values, uint32_t count, float by);
// bytes[at] = 1, wherever that is
void PokeKernel(uint8_t* bytes, int64_t at);
// Reports an error of its own.
void FailingKernel(float* values);

template <class... Args>
const void* KernelAddress(void (*kernel)(Args...)) {
  return reinterpret_cast<const void*>(kernel);
}

template <class... Params, class... Args>
cudaError_t Launch(cudaStream_t stream, void (*kernel)(Params...), Args... args) {
  std::tuple<Params...> values(args...);
  return std::apply(
      [&](auto&... value) {
        void* arguments[] = {&value...};
        cudaLaunchConfig_t config = {};
        config.gridDim = config.blockDim = dim3(1);
        config.stream = stream;
        return cudaLaunchKernelExC(&config, KernelAddress(kernel), arguments);
      },
      values);
}

// A machine with two devices, and the kernels above. What a test leaves behind or does not say is wrong.
class FakeCudaTest : public testing::Test {
 protected:
  void SetUp() override { Restart(Options{{Device(), Device()}}); }
  void TearDown() override;

  void Restart(Options options);

  // `count` floats on the current device, all `value`.
  float* DeviceFloats(const std::vector<float>& values);
  // What a device's memory holds, when everything on `stream` is done.
  std::vector<float> Read(const float* values, size_t count, cudaStream_t stream);
  cudaStream_t NewStream();
  cudaEvent_t NewEvent();

  // The rest of the test is about what goes wrong: no look at what is left behind.
  void ExpectViolations(const std::vector<std::string>& expected);

 private:
  bool violations_seen_ = false;
};

}  // namespace fake_cuda

#endif  // MESHSEAL_TESTS_FAKE_CUDA_TEST_KERNELS_H_

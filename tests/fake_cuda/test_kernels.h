// Kernels for the tests of the stand-ins, which need no shim: each is one host function.
#ifndef MESHSEAL_TESTS_FAKE_CUDA_TEST_KERNELS_H_
#define MESHSEAL_TESTS_FAKE_CUDA_TEST_KERNELS_H_

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
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

// A machine with two devices, and the kernels above. A test that does not expect violations has none.
class FakeCudaTest : public testing::Test {
 protected:
  void SetUp() override { Restart(Options{{Device(), Device()}}); }
  void TearDown() override;

  void Restart(Options options);

  // `values` in memory of the current device.
  float* DeviceFloats(const std::vector<float>& values);
  // What `values` on a device are when everything on `stream` is done.
  std::vector<float> Read(const float* values, size_t count, cudaStream_t stream);
  cudaStream_t NewStream();
  cudaEvent_t NewEvent();

  // All violations so far; what comes later is not looked at.
  void ExpectViolations(const std::vector<std::string>& expected);

 private:
  bool violations_seen_ = false;
};

}  // namespace fake_cuda

#endif  // MESHSEAL_TESTS_FAKE_CUDA_TEST_KERNELS_H_

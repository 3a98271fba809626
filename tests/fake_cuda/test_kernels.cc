#include "tests/fake_cuda/test_kernels.h"

#include <gmock/gmock.h>

#include <tuple>

namespace fake_cuda {
namespace {

template <class... Params, size_t... I>
void Apply(void (*kernel)(Params...), void** args, std::index_sequence<I...>) {
  kernel(*static_cast<Params*>(args[I])...);
}

template <class... Params>
bool RunIf(const void* wanted, void (*kernel)(Params...), void** args) {
  if (wanted != KernelAddress(kernel)) return false;
  Apply(kernel, args, std::index_sequence_for<Params...>());
  return true;
}

bool RunTestKernel(const void* kernel, dim3, dim3, size_t, void** args, uint64_t, std::string* error) {
  if (kernel == KernelAddress(FailingKernel)) {
    *error = "thread 3 read what nobody wrote";
    return false;
  }
  return RunIf(kernel, AddKernel, args) || RunIf(kernel, ScaleKernel, args) || RunIf(kernel, PokeKernel, args);
}

template <class... Params>
void Register(void (*kernel)(Params...)) {
  RegisterKernel(KernelAddress(kernel), {sizeof(Params)...});
}

}  // namespace

void AddKernel(float* values, uint32_t count, float by) {
  for (uint32_t i = 0; i < count; ++i) values[i] += by;
}

void ScaleKernel(float* values, uint32_t count, float by) {
  for (uint32_t i = 0; i < count; ++i) values[i] *= by;
}

// The address sanitizer would end the program where the stand-in shall tell.
__attribute__((no_sanitize("address"))) void PokeKernel(uint8_t* bytes, int64_t at) { bytes[at] = 1; }

void FailingKernel(float*) {}

void FakeCudaTest::Restart(Options options) {
  Reset(options);
  SetKernelRunner(RunTestKernel);
  Register(AddKernel);
  Register(ScaleKernel);
  Register(PokeKernel);
  Register(FailingKernel);
  cudaSetDevice(0);
  violations_seen_ = false;
}

void FakeCudaTest::TearDown() {
  if (!violations_seen_) {
    EXPECT_THAT(Violations(), testing::IsEmpty());
  }
  Reset();
}

void FakeCudaTest::ExpectViolations(const std::vector<std::string>& expected) {
  EXPECT_EQ(Violations(), expected);
  violations_seen_ = true;
}

float* FakeCudaTest::DeviceFloats(const std::vector<float>& values) {
  void* data = nullptr;
  const size_t bytes = values.size() * sizeof(float);
  EXPECT_EQ(cudaMalloc(&data, bytes), cudaSuccess);
  const cudaStream_t stream = NewStream();
  EXPECT_EQ(cudaMemcpyAsync(data, values.data(), bytes, cudaMemcpyHostToDevice, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  return static_cast<float*>(data);
}

std::vector<float> FakeCudaTest::Read(const float* values, size_t count, cudaStream_t stream) {
  std::vector<float> read(count);
  EXPECT_EQ(cudaMemcpyAsync(read.data(), values, count * sizeof(float), cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  return read;
}

cudaStream_t FakeCudaTest::NewStream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  return stream;
}

cudaEvent_t FakeCudaTest::NewEvent() {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  return event;
}

}  // namespace fake_cuda

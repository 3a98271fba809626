#include "runtime/cuda/kernels/add_into.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/launch.h"

namespace meshseal::cuda {
namespace {

constexpr unsigned kThreads = 256;

template <class T>
__global__ void AddInto(T* sum, const T* addend, uint64_t count) {
  const uint64_t i = GridThread();
  if (i < count) sum[i] += addend[i];
}

template <class T>
cudaError_t LaunchAdd(T* sum, const T* addend, uint64_t count, cudaStream_t stream) {
  return Launch(stream, AddInto<T>, BlocksFor(count, kThreads), kThreads, 0, sum, addend, count);
}

}  // namespace

cudaError_t LaunchAddInto(float* sum, const float* addend, uint64_t count, cudaStream_t stream) {
  return LaunchAdd(sum, addend, count, stream);
}
cudaError_t LaunchAddInto(int64_t* sum, const int64_t* addend, uint64_t count, cudaStream_t stream) {
  return LaunchAdd(sum, addend, count, stream);
}

}  // namespace meshseal::cuda

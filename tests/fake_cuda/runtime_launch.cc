// Kernels and host functions.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/fake_cuda/machine.h"

using fake_cuda::Call;
using fake_cuda::HostWork;
using fake_cuda::KernelLaunch;
using fake_cuda::KernelWork;
using fake_cuda::Lock;
using fake_cuda::Machine;
using fake_cuda::Needs;
using fake_cuda::RegisteredKernel;
using fake_cuda::Stream;

namespace {

constexpr int kMaxDynamicSharedBytes = 227 << 10;

bool IsLegal(const dim3& grid, const dim3& block) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) return false;
  if (grid.x > 0x7FFFFFFFu || grid.y > 65535 || grid.z > 65535) return false;
  return block.x <= 1024 && block.y <= 1024 && block.z <= 64 && uint64_t{block.x} * block.y * block.z <= 1024;
}

// Null: no kernel that can be launched.
RegisteredKernel* FindKernel(Machine& machine, const void* kernel) {
  const auto found = machine.kernels().find(kernel);
  if (found != machine.kernels().end() && found->second.launchable) return &found->second;
  if (!machine.kernel_lookup()) return nullptr;
  std::vector<size_t> parameter_bytes = machine.kernel_lookup()(kernel);
  if (parameter_bytes.empty()) return nullptr;
  RegisteredKernel& known = machine.kernels()[kernel];
  known.parameter_bytes = std::move(parameter_bytes);
  known.launchable = true;
  return &known;
}

cudaError_t Launch(Machine& machine, Lock& lock, const char* function, const KernelLaunch& launch, void** arguments,
                   cudaStream_t stream) {
  Stream* on = nullptr;
  const cudaError_t error = machine.FindStream(function, stream, &on);
  if (error != cudaSuccess) return error;
  const RegisteredKernel* const registered = FindKernel(machine, launch.kernel);
  if (!registered) return cudaErrorInvalidDeviceFunction;
  if (!IsLegal(launch.grid, launch.block)) return cudaErrorInvalidConfiguration;
  if (launch.shared_bytes > static_cast<size_t>(registered->max_dynamic_shared_bytes)) return cudaErrorInvalidValue;
  if (!arguments && !registered->parameter_bytes.empty()) return cudaErrorInvalidValue;
  return machine.Enqueue(lock, on,
                         std::make_shared<KernelWork>(launch, registered->parameter_bytes, arguments, on->device));
}

}  // namespace

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* func, void** args) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock& lock) {
    if (!config) return cudaErrorInvalidValue;
    for (unsigned int i = 0; i < config->numAttrs; ++i) {
      if (config->attrs[i].id == cudaLaunchAttributeIgnore) continue;
      machine.Violate(absl::StrCat("cudaLaunchKernelExC: the stand-in does not know launch attribute ",
                                   static_cast<int>(config->attrs[i].id)));
      return cudaErrorNotSupported;
    }
    return Launch(machine, lock, "cudaLaunchKernelExC",
                  {func, config->gridDim, config->blockDim, config->dynamicSmemBytes}, args, config->stream);
  });
}

cudaError_t cudaLaunchKernel(const void* func, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem,
                             cudaStream_t stream) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock& lock) {
    return Launch(machine, lock, "cudaLaunchKernel", {func, gridDim, blockDim, sharedMem}, args, stream);
  });
}

cudaError_t cudaFuncSetAttribute(const void* func, cudaFuncAttribute attr, int value) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock&) {
    if (!FindKernel(machine, func) && !machine.kernel_lookup()) return cudaErrorInvalidDeviceFunction;
    if (attr == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
    if (attr != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > kMaxDynamicSharedBytes) {
      return cudaErrorInvalidValue;
    }
    machine.kernels()[func].max_dynamic_shared_bytes = value;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attr, const void* func) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock&) {
    const RegisteredKernel* const kernel = FindKernel(machine, func);
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    if (!attr) return cudaErrorInvalidValue;
    *attr = {};
    attr->maxThreadsPerBlock = 1024;
    attr->numRegs = 32;
    const auto& device = machine.options().devices[static_cast<size_t>(machine.current_device())];
    attr->ptxVersion = attr->binaryVersion = device.major * 10 + device.minor;
    attr->maxDynamicSharedSizeBytes = kernel->max_dynamic_shared_bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* userData) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock& lock) {
    Stream* on = nullptr;
    const cudaError_t error = machine.FindStream("cudaLaunchHostFunc", stream, &on);
    if (error != cudaSuccess) return error;
    if (!fn) return cudaErrorInvalidValue;
    return machine.Enqueue(lock, on, std::make_shared<HostWork>(fn, userData));
  });
}

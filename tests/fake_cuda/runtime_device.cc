// Devices: what they are, and what waits for all of one.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/fake_cuda/machine.h"

using fake_cuda::Call;
using fake_cuda::Device;
using fake_cuda::Lock;
using fake_cuda::Machine;
using fake_cuda::Needs;

namespace {

constexpr int kMaxSharedBytes = 227 << 10;  // per block, of those that ask for it
constexpr int kDefaultSharedBytes = 48 << 10;
constexpr size_t kL2Bytes = size_t{50} << 20;

bool IsDevice(const Machine& machine, int device) { return device >= 0 && device < machine.device_count(); }

const Device& DeviceAt(const Machine& machine, int device) {
  return machine.options().devices[static_cast<size_t>(device)];
}

bool CanReach(const Machine& machine, int device, int peer) {
  const auto& no_peers = machine.options().no_peers;
  return device != peer && std::none_of(no_peers.begin(), no_peers.end(), [device, peer](const auto& pair) {
           return pair == std::pair(device, peer) || pair == std::pair(peer, device);
         });
}

// False: the stand-in does not know the attribute.
bool Attribute(const Device& device, cudaDeviceAttr attribute, int* value) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = device.major;
      return true;
    case cudaDevAttrComputeCapabilityMinor:
      *value = device.minor;
      return true;
    case cudaDevAttrMultiProcessorCount:
      *value = device.sm_count;
      return true;
    case cudaDevAttrIntegrated:
      *value = device.integrated ? 1 : 0;
      return true;
    case cudaDevAttrEccEnabled:
      *value = device.ecc ? 1 : 0;
      return true;
    case cudaDevAttrPciDomainId:
      *value = static_cast<int>(device.pci_domain);
      return true;
    case cudaDevAttrPciBusId:
      *value = static_cast<int>(device.pci_bus);
      return true;
    case cudaDevAttrPciDeviceId:
      *value = static_cast<int>(device.pci_device);
      return true;
    case cudaDevAttrComputeMode:
      *value = static_cast<int>(device.compute_mode);
      return true;
    case cudaDevAttrWarpSize:
      *value = 32;
      return true;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      return true;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = kDefaultSharedBytes;
      return true;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kMaxSharedBytes;
      return true;
    case cudaDevAttrL2CacheSize:
      *value = static_cast<int>(kL2Bytes);
      return true;
    case cudaDevAttrUnifiedAddressing:
      *value = 1;
      return true;
    case cudaDevAttrConcurrentKernels:
      *value = 1;
      return true;
    default:
      return false;
  }
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  return Call(__func__, Needs::kNothing, [&](Machine& machine, Lock&) {
    if (!count) return cudaErrorInvalidValue;
    *count = 0;
    if (machine.options().driver_version / 1000 < machine.options().runtime_version / 1000) {
      return cudaErrorInsufficientDriver;
    }
    if (machine.device_count() == 0) return cudaErrorNoDevice;
    *count = machine.device_count();
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return Call(__func__, Needs::kRelease, [&](Machine& machine, Lock&) {
    if (!IsDevice(machine, device)) return cudaErrorInvalidDevice;
    machine.SetCurrentDevice(device);
    return machine.DeviceError(device);
  });
}

cudaError_t cudaGetDevice(int* device) {
  return Call(__func__, Needs::kNothing, [&](Machine& machine, Lock&) {
    if (!device) return cudaErrorInvalidValue;
    if (machine.device_count() == 0) return cudaErrorNoDevice;
    *device = machine.current_device();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  return Call(__func__, Needs::kNothing, [&](Machine& machine, Lock&) {
    if (!prop) return cudaErrorInvalidValue;
    if (!IsDevice(machine, device)) return cudaErrorInvalidDevice;
    const Device& facts = DeviceAt(machine, device);
    *prop = {};
    std::snprintf(prop->name, sizeof prop->name, "%s", facts.name.c_str());
    std::memcpy(prop->uuid.bytes, facts.uuid.data(), facts.uuid.size());
    prop->totalGlobalMem = facts.memory_bytes;
    prop->major = facts.major;
    prop->minor = facts.minor;
    prop->multiProcessorCount = facts.sm_count;
    prop->integrated = facts.integrated ? 1 : 0;
    prop->ECCEnabled = facts.ecc ? 1 : 0;
    prop->pciDomainID = static_cast<int>(facts.pci_domain);
    prop->pciBusID = static_cast<int>(facts.pci_bus);
    prop->pciDeviceID = static_cast<int>(facts.pci_device);
    prop->sharedMemPerBlock = kDefaultSharedBytes;
    prop->sharedMemPerBlockOptin = kMaxSharedBytes;
    prop->sharedMemPerMultiprocessor = kMaxSharedBytes + 1024;
    prop->reservedSharedMemPerBlock = 1024;
    prop->regsPerBlock = prop->regsPerMultiprocessor = 65536;
    prop->warpSize = 32;
    prop->maxThreadsPerBlock = 1024;
    prop->maxThreadsPerMultiProcessor = 2048;
    prop->maxBlocksPerMultiProcessor = 32;
    prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = 1024;
    prop->maxThreadsDim[2] = 64;
    prop->maxGridSize[0] = 0x7FFFFFFF;
    prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
    prop->totalConstMem = 65536;
    prop->l2CacheSize = static_cast<int>(kL2Bytes);
    prop->concurrentKernels = prop->unifiedAddressing = prop->managedMemory = prop->canMapHostMemory = 1;
    prop->streamPrioritiesSupported = 1;
    prop->asyncEngineCount = 3;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* pciBusId, int len, int device) {
  return Call(__func__, Needs::kNothing, [&](Machine& machine, Lock&) {
    if (!pciBusId) return cudaErrorInvalidValue;
    if (!IsDevice(machine, device)) return cudaErrorInvalidDevice;
    const Device& facts = DeviceAt(machine, device);
    char text[32];
    const int written =
        std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", facts.pci_domain, facts.pci_bus, facts.pci_device);
    if (len <= written) return cudaErrorInvalidValue;
    std::memcpy(pciBusId, text, static_cast<size_t>(written) + 1);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int device) {
  return Call(__func__, Needs::kNothing, [&](Machine& machine, Lock&) {
    if (!value) return cudaErrorInvalidValue;
    if (!IsDevice(machine, device)) return cudaErrorInvalidDevice;
    if (Attribute(DeviceAt(machine, device), attr, value)) return cudaSuccess;
    machine.Violate(
        absl::StrCat("cudaDeviceGetAttribute: the stand-in does not know attribute ", static_cast<int>(attr)));
    return cudaErrorInvalidValue;
  });
}

cudaError_t cudaDriverGetVersion(int* driverVersion) {
  return Call(__func__, Needs::kNothing, [&](Machine& machine, Lock&) {
    if (!driverVersion) return cudaErrorInvalidValue;
    *driverVersion = machine.options().driver_version;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* runtimeVersion) {
  return Call(__func__, Needs::kNothing, [&](Machine& machine, Lock&) {
    if (!runtimeVersion) return cudaErrorInvalidValue;
    *runtimeVersion = machine.options().runtime_version;
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock&) {
    if (!free || !total) return cudaErrorInvalidValue;
    const int device = machine.current_device();
    *total = DeviceAt(machine, device).memory_bytes;
    *free = *total - machine.memory().used(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return Call(__func__, Needs::kContextOutside, [&](Machine& machine, Lock& lock) {
    const int device = machine.current_device();
    const auto idle = [&] { return machine.DeviceIsIdle(device); };
    if (!machine.RunUntil(lock, idle, "cudaDeviceSynchronize")) return cudaErrorLaunchTimeout;
    machine.CheckGuards();
    return machine.DeviceError(device);
  });
}

// The error of a lost device stays: CUDA documents a new process as the one way out.
cudaError_t cudaDeviceReset() {
  return Call(__func__, Needs::kContextOutside, [&](Machine& machine, Lock& lock) {
    machine.WaitIdle(lock);
    machine.ResetDevice(machine.current_device());
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* canAccessPeer, int device, int peerDevice) {
  return Call(__func__, Needs::kNothing, [&](Machine& machine, Lock&) {
    if (!canAccessPeer) return cudaErrorInvalidValue;
    if (!IsDevice(machine, device) || !IsDevice(machine, peerDevice)) return cudaErrorInvalidDevice;
    *canAccessPeer = CanReach(machine, device, peerDevice) ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  return Call(__func__, Needs::kContext, [&](Machine&, Lock&) {
    if (leastPriority) *leastPriority = 0;
    if (greatestPriority) *greatestPriority = -5;
    return cudaSuccess;
  });
}

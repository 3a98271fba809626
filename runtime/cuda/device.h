// Which device of the machine a rank computes on. A device is its UUID and PCI bus id; its ordinal follows from the
// environment of the process and means nothing.
#ifndef MESHSEAL_RUNTIME_CUDA_DEVICE_H_
#define MESHSEAL_RUNTIME_CUDA_DEVICE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/cuda/management_library.h"
#include "schema/plan.h"

namespace meshseal::cuda {

using Uuid = std::array<uint8_t, 16>;

struct Device {
  int ordinal = 0;
  Uuid uuid{};
  std::string pci_id;  // "0000:19:00.0", lower case
  std::string name;
  int major = 0;  // of its compute capability
  int minor = 0;
  uint64_t memory = 0;         // bytes
  uint64_t shared_memory = 0;  // bytes that a block of threads can have
  bool integrated = false;     // its memory is the host's
};

// As the driver writes it, "GPU-" and five groups of hexadecimal digits.
std::string UuidText(const Uuid& uuid);

// The version of CUDA's runtime, "13.0". Reason kDevice.
absl::StatusOr<std::string> CudaVersion();

// The devices that this process sees, by PCI id. Reason kDevice; also where there is none, or no driver.
absl::StatusOr<std::vector<Device>> VisibleDevices();

// The device of `rank`: the one that the plan pins to its slot, or, on a node without pinned devices, the one whose
// place among `devices` is the slot. Emulated ranks take one device after the other. Reason
// kDeviceIdentity: the device is not among them, has another compute capability than 8.0 or above, or two of them are
// one.
absl::StatusOr<Device> DeviceOfRank(const Plan& plan, uint32_t rank, bool emulated, const std::vector<Device>& devices);

// Whether the device is what the plan's mesh says of those of `rank`: its compute capability, the shared memory of its
// blocks and, of what the driver says (null: it was not asked), ECC and the fabric. Reason kDeviceIdentity, with what
// was expected and what was found.
absl::Status CheckDeviceKind(const Plan& plan, uint32_t rank, const Device& device, const ManagedFacts* managed);

// Whether `device`, that of `rank`, reads the memory of those of the other ranks on its node, where the plan's mesh
// says so. Reason kDeviceIdentity.
absl::Status CheckPeers(const Plan& plan, uint32_t rank, const Device& device, const std::vector<Device>& devices);

// Whether the device with that ordinal is still the one that was bound. Reason kDeviceIdentity, naming both. Called
// right before programs are launched.
absl::Status CheckBound(const Device& bound);

// Bytes that the device can still give: of an integrated one what the host can give without swapping, because the
// driver counts the page cache as used. Reason kDevice.
absl::StatusOr<uint64_t> FreeMemory(const Device& device);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_DEVICE_H_

#include "runtime/cuda/device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/session/local_facts.h"
#include "schema/mesh_view.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/terms.h"

namespace meshseal::cuda {
namespace {

constexpr int kLeastMajor = 8;  // mma.sync of bf16, and copies that run beside work

absl::StatusOr<Device> DeviceAt(int ordinal) {
  cudaDeviceProp properties{};
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, ordinal), absl::StrCat("device ", ordinal));
  std::array<char, 32> pci{};
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaDeviceGetPCIBusId(pci.data(), static_cast<int>(pci.size()), ordinal),
                                absl::StrCat("the PCI id of device ", ordinal));
  Device device;
  device.ordinal = ordinal;
  std::memcpy(device.uuid.data(), properties.uuid.bytes, device.uuid.size());
  device.pci_id = absl::AsciiStrToLower(pci.data());
  device.name = properties.name;
  device.major = properties.major;
  device.minor = properties.minor;
  device.memory = properties.totalGlobalMem;
  device.shared_memory = properties.sharedMemPerBlockOptin;
  device.integrated = properties.integrated != 0;
  return device;
}

std::string NameOf(const Device& device) { return absl::StrCat(UuidText(device.uuid), " at ", device.pci_id); }

std::string NamesOf(const std::vector<Device>& devices) {
  return absl::StrJoin(devices, ", ", [](std::string* text, const Device& device) { text->append(NameOf(device)); });
}

}  // namespace

std::string UuidText(const Uuid& uuid) {
  const std::string hex =
      absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(uuid.data()), uuid.size()));
  return absl::StrCat("GPU-", hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-", hex.substr(16, 4),
                      "-", hex.substr(20));
}

absl::StatusOr<std::string> CudaVersion() {
  int version = 0;
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaRuntimeGetVersion(&version), "the version of the CUDA runtime");
  return absl::StrCat(version / 1000, ".", version / 10 % 100);
}

absl::StatusOr<std::vector<Device>> VisibleDevices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    MESHSEAL_ASSIGN_OR_RETURN(const std::string version, CudaVersion());
    return FromCuda(error, absl::StrCat("no NVIDIA driver is here, or one too old for CUDA ", version));
  }
  if (error == cudaErrorNoDevice) return FromCuda(error, "the NVIDIA driver has no device for this process");
  MESHSEAL_RETURN_IF_CUDA_ERROR(error, "the devices of this machine");
  std::vector<Device> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    MESHSEAL_ASSIGN_OR_RETURN(Device device, DeviceAt(ordinal));
    devices.push_back(std::move(device));
  }
  if (devices.empty()) return Refuse(Reason::kDevice, "this process sees no CUDA device");
  std::sort(devices.begin(), devices.end(), [](const Device& a, const Device& b) { return a.pci_id < b.pci_id; });
  return devices;
}

absl::StatusOr<Device> DeviceOfRank(const Plan& plan, uint32_t rank, bool emulated,
                                    const std::vector<Device>& devices) {
  for (size_t i = 0; i < devices.size(); ++i) {
    for (size_t j = i + 1; j < devices.size(); ++j) {
      if (devices[i].uuid != devices[j].uuid && devices[i].pci_id != devices[j].pci_id) continue;
      return Refuse(Reason::kDeviceIdentity,
                    absl::StrCat("two devices are one: ", NameOf(devices[i]), " and ", NameOf(devices[j])));
    }
  }
  const RankSlot& at = plan.mesh.rank_slots[rank];
  const Node& node = plan.mesh.nodes[at.node];
  const auto place = absl::StrCat("rank ", rank, " is on slot ", at.slot, " of node ", QuotedName(node.name));
  const auto checked = [&](const Device& device) -> absl::StatusOr<Device> {
    if (device.major >= kLeastMajor) return device;
    return Refuse(Reason::kDeviceIdentity,
                  absl::StrCat(place, ": device ", NameOf(device), " has compute capability ", device.major, ".",
                               device.minor, ", expected ", kLeastMajor, ".0 or above"));
  };
  if (emulated) return checked(devices[rank % devices.size()]);
  if (node.identity.empty()) {
    if (at.slot < devices.size()) return checked(devices[at.slot]);
    return Refuse(
        Reason::kDeviceIdentity,
        absl::StrCat(place, ": this process sees ", devices.size(), devices.size() == 1 ? " device" : " devices", ", ",
                     NamesOf(devices), "; ranks that share one are an emulation: --ranks loopback"));
  }
  const std::string& pinned = node.identity[at.slot];
  for (const Device& device : devices) {
    if (UuidText(device.uuid) == pinned) return checked(device);
  }
  return Refuse(Reason::kDeviceIdentity, absl::StrCat(place, ", which is device ", QuotedName(pinned),
                                                      "; this process sees ", NamesOf(devices)));
}

absl::Status CheckDeviceKind(const Plan& plan, uint32_t rank, const Device& device, const ManagedFacts* managed) {
  const DeviceKind& kind = DeviceKindOf(plan.mesh, rank);
  const auto differs = [&](absl::string_view what, absl::string_view found, absl::string_view expected) {
    return Refuse(Reason::kDeviceIdentity,
                  absl::StrCat("rank ", rank, ": device ", NameOf(device), " has ", what, " ", found,
                               ", the plan's devices of kind ", QuotedName(kind.name), " have ", expected));
  };
  const uint32_t capability = static_cast<uint32_t>(device.major) * 10 + static_cast<uint32_t>(device.minor);
  if (kind.compute_capability != 0 && kind.compute_capability != capability) {
    return differs("compute capability", absl::StrCat(device.major, ".", device.minor),
                   absl::StrCat(kind.compute_capability / 10, ".", kind.compute_capability % 10));
  }
  if (kind.shared_memory > device.shared_memory) {
    return differs("shared memory of", absl::StrCat(device.shared_memory, " bytes a block"),
                   absl::StrCat(kind.shared_memory));
  }
  if (managed == nullptr) {
    if (kind.ecc == Ecc::kAny && !kind.fabric) return absl::OkStatus();
    return Refuse(
        Reason::kDeviceIdentity,
        absl::StrCat("rank ", rank, ": the plan's mesh states ", kind.fabric ? "fabric" : "ecc", " of devices of kind ",
                     QuotedName(kind.name), ", which only the driver's management library knows, and it is left out"));
  }
  if (kind.ecc != Ecc::kAny && (kind.ecc == Ecc::kOn) != managed->ecc) {
    return differs("ECC", managed->ecc ? "on" : "off", WordOf(kind.ecc));
  }
  if (kind.fabric && managed->fabric.empty()) return differs("no", "fabric", "one for each island");
  return absl::OkStatus();
}

absl::Status CheckPeers(const Plan& plan, uint32_t rank, const Device& device, const std::vector<Device>& devices) {
  if (!DeviceKindOf(plan.mesh, rank).peer_access) return absl::OkStatus();
  const uint32_t node = plan.mesh.rank_slots[rank].node;
  for (uint32_t other = 0; other < plan.mesh.rank_slots.size(); ++other) {
    if (other == rank || plan.mesh.rank_slots[other].node != node) continue;
    MESHSEAL_ASSIGN_OR_RETURN(const Device peer, DeviceOfRank(plan, other, /*emulated=*/false, devices));
    int reaches = 0;
    MESHSEAL_RETURN_IF_CUDA_ERROR(cudaDeviceCanAccessPeer(&reaches, device.ordinal, peer.ordinal),
                                  absl::StrCat("peers of device ", NameOf(device)));
    if (reaches != 0) continue;
    return Refuse(Reason::kDeviceIdentity,
                  absl::StrCat("rank ", rank, ": device ", NameOf(device), " cannot read the memory of ", NameOf(peer),
                               ", that of rank ", other, "; the plan's mesh says peer_access of both"));
  }
  return absl::OkStatus();
}

absl::Status CheckBound(const Device& bound) {
  MESHSEAL_ASSIGN_OR_RETURN(const Device now, DeviceAt(bound.ordinal));
  if (now.uuid == bound.uuid && now.pci_id == bound.pci_id) return absl::OkStatus();
  return Refuse(Reason::kDeviceIdentity, absl::StrCat("device ", bound.ordinal, " was ", NameOf(bound),
                                                      " when it was bound and is ", NameOf(now), " now"));
}

absl::StatusOr<uint64_t> FreeMemory(const Device& device) {
  if (device.integrated) {
    MESHSEAL_ASSIGN_OR_RETURN(const runtime::LocalFacts facts, runtime::CollectLocalFacts());
    return facts.free_memory;
  }
  size_t free = 0;
  size_t total = 0;
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaSetDevice(device.ordinal), absl::StrCat("device ", NameOf(device)));
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaMemGetInfo(&free, &total), absl::StrCat("free memory of device ", NameOf(device)));
  return free;
}

}  // namespace meshseal::cuda

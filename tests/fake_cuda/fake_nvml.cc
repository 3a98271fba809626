// The stand-in libnvidia-ml.so.1: see fake_nvml.h. Nothing else of the project is linked to it.
#include <strings.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/nvml_abi.h"

struct nvmlDevice_st {
  size_t number = 0;
  std::string uuid;
  nvmlPciInfo_t pci = {};
  unsigned int mig = 0;
  unsigned int ecc = 0;
  unsigned int compute_mode = 0;
  nvmlGpuFabricInfoV_t fabric = {};
};

namespace {

struct Library {
  std::mutex mutex;
  int users = 0;  // nvmlInit_v2 less nvmlShutdown
  std::string driver;
  std::vector<nvmlDevice_st> devices;
  std::set<std::pair<size_t, size_t>> no_peers;
  std::map<std::string, nvmlReturn_t> failing;
};

Library& TheLibrary() {
  static Library library;
  return library;
}

void ReadDevice(std::istringstream& line, Library* library) {
  nvmlDevice_st device;
  device.number = library->devices.size();
  std::string bus_id;
  unsigned int state = 0;
  int status = 0;
  std::string cluster;
  line >> device.uuid >> bus_id >> device.mig >> device.ecc >> device.compute_mode >> state >> status >>
      device.fabric.cliqueId >> cluster;
  std::sscanf(bus_id.c_str(), "%x:%x:%x", &device.pci.domain, &device.pci.bus, &device.pci.device);
  std::snprintf(device.pci.busId, sizeof device.pci.busId, "%s", bus_id.c_str());
  std::snprintf(device.pci.busIdLegacy, sizeof device.pci.busIdLegacy, "%04X:%02X:%02X.0", device.pci.domain & 0xFFFFu,
                device.pci.bus & 0xFFu, device.pci.device & 0xFFu);
  device.fabric.state = static_cast<unsigned char>(state);
  device.fabric.status = static_cast<nvmlReturn_t>(status);
  for (size_t i = 0; i < sizeof device.fabric.clusterUuid && 2 * i + 1 < cluster.size(); ++i) {
    device.fabric.clusterUuid[i] = static_cast<unsigned char>(std::stoi(cluster.substr(2 * i, 2), nullptr, 16));
  }
  library->devices.push_back(device);
}

// False: no file.
bool ReadFile(Library* library) {
  library->devices.clear();
  library->no_peers.clear();
  library->failing.clear();
  const char* const path = std::getenv("MESHSEAL_FAKE_NVML");
  std::ifstream file(path ? path : "");
  if (!file) return false;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string kind;
    line >> kind;
    if (kind == "driver") {
      line >> library->driver;
    } else if (kind == "device") {
      ReadDevice(line, library);
    } else if (kind == "no-peer") {
      size_t a = 0;
      size_t b = 0;
      line >> a >> b;
      library->no_peers.insert({a, b});
      library->no_peers.insert({b, a});
    } else if (kind == "fail") {
      std::string function;
      int result = 0;
      line >> function >> result;
      library->failing[function] = static_cast<nvmlReturn_t>(result);
    }
  }
  return true;
}

template <class Body>
nvmlReturn_t Call(const char* function, const Body& body) {
  Library& library = TheLibrary();
  const std::lock_guard<std::mutex> lock(library.mutex);
  if (library.users == 0) return NVML_ERROR_UNINITIALIZED;
  const auto failing = library.failing.find(function);
  return failing != library.failing.end() ? failing->second : body(library);
}

nvmlReturn_t CopyText(const std::string& text, char* out, unsigned int length) {
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  if (text.size() >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

bool IsDevice(const Library& library, nvmlDevice_t device) {
  for (const nvmlDevice_st& known : library.devices) {
    if (&known == device) return true;
  }
  return false;
}

template <class Matches>
nvmlReturn_t FindDevice(Library& library, nvmlDevice_t* device, const Matches& matches) {
  if (!device) return NVML_ERROR_INVALID_ARGUMENT;
  for (nvmlDevice_st& known : library.devices) {
    if (!matches(known)) continue;
    *device = &known;
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

bool CanReach(const Library& library, nvmlDevice_t a, nvmlDevice_t b) {
  return library.no_peers.count({a->number, b->number}) == 0;
}

}  // namespace

#pragma GCC visibility push(default)

nvmlReturn_t nvmlInit_v2(void) {
  Library& library = TheLibrary();
  const std::lock_guard<std::mutex> lock(library.mutex);
  if (library.users == 0 && !ReadFile(&library)) return NVML_ERROR_DRIVER_NOT_LOADED;
  const auto failing = library.failing.find("nvmlInit_v2");
  if (failing != library.failing.end()) return failing->second;
  ++library.users;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown(void) {
  return Call(__func__, [](Library& library) {
    --library.users;
    return NVML_SUCCESS;
  });
}

const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS:
      return "Success";
    case NVML_ERROR_UNINITIALIZED:
      return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
      return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND:
      return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "Driver Not Loaded";
    case NVML_ERROR_GPU_IS_LOST:
      return "GPU is lost";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
      return "Argument version mismatch";
    case NVML_ERROR_UNKNOWN:
      break;
  }
  return "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  return Call(__func__, [&](Library& library) { return CopyText(library.driver, version, length); });
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* deviceCount) {
  return Call(__func__, [&](Library& library) {
    if (!deviceCount) return NVML_ERROR_INVALID_ARGUMENT;
    *deviceCount = static_cast<unsigned int>(library.devices.size());
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  return Call(__func__, [&](Library& library) {
    if (!uuid) return NVML_ERROR_INVALID_ARGUMENT;
    return FindDevice(library, device, [uuid](const nvmlDevice_st& known) { return known.uuid == uuid; });
  });
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* pciBusId, nvmlDevice_t* device) {
  return Call(__func__, [&](Library& library) {
    if (!pciBusId) return NVML_ERROR_INVALID_ARGUMENT;
    return FindDevice(library, device, [pciBusId](const nvmlDevice_st& known) {
      return strcasecmp(known.pci.busId, pciBusId) == 0 || strcasecmp(known.pci.busIdLegacy, pciBusId) == 0;
    });
  });
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  return Call(__func__, [&](Library& library) {
    if (!IsDevice(library, device)) return NVML_ERROR_INVALID_ARGUMENT;
    return CopyText(device->uuid, uuid, length);
  });
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return Call(__func__, [&](Library& library) {
    if (!IsDevice(library, device) || !pci) return NVML_ERROR_INVALID_ARGUMENT;
    *pci = device->pci;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* currentMode, unsigned int* pendingMode) {
  return Call(__func__, [&](Library& library) {
    if (!IsDevice(library, device) || !currentMode || !pendingMode) return NVML_ERROR_INVALID_ARGUMENT;
    *currentMode = *pendingMode = device->mig;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t* current, nvmlEnableState_t* pending) {
  return Call(__func__, [&](Library& library) {
    if (!IsDevice(library, device) || !current || !pending) return NVML_ERROR_INVALID_ARGUMENT;
    *current = *pending = device->ecc != 0 ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t* mode) {
  return Call(__func__, [&](Library& library) {
    if (!IsDevice(library, device) || !mode) return NVML_ERROR_INVALID_ARGUMENT;
    *mode = static_cast<nvmlComputeMode_t>(device->compute_mode);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2, nvmlGpuP2PCapsIndex_t p2pIndex,
                                    nvmlGpuP2PStatus_t* p2pStatus) {
  return Call(__func__, [&](Library& library) {
    if (!IsDevice(library, device1) || !IsDevice(library, device2) || !p2pStatus ||
        p2pIndex > NVML_P2P_CAPS_INDEX_PCI) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *p2pStatus = CanReach(library, device1, device2) ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2,
                                                 nvmlGpuTopologyLevel_t* pathInfo) {
  return Call(__func__, [&](Library& library) {
    if (!IsDevice(library, device1) || !IsDevice(library, device2) || !pathInfo) return NVML_ERROR_INVALID_ARGUMENT;
    *pathInfo = device1 == device2                    ? NVML_TOPOLOGY_INTERNAL
                : CanReach(library, device1, device2) ? NVML_TOPOLOGY_NODE
                                                      : NVML_TOPOLOGY_SYSTEM;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t* gpuFabricInfo) {
  return Call(__func__, [&](Library& library) {
    if (!IsDevice(library, device) || !gpuFabricInfo) return NVML_ERROR_INVALID_ARGUMENT;
    const unsigned int version = gpuFabricInfo->version;
    if (version != nvmlGpuFabricInfo_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    *gpuFabricInfo = device->fabric;
    gpuFabricInfo->version = version;
    return NVML_SUCCESS;
  });
}

#pragma GCC visibility pop

#include "runtime/cuda/management_library.h"

#include <dlfcn.h>

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/cuda/nvml_abi.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::cuda {

struct ManagementLibrary::Functions {
  ~Functions() {
    if (shutdown != nullptr) shutdown();
    if (library != nullptr) dlclose(library);
  }

  void* library = nullptr;
  decltype(&nvmlShutdown) shutdown = nullptr;
  decltype(&nvmlErrorString) error_string = nullptr;
  decltype(&nvmlSystemGetDriverVersion) driver_version = nullptr;
  decltype(&nvmlDeviceGetHandleByUUID) handle_by_uuid = nullptr;
  decltype(&nvmlDeviceGetPciInfo_v3) pci_info = nullptr;
  decltype(&nvmlDeviceGetMigMode) mig_mode = nullptr;
  decltype(&nvmlDeviceGetEccMode) ecc_mode = nullptr;
  decltype(&nvmlDeviceGetComputeMode) compute_mode = nullptr;
  decltype(&nvmlDeviceGetGpuFabricInfoV) fabric_info = nullptr;

  absl::Status Failure(nvmlReturn_t result, absl::string_view what) const {
    return Refuse(Reason::kDevice, absl::StrCat(what, ": ", error_string(result)));
  }
};

absl::StatusOr<ManagementLibrary> ManagementLibrary::Load(const std::string& file) {
  const std::string name = file.empty() ? "libnvidia-ml.so.1" : file;
  const auto functions = std::make_shared<Functions>();
  functions->library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (functions->library == nullptr) {
    return Refuse(Reason::kDevice, absl::StrCat("the driver's management library cannot be loaded: ", dlerror()));
  }
  absl::Status missing;
  const auto find = [&](const char* symbol, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(functions->library, symbol));
    if (*function == nullptr && missing.ok()) {
      missing = Refuse(Reason::kDevice, absl::StrCat(name, " has no ", symbol));
    }
  };
  decltype(&nvmlInit_v2) init = nullptr;
  decltype(&nvmlShutdown) shutdown = nullptr;
  find("nvmlInit_v2", &init);
  find("nvmlShutdown", &shutdown);
  find("nvmlErrorString", &functions->error_string);
  find("nvmlSystemGetDriverVersion", &functions->driver_version);
  find("nvmlDeviceGetHandleByUUID", &functions->handle_by_uuid);
  find("nvmlDeviceGetPciInfo_v3", &functions->pci_info);
  find("nvmlDeviceGetMigMode", &functions->mig_mode);
  find("nvmlDeviceGetEccMode", &functions->ecc_mode);
  find("nvmlDeviceGetComputeMode", &functions->compute_mode);
  find("nvmlDeviceGetGpuFabricInfoV", &functions->fabric_info);
  MESHSEAL_RETURN_IF_ERROR(missing);
  if (const nvmlReturn_t result = init(); result != NVML_SUCCESS) return functions->Failure(result, name);
  functions->shutdown = shutdown;
  ManagementLibrary library;
  library.functions_ = functions;
  return library;
}

absl::StatusOr<std::string> ManagementLibrary::DriverVersion() const {
  std::array<char, 80> version{};
  const nvmlReturn_t result = functions_->driver_version(version.data(), static_cast<unsigned>(version.size()));
  if (result != NVML_SUCCESS) return functions_->Failure(result, "the driver's version");
  return std::string(version.data());
}

absl::StatusOr<ManagedFacts> ManagementLibrary::FactsOf(const std::string& uuid) const {
  const auto failure = [&](nvmlReturn_t result, absl::string_view what) {
    return functions_->Failure(result, absl::StrCat("device ", uuid, ", ", what));
  };
  nvmlDevice_t handle = nullptr;
  if (const nvmlReturn_t result = functions_->handle_by_uuid(uuid.c_str(), &handle); result != NVML_SUCCESS) {
    return failure(result, "its handle");
  }
  ManagedFacts facts;
  nvmlPciInfo_t pci{};
  if (const nvmlReturn_t result = functions_->pci_info(handle, &pci); result != NVML_SUCCESS)
    return failure(result, "its PCI id");
  pci.busId[sizeof(pci.busId) - 1] = '\0';
  facts.pci_id = pci.busId;

  // Devices without a mode do not support the question.
  unsigned current = 0;
  unsigned pending = 0;
  nvmlReturn_t result = functions_->mig_mode(handle, &current, &pending);
  if (result != NVML_SUCCESS && result != NVML_ERROR_NOT_SUPPORTED) return failure(result, "its MIG mode");
  facts.mig = result == NVML_SUCCESS && current != 0;
  nvmlEnableState_t ecc = NVML_FEATURE_DISABLED;
  nvmlEnableState_t ecc_pending = NVML_FEATURE_DISABLED;
  result = functions_->ecc_mode(handle, &ecc, &ecc_pending);
  if (result != NVML_SUCCESS && result != NVML_ERROR_NOT_SUPPORTED) return failure(result, "its ECC mode");
  facts.ecc = result == NVML_SUCCESS && ecc != NVML_FEATURE_DISABLED;
  nvmlComputeMode_t mode = NVML_COMPUTEMODE_DEFAULT;
  result = functions_->compute_mode(handle, &mode);
  if (result != NVML_SUCCESS && result != NVML_ERROR_NOT_SUPPORTED) return failure(result, "its compute mode");
  facts.shared = result != NVML_SUCCESS || mode == NVML_COMPUTEMODE_DEFAULT;

  nvmlGpuFabricInfoV_t fabric{};
  fabric.version = nvmlGpuFabricInfo_v2;
  result = functions_->fabric_info(handle, &fabric);
  if (result != NVML_SUCCESS && result != NVML_ERROR_NOT_SUPPORTED) return failure(result, "its fabric");
  if (result != NVML_SUCCESS || fabric.state == NVML_GPU_FABRIC_STATE_NOT_SUPPORTED) return facts;
  if (fabric.state != NVML_GPU_FABRIC_STATE_COMPLETED) {
    return Refuse(Reason::kDevice, absl::StrCat("device ", uuid, " has not joined its fabric: state ",
                                                static_cast<unsigned>(fabric.state), ", expected 3 (completed)"));
  }
  if (fabric.status != NVML_SUCCESS) return failure(fabric.status, "its fabric");
  facts.fabric = absl::StrCat(absl::BytesToHexString(absl::string_view(
                                  reinterpret_cast<const char*>(fabric.clusterUuid), sizeof(fabric.clusterUuid))),
                              ".", fabric.cliqueId);
  return facts;
}

}  // namespace meshseal::cuda

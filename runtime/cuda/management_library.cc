#include "runtime/cuda/management_library.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::cuda {
namespace {

// The library's interface, as its documentation states it: its header is not part of the toolkit everywhere.
using Result = int;  // 0: success
using Handle = void*;
constexpr Result kNotSupported = 3;

struct PciInfo {  // nvmlPciInfo_t
  char legacy_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  char id[32];
};

struct FabricInfo {  // nvmlGpuFabricInfo_v2_t
  unsigned version;
  unsigned char cluster[16];
  Result status;
  unsigned clique;
  unsigned char state;
  unsigned health;
};
constexpr unsigned kFabricInfoVersion = static_cast<unsigned>(sizeof(FabricInfo)) | 2u << 24;
constexpr unsigned char kFabricNone = 0;
constexpr unsigned char kFabricCompleted = 3;

constexpr int kComputeModeDefault = 0;

}  // namespace

struct ManagementLibrary::Functions {
  ~Functions() {
    if (shutdown != nullptr) shutdown();
    if (library != nullptr) dlclose(library);
  }

  void* library = nullptr;
  Result (*shutdown)() = nullptr;
  const char* (*error_string)(Result) = nullptr;
  Result (*driver_version)(char*, unsigned) = nullptr;
  Result (*handle_by_uuid)(const char*, Handle*) = nullptr;
  Result (*pci_info)(Handle, PciInfo*) = nullptr;
  Result (*mig_mode)(Handle, unsigned*, unsigned*) = nullptr;
  Result (*ecc_mode)(Handle, int*, int*) = nullptr;
  Result (*compute_mode)(Handle, int*) = nullptr;
  Result (*fabric_info)(Handle, FabricInfo*) = nullptr;

  absl::Status Failure(Result result, absl::string_view what) const {
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
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
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
  if (const Result result = init(); result != 0) return functions->Failure(result, name);
  functions->shutdown = shutdown;
  ManagementLibrary library;
  library.functions_ = functions;
  return library;
}

absl::StatusOr<std::string> ManagementLibrary::DriverVersion() const {
  std::array<char, 80> version{};
  const Result result = functions_->driver_version(version.data(), static_cast<unsigned>(version.size()));
  if (result != 0) return functions_->Failure(result, "the driver's version");
  return std::string(version.data());
}

absl::StatusOr<ManagedFacts> ManagementLibrary::FactsOf(const std::string& uuid) const {
  const auto failure = [&](Result result, absl::string_view what) {
    return functions_->Failure(result, absl::StrCat("device ", uuid, ", ", what));
  };
  Handle handle = nullptr;
  if (const Result result = functions_->handle_by_uuid(uuid.c_str(), &handle); result != 0) {
    return failure(result, "its handle");
  }
  ManagedFacts facts;
  PciInfo pci{};
  if (const Result result = functions_->pci_info(handle, &pci); result != 0) return failure(result, "its PCI id");
  pci.id[sizeof(pci.id) - 1] = '\0';
  facts.pci_id = pci.id;

  // Devices without a mode do not support the question.
  unsigned current = 0;
  unsigned pending = 0;
  Result result = functions_->mig_mode(handle, &current, &pending);
  if (result != 0 && result != kNotSupported) return failure(result, "its MIG mode");
  facts.mig = result == 0 && current != 0;
  int ecc = 0;
  int ecc_pending = 0;
  result = functions_->ecc_mode(handle, &ecc, &ecc_pending);
  if (result != 0 && result != kNotSupported) return failure(result, "its ECC mode");
  facts.ecc = result == 0 && ecc != 0;
  int mode = 0;
  result = functions_->compute_mode(handle, &mode);
  if (result != 0 && result != kNotSupported) return failure(result, "its compute mode");
  facts.shared = result != 0 || mode == kComputeModeDefault;

  FabricInfo fabric{};
  fabric.version = kFabricInfoVersion;
  result = functions_->fabric_info(handle, &fabric);
  if (result != 0 && result != kNotSupported) return failure(result, "its fabric");
  if (result != 0 || fabric.state == kFabricNone) return facts;
  if (fabric.state != kFabricCompleted) {
    return Refuse(Reason::kDevice, absl::StrCat("device ", uuid, " has not joined its fabric: state ",
                                                static_cast<unsigned>(fabric.state), ", expected 3 (completed)"));
  }
  if (fabric.status != 0) return failure(fabric.status, "its fabric");
  facts.fabric = absl::StrCat(
      absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(fabric.cluster), sizeof(fabric.cluster))),
      ".", fabric.clique);
  return facts;
}

}  // namespace meshseal::cuda

// What the driver's management library (NVML) says of a device. It is loaded when asked for, because a machine without
// a driver has none.
#ifndef MESHSEAL_RUNTIME_CUDA_MANAGEMENT_LIBRARY_H_
#define MESHSEAL_RUNTIME_CUDA_MANAGEMENT_LIBRARY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace meshseal::cuda {

// Of one device.
struct ManagedFacts {
  std::string pci_id;  // "00000000:19:00.0"
  bool mig = false;    // it is cut into instances
  bool ecc = false;    // its memory corrects errors
  bool shared = true;  // the compute mode lets several processes use it
  // Of a device in a fabric of several hosts; empty elsewhere.
  std::string fabric;  // cluster id and clique
};

class ManagementLibrary {
 public:
  // Loads `file`, the library's usual name where it is empty. Reason kDevice, naming the file or the function that it
  // lacks.
  static absl::StatusOr<ManagementLibrary> Load(const std::string& file);

  // Reason kDevice.
  absl::StatusOr<std::string> DriverVersion() const;

  // `uuid` as the driver writes it, "GPU-...". Reason kDevice; also for a device whose fabric is not complete.
  absl::StatusOr<ManagedFacts> FactsOf(const std::string& uuid) const;

 private:
  struct Functions;
  std::shared_ptr<const Functions> functions_;
};

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_MANAGEMENT_LIBRARY_H_

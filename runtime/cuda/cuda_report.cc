#include "runtime/cuda/cuda_report.h"

#include <utility>

#include "absl/status/statusor.h"
#include "runtime/cuda/management_library.h"
#include "runtime/cuda/nccl_collective.h"
#include "runtime/cuda/nccl_settings.h"

namespace meshseal::cuda {

CudaReport ReportCuda(const CudaOptions& options) {
  CudaReport report;
  report.runtime = CudaVersion().value_or("");
  report.nccl = NcclVersion().value_or("");
  report.nccl_sums = AlgorithmText(NcclSettings::OfProcess().environment());
  if (const absl::StatusOr<ManagementLibrary> library = ManagementLibrary::Load(options.management_library);
      library.ok()) {
    report.driver = library->DriverVersion().value_or("");
  }
  absl::StatusOr<std::vector<Device>> devices = VisibleDevices();
  if (devices.ok()) {
    report.devices = *std::move(devices);
  } else {
    report.refusal = std::string(devices.status().message());
  }
  return report;
}

}  // namespace meshseal::cuda

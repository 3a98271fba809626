#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/fake_cuda/fake_nvml.h"
#include "tests/fake_cuda/machine.h"

namespace fake_cuda {
namespace {

std::string Hex(const std::array<uint8_t, 16>& bytes) {
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace

bool WriteNvmlFile(const std::string& path, const NvmlOptions& options) {
  Machine& machine = TheMachine();
  const Lock lock(machine.mutex());
  const std::vector<Device>& devices = machine.options().devices;
  // Processes may write and read the same one at once.
  const std::string written = absl::StrCat(path, ".", ::getpid());
  std::ofstream file(written);
  file << "driver " << options.driver << "\n";
  for (size_t i = devices.size(); i-- > 0;) {
    const Device& device = devices[i];
    const std::string uuid = Hex(device.uuid);
    file << absl::StrFormat("device GPU-%s-%s-%s-%s-%s %08X:%02X:%02X.0 %d %d %d %d %d %d %s\n", uuid.substr(0, 8),
                            uuid.substr(8, 4), uuid.substr(12, 4), uuid.substr(16, 4), uuid.substr(20),
                            device.pci_domain, device.pci_bus, device.pci_device, device.mig ? 1 : 0,
                            device.ecc ? 1 : 0, device.compute_mode, device.fabric_state, device.fabric_status,
                            device.fabric_clique, Hex(device.fabric_cluster));
  }
  const int last = machine.device_count() - 1;
  for (const auto& [a, b] : machine.options().no_peers) file << "no-peer " << last - a << " " << last - b << "\n";
  for (const auto& [function, result] : options.failing) file << "fail " << function << " " << result << "\n";
  file.close();
  return file.good() && std::rename(written.c_str(), path.c_str()) == 0;
}

}  // namespace fake_cuda

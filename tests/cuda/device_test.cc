// Which device a rank has, by UUID and PCI id, and what the driver says of it; on stand-ins of CUDA's libraries.
#include "runtime/cuda/device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/cuda/cuda_report.h"
#include "runtime/cuda/management_library.h"
#include "schema/reason.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fake_nvml.h"

namespace meshseal::cuda {
namespace {

constexpr char kFirst[] = "GPU-face0000-0000-0000-0000-000000000001";
constexpr char kSecond[] = "GPU-face0000-0000-0000-0000-000000000002";

fake_cuda::Options TwoDevices() {
  fake_cuda::Options machine;
  machine.devices.resize(2);
  // CUDA's numbers are not the order of the bus.
  machine.devices[0].pci_bus = 9;
  machine.devices[1].pci_bus = 3;
  return machine;
}

// One node whose slots are a rank each.
Plan PlanOf(uint32_t ranks, const std::vector<std::string>& pinned) {
  Plan plan;
  plan.mesh.nodes.resize(1);
  plan.mesh.nodes[0].name = "n0";
  plan.mesh.nodes[0].identity = pinned;
  for (uint32_t slot = 0; slot < ranks; ++slot) plan.mesh.rank_slots.push_back({0, slot});
  return plan;
}

class DeviceTest : public testing::Test {
 protected:
  void SetUp() override { fake_cuda::Reset(TwoDevices()); }
};

TEST_F(DeviceTest, PlacesFollowTheBusAndNotCudasNumbers) {
  const std::vector<Device> devices = VisibleDevices().value();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].ordinal, 1);
  EXPECT_EQ(UuidText(devices[0].uuid), kSecond);
  EXPECT_EQ(devices[0].pci_id, "0000:03:00.0");
  const Plan plan = PlanOf(2, {});
  EXPECT_EQ(DeviceOfRank(plan, 0, false, devices)->ordinal, 1);
  EXPECT_EQ(DeviceOfRank(plan, 1, false, devices)->ordinal, 0);
}

TEST_F(DeviceTest, APinnedDeviceIsFoundByItsUuid) {
  const std::vector<Device> devices = VisibleDevices().value();
  const Plan plan = PlanOf(2, {kFirst, kSecond});
  EXPECT_EQ(DeviceOfRank(plan, 0, false, devices)->ordinal, 0);
  EXPECT_EQ(DeviceOfRank(plan, 1, false, devices)->ordinal, 1);
}

TEST_F(DeviceTest, WhatIsNotTheRanksDeviceIsRefused) {
  std::vector<Device> devices = VisibleDevices().value();
  const auto refusal = [&](const Plan& plan, uint32_t rank) {
    const absl::Status status = DeviceOfRank(plan, rank, false, devices).status();
    EXPECT_EQ(ReasonOf(status), Reason::kDeviceIdentity);
    return std::string(status.message());
  };
  const std::string seen =
      "GPU-face0000-0000-0000-0000-000000000002 at 0000:03:00.0, GPU-face0000-0000-0000-0000-000000000001 at "
      "0000:09:00.0";
  EXPECT_EQ(refusal(PlanOf(3, {}), 2), "rank 2 is on slot 2 of node 'n0': this process sees 2 devices, " + seen +
                                           "; ranks that share one are an emulation: --ranks loopback");
  EXPECT_EQ(refusal(PlanOf(1, {"GPU-0"}), 0),
            "rank 0 is on slot 0 of node 'n0', which is device 'GPU-0'; this process sees " + seen);
  devices[0].major = 7;
  devices[0].minor = 5;
  EXPECT_EQ(refusal(PlanOf(1, {}), 0),
            "rank 0 is on slot 0 of node 'n0': device GPU-face0000-0000-0000-0000-000000000002 at 0000:03:00.0 has "
            "compute capability 7.5, expected 8.0 or above");
  devices[1].uuid = devices[0].uuid;
  EXPECT_EQ(refusal(PlanOf(1, {}), 0),
            "two devices are one: GPU-face0000-0000-0000-0000-000000000002 at 0000:03:00.0 and "
            "GPU-face0000-0000-0000-0000-000000000002 at 0000:09:00.0");
}

TEST_F(DeviceTest, EmulatedRanksTakeOneDeviceAfterTheOther) {
  const std::vector<Device> devices = VisibleDevices().value();
  const Plan plan = PlanOf(3, {"GPU-0", "GPU-1", "GPU-2"});
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(DeviceOfRank(plan, rank, true, devices)->uuid, devices[rank % 2].uuid);
  }
}

TEST_F(DeviceTest, AnotherDeviceInItsPlaceIsNoticed) {
  const Device bound = VisibleDevices().value()[0];
  EXPECT_TRUE(CheckBound(bound).ok());
  fake_cuda::Options swapped = TwoDevices();
  swapped.devices[1].uuid.fill(0xAB);
  fake_cuda::Reset(swapped);
  const absl::Status status = CheckBound(bound);
  EXPECT_EQ(status.message(),
            "device 1 was GPU-face0000-0000-0000-0000-000000000002 at 0000:03:00.0 when it was bound and is "
            "GPU-abababab-abab-abab-abab-abababababab at 0000:03:00.0 now");
  EXPECT_EQ(ReasonOf(status), Reason::kDeviceIdentity);
}

// What a mesh says of the devices of its one node.
Plan PlanOfKind(const DeviceKind& kind) {
  Plan plan = PlanOf(2, {});
  plan.mesh.device_kinds = {kind};
  return plan;
}

TEST_F(DeviceTest, ADeviceIsWhatTheMeshSaysOfItsKind) {
  const Device device = VisibleDevices().value()[0];
  DeviceKind kind;
  kind.name = "h200";
  kind.compute_capability = 90;
  kind.shared_memory = 227 << 10;
  kind.ecc = Ecc::kOn;
  kind.fabric = true;
  ManagedFacts managed;
  managed.ecc = true;
  managed.fabric = "5a.7";
  EXPECT_EQ(CheckDeviceKind(PlanOfKind(kind), 1, device, &managed), absl::OkStatus());
  EXPECT_EQ(CheckDeviceKind(PlanOfKind({}), 1, device, nullptr), absl::OkStatus());
  const auto refusal = [&](const DeviceKind& other, const ManagedFacts* facts) {
    const absl::Status status = CheckDeviceKind(PlanOfKind(other), 1, device, facts);
    EXPECT_EQ(ReasonOf(status), Reason::kDeviceIdentity) << status;
    return std::string(status.message());
  };
  const std::string found = "rank 1: device GPU-face0000-0000-0000-0000-000000000002 at 0000:03:00.0 has ";
  const std::string expected = ", the plan's devices of kind 'h200' have ";
  DeviceKind other = kind;
  other.compute_capability = 121;
  EXPECT_EQ(refusal(other, &managed), found + "compute capability 9.0" + expected + "12.1");
  other = kind;
  other.shared_memory = (227 << 10) + 1;
  EXPECT_EQ(refusal(other, &managed), found + "shared memory of 232448 bytes a block" + expected + "232449");
  other = kind;
  other.ecc = Ecc::kOff;
  EXPECT_EQ(refusal(other, &managed), found + "ECC on" + expected + "off");
  ManagedFacts plain;
  EXPECT_EQ(refusal(kind, &plain), found + "ECC off" + expected + "on");
  plain.ecc = true;
  EXPECT_EQ(refusal(kind, &plain), found + "no fabric" + expected + "one for each island");
  const std::string unknown =
      " of devices of kind 'h200', which only the driver's management library knows, and it is left out";
  EXPECT_EQ(refusal(kind, nullptr), "rank 1: the plan's mesh states fabric" + unknown);
  other = kind;
  other.fabric = false;
  EXPECT_EQ(refusal(other, nullptr), "rank 1: the plan's mesh states ecc" + unknown);
}

TEST_F(DeviceTest, PeersReachEachOtherWhereTheMeshSaysSo) {
  fake_cuda::Options apart = TwoDevices();
  apart.no_peers = {{0, 1}};
  fake_cuda::Reset(apart);
  const std::vector<Device> devices = VisibleDevices().value();
  DeviceKind kind;
  EXPECT_EQ(CheckPeers(PlanOfKind(kind), 0, devices[0], devices), absl::OkStatus());
  kind.peer_access = true;
  const absl::Status status = CheckPeers(PlanOfKind(kind), 0, devices[0], devices);
  EXPECT_EQ(ReasonOf(status), Reason::kDeviceIdentity);
  EXPECT_EQ(status.message(),
            "rank 0: device GPU-face0000-0000-0000-0000-000000000002 at 0000:03:00.0 cannot read the memory of "
            "GPU-face0000-0000-0000-0000-000000000001 at 0000:09:00.0, that of rank 1; the plan's mesh says "
            "peer_access of both");
  fake_cuda::Reset(TwoDevices());
  EXPECT_EQ(CheckPeers(PlanOfKind(kind), 0, devices[0], devices), absl::OkStatus());
}

TEST_F(DeviceTest, WithoutADriverOrADeviceThereIsNone) {
  const auto refusal = [](int error) {
    fake_cuda::Reset(TwoDevices());
    fake_cuda::CallFault fault;
    fault.function = "cudaGetDeviceCount";
    fault.error = error;
    fake_cuda::FailCall(fault);
    const absl::Status status = CheckDevices();
    EXPECT_EQ(ReasonOf(status), Reason::kDevice);
    return std::string(status.message());
  };
  EXPECT_EQ(
      refusal(cudaErrorInsufficientDriver),
      "no NVIDIA driver is here, or one too old for CUDA 13.0: cudaErrorInsufficientDriver (CUDA driver version is "
      "insufficient for CUDA runtime version)");
  EXPECT_EQ(refusal(cudaErrorNoDevice),
            "the NVIDIA driver has no device for this process: cudaErrorNoDevice (no CUDA-capable device is detected)");
  EXPECT_EQ(CheckDevices(), absl::OkStatus());
}

TEST_F(DeviceTest, AReportHasVersionsAndDevicesOrSaysWhyNot) {
  CudaOptions options;
  options.management_library = "libno-such-library.so";
  const CudaReport two = ReportCuda(options);
  EXPECT_EQ(two.runtime, "13.0");
  EXPECT_EQ(two.nccl, "2.28.9");
  EXPECT_EQ(two.driver, "");
  ASSERT_EQ(two.devices.size(), 2u);
  EXPECT_EQ(UuidText(two.devices[0].uuid), kSecond);
  EXPECT_EQ(two.refusal, "");
  fake_cuda::CallFault fault;
  fault.function = "cudaGetDeviceCount";
  fault.error = cudaErrorNoDevice;
  fake_cuda::FailCall(fault);
  const CudaReport none = ReportCuda(options);
  EXPECT_TRUE(none.devices.empty());
  EXPECT_EQ(none.refusal.find("the NVIDIA driver has no device for this process"), 0u) << none.refusal;
}

class ManagementLibraryTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "management_library_test." + std::to_string(getpid());
    setenv("MESHSEAL_FAKE_NVML", path_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("MESHSEAL_FAKE_NVML");
    std::filesystem::remove(path_);
  }

  absl::StatusOr<ManagementLibrary> Load(const fake_cuda::Options& machine,
                                         const fake_cuda::NvmlOptions& options = {}) {
    fake_cuda::Reset(machine);
    EXPECT_TRUE(fake_cuda::WriteNvmlFile(path_, options));
    return ManagementLibrary::Load("");
  }

  std::string path_;
};

TEST_F(ManagementLibraryTest, TellsADevicesModes) {
  fake_cuda::Options machine = TwoDevices();
  machine.devices[1].mig = true;
  machine.devices[1].ecc = false;
  machine.devices[1].compute_mode = 3;
  const absl::StatusOr<ManagementLibrary> library = Load(machine);
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->DriverVersion().value(), "580.82.07");
  const ManagedFacts plain = library->FactsOf(kFirst).value();
  EXPECT_EQ(plain.pci_id, "00000000:09:00.0");
  EXPECT_FALSE(plain.mig);
  EXPECT_TRUE(plain.ecc);
  EXPECT_TRUE(plain.shared);
  EXPECT_EQ(plain.fabric, "");
  const ManagedFacts other = library->FactsOf(kSecond).value();
  EXPECT_TRUE(other.mig);
  EXPECT_FALSE(other.ecc);
  EXPECT_FALSE(other.shared);
}

TEST_F(ManagementLibraryTest, AFabricThatIsNotCompleteIsRefused) {
  fake_cuda::Options machine;
  machine.devices[0].fabric_state = 3;
  machine.devices[0].fabric_clique = 7;
  machine.devices[0].fabric_cluster.fill(0x5A);
  EXPECT_EQ(Load(machine)->FactsOf(kFirst)->fabric, "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a.7");
  machine.devices[0].fabric_state = 2;
  const absl::Status status = Load(machine)->FactsOf(kFirst).status();
  EXPECT_EQ(status.message(),
            std::string("device ") + kFirst + " has not joined its fabric: state 2, expected 3 (completed)");
  EXPECT_EQ(ReasonOf(status), Reason::kDevice);
}

TEST_F(ManagementLibraryTest, WhatItDoesNotTellIsARefusal) {
  EXPECT_EQ(ReasonOf(Load(fake_cuda::Options())->FactsOf("GPU-0").status()), Reason::kDevice);
  fake_cuda::NvmlOptions failing;
  failing.failing = {{"nvmlDeviceGetMigMode", 999}};
  EXPECT_EQ(ReasonOf(Load(fake_cuda::Options(), failing)->FactsOf(kFirst).status()), Reason::kDevice);
  EXPECT_EQ(ReasonOf(ManagementLibrary::Load("libno-such-library.so").status()), Reason::kDevice);
  EXPECT_EQ(ManagementLibrary::Load("libm.so.6").status().message(), "libm.so.6 has no nvmlInit_v2");
}

}  // namespace
}  // namespace meshseal::cuda

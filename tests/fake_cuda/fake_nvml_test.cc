#include "tests/fake_cuda/fake_nvml.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "runtime/cuda/nvml_abi.h"
#include "tests/fake_cuda/test_kernels.h"

namespace fake_cuda {
namespace {

static_assert(sizeof(nvmlPciInfo_t) == 68);
static_assert(nvmlGpuFabricInfo_v2 == 0x02000024);

class NvmlTest : public FakeCudaTest {
 protected:
  void SetUp() override {
    FakeCudaTest::SetUp();
    // By name, as a program finds the driver's.
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    path_ = testing::TempDir() + "fake_nvml_test." + std::to_string(getpid());
    setenv("MESHSEAL_FAKE_NVML", path_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("MESHSEAL_FAKE_NVML");
    std::filesystem::remove(path_);
    if (library_) dlclose(library_);
    FakeCudaTest::TearDown();
  }

  template <class Function>
  Function* Get(Function*, const char* name) {
    auto* const function = reinterpret_cast<Function*>(dlsym(library_, name));
    EXPECT_NE(function, nullptr) << name;
    return function;
  }
#define NVML(function) Get(static_cast<decltype(&function)>(nullptr), #function)

  void Start(const NvmlOptions& options = {}) {
    ASSERT_TRUE(WriteNvmlFile(path_, options));
    ASSERT_EQ(NVML(nvmlInit_v2)(), NVML_SUCCESS);
  }

  nvmlDevice_t ByUuid(const char* uuid) {
    nvmlDevice_t device = nullptr;
    EXPECT_EQ(NVML(nvmlDeviceGetHandleByUUID)(uuid, &device), NVML_SUCCESS);
    return device;
  }

  void* library_ = nullptr;
  std::string path_;
};

constexpr char kFirst[] = "GPU-face0000-0000-0000-0000-000000000001";
constexpr char kSecond[] = "GPU-face0000-0000-0000-0000-000000000002";

TEST_F(NvmlTest, WithoutAFileThereIsNoDriver) {
  EXPECT_EQ(NVML(nvmlInit_v2)(), NVML_ERROR_DRIVER_NOT_LOADED);
  unsigned int count = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetCount_v2)(&count), NVML_ERROR_UNINITIALIZED);
  EXPECT_STREQ(NVML(nvmlErrorString)(NVML_ERROR_DRIVER_NOT_LOADED), "Driver Not Loaded");
}

TEST_F(NvmlTest, FindsDevicesByUuidAndBusInNvmlsOwnOrder) {
  Start();
  unsigned int count = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetCount_v2)(&count), NVML_SUCCESS);
  EXPECT_EQ(count, 2u);
  char text[NVML_DEVICE_UUID_BUFFER_SIZE];
  EXPECT_EQ(NVML(nvmlSystemGetDriverVersion)(text, sizeof text), NVML_SUCCESS);
  EXPECT_STREQ(text, "580.82.07");

  const nvmlDevice_t first = ByUuid(kFirst);
  nvmlDevice_t same = nullptr;
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByPciBusId_v2)("0000:01:00.0", &same), NVML_SUCCESS);
  EXPECT_EQ(same, first);
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByPciBusId_v2)("00000000:01:00.0", &same), NVML_SUCCESS);
  EXPECT_EQ(same, first);
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByPciBusId_v2)("0000:07:00.0", &same), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByUUID)("GPU-0", &same), NVML_ERROR_NOT_FOUND);
  EXPECT_GT(first, ByUuid(kSecond));  // CUDA's first is the last here

  EXPECT_EQ(NVML(nvmlDeviceGetUUID)(first, text, sizeof text), NVML_SUCCESS);
  EXPECT_STREQ(text, kFirst);
  EXPECT_EQ(NVML(nvmlDeviceGetUUID)(first, text, 8), NVML_ERROR_INSUFFICIENT_SIZE);
  nvmlPciInfo_t pci = {};
  EXPECT_EQ(NVML(nvmlDeviceGetPciInfo_v3)(first, &pci), NVML_SUCCESS);
  EXPECT_STREQ(pci.busId, "00000000:01:00.0");
  EXPECT_STREQ(pci.busIdLegacy, "0000:01:00.0");
  EXPECT_EQ(pci.bus, 1u);
  EXPECT_EQ(NVML(nvmlShutdown)(), NVML_SUCCESS);
}

TEST_F(NvmlTest, TellsWhatTheTestSaidOfTheDevices) {
  Device second;
  second.mig = true;
  second.ecc = false;
  second.compute_mode = NVML_COMPUTEMODE_EXCLUSIVE_PROCESS;
  second.fabric_state = NVML_GPU_FABRIC_STATE_COMPLETED;
  second.fabric_status = NVML_ERROR_UNKNOWN;
  second.fabric_clique = 7;
  second.fabric_cluster = {0xAB, 1};
  Options options{{Device(), second}};
  options.no_peers = {{0, 1}};
  Restart(options);
  Start();
  const nvmlDevice_t first = ByUuid(kFirst);
  const nvmlDevice_t other = ByUuid(kSecond);

  unsigned int mig[2] = {};
  EXPECT_EQ(NVML(nvmlDeviceGetMigMode)(first, &mig[0], &mig[1]), NVML_SUCCESS);
  EXPECT_EQ(mig[0], 0u);
  EXPECT_EQ(NVML(nvmlDeviceGetMigMode)(other, &mig[0], &mig[1]), NVML_SUCCESS);
  EXPECT_EQ(mig[0], 1u);
  EXPECT_EQ(mig[1], 1u);
  nvmlEnableState_t ecc[2] = {};
  EXPECT_EQ(NVML(nvmlDeviceGetEccMode)(first, &ecc[0], &ecc[1]), NVML_SUCCESS);
  EXPECT_EQ(ecc[0], NVML_FEATURE_ENABLED);
  EXPECT_EQ(NVML(nvmlDeviceGetEccMode)(other, &ecc[0], &ecc[1]), NVML_SUCCESS);
  EXPECT_EQ(ecc[0], NVML_FEATURE_DISABLED);
  nvmlComputeMode_t mode = NVML_COMPUTEMODE_DEFAULT;
  EXPECT_EQ(NVML(nvmlDeviceGetComputeMode)(other, &mode), NVML_SUCCESS);
  EXPECT_EQ(mode, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS);

  nvmlGpuP2PStatus_t peer = NVML_P2P_STATUS_OK;
  EXPECT_EQ(NVML(nvmlDeviceGetP2PStatus)(first, other, NVML_P2P_CAPS_INDEX_READ, &peer), NVML_SUCCESS);
  EXPECT_EQ(peer, NVML_P2P_STATUS_NOT_SUPPORTED);
  nvmlGpuTopologyLevel_t level = NVML_TOPOLOGY_NODE;
  EXPECT_EQ(NVML(nvmlDeviceGetTopologyCommonAncestor)(first, other, &level), NVML_SUCCESS);
  EXPECT_EQ(level, NVML_TOPOLOGY_SYSTEM);
  EXPECT_EQ(NVML(nvmlDeviceGetTopologyCommonAncestor)(first, first, &level), NVML_SUCCESS);
  EXPECT_EQ(level, NVML_TOPOLOGY_INTERNAL);

  nvmlGpuFabricInfoV_t fabric = {};
  EXPECT_EQ(NVML(nvmlDeviceGetGpuFabricInfoV)(other, &fabric), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  fabric.version = nvmlGpuFabricInfo_v2;
  EXPECT_EQ(NVML(nvmlDeviceGetGpuFabricInfoV)(other, &fabric), NVML_SUCCESS);
  EXPECT_EQ(fabric.state, NVML_GPU_FABRIC_STATE_COMPLETED);
  EXPECT_EQ(fabric.status, NVML_ERROR_UNKNOWN);
  EXPECT_EQ(fabric.cliqueId, 7u);
  EXPECT_EQ(fabric.clusterUuid[0], 0xAB);
  EXPECT_EQ(fabric.clusterUuid[1], 1);
  EXPECT_EQ(NVML(nvmlShutdown)(), NVML_SUCCESS);
}

TEST_F(NvmlTest, FunctionsFailWhereTheTestWantsIt) {
  NvmlOptions options;
  options.failing = {{"nvmlDeviceGetMigMode", NVML_ERROR_NO_PERMISSION}};
  Start(options);
  unsigned int mig[2] = {};
  EXPECT_EQ(NVML(nvmlDeviceGetMigMode)(ByUuid(kFirst), &mig[0], &mig[1]), NVML_ERROR_NO_PERMISSION);
  EXPECT_EQ(NVML(nvmlShutdown)(), NVML_SUCCESS);
  options.failing = {{"nvmlInit_v2", NVML_ERROR_GPU_IS_LOST}};
  ASSERT_TRUE(WriteNvmlFile(path_, options));
  EXPECT_EQ(NVML(nvmlInit_v2)(), NVML_ERROR_GPU_IS_LOST);
}

}  // namespace
}  // namespace fake_cuda

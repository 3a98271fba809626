#include <gmock/gmock.h>

#include <cstring>
#include <thread>

#include "tests/fake_cuda/test_kernels.h"

namespace fake_cuda {
namespace {

using testing::ElementsAre;

class DeviceTest : public FakeCudaTest {};

TEST_F(DeviceTest, TellsWhatTheTestSaidOfTheDevices) {
  Device first;
  first.name = "NVIDIA H200";
  first.memory_bytes = 1 << 20;
  first.pci_domain = 1;
  first.pci_bus = 0x1b;
  first.uuid = {1, 2, 3};
  Device second;
  second.major = 12;
  second.minor = 1;
  second.sm_count = 48;
  second.integrated = true;
  second.ecc = false;
  Options options{{first, second}};
  options.driver_version = 13010;
  options.no_peers = {{0, 1}};
  Restart(options);

  int value = 0;
  EXPECT_EQ(cudaGetDeviceCount(&value), cudaSuccess);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(cudaDriverGetVersion(&value), cudaSuccess);
  EXPECT_EQ(value, 13010);
  EXPECT_EQ(cudaRuntimeGetVersion(&value), cudaSuccess);
  EXPECT_EQ(value, CUDART_VERSION);

  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_STREQ(properties.name, "NVIDIA H200");
  EXPECT_EQ(properties.totalGlobalMem, size_t{1} << 20);
  EXPECT_EQ(properties.pciDomainID, 1);
  EXPECT_EQ(properties.pciBusID, 0x1b);
  EXPECT_EQ(std::memcmp(properties.uuid.bytes, first.uuid.data(), 16), 0);
  EXPECT_EQ(properties.ECCEnabled, 1);
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 1), cudaSuccess);
  EXPECT_EQ(properties.major, 12);
  EXPECT_EQ(properties.minor, 1);
  EXPECT_EQ(properties.multiProcessorCount, 48);
  EXPECT_EQ(properties.integrated, 1);
  EXPECT_EQ(properties.ECCEnabled, 0);
  EXPECT_EQ(properties.pciBusID, 2);
  EXPECT_EQ(static_cast<uint8_t>(properties.uuid.bytes[15]), 2);

  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 1), cudaSuccess);
  EXPECT_EQ(value, 48);
  EXPECT_EQ(cudaDeviceCanAccessPeer(&value, 1, 0), cudaSuccess);
  EXPECT_EQ(value, 0);

  char bus_id[16];
  EXPECT_EQ(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, 0), cudaSuccess);
  EXPECT_STREQ(bus_id, "0001:1b:00.0");
  EXPECT_EQ(cudaDeviceGetPCIBusId(bus_id, 12, 0), cudaErrorInvalidValue);
}

TEST_F(DeviceTest, AnUnknownAttributeIsTold) {
  int value = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMaxPitch, 0), cudaErrorInvalidValue);
  ExpectViolations({"cudaDeviceGetAttribute: the stand-in does not know attribute 11"});
}

TEST_F(DeviceTest, RefusesDevicesThatAreNotThere) {
  int value = 0;
  cudaDeviceProp properties;
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, -1), cudaErrorInvalidDevice);
  Restart(Options{{}});
  EXPECT_EQ(cudaGetDeviceCount(&value), cudaErrorNoDevice);
  EXPECT_EQ(value, 0);
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, 1), cudaErrorNoDevice);
}

TEST_F(DeviceTest, AnOldDriverIsInsufficient) {
  Options options;
  options.driver_version = 12080;
  Restart(options);
  int value = 0;
  EXPECT_EQ(cudaGetDeviceCount(&value), cudaErrorInsufficientDriver);
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaErrorInsufficientDriver);
}

TEST_F(DeviceTest, TheCurrentDeviceIsTheThreads) {
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  int other = -1;
  std::thread([&] { EXPECT_EQ(cudaGetDevice(&other), cudaSuccess); }).join();
  EXPECT_EQ(other, 0);
  int mine = -1;
  EXPECT_EQ(cudaGetDevice(&mine), cudaSuccess);
  EXPECT_EQ(mine, 1);
}

TEST_F(DeviceTest, TheLastErrorIsTheThreadsAndKeptUntilItIsRead) {
  EXPECT_EQ(cudaSetDevice(7), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  std::thread([] { EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(DeviceTest, ErrorsHaveTheToolkitsNamesAndTexts) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorStreamCaptureInvalidated), "cudaErrorStreamCaptureInvalidated");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
}

TEST_F(DeviceTest, CallsAreLoggedAndCounted) {
  int value = 0;
  cudaGetDeviceCount(&value);
  cudaGetDevice(&value);
  cudaGetDevice(&value);
  EXPECT_THAT(CallLog(), ElementsAre("cudaSetDevice", "cudaGetDeviceCount", "cudaGetDevice", "cudaGetDevice"));
  EXPECT_EQ(CallCount("cudaGetDevice"), 2u);
  EXPECT_EQ(CallCount("cudaMalloc"), 0u);
}

TEST_F(DeviceTest, ResettingADeviceEndsWhatIsOnIt) {
  DeviceFloats({1});
  const cudaStream_t stream = NewStream();
  NewEvent();
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(LeakReport(), Alive());
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
  ExpectViolations({"cudaStreamQuery: a stream that does not exist"});
}

}  // namespace
}  // namespace fake_cuda

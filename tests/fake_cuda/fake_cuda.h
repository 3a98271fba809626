// What a test says to the stand-in CUDA runtime, and asks of it. See README.md. Any thread may call everything here.
#ifndef MESHSEAL_TESTS_FAKE_CUDA_FAKE_CUDA_H_
#define MESHSEAL_TESTS_FAKE_CUDA_FAKE_CUDA_H_

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace fake_cuda {

// ECC mode, MIG and the fabric are what NVML tells of the device (fake_nvml.h); the runtime tells the others.
struct Device {
  std::string name = "Fake GPU";
  std::array<uint8_t, 16> uuid = {};  // zeros: made from the device's number
  uint32_t pci_domain = 0;
  uint32_t pci_bus = 0;  // 0: the device's number + 1
  uint32_t pci_device = 0;
  uint64_t memory_bytes = uint64_t{64} << 20;
  int major = 9;
  int minor = 0;
  int sm_count = 132;
  bool ecc = true;
  bool mig = false;
  bool integrated = false;
  std::array<uint8_t, 16> fabric_cluster = {};
  uint32_t fabric_clique = 0;
  uint8_t fabric_state = 0;  // NVML's: 0 not supported, 1 not started, 2 in progress, 3 completed
  uint32_t fabric_status = 0;
  uint32_t compute_mode = 0;
};

struct Options {
  std::vector<Device> devices = {Device()};
  // What runs when: README.md. 0 runs nothing before somebody waits or asks, and then the oldest stream first.
  uint64_t seed = 0;
  int driver_version = 13000;
  int runtime_version = CUDART_VERSION;
  std::vector<std::pair<int, int>> no_peers = {};  // pairs of devices that cannot reach each other's memory
  // A call that waits this long while nothing moves would wait for ever: it is a violation and returns
  // cudaErrorLaunchTimeout.
  std::chrono::milliseconds hang_limit{10000};
};

// A machine without allocations, streams, errors, faults and log. Kernels stay registered. No other thread may be
// inside a CUDA or NCCL call. Handles and addresses from before mean nothing afterwards.
void Reset(const Options& options = {});

// The devices, with what Reset made of fields that were left empty.
std::vector<Device> Devices();

// Runs all blocks of one kernel; false and `error` where the kernel did something wrong: cudaErrorLaunchFailure,
// sticky. Calls come one at a time, from any thread.
using KernelRunner = bool (*)(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, void** args,
                              uint64_t seed, std::string* error);
void SetKernelRunner(KernelRunner runner);

// Bytes of each parameter, so that arguments are copied when the kernel is launched. Again with the same: nothing. A
// kernel that is not registered is cudaErrorInvalidDeviceFunction.
void RegisterKernel(const void* kernel, std::vector<size_t> parameter_bytes);

// Asked for kernels that are not registered, when they are launched: bytes of each parameter, or nothing for what is no
// kernel. Attributes of a function that is no kernel yet are kept then. Null: nobody is asked.
using KernelLookup = std::vector<size_t> (*)(const void* kernel);
void SetKernelLookup(KernelLookup lookup);

// Calls since Reset, in the order in which they came in, by name; NCCL's, too.
std::vector<std::string> CallLog();
uint64_t CallCount(const std::string& function);

// From now on the `nth` call of `function` (empty: of any cuda* function that returns an error) returns `error` and
// does nothing else; `forever`: all later ones as well. Faults add up. `error` is a cudaError_t or, of NCCL's, a
// ncclResult_t.
struct CallFault {
  std::string function;
  uint64_t nth = 1;
  int error = cudaErrorUnknown;
  bool forever = false;
};
void FailCall(const CallFault& fault);

// Before the `nth` call of `function` from now on, its thread runs `action`, which may call nothing of the stand-ins.
void BeforeCall(const std::string& function, uint64_t nth, std::function<void()> action);

// What happens to the `nth` item that gets its turn on a stream, counted since Reset (graphs: each node).
struct WorkFault {
  enum class Outcome { kError, kDelay, kNever };
  int device = -1;            // -1: any
  uint64_t stream = 0;        // StreamNumber; 0: any
  bool kernels_only = false;  // counts kernels alone (NCCL's are some)
  uint64_t nth = 1;           // counted over all streams that fit
  Outcome outcome = Outcome::kError;
  cudaError_t error = cudaErrorIllegalAddress;  // of kError: the item does not run, the device is lost
  uint32_t delay = 0;                           // of kDelay: so many queries or idle waits later
};
void FailWork(const WorkFault& fault);

// Streams are counted from 1 as they are created. 0: not a stream.
uint64_t StreamNumber(cudaStream_t stream);

// What has been created and not destroyed. A destroy that failed for the device's sticky error counts as one.
struct Alive {
  size_t device_allocations = 0;
  size_t device_bytes = 0;
  size_t pinned_allocations = 0;
  size_t streams = 0;
  size_t events = 0;
  size_t graphs = 0;
  size_t graph_execs = 0;
  friend bool operator==(const Alive&, const Alive&) = default;
};
Alive LeakReport();

// What no program may do, although a call may have succeeded; in the order found. Looks at all guard bytes and freed
// memory first.
std::vector<std::string> Violations();

}  // namespace fake_cuda

#endif  // MESHSEAL_TESTS_FAKE_CUDA_FAKE_CUDA_H_

#include "tests/fake_cuda/fake_cuda.h"

#include <utility>

#include "tests/fake_cuda/machine.h"

namespace fake_cuda {

void Reset(const Options& options) {
  Machine& machine = TheMachine();
  const Lock lock(machine.mutex());
  machine.Reset(options);
}

std::vector<Device> Devices() {
  Machine& machine = TheMachine();
  const Lock lock(machine.mutex());
  return machine.options().devices;
}

void SetKernelRunner(KernelRunner runner) {
  Machine& machine = TheMachine();
  const Lock lock(machine.mutex());
  machine.runner() = runner;
}

void RegisterKernel(const void* kernel, std::vector<size_t> parameter_bytes) {
  Machine& machine = TheMachine();
  const Lock lock(machine.mutex());
  RegisteredKernel& registered = machine.kernels()[kernel];
  registered.parameter_bytes = std::move(parameter_bytes);
  registered.launchable = true;
}

void SetKernelLookup(KernelLookup lookup) {
  Machine& machine = TheMachine();
  const Lock lock(machine.mutex());
  machine.kernel_lookup() = lookup;
}

std::vector<std::string> CallLog() {
  Machine& machine = TheMachine();
  const Lock lock(machine.mutex());
  return machine.calls().log();
}

uint64_t CallCount(const std::string& function) {
  Machine& machine = TheMachine();
  const Lock lock(machine.mutex());
  return machine.calls().count(function);
}

void FailCall(const CallFault& fault) {
  Machine& machine = TheMachine();
  const Lock lock(machine.mutex());
  machine.calls().Add(fault);
}

void BeforeCall(const std::string& function, uint64_t nth, std::function<void()> action) {
  Machine& machine = TheMachine();
  const Lock lock(machine.mutex());
  machine.calls().Add(function, nth, std::move(action));
}

void FailWork(const WorkFault& fault) {
  Machine& machine = TheMachine();
  const Lock lock(machine.mutex());
  machine.AddWorkFault(fault);
}

uint64_t StreamNumber(cudaStream_t stream) {
  Machine& machine = TheMachine();
  const Lock lock(machine.mutex());
  const Stream* const found = machine.LiveStream(stream);
  return found ? found->number : 0;
}

Alive LeakReport() {
  Machine& machine = TheMachine();
  const Lock lock(machine.mutex());
  return machine.CountAlive();
}

std::vector<std::string> Violations() {
  Machine& machine = TheMachine();
  const Lock lock(machine.mutex());
  return machine.AllViolations();
}

}  // namespace fake_cuda

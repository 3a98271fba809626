#include "tests/fake_cuda/work.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/fake_cuda/machine.h"

namespace fake_cuda {
namespace {

size_t Units(size_t bytes) { return (bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t); }

// Every address in device or pinned memory that stands where a pointer can.
void AddOperands(const void* argument, size_t bytes, int device, std::vector<Operand>* operands) {
  for (size_t at = 0; at + sizeof(void*) <= bytes; at += sizeof(void*)) {
    const void* address = nullptr;
    std::memcpy(&address, static_cast<const std::byte*>(argument) + at, sizeof address);
    const Allocation* const allocation = TheMachine().memory().Find(address);
    if (allocation) operands->push_back({allocation->number, device, "a kernel's argument"});
  }
}

}  // namespace

bool& InHostFunction() {
  thread_local bool inside = false;
  return inside;
}

const std::vector<Operand>& Work::operands() const {
  static const std::vector<Operand> kNone;
  return kNone;
}

KernelWork::KernelWork(const KernelLaunch& launch, const std::vector<size_t>& parameter_bytes, void** arguments,
                       int device)
    : launch_(launch) {
  for (size_t i = 0; i < parameter_bytes.size(); ++i) {
    storage_.emplace_back(Units(parameter_bytes[i]));
    std::memcpy(storage_.back().data(), arguments[i], parameter_bytes[i]);
    AddOperands(storage_.back().data(), parameter_bytes[i], device, &operands_);
  }
  for (std::vector<std::max_align_t>& argument : storage_) arguments_.push_back(argument.data());
}

Outcome KernelWork::Run(std::unique_lock<std::mutex>& lock) {
  Machine& machine = TheMachine();
  const KernelRunner runner = machine.runner();
  if (!runner) {
    machine.Violate("a kernel was launched, and no kernel runner is installed");
    return {true, cudaErrorLaunchFailure};
  }
  const uint64_t seed = machine.options().seed == 0 ? 0 : machine.random()();
  std::string error;
  lock.unlock();
  const bool good =
      runner(launch_.kernel, launch_.grid, launch_.block, launch_.shared_bytes, arguments_.data(), seed, &error);
  lock.lock();
  if (good) return {};
  machine.Violate(absl::StrCat("a kernel failed: ", error));
  return {true, cudaErrorLaunchFailure};
}

cudaKernelNodeParams KernelWork::Params() {
  cudaKernelNodeParams params = {};
  params.func = const_cast<void*>(launch_.kernel);
  params.gridDim = launch_.grid;
  params.blockDim = launch_.block;
  params.sharedMemBytes = static_cast<unsigned int>(launch_.shared_bytes);
  params.kernelParams = arguments_.data();
  return params;
}

Outcome CopyWork::Run(std::unique_lock<std::mutex>&) {
  std::memmove(to_, from_ ? from_ : staged_.data(), bytes_);
  return {};
}

Outcome SetWork::Run(std::unique_lock<std::mutex>&) {
  std::memset(to_, value_, bytes_);
  return {};
}

Outcome HostWork::Run(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  InHostFunction() = true;
  function_(data_);
  InHostFunction() = false;
  lock.lock();
  return {};
}

Outcome RecordWork::Run(std::unique_lock<std::mutex>&) {
  record_->done = true;
  record_->when = std::chrono::steady_clock::now();
  return {};
}

}  // namespace fake_cuda

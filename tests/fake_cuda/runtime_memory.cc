// Memory, and what moves it.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/fake_cuda/machine.h"

using fake_cuda::Allocation;
using fake_cuda::Allocator;
using fake_cuda::Call;
using fake_cuda::CopyWork;
using fake_cuda::kPinned;
using fake_cuda::Lock;
using fake_cuda::Machine;
using fake_cuda::Needs;
using fake_cuda::Operand;
using fake_cuda::SetWork;
using fake_cuda::Stream;

namespace {

enum class Place { kDevice, kPinned, kPageable, kWrong };

// Where `bytes` at `address` lie.
Place PlaceOf(const Allocation* allocation, const void* address, size_t bytes) {
  if (!address) return Place::kWrong;
  if (!allocation) return Place::kPageable;
  const auto before = static_cast<size_t>(static_cast<const std::byte*>(address) - allocation->data);
  if (allocation->freed || bytes > allocation->bytes - before) return Place::kWrong;
  return allocation->device == kPinned ? Place::kPinned : Place::kDevice;
}

bool Fits(cudaMemcpyKind kind, bool to_device, bool from_device) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

cudaError_t AllocatePinned(Machine& machine, void** ptr, size_t bytes) {
  if (!ptr) return cudaErrorInvalidValue;
  if (bytes == 0) {
    *ptr = nullptr;
    return cudaSuccess;
  }
  const Allocation* const allocation = machine.memory().Allocate(bytes, kPinned, Allocator::kCuda);
  if (!allocation) return cudaErrorMemoryAllocation;
  *ptr = allocation->data;
  return cudaSuccess;
}

// Both kinds wait for all work of the device, as CUDA does.
cudaError_t Free(Machine& machine, Lock& lock, void* ptr, bool pinned, const char* function) {
  if (!ptr) return cudaSuccess;
  const Allocation* allocation = machine.memory().Find(ptr);
  if (!allocation || allocation->freed || allocation->data != ptr || (allocation->device == kPinned) != pinned ||
      allocation->allocator != Allocator::kCuda) {
    machine.Violate(absl::StrCat(function, ": not what was allocated, or freed before"));
    return cudaErrorInvalidValue;
  }
  const uint64_t number = allocation->number;
  const int device = pinned ? machine.current_device() : allocation->device;
  if (machine.DeviceError(device) == cudaSuccess) {
    const cudaError_t error = machine.AdmitOutsideCaptures();
    if (error != cudaSuccess) return error;
    const auto idle = [&] { return machine.DeviceIsIdle(device); };
    if (!machine.RunUntil(lock, idle, function)) return cudaErrorLaunchTimeout;
  }
  machine.WaitIdle(lock);
  machine.CheckGuards();
  allocation = machine.memory().Numbered(number);
  if (!allocation || allocation->freed) return cudaErrorInvalidValue;
  machine.memory().Free(*allocation);
  return machine.DeviceError(device);
}

}  // namespace

cudaError_t cudaMalloc(void** devPtr, size_t size) {
  return Call(__func__, Needs::kContextOutside, [&](Machine& machine, Lock&) {
    if (!devPtr) return cudaErrorInvalidValue;
    if (size == 0) {
      *devPtr = nullptr;
      return cudaSuccess;
    }
    const Allocation* const allocation = machine.AllocateOnDevice(size, Allocator::kCuda);
    if (!allocation) return cudaErrorMemoryAllocation;
    *devPtr = allocation->data;
    return cudaSuccess;
  });
}

cudaError_t cudaFree(void* devPtr) {
  return Call(__func__, Needs::kRelease,
              [&](Machine& machine, Lock& lock) { return Free(machine, lock, devPtr, false, "cudaFree"); });
}

cudaError_t cudaMallocHost(void** ptr, size_t size) {
  return Call(__func__, Needs::kContextOutside,
              [&](Machine& machine, Lock&) { return AllocatePinned(machine, ptr, size); });
}

cudaError_t cudaHostAlloc(void** pHost, size_t size, unsigned int flags) {
  return Call(__func__, Needs::kContextOutside, [&](Machine& machine, Lock&) {
    constexpr unsigned int kKnown = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
    return (flags & ~kKnown) != 0 ? cudaErrorInvalidValue : AllocatePinned(machine, pHost, size);
  });
}

cudaError_t cudaFreeHost(void* ptr) {
  return Call(__func__, Needs::kRelease,
              [&](Machine& machine, Lock& lock) { return Free(machine, lock, ptr, true, "cudaFreeHost"); });
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock& lock) {
    Stream* on = nullptr;
    const cudaError_t error = machine.FindStream("cudaMemcpyAsync", stream, &on);
    if (error != cudaSuccess) return error;
    if (count == 0) return cudaSuccess;
    const Allocation* const target = machine.memory().Find(dst);
    const Allocation* const source = machine.memory().Find(src);
    const Place to = PlaceOf(target, dst, count);
    const Place from = PlaceOf(source, src, count);
    if (to == Place::kWrong || from == Place::kWrong) return cudaErrorInvalidValue;
    if (!Fits(kind, to == Place::kDevice, from == Place::kDevice)) return cudaErrorInvalidValue;

    std::vector<Operand> operands;
    if (target) operands.push_back({target->number, on->device, "a copy's target"});
    if (source) operands.push_back({source->number, on->device, "a copy's source"});
    if (on->capture) return machine.Enqueue(lock, on, std::make_shared<CopyWork>(dst, src, count, operands));
    if (from == Place::kPageable) {
      const auto* const bytes = static_cast<const std::byte*>(src);
      std::vector<std::byte> staged(bytes, bytes + count);
      machine.Enqueue(lock, on, std::make_shared<CopyWork>(dst, std::move(staged), std::move(operands)));
    } else {
      machine.Enqueue(lock, on, std::make_shared<CopyWork>(dst, src, count, std::move(operands)));
    }
    // Into memory that is not pinned the copy is over when the call returns.
    const auto idle = [&] { return machine.StreamIsIdle(*on); };
    if (to == Place::kPageable && !machine.RunUntil(lock, idle, "cudaMemcpyAsync")) return cudaErrorLaunchTimeout;
    return machine.DeviceError(on->device);
  });
}

cudaError_t cudaMemsetAsync(void* devPtr, int value, size_t count, cudaStream_t stream) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock& lock) {
    Stream* on = nullptr;
    const cudaError_t error = machine.FindStream("cudaMemsetAsync", stream, &on);
    if (error != cudaSuccess) return error;
    if (count == 0) return cudaSuccess;
    const Allocation* const target = machine.memory().Find(devPtr);
    const Place to = PlaceOf(target, devPtr, count);
    if (to == Place::kWrong || to == Place::kPageable) return cudaErrorInvalidValue;
    return machine.Enqueue(
        lock, on,
        std::make_shared<SetWork>(devPtr, value, count, Operand{target->number, on->device, "a fill's target"}));
  });
}

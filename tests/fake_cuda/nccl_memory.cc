// Memory of NCCL's own, and windows on it.
#include "absl/strings/str_cat.h"
#include "tests/fake_cuda/nccl_library.h"

using fake_cuda::Allocation;
using fake_cuda::Allocator;
using fake_cuda::Lock;
using fake_cuda::Machine;
using fake_nccl::Call;
using fake_nccl::Communicator;
using fake_nccl::CurrentOptions;
using fake_nccl::Fail;
using fake_nccl::Job;
using fake_nccl::TheLibrary;

ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
  return Call(__func__, [&](Machine& machine, Lock&) {
    if (!ptr || size == 0) return Fail(ncclInvalidArgument, "ncclMemAlloc : no address or no size");
    if (machine.device_count() == 0 || machine.DeviceError(machine.current_device()) != cudaSuccess) {
      return Fail(ncclUnhandledCudaError, "ncclMemAlloc: no device");
    }
    if (machine.AdmitOutsideCaptures() != cudaSuccess) return Fail(ncclUnhandledCudaError, "ncclMemAlloc: captures");
    const Allocation* const allocation = machine.AllocateOnDevice(size, Allocator::kNccl);
    if (!allocation) return Fail(ncclUnhandledCudaError, "Cuda failure 'out of memory'");
    *ptr = allocation->data;
    return ncclSuccess;
  });
}

ncclResult_t ncclMemFree(void* ptr) {
  return Call(__func__, [&](Machine& machine, Lock& lock) {
    if (!ptr) return ncclSuccess;
    const Allocation* const allocation = machine.memory().Find(ptr);
    if (!allocation || allocation->freed || allocation->data != ptr || allocation->allocator != Allocator::kNccl) {
      machine.Violate("ncclMemFree: not what ncclMemAlloc gave, or freed before");
      return ncclInvalidArgument;
    }
    for (const auto& [handle, window] : TheLibrary().windows) {
      if (window.allocation != allocation->number) continue;
      machine.Violate(absl::StrCat("ncclMemFree: a window is registered on ", allocation->Name()));
    }
    machine.WaitIdle(lock);
    machine.CheckGuards();
    machine.memory().Free(*allocation);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags) {
  return Call(__func__, [&](Machine& machine, Lock& lock) {
    std::shared_ptr<Communicator> communicator;
    const ncclResult_t result = fake_nccl::FindReady("ncclCommWindowRegister", comm, &communicator);
    if (result != ncclSuccess) return result;
    if (!win || size == 0) return Fail(ncclInvalidArgument, "ncclCommWindowRegister : no address or no size");
    const Allocation* const allocation = machine.memory().Find(buff);
    if (reinterpret_cast<uintptr_t>(buff) % NCCL_WIN_REQUIRED_ALIGNMENT != 0) {
      return Fail(ncclInvalidArgument, "Window address must be suitably aligned.");
    }
    const bool symmetric = (winFlags & NCCL_WIN_COLL_SYMMETRIC) != 0;
    if (!allocation || allocation->freed || (symmetric && allocation->allocator != Allocator::kNccl) ||
        size > allocation->bytes - static_cast<size_t>(static_cast<std::byte*>(buff) - allocation->data)) {
      return Fail(ncclInvalidArgument, "ncclCommWindowRegister : not memory of ncclMemAlloc");
    }
    const std::shared_ptr<fake_nccl::World> world = communicator->world;
    const uint64_t mine = world->RegisterWindow(communicator->rank);
    machine.changed().notify_all();
    const auto ready = [world, mine] { return world->AllRegistered(mine); };
    const uint64_t number = allocation->number;
    Job job{ready, CurrentOptions().window_polls, [owner = communicator.get(), number, win](Lock&) {
              const auto handle = reinterpret_cast<ncclWindow_t>(TheLibrary().next_handle++ * 16);
              TheLibrary().windows[handle] = {owner->shared_from_this(), number};
              *win = handle;
              return ncclSuccess;
            }};
    return fake_nccl::Begin(machine, lock, communicator, std::move(job), "ncclCommWindowRegister");
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  return Call(__func__, [&](Machine&, Lock&) {
    const std::shared_ptr<Communicator> communicator = fake_nccl::Find(comm);
    const auto found = TheLibrary().windows.find(win);
    if (!communicator || found == TheLibrary().windows.end() || found->second.communicator != communicator) {
      return Fail(ncclInvalidArgument, "ncclCommWindowDeregister : not a window of the communicator");
    }
    TheLibrary().windows.erase(found);
    return ncclSuccess;
  });
}

// Communicators from their beginning to their end, and what NCCL says of errors.
#include <unistd.h>

#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/fake_cuda/nccl_library.h"

using fake_cuda::Lock;
using fake_cuda::Machine;
using fake_cuda::TheMachine;

namespace fake_nccl {
namespace {

void NoteGraph(Machine& machine, const Communicator& communicator, const char* function) {
  if (communicator.captured == 0) return;
  machine.Violate(absl::StrCat(function, " of rank ", communicator.rank,
                               ": a graph holds a collective of it; NCCL waits until all such graphs are destroyed"));
}

// When NCCL lets go of a communicator.
std::function<bool()> MayGo(const Communicator* communicator) {
  return [communicator] {
    return communicator->launched == 0 && communicator->captured == 0 && communicator->world->EverybodyLeft();
  };
}

MeetingName NameOf(const ncclUniqueId& id) {
  MeetingName name;
  std::memcpy(&name, id.internal, sizeof name);
  return name;
}

// The world that `id` names, of this process or another. Null: there is none.
std::shared_ptr<World> WorldOf(const ncclUniqueId& id) {
  const MeetingName name = NameOf(id);
  std::shared_ptr<World>& world = TheLibrary().worlds[{name.process, name.number}];
  if (world || name.number == 0 || name.process == ::getpid()) return world;
  std::unique_ptr<Meeting> meeting = Meeting::Of(name);
  if (meeting) world = std::make_shared<World>(name.number, std::move(meeting));
  return world;
}

// Says what keeps a world from getting complete.
void TellBroken(Machine& machine, const World& world, size_t size, size_t rank) {
  if (!CurrentOptions().name_mismatches) return;
  machine.Violate(world.size() != size
                      ? absl::StrCat("communicator ", world.number, ": ranks for ", world.size(), " and for ", size)
                      : absl::StrCat("communicator ", world.number, ": rank ", rank, " came twice"));
}

ncclResult_t Init(Machine& machine, Lock& lock, ncclComm_t* comm, int nranks, const ncclUniqueId& id, int rank,
                  const ncclConfig_t* config) {
  Library& library = TheLibrary();
  if (!comm) return Fail(ncclInvalidArgument, "CommInitRankConfig : comm argument is NULL");
  *comm = nullptr;
  const ncclConfig_t defaults = NCCL_CONFIG_INITIALIZER;
  if (config && (config->magic != defaults.magic || config->size != defaults.size)) {
    return Fail(ncclInvalidArgument, "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
  }
  if (nranks < 1 || rank < 0 || rank >= nranks) {
    return Fail(ncclInvalidArgument, absl::StrCat("Invalid rank requested : ", rank, "/", nranks));
  }
  if (nranks > static_cast<int>(kMostRanks)) {
    machine.Violate(absl::StrCat("ncclCommInitRankConfig: the stand-in knows ", kMostRanks, " ranks"));
    return ncclInvalidUsage;
  }
  const std::shared_ptr<World> world = WorldOf(id);
  if (!world) return Fail(ncclInvalidArgument, "no such ncclUniqueId");
  if (machine.device_count() == 0) return Fail(ncclUnhandledCudaError, "Cuda failure 'no CUDA-capable device'");
  if (machine.DeviceError(machine.current_device()) != cudaSuccess) {
    return Fail(ncclUnhandledCudaError, "Cuda failure: the device is lost");
  }

  auto communicator = std::make_shared<Communicator>();
  communicator->rank = static_cast<size_t>(rank);
  communicator->device = machine.current_device();
  communicator->blocking = !config || config->blocking != 0;
  communicator->world = world;
  const auto size = static_cast<size_t>(nranks);
  if (!world->Join(size, communicator->rank, communicator->device))
    TellBroken(machine, *world, size, communicator->rank);
  machine.changed().notify_all();
  const auto handle = reinterpret_cast<ncclComm_t>(library.next_handle++ * 16);
  library.communicators[handle] = communicator;
  Job job{[world] { return world->complete(); }, CurrentOptions().init_polls,
          [world, &initialised = communicator->initialised](Lock&) {
            const std::string duplicate = world->Duplicate();
            initialised = duplicate.empty();
            return initialised ? ncclSuccess : Fail(ncclInvalidUsage, duplicate);
          }};
  const bool waits = communicator->blocking && ThisThreadsGroup().depth == 0;
  if (!waits) *comm = handle;
  const ncclResult_t result = Begin(machine, lock, communicator, std::move(job), "ncclCommInitRankConfig");
  if (!waits) return result;
  if (result == ncclSuccess) {
    *comm = handle;
  } else {
    library.communicators.erase(handle);
  }
  return result;
}

void Forget(ncclComm_t handle) {
  Library& library = TheLibrary();
  const std::shared_ptr<Communicator> communicator = library.communicators.at(handle);
  for (auto window = library.windows.begin(); window != library.windows.end();) {
    window = window->second.communicator == communicator ? library.windows.erase(window) : std::next(window);
  }
  library.communicators.erase(handle);
  TheMachine().changed().notify_all();
}

}  // namespace
}  // namespace fake_nccl

using fake_nccl::Call;
using fake_nccl::Communicator;
using fake_nccl::CurrentOptions;
using fake_nccl::Fail;
using fake_nccl::Job;
using fake_nccl::TheLibrary;

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string text;
  const Lock lock(fake_cuda::TheMachine().mutex());
  text = TheLibrary().last_error;
  return text.c_str();
}

ncclResult_t ncclGetVersion(int* version) {
  return Call(__func__, [&](Machine&, Lock&) {
    if (!version) return Fail(ncclInvalidArgument, "GetVersion : version argument is NULL");
    *version = CurrentOptions().version;
    return ncclSuccess;
  });
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  return Call(__func__, [&](Machine&, Lock&) {
    if (!uniqueId) return Fail(ncclInvalidArgument, "GetUniqueId : out argument is NULL");
    std::unique_ptr<fake_nccl::Meeting> meeting = fake_nccl::Meeting::Make();
    if (!meeting) return Fail(ncclSystemError, "GetUniqueId : no file in memory");
    const fake_nccl::MeetingName name{++TheLibrary().unique_ids, ::getpid(), meeting->file()};
    TheLibrary().worlds[{name.process, name.number}] =
        std::make_shared<fake_nccl::World>(name.number, std::move(meeting));
    *uniqueId = {};
    std::memcpy(uniqueId->internal, &name, sizeof name);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config) {
  return Call(__func__, [&](Machine& machine, Lock& lock) {
    return fake_nccl::Init(machine, lock, comm, nranks, commId, rank, config);
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return Call(__func__, [&](Machine&, Lock& lock) {
    const std::shared_ptr<Communicator> communicator = fake_nccl::Find(comm);
    if (!communicator || !asyncError) return Fail(ncclInvalidArgument, "ncclGetAsyncError : argument is NULL");
    if (communicator->job && communicator->job->ready()) {
      if (communicator->job->polls > 0) {
        --communicator->job->polls;
      } else {
        const Job job = std::move(*communicator->job);
        communicator->job.reset();
        communicator->state = job.finish(lock);
      }
    }
    *asyncError = communicator->state;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return Call(__func__, [&](Machine& machine, Lock& lock) {
    std::shared_ptr<Communicator> communicator;
    const ncclResult_t result = fake_nccl::FindReady("ncclCommFinalize", comm, &communicator);
    if (result != ncclSuccess) return result;
    if (communicator->finalized) return Fail(ncclInvalidArgument, "ncclCommFinalize : comm is already finalized");
    fake_nccl::NoteGraph(machine, *communicator, "ncclCommFinalize");
    communicator->finalized = true;
    communicator->world->Leave(communicator->rank);
    machine.changed().notify_all();
    Job job{fake_nccl::MayGo(communicator.get()), CurrentOptions().finalize_polls, [](Lock&) { return ncclSuccess; }};
    return fake_nccl::Begin(machine, lock, communicator, std::move(job), "ncclCommFinalize");
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return Call(__func__, [&](Machine& machine, Lock& lock) {
    const std::shared_ptr<Communicator> communicator = fake_nccl::Find(comm);
    if (!comm) return ncclSuccess;
    if (!communicator) return Fail(ncclInvalidArgument, "ncclCommDestroy : comm is destroyed or not one");
    if (communicator->captured > 0) {
      fake_nccl::NoteGraph(machine, *communicator, "ncclCommDestroy");
      return Fail(ncclInternalError, "ncclCommDestroy: hangs");
    }
    communicator->finalized = true;
    communicator->world->Leave(communicator->rank);
    machine.changed().notify_all();
    if (communicator->initialised && !machine.RunUntil(lock, fake_nccl::MayGo(communicator.get()), "ncclCommDestroy")) {
      return Fail(ncclInternalError, "ncclCommDestroy: hangs");
    }
    fake_nccl::Forget(comm);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return Call(__func__, [&](Machine& machine, Lock&) {
    const std::shared_ptr<Communicator> communicator = fake_nccl::Find(comm);
    if (!comm) return ncclSuccess;
    if (!communicator) return Fail(ncclInvalidArgument, "ncclCommAbort : comm is destroyed or not one");
    fake_nccl::NoteGraph(machine, *communicator, "ncclCommAbort");
    communicator->aborted = true;
    communicator->job.reset();
    communicator->world->Leave(communicator->rank);
    fake_nccl::Forget(comm);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return Call(__func__, [&](Machine&, Lock&) {
    std::shared_ptr<Communicator> communicator;
    const ncclResult_t result = fake_nccl::FindReady("CommCount", comm, &communicator);
    if (result != ncclSuccess) return result;
    if (!count) return Fail(ncclInvalidArgument, "CommCount : count argument is NULL");
    *count = static_cast<int>(communicator->world->size());
    return ncclSuccess;
  });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return Call(__func__, [&](Machine&, Lock&) {
    std::shared_ptr<Communicator> communicator;
    const ncclResult_t result = fake_nccl::FindReady("CommUserRank", comm, &communicator);
    if (result != ncclSuccess) return result;
    if (!rank) return Fail(ncclInvalidArgument, "CommUserRank : rank argument is NULL");
    *rank = static_cast<int>(communicator->rank);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return Call(__func__, [&](Machine&, Lock&) {
    std::shared_ptr<Communicator> communicator;
    const ncclResult_t result = fake_nccl::FindReady("CommCuDevice", comm, &communicator);
    if (result != ncclSuccess) return result;
    if (!device) return Fail(ncclInvalidArgument, "CommCuDevice : devid argument is NULL");
    *device = communicator->device;
    return ncclSuccess;
  });
}

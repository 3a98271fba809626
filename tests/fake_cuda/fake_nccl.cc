// NCCL's functions.
#include "tests/fake_cuda/fake_nccl.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/fake_cuda/element_sums.h"
#include "tests/fake_cuda/nccl_world.h"

namespace fake_nccl {
namespace {

using fake_cuda::Allocation;
using fake_cuda::Allocator;
using fake_cuda::Lock;
using fake_cuda::Machine;
using fake_cuda::Stream;
using fake_cuda::TheMachine;

struct Window {
  std::shared_ptr<Communicator> communicator;
  uint64_t allocation = 0;
};

// Under the machine's lock.
struct Library {
  uint64_t unique_ids = 0;
  std::map<uint64_t, std::shared_ptr<World>> worlds;  // by the number of the unique id
  std::map<ncclComm_t, std::shared_ptr<Communicator>> communicators;
  std::map<ncclWindow_t, Window> windows;
  uint64_t next_handle = 1;
  std::string last_error;
};

Library& TheLibrary() {
  static Library* const library = new Library;
  return *library;
}

struct Launch {
  std::shared_ptr<Communicator> communicator;
  Stream* stream = nullptr;
  std::vector<Operation> operations;
};

// What a thread has begun with ncclGroupStart.
struct Group {
  int depth = 0;
  std::vector<Launch> launches;
  std::vector<std::pair<std::shared_ptr<Communicator>, Job>> jobs;  // of blocking communicators
  ncclResult_t error = ncclSuccess;
};

Group& ThisThreadsGroup() {
  thread_local Group group;
  return group;
}

ncclResult_t Fail(ncclResult_t result, std::string text) {
  TheLibrary().last_error = std::move(text);
  return result;
}

template <class Body>
ncclResult_t Call(const char* function, const Body& body) {
  Machine& machine = TheMachine();
  Lock lock(machine.mutex());
  const std::optional<int> fault = machine.calls().Enter(function);
  if (fault)
    return Fail(static_cast<ncclResult_t>(*fault), absl::StrCat(function, ": a fault that the test asked for"));
  if (fake_cuda::InHostFunction()) {
    machine.Violate(absl::StrCat(function, ": called from a host function of a stream"));
    return ncclInvalidUsage;
  }
  return body(machine, lock);
}

std::shared_ptr<Communicator> Find(ncclComm_t handle) {
  const auto found = TheLibrary().communicators.find(handle);
  return found == TheLibrary().communicators.end() ? nullptr : found->second;
}

// The communicator of a call that needs it ready.
ncclResult_t FindReady(const char* function, ncclComm_t handle, std::shared_ptr<Communicator>* communicator) {
  *communicator = Find(handle);
  if (!*communicator) return Fail(ncclInvalidArgument, absl::StrCat(function, " : comm argument is NULL or destroyed"));
  const ncclResult_t state = (*communicator)->state;
  if (state == ncclSuccess) return ncclSuccess;
  return Fail(state == ncclInProgress ? ncclInvalidArgument : state,
              "Attempt to use communicator before the previous operation returned ncclSuccess");
}

// Begins a job. A blocking communicator's is over when this returns, or in a group when that ends.
ncclResult_t Begin(Machine& machine, Lock& lock, const std::shared_ptr<Communicator>& communicator, Job job,
                   const char* function) {
  if (!communicator->blocking) {
    if (job.polls == 0 && job.ready()) return communicator->state = job.finish(lock);
    communicator->job = std::move(job);
    return communicator->state = ncclInProgress;
  }
  Group& group = ThisThreadsGroup();
  if (group.depth > 0) {
    group.jobs.emplace_back(communicator, std::move(job));
    return ncclSuccess;
  }
  if (!machine.RunUntil(lock, job.ready, function)) return Fail(ncclInternalError, absl::StrCat(function, ": hangs"));
  return communicator->state = job.finish(lock);
}

void NoteGraph(Machine& machine, const Communicator& communicator, const char* function) {
  if (communicator.captured == 0) return;
  machine.Violate(absl::StrCat(function, " of rank ", communicator.rank,
                               ": a graph holds a collective of it; NCCL waits until all such graphs are destroyed"));
}

bool EverybodyLeft(const World& world) {
  return std::all_of(world.left.begin(), world.left.end(), [](bool left) { return left; });
}

// When NCCL lets go of a communicator.
std::function<bool()> MayGo(const Communicator* communicator) {
  return [communicator] {
    return communicator->launched == 0 && communicator->captured == 0 && EverybodyLeft(*communicator->world);
  };
}

std::string FindDuplicate(const World& world) {
  const std::vector<fake_cuda::Device>& devices = TheMachine().options().devices;
  for (size_t a = 0; a < world.size; ++a) {
    for (size_t b = a + 1; b < world.size; ++b) {
      if (world.devices[a] != world.devices[b]) continue;
      const fake_cuda::Device& device = devices[static_cast<size_t>(*world.devices[a])];
      return absl::StrFormat("Duplicate GPU detected : rank %d and rank %d both on CUDA device %x", b, a,
                             (uint64_t{device.pci_bus} << 12) | (uint64_t{device.pci_device} << 4));
    }
  }
  return "";
}

// The world of `id`, with this rank in it. A world whose ranks disagree never gets complete.
std::shared_ptr<World> Join(Machine& machine, uint64_t id, size_t size, size_t rank) {
  std::shared_ptr<World>& world = TheLibrary().worlds[id];
  if (!world) world = std::make_shared<World>(id, size);
  const bool other_size = world->size != size;
  if (other_size || world->devices[rank]) {
    world->broken = true;
    if (CurrentOptions().name_mismatches) {
      machine.Violate(other_size ? absl::StrCat("communicator ", id, ": ranks for ", world->size, " and for ", size)
                                 : absl::StrCat("communicator ", id, ": rank ", rank, " came twice"));
    }
    auto alone = std::make_shared<World>(id, size);
    alone->broken = true;
    return alone;
  }
  world->devices[rank] = machine.current_device();
  if (world->complete()) world->duplicate = FindDuplicate(*world);
  return world;
}

uint64_t NumberOf(const ncclUniqueId& id) {
  uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  return number;
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
  const uint64_t number = NumberOf(id);
  if (number == 0 || number > library.unique_ids) return Fail(ncclInvalidArgument, "no such ncclUniqueId");
  if (machine.device_count() == 0) return Fail(ncclUnhandledCudaError, "Cuda failure 'no CUDA-capable device'");
  if (machine.DeviceError(machine.current_device()) != cudaSuccess) {
    return Fail(ncclUnhandledCudaError, "Cuda failure: the device is lost");
  }

  auto communicator = std::make_shared<Communicator>();
  communicator->rank = static_cast<size_t>(rank);
  communicator->device = machine.current_device();
  communicator->blocking = !config || config->blocking != 0;
  communicator->world = Join(machine, number, static_cast<size_t>(nranks), communicator->rank);
  machine.changed().notify_all();
  const auto handle = reinterpret_cast<ncclComm_t>(library.next_handle++ * 16);
  library.communicators[handle] = communicator;
  const auto world = communicator->world;
  Job job{[world] { return world->complete(); }, CurrentOptions().init_polls,
          [world, &initialised = communicator->initialised](Lock&) {
            initialised = world->duplicate.empty();
            return initialised ? ncclSuccess : Fail(ncclInvalidUsage, world->duplicate);
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

ncclResult_t Put(Machine& machine, Lock& lock, Communicator* communicator, Stream* stream,
                 const std::vector<Operation>& operations) {
  auto work =
      std::make_shared<CollectiveWork>(communicator->shared_from_this(), operations, stream->capture != nullptr);
  const cudaError_t error = machine.Enqueue(lock, stream, std::move(work));
  if (error == cudaSuccess) return ncclSuccess;
  return Fail(ncclUnhandledCudaError,
              absl::StrCat("Cuda failure ", static_cast<int>(error), " '", cudaGetErrorString(error), "'"));
}

ncclResult_t BeginLaunch(Machine& machine, Lock& lock, const Launch& launch) {
  Job job{[] { return true; }, CurrentOptions().launch_polls,
          [&machine, communicator = launch.communicator.get(), stream = launch.stream, operations = launch.operations](
              Lock& held) { return Put(machine, held, communicator, stream, operations); }};
  return Begin(machine, lock, launch.communicator, std::move(job), "ncclGroupEnd");
}

ncclResult_t EndGroup(Machine& machine, Lock& lock) {
  Group& group = ThisThreadsGroup();
  if (group.depth == 0) return Fail(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--group.depth > 0) return ncclSuccess;
  Group ended;
  std::swap(ended, group);
  ncclResult_t result = ended.error;
  for (auto& [communicator, job] : ended.jobs) {
    if (result != ncclSuccess) break;
    result = machine.RunUntil(lock, job.ready, "ncclGroupEnd") ? job.finish(lock)
                                                               : Fail(ncclInternalError, "ncclGroupEnd: hangs");
    communicator->state = result;
  }
  bool in_progress = false;
  for (const Launch& launch : ended.launches) {
    if (result != ncclSuccess) break;
    const ncclResult_t one = BeginLaunch(machine, lock, launch);
    if (one == ncclInProgress) {
      in_progress = true;
    } else {
      result = one;
    }
  }
  return result == ncclSuccess && in_progress ? ncclInProgress : result;
}

ncclResult_t CheckOperation(Machine& machine, const char* function, const Communicator& communicator,
                            const Operation& operation) {
  if (ElementBytes(operation.type) == 0) {
    return Fail(ncclInvalidArgument, absl::StrCat(function, " : invalid type ", static_cast<int>(operation.type)));
  }
  const bool reduces = operation.kind == Kind::kAllReduce || operation.kind == Kind::kReduceScatter;
  if (reduces && !CanCombine(operation.type, operation.reduction)) {
    machine.Violate(absl::StrCat(function, ": the stand-in does not compute reduction ",
                                 static_cast<int>(operation.reduction), " of ", TypeName(operation.type)));
    return ncclInvalidArgument;
  }
  const auto ranks = static_cast<int>(communicator.world->size);
  if (operation.peer < 0 || operation.peer >= ranks) {
    return Fail(ncclInvalidArgument, absl::StrCat(function, " : invalid root ", operation.peer,
                                                  " (root should be in the 0..", ranks, " range)"));
  }
  return ncclSuccess;
}

ncclResult_t Add(Machine& machine, const char* function, ncclComm_t comm, cudaStream_t stream,
                 const Operation& operation, Launch* launch) {
  std::shared_ptr<Communicator> communicator;
  ncclResult_t result = FindReady(function, comm, &communicator);
  if (result == ncclSuccess) result = CheckOperation(machine, function, *communicator, operation);
  if (result != ncclSuccess) return result;
  Stream* on = nullptr;
  const cudaError_t error = machine.FindStream(function, stream, &on);
  if (error != cudaSuccess || on->device != communicator->device) {
    return Fail(ncclUnhandledCudaError,
                absl::StrCat(function, " : the stream is not one of the communicator's device"));
  }
  *launch = {communicator, on, {operation}};
  return ncclSuccess;
}

ncclResult_t Operate(const char* function, ncclComm_t comm, cudaStream_t stream, const Operation& operation) {
  return Call(function, [&](Machine& machine, Lock& lock) {
    Launch launch;
    Group& group = ThisThreadsGroup();
    ncclResult_t result = Add(machine, function, comm, stream, operation, &launch);
    if (result != ncclSuccess) {
      if (group.depth > 0) group.error = result;
      return result;
    }
    if (operation.count == 0 && !operation.is_point_to_point()) return ncclSuccess;
    if (group.depth == 0) return BeginLaunch(machine, lock, launch);
    for (Launch& begun : group.launches) {
      if (begun.communicator != launch.communicator) continue;
      if (begun.stream != launch.stream) {
        machine.Violate(absl::StrCat(function, ": the stand-in knows one stream for a communicator in a group"));
        return group.error = ncclInvalidUsage;
      }
      begun.operations.push_back(operation);
      return ncclSuccess;
    }
    group.launches.push_back(std::move(launch));
    return ncclSuccess;
  });
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

void Reset(const Options& options) {
  const Lock lock(TheMachine().mutex());
  CurrentOptions() = options;
  TheLibrary() = Library();
  ThisThreadsGroup() = Group();
}

std::vector<ncclComm_t> Communicators() {
  const Lock lock(TheMachine().mutex());
  std::vector<ncclComm_t> handles;
  for (const auto& [handle, communicator] : TheLibrary().communicators) handles.push_back(handle);
  std::sort(handles.begin(), handles.end(), [](ncclComm_t a, ncclComm_t b) {
    const std::shared_ptr<Communicator> first = Find(a);
    const std::shared_ptr<Communicator> second = Find(b);
    return std::pair(first->world->number, first->rank) < std::pair(second->world->number, second->rank);
  });
  return handles;
}

void FailCommunicator(ncclComm_t communicator, ncclResult_t error) {
  const Lock lock(TheMachine().mutex());
  const std::shared_ptr<Communicator> found = Find(communicator);
  if (!found) return;
  found->state = error;
  found->job.reset();
}

void Kill(ncclComm_t communicator, bool noticed) {
  const Lock lock(TheMachine().mutex());
  const std::shared_ptr<Communicator> killed = Find(communicator);
  if (!killed) return;
  killed->dead = true;
  killed->world->left[killed->rank] = noticed;
  for (const auto& [handle, other] : TheLibrary().communicators) {
    if (!noticed || other->world != killed->world || other == killed) continue;
    other->state = ncclRemoteError;
    other->job.reset();
  }
}

Alive LeakReport() {
  const Lock lock(TheMachine().mutex());
  return {TheLibrary().communicators.size(), TheLibrary().windows.size()};
}

}  // namespace fake_nccl

using fake_cuda::Allocation;
using fake_cuda::Allocator;
using fake_cuda::Lock;
using fake_cuda::Machine;
using fake_nccl::Call;
using fake_nccl::Communicator;
using fake_nccl::CurrentOptions;
using fake_nccl::Fail;
using fake_nccl::Job;
using fake_nccl::Kind;
using fake_nccl::Operate;
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
    *uniqueId = {};
    const uint64_t number = ++TheLibrary().unique_ids;
    std::memcpy(uniqueId->internal, &number, sizeof number);
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
    communicator->world->left[communicator->rank] = true;
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
    communicator->world->left[communicator->rank] = true;
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
    communicator->world->left[communicator->rank] = true;
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
    *count = static_cast<int>(communicator->world->size);
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

ncclResult_t ncclGroupStart() {
  return Call(__func__, [](Machine&, Lock&) {
    ++fake_nccl::ThisThreadsGroup().depth;
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupEnd() {
  return Call(__func__, [](Machine& machine, Lock& lock) { return fake_nccl::EndGroup(machine, lock); });
}

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return Operate(__func__, comm, stream, {Kind::kAllReduce, sendbuff, recvbuff, count, datatype, op, 0});
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  return Operate(__func__, comm, stream, {Kind::kAllGather, sendbuff, recvbuff, sendcount, datatype, ncclSum, 0});
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Operate(__func__, comm, stream, {Kind::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, 0});
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return Operate(__func__, comm, stream, {Kind::kBroadcast, sendbuff, recvbuff, count, datatype, ncclSum, root});
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Operate(__func__, comm, stream, {Kind::kSend, sendbuff, nullptr, count, datatype, ncclSum, peer});
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Operate(__func__, comm, stream, {Kind::kReceive, nullptr, recvbuff, count, datatype, ncclSum, peer});
}

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
    const uint64_t mine = ++world->windows[communicator->rank];
    machine.changed().notify_all();
    const auto ready = [world, mine] {
      return std::all_of(world->windows.begin(), world->windows.end(),
                         [mine](uint64_t count) { return count >= mine; });
    };
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

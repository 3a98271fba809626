#include "runtime/cuda/nccl_collective.h"

#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "runtime/comm/agreement.h"
#include "runtime/comm/element_bytes.h"
#include "runtime/cuda/peer_watch.h"
#include "runtime/cuda/stream.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/version_numbers.h"

namespace meshseal::cuda {
namespace {

using runtime::Communicator;

// How long NCCL may take to end a communicator on which nobody waits any more.
constexpr std::chrono::milliseconds kRest{2'000};

// Runs `work` on a thread of its own, which nobody has to wait for.
std::future<void> Start(std::function<void()> work) {
  const auto task = std::make_shared<std::packaged_task<void()>>(std::move(work));
  try {
    std::thread([task] { (*task)(); }).detach();
  } catch (const std::system_error&) {  // no thread can be had
    (*task)();
  }
  return task->get_future();
}

// Until `communicator` has done what it was asked. `check` is called meanwhile; its failure ends the wait.
absl::Status Await(ncclComm_t communicator, std::chrono::milliseconds deadline, absl::string_view what,
                   const std::function<absl::Status()>& check) {
  const auto done = [&]() -> absl::StatusOr<bool> {
    ncclResult_t state = ncclInProgress;
    MESHSEAL_RETURN_IF_ERROR(FromNccl(ncclCommGetAsyncError(communicator, &state), what));
    MESHSEAL_RETURN_IF_ERROR(FromNccl(state, what));
    if (state == ncclSuccess) return true;
    MESHSEAL_RETURN_IF_ERROR(check());
    return false;
  };
  return WaitUntil(done, deadline, absl::StrCat("NCCL, ", what));
}

absl::Status Finalize(ncclComm_t communicator, std::chrono::milliseconds deadline) {
  constexpr absl::string_view kWhat = "the end of a communicator";
  MESHSEAL_RETURN_IF_ERROR(FromNccl(ncclCommFinalize(communicator), kWhat));
  return Await(communicator, deadline, kWhat, [] { return absl::OkStatus(); });
}

class NcclCollective : public DeviceCollective {
 public:
  NcclCollective(Communicator& group, const NcclWaits& waits, std::shared_ptr<NcclEndings> endings)
      : group_(group), deadline_(waits.deadline), drain_(waits.drain), endings_(std::move(endings)) {}

  ~NcclCollective() override {
    if (communicator_ != nullptr) endings_->Close(communicator_, deadline_);
  }

  // Meets the other members at `id`.
  absl::Status Join(const ncclUniqueId& id) {
    constexpr absl::string_view kWhat = "a communicator";
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    MESHSEAL_RETURN_IF_ERROR(FromNccl(
        ncclCommInitRankConfig(&communicator_, static_cast<int>(size()), id, static_cast<int>(rank()), &config),
        kWhat));
    return AwaitDone(kWhat);
  }

  uint32_t rank() const override { return group_.rank(); }
  uint32_t size() const override { return group_.size(); }
  bool capturable() const override { return true; }

  absl::Status AllGather(std::byte* all, uint64_t bytes, cudaStream_t stream) override {
    return Grouped("an all-gather",
                   [&] { return ncclAllGather(all + rank() * bytes, all, bytes, ncclInt8, communicator_, stream); });
  }

  absl::Status Exchange(absl::Span<const absl::Span<const std::byte>> out, absl::Span<const absl::Span<std::byte>> in,
                        cudaStream_t stream) override {
    MESHSEAL_RETURN_IF_ERROR(EnqueueCopy(in[rank()].data(), out[rank()].data(), out[rank()].size(),
                                         cudaMemcpyDeviceToDevice, stream, "a copy of a rank's own bytes"));
    return Grouped("an exchange", [&] {
      ncclResult_t result = ncclSuccess;
      const auto may_go_on = [&result] { return result == ncclSuccess || result == ncclInProgress; };
      for (uint32_t member = 0; member < size() && may_go_on(); ++member) {
        if (member == rank()) continue;
        const int peer = static_cast<int>(member);
        if (!out[member].empty()) {
          result = ncclSend(out[member].data(), out[member].size(), ncclInt8, peer, communicator_, stream);
        }
        if (!in[member].empty() && may_go_on()) {
          result = ncclRecv(in[member].data(), in[member].size(), ncclInt8, peer, communicator_, stream);
        }
      }
      return result;
    });
  }

  absl::Status AllReduceSum(float* values, uint64_t count, cudaStream_t stream) override {
    return Sum(values, count, ncclFloat32, stream);
  }
  absl::Status AllReduceSum(int64_t* values, uint64_t count, cudaStream_t stream) override {
    return Sum(values, count, ncclInt64, stream);
  }

  absl::Status ReduceScatterSum(float* values, uint64_t count, cudaStream_t stream) override {
    return SumParts(values, values + rank() * count, count, ncclFloat32, stream);
  }
  absl::Status ReduceScatterSum(int64_t* values, uint64_t count, cudaStream_t stream) override {
    return SumParts(values, values + rank() * count, count, ncclInt64, stream);
  }

  absl::Status BeginGroup() override {
    if (communicator_ == nullptr) return Refuse(Reason::kDevice, "NCCL: the communicator was ended");
    MESHSEAL_RETURN_IF_ERROR(FromNccl(ncclGroupStart(), "the begin of a group"));
    ++depth_;
    return absl::OkStatus();
  }

  // What was launched is on its stream when this returns, and so before what the caller enqueues next.
  absl::Status EndGroup() override {
    constexpr absl::string_view kWhat = "the launch of a collective";
    --depth_;
    MESHSEAL_RETURN_IF_ERROR(FromNccl(ncclGroupEnd(), kWhat));
    return depth_ > 0 ? absl::OkStatus() : AwaitDone(kWhat);
  }

  absl::Status Check() override {
    ncclResult_t state = ncclSuccess;
    MESHSEAL_RETURN_IF_ERROR(FromNccl(ncclCommGetAsyncError(communicator_, &state), "a look at a communicator"));
    return FromNccl(state, "a collective");
  }

  void Abort() override {
    // A call that failed has left its group open.
    for (; depth_ > 0; --depth_) static_cast<void>(ncclGroupEnd());
    if (communicator_ != nullptr) NcclEndings::Abort(std::exchange(communicator_, nullptr));
  }

 private:
  absl::Status AwaitDone(absl::string_view what) {
    PeerWatch peers(group_, deadline_, drain_);
    return peers.Watch([&] { return Await(communicator_, deadline_, what, [&peers] { return peers.Check(); }); });
  }

  template <class Calls>
  absl::Status Grouped(absl::string_view what, const Calls& calls) {
    MESHSEAL_RETURN_IF_ERROR(BeginGroup());
    MESHSEAL_RETURN_IF_ERROR(FromNccl(calls(), what));
    return EndGroup();
  }

  absl::Status Sum(void* values, uint64_t count, ncclDataType_t type, cudaStream_t stream) {
    return Grouped("an all-reduce",
                   [&] { return ncclAllReduce(values, values, count, type, ncclSum, communicator_, stream); });
  }

  absl::Status SumParts(const void* values, void* own, uint64_t count, ncclDataType_t type, cudaStream_t stream) {
    return Grouped("a reduce-scatter",
                   [&] { return ncclReduceScatter(values, own, count, type, ncclSum, communicator_, stream); });
  }

  Communicator& group_;
  const std::chrono::milliseconds deadline_;
  const std::atomic<bool>* const drain_;
  const std::shared_ptr<NcclEndings> endings_;
  ncclComm_t communicator_ = nullptr;
  uint32_t depth_ = 0;  // of groups
};

// Member 0's id, on all members.
absl::StatusOr<ncclUniqueId> IdOf(Communicator& group) {
  ncclUniqueId own{};
  const absl::Status made =
      group.rank() == 0 ? FromNccl(ncclGetUniqueId(&own), "the id of a communicator") : absl::OkStatus();
  MESHSEAL_RETURN_IF_ERROR(runtime::Agree(group, made));
  std::vector<ncclUniqueId> all(group.size());
  MESHSEAL_RETURN_IF_ERROR(
      group.AllGather(runtime::BytesOf(absl::MakeConstSpan(&own, 1)), runtime::BytesIn(absl::MakeSpan(all))));
  return all[0];
}

}  // namespace

absl::Status FromNccl(ncclResult_t result, absl::string_view what) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  const absl::string_view detail = ncclGetLastError(nullptr);
  return Refuse(result == ncclRemoteError ? Reason::kPeerFailed : Reason::kDevice,
                absl::StrCat("NCCL, ", what, ": ", ncclGetErrorString(result), detail.empty() ? "" : ": ", detail));
}

absl::StatusOr<std::string> NcclVersion() {
  int code = 0;
  MESHSEAL_RETURN_IF_ERROR(FromNccl(ncclGetVersion(&code), "its version"));
  return absl::StrCat(code / 10000, ".", code / 100 % 100, ".", code % 100);
}

absl::Status CheckNccl(const Mesh& mesh, absl::string_view version, const runtime::Environment& environment) {
  if (const std::optional<std::string> address = environment("NCCL_COMM_ID"); address.has_value()) {
    return Refuse(Reason::kRankRecord, absl::StrCat("NCCL_COMM_ID is ", QuotedName(*address),
                                                    ": ranks would meet there, and not as they have agreed; unset it"));
  }
  const std::string blocking = environment("CUDA_LAUNCH_BLOCKING").value_or("");
  if (!blocking.empty() && blocking != "0") {
    return Refuse(Reason::kRankRecord,
                  absl::StrCat("CUDA_LAUNCH_BLOCKING is ", QuotedName(blocking),
                               ": a launch would wait for other ranks, past any deadline; unset it"));
  }
  const auto found = VersionNumbers(version);
  const std::string& min = mesh.transport_version_min;
  const std::string& max = mesh.transport_version_max;
  if ((min.empty() || found >= VersionNumbers(min)) && (max.empty() || found <= VersionNumbers(max))) {
    return absl::OkStatus();
  }
  const std::string taken = min == max    ? min
                            : min.empty() ? absl::StrCat("up to ", max)
                            : max.empty() ? absl::StrCat(min, " or above")
                                          : absl::StrCat(min, " to ", max);
  return Refuse(Reason::kRankRecord, absl::StrCat("NCCL is ", version, ", the plan's mesh takes ", taken));
}

NcclEndings::~NcclEndings() {
  for (const Ending& ending : endings_) ending.ended.wait_until(ending.until);
}

void NcclEndings::Close(ncclComm_t communicator, std::chrono::milliseconds deadline) {
  Ending ending;
  ending.until = std::chrono::steady_clock::now() + deadline + kRest;
  ending.ended = Start([communicator, deadline] {
    if (Finalize(communicator, deadline).ok()) {
      static_cast<void>(ncclCommDestroy(communicator));
    } else {
      static_cast<void>(ncclCommAbort(communicator));
    }
  });
  const std::lock_guard<std::mutex> lock(mutex_);
  endings_.push_back(std::move(ending));
}

void NcclEndings::Abort(ncclComm_t communicator) {
  Start([communicator] { static_cast<void>(ncclCommAbort(communicator)); }).wait_for(kRest);
}

absl::StatusOr<std::unique_ptr<DeviceCollective>> MakeNcclCollective(Communicator& group, const NcclWaits& waits,
                                                                     std::shared_ptr<NcclEndings> endings) {
  MESHSEAL_ASSIGN_OR_RETURN(const ncclUniqueId id, IdOf(group));
  auto collective = std::make_unique<NcclCollective>(group, waits, std::move(endings));
  absl::Status joined = collective->Join(id);
  if (!joined.ok()) group.Abort(joined);  // the others wait for this one
  joined = runtime::Agree(group, joined);
  if (joined.ok()) return collective;
  collective->Abort();
  return joined;
}

}  // namespace meshseal::cuda

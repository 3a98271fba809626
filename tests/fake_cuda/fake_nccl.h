// What a test says to the stand-in NCCL, and asks of it. See README.md. Any thread may call everything here. Calls are
// logged, counted and failed by fake_cuda.h; memory of ncclMemAlloc is device memory there.
#ifndef MESHSEAL_TESTS_FAKE_CUDA_FAKE_NCCL_H_
#define MESHSEAL_TESTS_FAKE_CUDA_FAKE_NCCL_H_

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fake_nccl {

enum class SumOrder {
  kRanks,  // rank 0 first, then rank 1 and so on
  kRing,   // piece p of as many as ranks begins with rank p + 1 and ends with rank p: other bits
};

struct Options {
  int version = NCCL_VERSION_CODE;
  SumOrder order = SumOrder::kRanks;
  // Communicators that do not block: how often ncclCommGetAsyncError still says ncclInProgress when everybody has come.
  // What was launched is on its stream only afterwards. 0: done when the call returns, if it can be.
  uint32_t init_polls = 1;
  uint32_t launch_polls = 1;
  uint32_t finalize_polls = 1;
  uint32_t window_polls = 1;
  // Ranks that disagree wait for ever. With this a violation says what they disagree about, too.
  bool name_mismatches = false;
};

// Forgets all communicators. After fake_cuda::Reset, which drops what they have on streams.
void Reset(const Options& options = {});

// Those not destroyed, in the order of their ncclUniqueId, then by rank.
std::vector<ncclComm_t> Communicators();

// ncclCommGetAsyncError returns `error` from now on, as do calls that use the communicator. Its collectives go on
// waiting.
void FailCommunicator(ncclComm_t communicator, ncclResult_t error);

// Its process ended: nothing of it arrives any more. `noticed`: the other ranks' communicators fail with
// ncclRemoteError.
void Kill(ncclComm_t communicator, bool noticed);

struct Alive {
  size_t communicators = 0;
  size_t windows = 0;
  friend bool operator==(const Alive&, const Alive&) = default;
};
Alive LeakReport();

}  // namespace fake_nccl

#endif  // MESHSEAL_TESTS_FAKE_CUDA_FAKE_NCCL_H_

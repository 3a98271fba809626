#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/lane.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/numerics/routing_digest.h"

namespace meshseal::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / kWarpLanes;
constexpr uint32_t kNoItem = 0xFFFFFFFFu;

// Of integers, so in any order the same; on every thread. Every thread of the block calls it.
MESHSEAL_DEVICE uint64_t BlockSum(uint64_t value) {
  MESHSEAL_SHARED(of_warps, uint64_t[kWarps]);
  value = WarpSum(value);
  __syncthreads();  // what an earlier call left was read
  if (Lane() == 0) of_warps[Warp()] = value;
  __syncthreads();
  uint64_t sum = 0;
  for (uint32_t warp = 0; warp < kWarps; ++warp) sum += of_warps[warp];
  return sum;
}

MESHSEAL_DEVICE uint32_t BlockMin(uint32_t value) {
  MESHSEAL_SHARED(of_warps, uint32_t[kWarps]);
  value = WarpMin(value);
  __syncthreads();
  if (Lane() == 0) of_warps[Warp()] = value;
  __syncthreads();
  for (uint32_t warp = 0; warp < kWarps; ++warp) value = of_warps[warp] < value ? of_warps[warp] : value;
  return value;
}

// The lowest item with a failure; kNoItem where there is none.
MESHSEAL_DEVICE uint32_t FirstFailedItem(const FailureList& list, uint32_t tokens) {
  const uint64_t items = list.items_per_token == 0 ? 1 : uint64_t{tokens} * list.items_per_token;
  uint32_t first = kNoItem;
  for (uint64_t word = threadIdx.x; word < items * list.words_per_item; word += kThreads) {
    if (list.words[word] == 0) continue;
    first = static_cast<uint32_t>(word / list.words_per_item);
    break;
  }
  return BlockMin(first);
}

MESHSEAL_DEVICE uint64_t FailureOfItem(const FailureList& list, uint32_t item) {
  uint64_t failure = 0;
  for (uint32_t i = 0; i < list.words_per_item; ++i) {
    const uint64_t word = list.words[uint64_t{item} * list.words_per_item + i];
    if (word == 0) continue;
    if (failure != 0 &&
        !(FailureKindOf(word) == FailureKind::kOutput && FailureDetail(word) < FailureDetail(failure))) {
      continue;
    }
    failure = word;
  }
  return failure;
}

__global__ void LaneKernel(LaneStep step) {
  const uint32_t tokens = step.step->tokens;
  uint32_t item = kNoItem;
  uint32_t list = 0;
  for (uint32_t i = 0; i < step.lists && item == kNoItem; ++i) {
    item = FirstFailedItem(step.failures[i], tokens);
    list = i;
  }
  const uint64_t slots = uint64_t{tokens} * step.top_k;
  uint64_t digests = 0;
  uint64_t computed = 0;
  for (uint64_t slot = threadIdx.x; slot < slots; slot += kThreads) {
    digests += runtime::DigestOfSlot(slot, step.experts[slot], step.weights[slot]);
    computed += step.computed[slot];
  }
  digests = BlockSum(digests);
  computed = BlockSum(computed);
  if (threadIdx.x != 0) return;

  LaneReport report{};
  if (item != kNoItem) {
    report.lane.errors = 1;
    report.failure = FailureOfItem(step.failures[list], item);
    report.list = list;
    report.item = item;
  } else {
    report.lane.computed_slots = static_cast<int64_t>(computed);
    report.lane.routing_digest = runtime::RoutingDigest(digests);
    report.lane.routing_digest_square = report.lane.routing_digest * report.lane.routing_digest;
  }
  report.lane.drain = step.drain == nullptr ? 0 : int64_t{*step.drain};
  *step.report = report;
}

__global__ void ZeroOnErrorKernel(ZeroOnErrorStep step) {
  const uint64_t i = GridThread();
  if (step.report->lane.errors > 0 && i < step.step->tokens * step.words_per_token) step.words[i] = 0;
}

}  // namespace

cudaError_t LaunchLane(cudaStream_t stream, const LaneStep& step) {
  if (step.lists > kMaxFailureLists) return cudaErrorInvalidValue;
  return Launch(stream, LaneKernel, dim3(1), dim3(kThreads), 0, step);
}

cudaError_t LaunchZeroOnError(cudaStream_t stream, const ZeroOnErrorStep& step) {
  return Launch(stream, ZeroOnErrorKernel, dim3(BlocksFor(step.max_tokens * step.words_per_token, kThreads)),
                dim3(kThreads), 0, step);
}

}  // namespace meshseal::cuda

// Kernels for the tests of the shim: right ones, and the same with one fault each.
#ifndef MESHSEAL_TESTS_SIMT_SAMPLE_KERNELS_H_
#define MESHSEAL_TESTS_SIMT_SAMPLE_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace simt {

enum class Fault {
  kNone,
  kNoBarrier,           // a __syncthreads is missing
  kStoreBeyond,         // one element after the last is written
  kSharedBeyond,        // the same of a static shared array
  kDynamicBeyond,       // the same of the dynamic one
  kBarrierInBranch,     // half of the threads do not come to a barrier
  kBarrierAfterExit,    // half of the threads are gone before it
  kTwoBarriers,         // each half comes to a barrier of its own
  kShortMask,           // a lane is missing in its own mask
  kShuffleOutsideMask,  // a lane is read that is not in the mask
  kWarpAfterExit,       // a lane in the mask has exited
  kTwoWarpBarriers,     // lanes of one mask at two places
  kWarpWaitsForBlock,   // one lane waits for the block, the others for it
};

inline constexpr unsigned kSumThreads = 128;

// out[b] = sum of the 128 values of block b. `out` has `blocks` elements.
cudaError_t LaunchBlockSums(const int* values, int* out, unsigned blocks, Fault fault);

// One warp that breaks a rule of warps and barriers.
cudaError_t LaunchOneWarp(int* out, Fault fault);

// Of each lane what the warp's operations give: [32][7].
cudaError_t LaunchWarpOperations(int* out);

// Writes the number of each thread and block to out[block][thread], z slowest.
cudaError_t LaunchIndices(dim3 grid, dim3 block, unsigned* out);

// The last block to run owns `out`; what no kernel of ours may be.
cudaError_t LaunchOrderSensitive(unsigned* out, unsigned blocks);

// out[b] = the first word of the block's unwritten shared memory, static and dynamic.
cudaError_t LaunchUnwritten(uint32_t* out, unsigned blocks);

}  // namespace simt

#endif  // MESHSEAL_TESTS_SIMT_SAMPLE_KERNELS_H_

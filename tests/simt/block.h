// One block of a kernel: its threads as fibers, the order in which they run, and what they do together.
//
// A thread runs until it arrives somewhere where it has to wait for others; then another one that can run does, chosen
// by the seed. Each arrival is checked. The first error ends the block: its threads are abandoned where they are.
#ifndef MESHSEAL_TESTS_SIMT_BLOCK_H_
#define MESHSEAL_TESTS_SIMT_BLOCK_H_

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/simt/fiber.h"
#include "tests/simt/known_kernels.h"
#include "tests/simt/random.h"
#include "tests/simt/site.h"

namespace simt {

inline constexpr unsigned kWarpLanes = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFF;  // as a mask

struct LaunchedKernel {
  const void* address = nullptr;
  const KnownKernel* known = nullptr;
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  void** arguments = nullptr;
};

class Block {
 public:
  // `fibers`: one for each thread at least.
  Block(const LaunchedKernel& kernel, uint3 index, uint64_t seed, const std::vector<std::unique_ptr<Fiber>>& fibers);

  // To the end of all threads, or an error: its text begins with block and thread.
  std::optional<std::string> Run();

  // What follows is called by the thread that runs.
  const uint3& thread_index() const { return running().index; }
  const uint3& index() const { return index_; }
  const LaunchedKernel& kernel() const { return kernel_; }
  unsigned lane() const { return running_ % kWarpLanes; }

  void WaitForBlock(Site site);

  // What lanes of a warp do together. Returns when all lanes of `mask` have called it.
  void WaitForLanes(unsigned mask, Site site);
  // `bytes` of `value` of lane `from`.
  void Shuffle(unsigned mask, const void* value, void* result, size_t bytes, unsigned from, Site site);
  // `bytes` of the value of each lane, one after the other; of lanes outside the mask nothing is written.
  void Gather(unsigned mask, const void* value, void* results, size_t bytes, Site site);

  // The block's memory for `key`, made and filled by the first thread that asks for it.
  void* StaticShared(Site site, const void* type, size_t bytes);
  void* DynamicShared() { return dynamic_shared_.get(); }

 private:
  enum class State { kReady, kAtBlockBarrier, kInWarp, kExited };

  struct WarpArrival {
    unsigned mask = 0;
    const void* value = nullptr;
    void* result = nullptr;
    size_t bytes = 0;
    std::optional<unsigned> from;  // of a shuffle
  };

  struct Thread {
    Block* block = nullptr;
    Fiber* fiber = nullptr;
    uint3 index{};
    State state = State::kReady;
    Site site;  // where it waits
    WarpArrival arrival;
  };

  struct Warp {
    unsigned ready = 0;    // lanes that can run
    unsigned waiting = 0;  // lanes in state kInWarp
    unsigned exited = 0;
    unsigned exists = 0;
    // Of those that wait, where all of them arrived with the same mask: it. Nearly always.
    unsigned common_mask = 0;
    bool has_common_mask = true;
  };

  struct Free {
    void operator()(void* memory) const;
  };
  using Memory = std::unique_ptr<void, Free>;

  struct SharedArray {
    Site site;
    const void* type = nullptr;
    Memory memory;
  };

  static void ThreadMain(void* thread);
  static Memory FilledMemory(size_t bytes);

  const Thread& running() const { return threads_[running_]; }
  Thread& running() { return threads_[running_]; }
  bool HasReady() const;
  size_t NextToRun();
  void MakeReady(size_t thread);
  // What a thread that arrives changes; or the error. Nothing of theirs is left on its stack, which may be abandoned.
  std::optional<std::string> ArriveAtBlock(Site site);
  std::optional<std::string> ArriveInWarp(const WarpArrival& arrival, Site site);
  // Whether all other lanes of the arrival's mask are there; or the error.
  std::optional<std::string> FindOthers(const WarpArrival& arrival, Site site, bool* all) const;
  void WaitInWarp(const WarpArrival& arrival, Site site);
  void CompleteWarp(size_t warp, unsigned mask);
  void Exit();
  std::string NameOf(size_t thread) const;
  std::string WaitingOf(size_t thread) const;

  const LaunchedKernel& kernel_;
  const uint3 index_;
  Random random_;
  const bool in_order_;
  const bool prefers_warps_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  size_t running_ = 0;
  size_t at_barrier_ = 0;
  size_t first_at_barrier_ = 0;  // where somebody is
  size_t exited_ = 0;
  std::optional<std::string> error_;
  Memory dynamic_shared_;
  std::vector<SharedArray> static_shared_;
};

// The block that this operating-system thread runs; null outside of kernels.
inline thread_local Block* current_block = nullptr;

}  // namespace simt

#endif  // MESHSEAL_TESTS_SIMT_BLOCK_H_

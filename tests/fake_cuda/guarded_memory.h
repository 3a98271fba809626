// Device and pinned memory: host memory full of NaN bytes between guard bytes. What is freed is kept, full of NaN bytes
// again, so that its address is not given out twice and a late write shows. Not thread-safe.
#ifndef MESHSEAL_TESTS_FAKE_CUDA_GUARDED_MEMORY_H_
#define MESHSEAL_TESTS_FAKE_CUDA_GUARDED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fake_cuda {

inline constexpr int kPinned = -1;                 // in place of a device
inline constexpr unsigned char kFreshByte = 0xFF;  // NaN in every float format

// What an allocation takes of its device's memory.
inline uint64_t TakenBytes(uint64_t bytes) { return (bytes + 511) / 512 * 512; }

enum class Allocator { kCuda, kNccl };

struct Allocation {
  uint64_t number = 0;  // from 1, in the order of allocation; never used again
  int device = kPinned;
  Allocator allocator = Allocator::kCuda;
  std::byte* data = nullptr;
  size_t bytes = 0;
  bool freed = false;

  // "device 0, allocation 3 (64 bytes)"
  std::string Name() const;
};

class GuardedMemory {
 public:
  ~GuardedMemory();
  GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // `bytes` > 0. Aligned to 256 bytes and to no more, as cudaMalloc promises; of NCCL to 4096. Null: no host memory.
  const Allocation* Allocate(size_t bytes, int device, Allocator allocator);

  // The allocation that holds the byte at `address`, freed ones included, or null.
  const Allocation* Find(const void* address) const;
  const Allocation* Numbered(uint64_t number) const;

  // `allocation` is one of Find or Allocate, not freed yet.
  void Free(const Allocation& allocation);
  void FreeAll(int device);

  // What was written outside: each allocation once.
  std::vector<std::string> CheckGuards();
  // Also what was written to freed memory: reads all of it.
  std::vector<std::string> CheckAll();

  uint64_t used(int device) const;
  size_t live(bool pinned) const;

 private:
  struct Block;
  void Check(Block& block, bool contents, std::vector<std::string>* found);

  std::map<uintptr_t, std::unique_ptr<Block>> blocks_;  // by the first byte of data
  std::map<uint64_t, Block*> numbered_;
  uint64_t next_number_ = 1;
  size_t kept_bytes_ = 0;
};

}  // namespace fake_cuda

#endif  // MESHSEAL_TESTS_FAKE_CUDA_GUARDED_MEMORY_H_

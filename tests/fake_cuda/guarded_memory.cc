#include "tests/fake_cuda/guarded_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/sanitized.h"

#if MESHSEAL_TEST_SANITIZED
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) (static_cast<void>(address), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) (static_cast<void>(address), static_cast<void>(bytes))
#endif

namespace fake_cuda {
namespace {

constexpr unsigned char kGuardByte = 0xA5;
constexpr size_t kGuardBytes = 256;  // behind the data, at least
constexpr size_t kBlockAlignment = 4096;
constexpr size_t kMaxKeptBytes = size_t{256} << 20;  // of freed memory

bool AllAre(const std::byte* bytes, size_t count, unsigned char value) {
  return std::all_of(bytes, bytes + count, [value](std::byte byte) { return byte == std::byte{value}; });
}

}  // namespace

struct GuardedMemory::Block {
  Allocation allocation;
  std::byte* raw = nullptr;
  size_t raw_bytes = 0;
  bool told = false;

  size_t front() const { return static_cast<size_t>(allocation.data - raw); }
  size_t back() const { return raw_bytes - front() - allocation.bytes; }
  std::byte* end() const { return allocation.data + allocation.bytes; }

  void Poison() const {
    ASAN_POISON_MEMORY_REGION(raw, front());
    ASAN_POISON_MEMORY_REGION(allocation.freed ? allocation.data : end(),
                              back() + (allocation.freed ? allocation.bytes : 0));
  }
  void Unpoison() const { ASAN_UNPOISON_MEMORY_REGION(raw, raw_bytes); }

  ~Block() {
    Unpoison();
    std::free(raw);
  }
};

std::string Allocation::Name() const {
  return absl::StrCat(device == kPinned ? "pinned memory" : absl::StrCat("device ", device), ", allocation ", number,
                      " (", bytes, " bytes)");
}

GuardedMemory::GuardedMemory() = default;
GuardedMemory::~GuardedMemory() = default;

const Allocation* GuardedMemory::Allocate(size_t bytes, int device, Allocator allocator) {
  auto block = std::make_unique<Block>();
  // 768 is 256 more than a multiple of 512: no better alignment than promised.
  const size_t front = allocator == Allocator::kNccl ? kBlockAlignment : 768;
  if (bytes > SIZE_MAX - front - kGuardBytes) return nullptr;
  block->raw_bytes = front + bytes + kGuardBytes;
  void* raw = nullptr;
  if (posix_memalign(&raw, kBlockAlignment, block->raw_bytes) != 0) return nullptr;
  block->raw = static_cast<std::byte*>(raw);
  block->allocation = {next_number_++, device, allocator, block->raw + front, bytes, false};
  std::memset(block->raw, kGuardByte, block->raw_bytes);
  std::memset(block->allocation.data, kFreshByte, bytes);
  block->Poison();
  Block* const kept = block.get();
  numbered_[kept->allocation.number] = kept;
  blocks_[reinterpret_cast<uintptr_t>(kept->allocation.data)] = std::move(block);
  return &kept->allocation;
}

const Allocation* GuardedMemory::Find(const void* address) const {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  auto found = blocks_.upper_bound(wanted);
  if (found == blocks_.begin()) return nullptr;
  --found;
  return wanted - found->first < found->second->allocation.bytes ? &found->second->allocation : nullptr;
}

const Allocation* GuardedMemory::Numbered(uint64_t number) const {
  const auto found = numbered_.find(number);
  return found == numbered_.end() ? nullptr : &found->second->allocation;
}

void GuardedMemory::Free(const Allocation& allocation) {
  Block& block = *numbered_.at(allocation.number);
  block.allocation.freed = true;
  std::memset(block.allocation.data, kFreshByte, block.allocation.bytes);
  block.Poison();
  kept_bytes_ += block.allocation.bytes;
  // The oldest go first; what the last one holds is kept in any case.
  for (auto next = numbered_.begin(); kept_bytes_ > kMaxKeptBytes && next != numbered_.end();) {
    Block& old = *next->second;
    if (!old.allocation.freed || &old == &block) {
      ++next;
      continue;
    }
    kept_bytes_ -= old.allocation.bytes;
    next = numbered_.erase(next);
    blocks_.erase(reinterpret_cast<uintptr_t>(old.allocation.data));
  }
}

void GuardedMemory::FreeAll(int device) {
  std::vector<const Allocation*> live;
  for (const auto& [number, block] : numbered_) {
    if (block->allocation.device == device && !block->allocation.freed) live.push_back(&block->allocation);
  }
  for (const Allocation* const allocation : live) Free(*allocation);
}

void GuardedMemory::Check(Block& block, bool contents, std::vector<std::string>* found) {
  if (block.told) return;
  const Allocation& allocation = block.allocation;
  block.Unpoison();
  const bool before = !AllAre(block.raw, block.front(), kGuardByte);
  const bool behind = !AllAre(block.end(), block.back(), kGuardByte);
  const bool late = contents && allocation.freed && !AllAre(allocation.data, allocation.bytes, kFreshByte);
  block.Poison();
  if (before) found->push_back(absl::StrCat(allocation.Name(), ": written before its first byte"));
  if (behind) found->push_back(absl::StrCat(allocation.Name(), ": written behind its last byte"));
  if (late) found->push_back(absl::StrCat(allocation.Name(), ": written after it was freed"));
  block.told = before || behind || late;
}

std::vector<std::string> GuardedMemory::CheckGuards() {
  std::vector<std::string> found;
  for (const auto& [number, block] : numbered_) Check(*block, false, &found);
  return found;
}

std::vector<std::string> GuardedMemory::CheckAll() {
  std::vector<std::string> found;
  for (const auto& [number, block] : numbered_) Check(*block, true, &found);
  return found;
}

uint64_t GuardedMemory::used(int device) const {
  uint64_t bytes = 0;
  for (const auto& [number, block] : numbered_) {
    const Allocation& allocation = block->allocation;
    if (allocation.device != device || allocation.freed) continue;
    bytes += TakenBytes(allocation.bytes);
  }
  return bytes;
}

size_t GuardedMemory::live(bool pinned) const {
  size_t count = 0;
  for (const auto& [number, block] : numbered_) {
    count += !block->allocation.freed && (block->allocation.device == kPinned) == pinned ? 1u : 0u;
  }
  return count;
}

}  // namespace fake_cuda

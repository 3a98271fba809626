#include "tests/faults/allocation_faults.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

// glibc's own, under names that are not replaced.
extern "C" {
void* __libc_malloc(size_t size) noexcept;
void __libc_free(void* block) noexcept;
void* __libc_realloc(void* block, size_t size) noexcept;
void* __libc_memalign(size_t alignment, size_t size) noexcept;
}

namespace meshseal::faults {
namespace {

// In the last bytes of every block stands the number of the section that it was taken in, 0 for none.
using Stamp = uint64_t;

constinit FaultPoint point;
constinit bool armed = false;
constinit Stamp section = 0;
constinit AllocationCounts counts;
constinit uint64_t live = 0;
constinit void* mapped = nullptr;  // of the section: libsodium maps one block at a time
constinit absl::string_view secret;
constinit uint64_t secrets_given_back = 0;

// Whether this allocation may go on.
bool MayHave() {
  if (!armed) return true;
  if (!point.Hits(counts.calls++)) return true;
  ++counts.failed;
  errno = ENOMEM;
  return false;
}

size_t WithStamp(size_t size) {
  size_t total = 0;
  return __builtin_add_overflow(size, sizeof(Stamp), &total) ? SIZE_MAX : total;  // SIZE_MAX is refused by glibc
}

char* StampOf(void* block) { return static_cast<char*>(block) + malloc_usable_size(block) - sizeof(Stamp); }

void* Enter(void* block) {
  if (block == nullptr) return nullptr;
  const Stamp stamp = armed ? section : 0;
  std::memcpy(StampOf(block), &stamp, sizeof(stamp));
  if (armed) ++live;
  return block;
}

void Leave(void* block) {
  Stamp stamp = 0;
  std::memcpy(&stamp, StampOf(block), sizeof(stamp));
  if (stamp != 0 && stamp == section) --live;
  if (!secret.empty() && memmem(block, malloc_usable_size(block), secret.data(), secret.size()) != nullptr) {
    ++secrets_given_back;
  }
}

void* Allocate(size_t size) { return MayHave() ? Enter(__libc_malloc(WithStamp(size))) : nullptr; }

void* AllocateAligned(size_t alignment, size_t size) {
  return MayHave() ? Enter(__libc_memalign(alignment, WithStamp(size))) : nullptr;
}

}  // namespace

void ArmAllocations(const FaultPoint& at) {
  point = at;
  counts = {};
  live = 0;
  mapped = nullptr;
  ++section;
  armed = true;
}

AllocationCounts DisarmAllocations() {
  armed = false;
  return counts;
}

uint64_t LiveAllocations() { return live; }

void WatchForSecret(absl::string_view text) {
  secret = text;
  secrets_given_back = 0;
}

uint64_t SecretsGivenBack() { return secrets_given_back; }

}  // namespace meshseal::faults

#define MESHSEAL_REPLACED extern "C" __attribute__((visibility("default")))

namespace faults = meshseal::faults;

MESHSEAL_REPLACED void* malloc(size_t size) noexcept { return faults::Allocate(size); }

MESHSEAL_REPLACED void free(void* block) noexcept {
  if (block == nullptr) return;
  const int error = errno;
  faults::Leave(block);
  __libc_free(block);
  errno = error;
}

MESHSEAL_REPLACED void* calloc(size_t count, size_t size) noexcept {
  size_t total = 0;
  if (__builtin_mul_overflow(count, size, &total)) total = SIZE_MAX;
  void* block = faults::Allocate(total);
  return block == nullptr ? nullptr : std::memset(block, 0, total);
}

MESHSEAL_REPLACED void* realloc(void* block, size_t size) noexcept {
  if (block == nullptr) return faults::Allocate(size);
  if (!faults::MayHave()) return nullptr;
  void* moved = __libc_malloc(faults::WithStamp(size));
  if (moved == nullptr) return nullptr;
  const size_t old_size = malloc_usable_size(block) - sizeof(faults::Stamp);
  std::memcpy(moved, block, old_size < size ? old_size : size);
  free(block);
  return faults::Enter(moved);
}

MESHSEAL_REPLACED void* memalign(size_t alignment, size_t size) noexcept {
  return faults::AllocateAligned(alignment, size);
}

MESHSEAL_REPLACED void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return faults::AllocateAligned(alignment, size);
}

MESHSEAL_REPLACED int posix_memalign(void** block, size_t alignment, size_t size) noexcept {
  void* taken = faults::AllocateAligned(alignment, size);
  if (taken == nullptr) return ENOMEM;
  *block = taken;
  return 0;
}

MESHSEAL_REPLACED void* mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) noexcept {
  if (!faults::MayHave()) return MAP_FAILED;
  void* block = reinterpret_cast<void*>(syscall(SYS_mmap, at, size, protection, flags, file, offset));
  if (faults::armed && block != MAP_FAILED) {
    ++faults::live;
    faults::mapped = block;
  }
  return block;
}

MESHSEAL_REPLACED int munmap(void* block, size_t size) noexcept {
  if (block == faults::mapped) {
    --faults::live;
    faults::mapped = nullptr;
  }
  return static_cast<int>(syscall(SYS_munmap, block, size));
}

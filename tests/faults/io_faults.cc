#include "tests/faults/io_faults.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstring>

namespace meshseal::faults {
namespace {

constinit bool armed = false;
constinit IoFault fault = IoFault::kError;
constinit FaultPoint point;
constinit uint64_t calls = 0;
constinit uint64_t failed = 0;
constinit const char* first_failed = "";
constinit bool unlink_failed = false;
constinit int descriptors = 0;

// What a call is, beside one that may fail.
enum Traits : unsigned { kPlain = 0, kWrites = 1, kInterruptible = 2, kPartial = 4 };

// Whether this call gets the fault.
bool Hit(const char* name, unsigned traits) {
  if (!armed) return false;
  if (fault == IoFault::kInterrupt && (traits & kInterruptible) == 0) return false;
  if (fault == IoFault::kShort && (traits & kPartial) == 0) return false;
  if (!point.Hits(calls++)) return false;
  ++failed;
  if (failed == 1) first_failed = name;
  errno = fault == IoFault::kInterrupt ? EINTR : (traits & kWrites) != 0 ? ENOSPC : EIO;
  return true;
}

template <class F>
F* Real(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

// A call that moves bytes: `work(size)` for all of them, or for one.
template <class Work>
ssize_t Move(const char* name, unsigned traits, size_t size, Work work) {
  if (!Hit(name, traits | kInterruptible | kPartial)) return work(size);
  return fault == IoFault::kShort ? work(size < 1 ? size : 1) : -1;
}

int Opened(int descriptor) {
  if (descriptor >= 0) ++descriptors;
  return descriptor;
}

}  // namespace

void ArmIo(IoFault kind, const FaultPoint& at) {
  fault = kind;
  point = at;
  calls = 0;
  failed = 0;
  first_failed = "";
  unlink_failed = false;
  armed = true;
}

IoCounts DisarmIo() {
  armed = false;
  return {calls, failed, first_failed, unlink_failed};
}

int OpenDescriptors() { return descriptors; }

}  // namespace meshseal::faults

#define MESHSEAL_REPLACED extern "C" __attribute__((visibility("default")))

namespace faults = meshseal::faults;

MESHSEAL_REPLACED int open(const char* path, int flags, ...) {
  static auto* const real = faults::Real<int(const char*, int, ...)>("open");
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  return faults::Hit("open", faults::kInterruptible) ? -1 : faults::Opened(real(path, flags, mode));
}

MESHSEAL_REPLACED int close(int descriptor) {
  static auto* const real = faults::Real<int(int)>("close");
  --faults::descriptors;
  const bool hit = faults::Hit("close", faults::kPlain);
  const int closed = real(descriptor);  // frees the descriptor whatever it returns
  if (!hit) return closed;
  errno = EIO;
  return -1;
}

MESHSEAL_REPLACED ssize_t read(int descriptor, void* to, size_t size) {
  static auto* const real = faults::Real<ssize_t(int, void*, size_t)>("read");
  return faults::Move("read", faults::kPlain, size, [&](size_t part) { return real(descriptor, to, part); });
}

MESHSEAL_REPLACED ssize_t pread(int descriptor, void* to, size_t size, off_t offset) {
  static auto* const real = faults::Real<ssize_t(int, void*, size_t, off_t)>("pread");
  return faults::Move("pread", faults::kPlain, size, [&](size_t part) { return real(descriptor, to, part, offset); });
}

MESHSEAL_REPLACED ssize_t write(int descriptor, const void* from, size_t size) {
  static auto* const real = faults::Real<ssize_t(int, const void*, size_t)>("write");
  return faults::Move("write", faults::kWrites, size, [&](size_t part) { return real(descriptor, from, part); });
}

// The real one is left out: it is slow, and nothing here outlives the machine.
MESHSEAL_REPLACED int fsync(int /*descriptor*/) {
  return faults::Hit("fsync", faults::kWrites | faults::kInterruptible) ? -1 : 0;
}

MESHSEAL_REPLACED int fstat(int descriptor, struct stat* info) noexcept {
  static auto* const real = faults::Real<int(int, struct stat*)>("fstat");
  return faults::Hit("fstat", faults::kPlain) ? -1 : real(descriptor, info);
}

MESHSEAL_REPLACED int lstat(const char* path, struct stat* info) noexcept {
  static auto* const real = faults::Real<int(const char*, struct stat*)>("lstat");
  return faults::Hit("lstat", faults::kPlain) ? -1 : real(path, info);
}

MESHSEAL_REPLACED int renameat2(int from, const char* old_path, int to, const char* path, unsigned flags) noexcept {
  static auto* const real = faults::Real<int(int, const char*, int, const char*, unsigned)>("renameat2");
  return faults::Hit("renameat2", faults::kWrites) ? -1 : real(from, old_path, to, path, flags);
}

MESHSEAL_REPLACED int unlink(const char* path) noexcept {
  static auto* const real = faults::Real<int(const char*)>("unlink");
  if (!faults::Hit("unlink", faults::kPlain)) return real(path);
  faults::unlink_failed = true;
  return -1;
}

MESHSEAL_REPLACED DIR* opendir(const char* path) {
  static auto* const real = faults::Real<DIR*(const char*)>("opendir");
  if (faults::Hit("opendir", faults::kPlain)) return nullptr;
  DIR* const opened = real(path);
  if (opened != nullptr) ++faults::descriptors;
  return opened;
}

MESHSEAL_REPLACED int closedir(DIR* folder) {
  static auto* const real = faults::Real<int(DIR*)>("closedir");
  --faults::descriptors;
  return real(folder);
}

MESHSEAL_REPLACED struct dirent* readdir(DIR* folder) {
  static auto* const real = faults::Real<struct dirent*(DIR*)>("readdir");
  return faults::Hit("readdir", faults::kPlain) ? nullptr : real(folder);
}

#include "tests/fake_cuda/nccl_meeting.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "tests/fake_cuda/machine.h"

namespace fake_nccl {
namespace {

// Parts and messages lie so far apart, in a file that has only the pages that were written.
constexpr uint64_t kPlaceBytes = uint64_t{1} << 32;

bool AllMoved(ssize_t moved, size_t bytes) {
  if (moved == static_cast<ssize_t>(bytes)) return true;
  fake_cuda::TheMachine().Violate(absl::StrCat("the stand-in NCCL moved ", moved, " of ", bytes, " bytes"));
  return false;
}

}  // namespace

std::unique_ptr<Meeting> Meeting::Make() {
  const int file = ::memfd_create("fake_nccl", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  if (::ftruncate(file, sizeof(MeetingBoard)) != 0) {
    ::close(file);
    return nullptr;
  }
  return Map(file);
}

std::unique_ptr<Meeting> Meeting::Of(const MeetingName& name) {
  const int file = ::open(absl::StrCat("/proc/", name.process, "/fd/", name.file).c_str(), O_RDWR | O_CLOEXEC);
  return file < 0 ? nullptr : Map(file);
}

std::unique_ptr<Meeting> Meeting::Map(int file) {
  // Zeros are the board's beginning.
  void* const board = ::mmap(nullptr, sizeof(MeetingBoard), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (board == MAP_FAILED) {
    ::close(file);
    return nullptr;
  }
  return std::unique_ptr<Meeting>(new Meeting(file, static_cast<MeetingBoard*>(board)));
}

Meeting::~Meeting() {
  ::munmap(board_, sizeof(MeetingBoard));
  ::close(file_);
}

void Meeting::Write(size_t place, const void* data, size_t bytes) const {
  static_cast<void>(AllMoved(::pwrite(file_, data, bytes, static_cast<off_t>(place * kPlaceBytes)), bytes));
}

std::vector<std::byte> Meeting::Read(size_t place, size_t bytes) const {
  std::vector<std::byte> data(bytes);
  static_cast<void>(AllMoved(::pread(file_, data.data(), bytes, static_cast<off_t>(place * kPlaceBytes)), bytes));
  return data;
}

}  // namespace fake_nccl

// Files that cannot be read or written: a program that links this has the calls that touch files replaced. They do the
// real thing, except where they are told to fail.
#ifndef MESHSEAL_TESTS_FAULTS_IO_FAULTS_H_
#define MESHSEAL_TESTS_FAULTS_IO_FAULTS_H_

#include <cstdint>
#include <string>

#include "tests/faults/fault_point.h"

namespace meshseal::faults {

enum class IoFault : uint8_t {
  kError,      // ENOSPC of what writes, EIO of everything else
  kInterrupt,  // EINTR of what a signal may break off: open, read, write, fsync
  kShort,      // one byte is read or written
};

// From here on the calls that `fault` is for are counted, and those that `point` hits get it.
void ArmIo(IoFault fault, const FaultPoint& point);

struct IoCounts {
  uint64_t calls = 0;
  uint64_t failed = 0;
  std::string first_failed;    // the call's name
  bool unlink_failed = false;  // then a part of a file may be left
};
IoCounts DisarmIo();

// Descriptors opened and not closed, since the program began.
int OpenDescriptors();

}  // namespace meshseal::faults

#endif  // MESHSEAL_TESTS_FAULTS_IO_FAULTS_H_

// How much memory this process may still take on its host: what the kernel can give to anybody, and what is left below
// the limits of the control groups that the process is in (a container's, a batch system's). The one place that reads
// it.
#ifndef MESHSEAL_RUNTIME_SESSION_HOST_MEMORY_H_
#define MESHSEAL_RUNTIME_SESSION_HOST_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace meshseal::runtime {

// A control group with a limit, which all processes below it share.
struct MemoryLimit {
  std::string group;   // its path, as /proc/self/cgroup has it
  uint64_t id = 0;     // the same for all who see the group, by whatever path
  uint64_t bytes = 0;  // the limit
  uint64_t left = 0;   // of it, with what the kernel would take back first (cached files that nobody reads)
};

// Bytes.
struct HostMemory {
  uint64_t total = 0;
  uint64_t available = 0;  // to all processes of the host, without swapping
  // Below `total`, and the one that leaves the least, of the group itself and all above it; nothing: none limits.
  std::optional<MemoryLimit> limit;
};

// `root` stands in front of /proc and /sys. Control groups of version 2 (memory.max) and 1 (memory.limit_in_bytes),
// whose trees are in their usual places. Reason kUsage, with the file, where the kernel does not tell or tells what
// cannot be read.
absl::StatusOr<HostMemory> ReadHostMemory(const std::string& root = "");

// The start, of 8 KiB, of a file that the kernel makes when it is read; nothing where there is no such file. Reason
// kUsage.
absl::StatusOr<std::optional<std::string>> ReadKernelText(const std::string& path);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_HOST_MEMORY_H_

#include "runtime/session/host_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schema/checked_math.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/uninterrupted.h"

namespace meshseal::runtime {
namespace {

// Paths are texts here: joining those of std::filesystem breaks where memory is short.
absl::Status Failed(const std::string& file, absl::string_view text) {
  return Refuse(Reason::kUsage, absl::StrCat(file, ": ", text));
}

// Where a version of control groups has what.
struct GroupFiles {
  const char* tree;
  const char* limit;
  const char* usage;
  const char* unread;  // the line of memory.stat
};
constexpr GroupFiles kVersion2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
constexpr GroupFiles kVersion1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file"};

// The number of a line "NAME: number kB" of /proc/meminfo, in bytes.
absl::StatusOr<uint64_t> MeminfoBytes(const std::string& file, absl::string_view meminfo, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    if (!absl::ConsumePrefix(&line, name) || !absl::ConsumePrefix(&line, ":")) continue;
    uint64_t kibibytes = 0;
    std::optional<uint64_t> bytes;
    if (absl::ConsumeSuffix(&line, " kB") && absl::SimpleAtoi(absl::StripAsciiWhitespace(line), &kibibytes)) {
      bytes = CheckedMul(kibibytes, 1024);
    }
    if (bytes.has_value()) return *bytes;
    return Failed(file, absl::StrCat("the line ", name, " has no number of kB"));
  }
  return Failed(file, absl::StrCat("no line ", name));
}

absl::StatusOr<uint64_t> NumberIn(const std::string& file, absl::string_view text) {
  uint64_t number = 0;
  if (absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &number)) return number;
  return Failed(file, absl::StrCat("expected a number of bytes, found '", absl::StripAsciiWhitespace(text), "'"));
}

absl::StatusOr<std::string> RequiredText(const std::string& file) {
  MESHSEAL_ASSIGN_OR_RETURN(std::optional<std::string> text, ReadKernelText(file));
  if (!text.has_value()) return Failed(file, "is missing");
  return *std::move(text);
}

// The bytes of a line "NAME number" of memory.stat.
absl::StatusOr<uint64_t> StatBytes(const std::string& file, absl::string_view name) {
  MESHSEAL_ASSIGN_OR_RETURN(const std::string stat, RequiredText(file));
  for (absl::string_view line : absl::StrSplit(stat, '\n')) {
    if (absl::ConsumePrefix(&line, name) && absl::ConsumePrefix(&line, " ")) return NumberIn(file, line);
  }
  return Failed(file, absl::StrCat("no line ", name));
}

// The limit of the group in `folder`, if it has one below `total`: version 1 writes a number of 63 bits for none.
absl::StatusOr<std::optional<MemoryLimit>> LimitIn(const std::string& folder, const std::string& group,
                                                   const GroupFiles& files, uint64_t total) {
  const std::string limit_file = absl::StrCat(folder, "/", files.limit);
  MESHSEAL_ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadKernelText(limit_file));
  if (!text.has_value() || absl::StripAsciiWhitespace(*text) == "max") return std::optional<MemoryLimit>();
  MemoryLimit limit;
  limit.group = group;
  MESHSEAL_ASSIGN_OR_RETURN(limit.bytes, NumberIn(limit_file, *text));
  if (limit.bytes >= total) return std::optional<MemoryLimit>();
  const std::string usage_file = absl::StrCat(folder, "/", files.usage);
  MESHSEAL_ASSIGN_OR_RETURN(const std::string usage_text, RequiredText(usage_file));
  MESHSEAL_ASSIGN_OR_RETURN(const uint64_t usage, NumberIn(usage_file, usage_text));
  MESHSEAL_ASSIGN_OR_RETURN(const uint64_t unread, StatBytes(absl::StrCat(folder, "/memory.stat"), files.unread));
  const uint64_t taken = usage - std::min(usage, unread);
  limit.left = limit.bytes - std::min(limit.bytes, taken);
  struct stat info = {};
  if (::stat(folder.c_str(), &info) != 0) return Failed(folder, std::generic_category().message(errno));
  limit.id = info.st_ino;  // of a tree that all containers of a host see parts of
  return std::optional<MemoryLimit>(std::move(limit));
}

// Of the groups from `group` up to the root of the tree, the limit that leaves the least. In a container the tree may
// begin below the root that the path is counted from: then the path leads nowhere, and the tree's own root is the
// group.
absl::StatusOr<std::optional<MemoryLimit>> TightestLimit(const std::string& root, std::string group,
                                                         const GroupFiles& files, uint64_t total) {
  std::optional<MemoryLimit> tightest;
  if (absl::StrContains(group, "/..")) group = "/";  // outside of what this process sees
  while (true) {
    const std::string folder = absl::StrCat(root, files.tree, group == "/" ? "" : group);
    MESHSEAL_ASSIGN_OR_RETURN(std::optional<MemoryLimit> limit, LimitIn(folder, group, files, total));
    if (limit.has_value() && (!tightest.has_value() || limit->left < tightest->left)) tightest = std::move(limit);
    if (group == "/") return tightest;
    group.resize(std::max<size_t>(1, group.rfind('/')));
  }
}

}  // namespace

absl::StatusOr<HostMemory> ReadHostMemory(const std::string& root) {
  HostMemory memory;
  const std::string meminfo_file = absl::StrCat(root, "/proc/meminfo");
  MESHSEAL_ASSIGN_OR_RETURN(const std::string meminfo, RequiredText(meminfo_file));
  MESHSEAL_ASSIGN_OR_RETURN(memory.total, MeminfoBytes(meminfo_file, meminfo, "MemTotal"));
  MESHSEAL_ASSIGN_OR_RETURN(memory.available, MeminfoBytes(meminfo_file, meminfo, "MemAvailable"));
  const std::string groups_file = absl::StrCat(root, "/proc/self/cgroup");
  MESHSEAL_ASSIGN_OR_RETURN(const std::optional<std::string> groups, ReadKernelText(groups_file));
  if (!groups.has_value()) return memory;  // a kernel without control groups
  for (const absl::string_view line : absl::StrSplit(*groups, '\n', absl::SkipEmpty())) {
    // "4:cpu,memory:/a/b" of version 1, "0::/a/b" of version 2.
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || !absl::StartsWith(parts[2], "/")) {
      return Failed(groups_file, absl::StrCat("expected NUMBER:CONTROLLERS:/PATH, found '", line, "'"));
    }
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    const bool has_memory = std::find(controllers.begin(), controllers.end(), "memory") != controllers.end();
    if (!has_memory && !parts[1].empty()) continue;
    MESHSEAL_ASSIGN_OR_RETURN(
        std::optional<MemoryLimit> limit,
        TightestLimit(root, std::string(parts[2]), has_memory ? kVersion1 : kVersion2, memory.total));
    if (limit.has_value() && (!memory.limit.has_value() || limit->left < memory.limit->left)) {
      memory.limit = std::move(limit);
    }
  }
  return memory;
}

absl::StatusOr<std::optional<std::string>> ReadKernelText(const std::string& file) {
  const auto failed = [&file](int error) { return Failed(file, std::generic_category().message(error)); };
  const int descriptor = Uninterrupted([&] { return ::open(file.c_str(), O_RDONLY | O_CLOEXEC); });
  if (descriptor < 0 && (errno == ENOENT || errno == ENOTDIR)) return std::optional<std::string>();
  if (descriptor < 0) return failed(errno);
  const absl::Cleanup closer = [descriptor] { ::close(descriptor); };
  std::string text(8192, '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = Uninterrupted([&] { return ::read(descriptor, text.data() + done, text.size() - done); });
    if (got < 0) return failed(errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return std::optional<std::string>(std::move(text));
}

}  // namespace meshseal::runtime

// What a process may take of its host's memory, read off planted /proc and /sys.
#include "runtime/session/host_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "schema/reason.h"
#include "tests/support/checkpoint_writer.h"

namespace meshseal::runtime {
namespace {

constexpr const char* kMeminfo = "MemTotal:       1000 kB\nMemFree:          10 kB\nMemAvailable:    600 kB\n";
constexpr uint64_t kKiB = 1024;

using Files = std::map<std::string, std::string>;  // text by name

// A root with these files.
class Root {
 public:
  explicit Root(const Files& files) {
    Plant("proc/meminfo", kMeminfo);
    for (const auto& [name, text] : files) Plant(name, text);
  }
  void Plant(const std::string& name, const std::string& text) {
    const std::filesystem::path file = folder_.path() / name;
    std::filesystem::create_directories(file.parent_path());
    support::WriteFile(file, text);
  }
  void Remove(const std::string& name) { std::filesystem::remove(folder_.path() / name); }
  absl::StatusOr<HostMemory> Read() const { return ReadHostMemory(folder_.path().string()); }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

 private:
  const support::TempFolder folder_;
};

// A group of version 2 that has `usage` bytes in use, of which the kernel could take `unread` back.
void PlantGroup(Root& root, const std::string& folder, const std::string& max, uint64_t usage, uint64_t unread) {
  root.Plant(folder + "memory.max", max + "\n");
  root.Plant(folder + "memory.current", absl::StrCat(usage, "\n"));
  root.Plant(folder + "memory.stat", absl::StrCat("anon 5\nfile 9\ninactive_anon 4\ninactive_file ", unread, "\n"));
}

TEST(HostMemoryTest, WithoutControlGroupsItIsTheKernelsLine) {
  const Root root(Files{});
  const absl::StatusOr<HostMemory> memory = root.Read();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->total, 1000 * kKiB);
  EXPECT_EQ(memory->available, 600 * kKiB);
  EXPECT_FALSE(memory->limit.has_value());
}

TEST(HostMemoryTest, TheTightestLimitOnTheWayUpCounts) {
  Root root(Files{{"proc/self/cgroup", "0::/pod/box\n"}});
  PlantGroup(root, "sys/fs/cgroup/pod/box/", "max", 50, 0);
  PlantGroup(root, "sys/fs/cgroup/pod/", absl::StrCat(300 * kKiB), 100 * kKiB, 40 * kKiB);
  absl::StatusOr<HostMemory> memory = root.Read();
  ASSERT_TRUE(memory.ok()) << memory.status();
  ASSERT_TRUE(memory->limit.has_value());
  EXPECT_EQ(memory->limit->group, "/pod");
  EXPECT_EQ(memory->limit->bytes, 300 * kKiB);
  EXPECT_EQ(memory->limit->left, 240 * kKiB);
  EXPECT_EQ(memory->available, 600 * kKiB);
  const uint64_t pod = memory->limit->id;
  EXPECT_NE(pod, 0u);

  PlantGroup(root, "sys/fs/cgroup/pod/box/", absl::StrCat(200 * kKiB), 190 * kKiB, 0);
  memory = root.Read();
  ASSERT_TRUE(memory.ok() && memory->limit.has_value()) << memory.status();
  EXPECT_EQ(memory->limit->group, "/pod/box");
  EXPECT_EQ(memory->limit->left, 10 * kKiB);
  EXPECT_NE(memory->limit->id, pod);

  // More in use than the limit, which it was above: nothing is left.
  PlantGroup(root, "sys/fs/cgroup/pod/box/", absl::StrCat(200 * kKiB), 900 * kKiB, 1);
  memory = root.Read();
  ASSERT_TRUE(memory.ok() && memory->limit.has_value()) << memory.status();
  EXPECT_EQ(memory->limit->left, 0u);

  // As much as the host has limits nothing.
  PlantGroup(root, "sys/fs/cgroup/pod/box/", absl::StrCat(1000 * kKiB), 990 * kKiB, 0);
  memory = root.Read();
  ASSERT_TRUE(memory.ok() && memory->limit.has_value()) << memory.status();
  EXPECT_EQ(memory->limit->group, "/pod");
}

// A container sees its own group as the root: the path is "/", leads nowhere, or out of what is seen.
TEST(HostMemoryTest, TheRootOfTheTreeIsAContainersOwnGroup) {
  for (const char* path : {"/", "/docker/0123", "/../../other"}) {
    Root root(Files{{"proc/self/cgroup", absl::StrCat("0::", path, "\n")}});
    PlantGroup(root, "sys/fs/cgroup/", absl::StrCat(64 * kKiB), 4 * kKiB, 0);
    const absl::StatusOr<HostMemory> memory = root.Read();
    ASSERT_TRUE(memory.ok() && memory->limit.has_value()) << path << ": " << memory.status();
    EXPECT_EQ(memory->limit->group, "/");
    EXPECT_EQ(memory->limit->left, 60 * kKiB);
  }
}

TEST(HostMemoryTest, Version1HasItsOwnTreeAndNames) {
  Root root(Files{{"proc/self/cgroup", "11:cpuset:/a\n4:cpu,memory:/a/b\n1:name=systemd:/a\n0::/\n"},
                  {"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"},
                  {"sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "8192\n"},
                  {"sys/fs/cgroup/memory/a/b/memory.stat", "cache 1\ntotal_inactive_file 0\n"},
                  {"sys/fs/cgroup/memory/a/memory.limit_in_bytes", "102400\n"},
                  {"sys/fs/cgroup/memory/a/memory.usage_in_bytes", "8192\n"},
                  {"sys/fs/cgroup/memory/a/memory.stat", "inactive_file 7\ntotal_inactive_file 4096\n"}});
  absl::StatusOr<HostMemory> memory = root.Read();
  ASSERT_TRUE(memory.ok() && memory->limit.has_value()) << memory.status();
  EXPECT_EQ(memory->limit->group, "/a");
  EXPECT_EQ(memory->limit->bytes, 102400u);
  EXPECT_EQ(memory->limit->left, 102400u - 4096u);
  root.Remove("sys/fs/cgroup/memory/a/memory.limit_in_bytes");
  memory = root.Read();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_FALSE(memory->limit.has_value());  // the number of 63 bits is none
}

TEST(HostMemoryTest, WhatCannotBeReadIsRefusedWithItsFile) {
  const auto refused = [](Root& root, const std::string& file, const std::string& text) {
    const absl::Status status = root.Read().status();
    EXPECT_EQ(status.message(), absl::StrCat(root.path(file), ": ", text));
    EXPECT_EQ(ReasonOf(status), Reason::kUsage);
  };
  for (const char* line :
       {"MemAvailable:    42\n", "MemAvailable:    -42 kB\n", "MemAvailable: 18446744073709551615 kB\n"}) {
    Root root(Files{{"proc/meminfo", absl::StrCat("MemTotal:       100 kB\n", line)}});
    refused(root, "proc/meminfo", "the line MemAvailable has no number of kB");
  }
  Root none(Files{{"proc/meminfo", "MemTotal:       100 kB\n"}});
  refused(none, "proc/meminfo", "no line MemAvailable");
  none.Remove("proc/meminfo");
  refused(none, "proc/meminfo", "is missing");

  Root root(Files{{"proc/self/cgroup", "0:/\n"}});
  refused(root, "proc/self/cgroup", "expected NUMBER:CONTROLLERS:/PATH, found '0:/'");
  root.Plant("proc/self/cgroup", "0::/box\n");
  PlantGroup(root, "sys/fs/cgroup/box/", "a lot", 5, 0);
  refused(root, "sys/fs/cgroup/box/memory.max", "expected a number of bytes, found 'a lot'");
  PlantGroup(root, "sys/fs/cgroup/box/", "4096", 5, 0);
  root.Remove("sys/fs/cgroup/box/memory.current");
  refused(root, "sys/fs/cgroup/box/memory.current", "is missing");
  root.Plant("sys/fs/cgroup/box/memory.current", "5\n");
  root.Plant("sys/fs/cgroup/box/memory.stat", "anon 1\n");
  refused(root, "sys/fs/cgroup/box/memory.stat", "no line inactive_file");
}

TEST(HostMemoryTest, ThisMachineTells) {
  const absl::StatusOr<HostMemory> memory = ReadHostMemory();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_GT(memory->available, uint64_t{1} << 20);
  EXPECT_GT(memory->total, memory->available);
}

}  // namespace
}  // namespace meshseal::runtime

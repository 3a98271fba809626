#include "runtime/session/job_key.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "schema/hmac_sha256.h"
#include "schema/reason.h"
#include "tests/support/checkpoint_writer.h"

namespace meshseal::runtime {
namespace {

class JobKeyTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes, mode_t mode) {
    const std::string path = (folder_.path() / name).string();
    std::ofstream(path, std::ios::binary) << bytes;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }

  static void ExpectRefused(const std::string& path, const std::string& text) {
    const absl::Status status = JobKey::Read(path).status();
    EXPECT_EQ(status.message(), text);
    EXPECT_EQ(ReasonOf(status), Reason::kUsage);
  }

  support::TempFolder folder_;
};

TEST_F(JobKeyTest, AllBytesOfTheFileAreTheKey) {
  const std::string bytes = std::string(31, 'k') + '\n';
  for (const mode_t mode : {0600u, 0400u}) {
    const absl::StatusOr<JobKey> key = JobKey::Read(Write("key", bytes, mode));
    ASSERT_TRUE(key.ok()) << key.status();
    const Sha256Digest records = Sha256("records");
    std::string message = "meshseal preflight 1";
    message += std::string("\x01\x02\x00\x00", 4);
    message.append(records.begin(), records.end());
    EXPECT_EQ(key->Proof(0x201, records), HmacSha256(bytes, message));
    EXPECT_EQ(JobKey::Of(bytes)->Proof(0x201, records), key->Proof(0x201, records));
    EXPECT_NE(key->Proof(0x202, records), key->Proof(0x201, records));
    EXPECT_NE(key->Proof(0x201, Sha256("other records")), key->Proof(0x201, records));
    std::filesystem::remove(folder_.path() / "key");
  }
}

TEST_F(JobKeyTest, TooFewOrTooManyBytesAreRefused) {
  const std::string expected = " bytes, expected 32 to 4096, such as of 'head -c 32 /dev/urandom'";
  EXPECT_TRUE(JobKey::Read(Write("least", std::string(32, 'k'), 0600)).ok());
  EXPECT_TRUE(JobKey::Read(Write("most", std::string(4096, 'k'), 0600)).ok());
  const std::string few = Write("few", std::string(31, 'k'), 0600);
  ExpectRefused(few, absl::StrCat("job key ", few, ": 31", expected));
  const std::string many = Write("many", std::string(4097, 'k'), 0600);
  ExpectRefused(many, absl::StrCat("job key ", many, ": 4097", expected));
  const std::string empty = Write("empty", "", 0600);
  ExpectRefused(empty, absl::StrCat("job key ", empty, ": 0", expected));
  EXPECT_EQ(JobKey::Of(std::string(31, 'k')).status().message(), absl::StrCat("job key: 31", expected));
}

TEST_F(JobKeyTest, AFileThatOthersMayUseIsRefused) {
  for (const mode_t mode : {0640u, 0620u, 0610u, 0604u, 0602u, 0601u}) {
    const std::string path = Write("key", std::string(32, 'k'), mode);
    ExpectRefused(path, absl::StrCat("job key ", path, ": others than its owner may use it; run: chmod 600 ", path));
  }
}

TEST_F(JobKeyTest, OnlyARegularFileIsRead) {
  const std::string missing = (folder_.path() / "missing").string();
  ExpectRefused(missing, absl::StrCat("job key ", missing, ": No such file or directory"));
  ExpectRefused(folder_.path().string(), absl::StrCat("job key ", folder_.path().string(), ": not a regular file"));
  const std::string fifo = (folder_.path() / "fifo").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  ExpectRefused(fifo, absl::StrCat("job key ", fifo, ": not a regular file"));
  const std::string link = (folder_.path() / "link").string();
  std::filesystem::create_symlink(Write("key", std::string(32, 'k'), 0600), link);
  ExpectRefused(link, absl::StrCat("job key ", link, ": is a symbolic link, expected a regular file"));
}

}  // namespace
}  // namespace meshseal::runtime

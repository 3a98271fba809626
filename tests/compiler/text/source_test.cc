#include "compiler/text/source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "schema/reason.h"

namespace meshseal::compiler {
namespace {

using File = std::unique_ptr<const SourceFile>;

File FromText(std::string text, std::string path = "dir/in.yaml") {
  return SourceFile::FromText(std::move(path), std::move(text)).value();
}

// A file of this test that is gone when the test ends.
class ScratchFile {
 public:
  ScratchFile() {
    const int file = mkstemp(path_.data());
    EXPECT_GE(file, 0);
    close(file);
  }
  ~ScratchFile() { unlink(path_.c_str()); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::string& path() const { return path_; }
  void Write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }

 private:
  std::string path_ = testing::TempDir() + "meshseal-source-XXXXXX";
};

std::string Refusal(const absl::StatusOr<File>& file) {
  EXPECT_FALSE(file.ok());
  EXPECT_EQ(ReasonOf(file.status()), Reason::kUsage);
  EXPECT_EQ(ExitCodeOf(file.status()), 2);
  return std::string(file.status().message());
}

TEST(SourceFile, Names) {
  EXPECT_EQ(FromText("", "a/b/c.yaml")->path(), "a/b/c.yaml");
  EXPECT_EQ(FromText("", "a/b/c.yaml")->base_name(), "c.yaml");
  EXPECT_EQ(FromText("", "c.yaml")->base_name(), "c.yaml");
}

TEST(SourceFile, LinesComeWithoutTheirEnds) {
  const File file = FromText("one\ntwo\r\n\n\rfour");
  EXPECT_EQ(file->line_count(), 4u);
  EXPECT_EQ(file->Line(1), "one");
  EXPECT_EQ(file->Line(2), "two");
  EXPECT_EQ(file->Line(3), "");
  EXPECT_EQ(file->Line(4), "\rfour");
  EXPECT_EQ(file->Line(0), "");
  EXPECT_EQ(file->Line(5), "");
  EXPECT_EQ(FromText("one\r\n")->Line(2), "");
  EXPECT_EQ(FromText("\r\n")->Line(1), "");
  EXPECT_EQ(FromText("")->line_count(), 1u);
}

TEST(SourceFile, PlacesCountBytesFromOne) {
  const File file = FromText("ab\n\xc3\xa9x\n");
  const SourceFile* in = file.get();
  EXPECT_EQ(file->At(0, 2), (Span{in, 1, 1, 2}));
  EXPECT_EQ(file->At(2, 0), (Span{in, 1, 3, 0}));
  EXPECT_EQ(file->At(3, 2), (Span{in, 2, 1, 2}));
  EXPECT_EQ(file->At(5, 1), (Span{in, 2, 3, 1}));
  EXPECT_EQ(file->At(7, 1), (Span{in, 3, 1, 0}));
  EXPECT_EQ(file->At(99, 9), (Span{in, 3, 1, 0}));
}

TEST(SourceFile, AtMostSixteenMebibytes) {
  EXPECT_TRUE(SourceFile::FromText("in.yaml", std::string(kMaxSourceBytes, ' ')).ok());
  EXPECT_EQ(Refusal(SourceFile::FromText("in.yaml", std::string(kMaxSourceBytes + 1, ' '))),
            "in.yaml: larger than 16777216 bytes, the most that is read");
}

TEST(SourceFile, ReadsARegularFile) {
  const ScratchFile scratch;
  const std::string text("a: 1\r\n\0\xff", 8);
  scratch.Write(text);
  const auto file = SourceFile::Read(scratch.path());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->text(), text);
  EXPECT_EQ((*file)->path(), scratch.path());
  scratch.Write("");
  EXPECT_EQ(SourceFile::Read(scratch.path()).value()->text(), "");
}

TEST(SourceFile, RefusesWhatCannotBeRead) {
  const ScratchFile scratch;
  scratch.Write(std::string(kMaxSourceBytes + 1, ' '));
  EXPECT_EQ(Refusal(SourceFile::Read(scratch.path())),
            scratch.path() + ": larger than 16777216 bytes, the most that is read");
  EXPECT_EQ(Refusal(SourceFile::Read("no/such.yaml")), "no/such.yaml: cannot be opened: No such file or directory");
  EXPECT_EQ(Refusal(SourceFile::Read("")), ": cannot be opened: No such file or directory");
  EXPECT_EQ(Refusal(SourceFile::Read("/")), "/: is not a regular file");
  EXPECT_EQ(Refusal(SourceFile::Read("/dev/null")), "/dev/null: is not a regular file");
  EXPECT_EQ(Refusal(SourceFile::Read(std::string("/dev/null\0x", 11))),
            std::string("/dev/null\0x: cannot be opened: Invalid argument", 47));
}

// Nobody writes to the pipe: opening it must not wait.
TEST(SourceFile, RefusesAPipeAtOnce) {
  const ScratchFile scratch;
  const std::string pipe = scratch.path() + ".pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(Refusal(SourceFile::Read(pipe)), pipe + ": is not a regular file");
  unlink(pipe.c_str());
}

// Such files say that they have 0 bytes.
TEST(SourceFile, ReadsWhatIsThereNotWhatIsPromised) {
  const auto file = SourceFile::Read("/proc/self/status");
  ASSERT_TRUE(file.ok());
  EXPECT_GT((*file)->text().size(), 0u);
}

}  // namespace
}  // namespace meshseal::compiler

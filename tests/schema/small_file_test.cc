// Small files are read whole or refused, and nothing but a regular file is opened.
#include "schema/small_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "schema/sealed_plan.h"
#include "tests/support/checkpoint_writer.h"

namespace meshseal {
namespace {

TEST(SmallFile, IsReadWholeOrRefused) {
  const support::TempFolder folder;
  const std::filesystem::path path = folder.path() / "file";
  const auto refusal = [](const std::filesystem::path& from, Reason reason) {
    const absl::Status status = ReadSmallFile(from, "a thing", 5, Reason::kKeyFormat).status();
    EXPECT_EQ(ReasonOf(status), reason) << status;
    return std::string(status.message());
  };
  support::WriteFile(path, std::string("a\0b\n", 4));
  EXPECT_EQ(*ReadSmallFile(path, "a thing", 5, Reason::kKeyFormat), std::string("a\0b\n", 4));
  EXPECT_EQ(*ReadSmallFile(path, "a thing", 4, Reason::kKeyFormat), std::string("a\0b\n", 4));
  support::WriteFile(path, "");
  EXPECT_EQ(*ReadSmallFile(path, "a thing", 0, Reason::kKeyFormat), "");
  support::WriteFile(path, "longer");
  EXPECT_EQ(refusal(path, Reason::kKeyFormat), absl::StrCat(path.string(), ": 6 bytes, a thing has at most 5"));

  const std::filesystem::path link = folder.path() / "link";
  std::filesystem::create_symlink(path, link);
  EXPECT_EQ(refusal(link, Reason::kUsage),
            absl::StrCat(link.string(), ": is a symbolic link, expected a regular file"));
  EXPECT_EQ(refusal(folder.path(), Reason::kUsage), absl::StrCat(folder.path().string(), ": not a regular file"));
  const std::filesystem::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refusal(pipe, Reason::kUsage), absl::StrCat(pipe.string(), ": not a regular file"));
  const std::filesystem::path absent = folder.path() / "absent";
  EXPECT_EQ(refusal(absent, Reason::kUsage), absl::StrCat(absent.string(), ": No such file or directory"));
}

TEST(SmallFile, ASignatureLiesBesideItsPlanOrNot) {
  const support::TempFolder folder;
  const std::filesystem::path plan = folder.path() / "p.mseal";
  EXPECT_EQ(SignaturePathOf(plan), folder.path() / "p.mseal.minisig");
  EXPECT_EQ(*ReadSignatureFile(plan), std::nullopt);
  support::WriteFile(SignaturePathOf(plan), "any text");
  EXPECT_EQ(*ReadSignatureFile(plan), "any text");
  support::WriteFile(SignaturePathOf(plan), std::string(100'000, 'x'));
  EXPECT_EQ(ReasonOf(ReadSignatureFile(plan).status()), Reason::kSignatureFormat);
  std::filesystem::remove(SignaturePathOf(plan));
  std::filesystem::create_directory(SignaturePathOf(plan));
  EXPECT_EQ(ReasonOf(ReadSignatureFile(plan).status()), Reason::kUsage);
}

}  // namespace
}  // namespace meshseal

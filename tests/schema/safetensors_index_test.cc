#include "schema/safetensors_index.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schema/reason.h"
#include "schema/safetensors.h"
#include "tests/support/checkpoint_writer.h"

namespace meshseal {
namespace {

// "reason-slug | text", or "accepted".
std::string VerdictOf(const absl::Status& status) {
  if (status.ok()) return "accepted";
  const std::optional<Reason> reason = ReasonOf(status);
  return absl::StrCat(reason.has_value() ? RowOf(*reason).slug : "no reason", " | ", status.message());
}

std::string Verdict(absl::string_view json) { return VerdictOf(ParseSafetensorsIndex("i", json).status()); }

std::string MapVerdict(absl::string_view entries) { return Verdict(absl::StrCat(R"({"weight_map":{)", entries, "}}")); }

std::string FileVerdict(absl::string_view file) { return MapVerdict(absl::StrCat(R"("t":")", file, "\"")); }

TEST(SafetensorsIndexTest, ReadsTheMapSorted) {
  const auto index = ParseSafetensorsIndex(
      "i",
      "{\n \"metadata\": {\"total_size\": 1.5e3, \"deep\": [{\"a\": null, \"b\": true}, -1, \"x\"]},\n"
      " \"weight_map\": {\"c\": \"2.safetensors\", \"a\": \"2.safetensors\", \"b\": \"1.safetensors\"}\n}\n");
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->files, (std::vector<std::string>{"1.safetensors", "2.safetensors"}));
  ASSERT_EQ(index->entries.size(), 3u);
  EXPECT_EQ(index->entries[0].name, "a");
  EXPECT_EQ(index->entries[0].file, 1u);
  EXPECT_EQ(index->entries[1].name, "b");
  EXPECT_EQ(index->entries[1].file, 0u);
  EXPECT_EQ(index->entries[2].name, "c");
  EXPECT_EQ(index->entries[2].file, 1u);
}

TEST(SafetensorsIndexTest, RefusesOtherDocuments) {
  EXPECT_EQ(Verdict(""), "weights.header | i: the index is empty, expected '{'");
  EXPECT_EQ(Verdict("[]"), "weights.header | i: the index begins with byte 0x5b, expected '{'");
  EXPECT_EQ(Verdict("\xEF\xBB\xBF{}"), "weights.header | i: the index begins with byte 0xef, expected '{'");
  EXPECT_EQ(Verdict("{}"), "weights.header | i: 'weight_map' is missing");
  EXPECT_EQ(Verdict(R"({"weight_map":{}})"), "weights.header | i: weight_map: is empty, expected tensors");
  EXPECT_EQ(Verdict(R"({"weight_map":[]})"),
            "weights.header | i: weight_map: found an array, expected an object (near byte 15)");
  EXPECT_EQ(Verdict(R"({"metadata":null})"),
            "weights.header | i: metadata: found null, expected an object (near byte 16)");
  EXPECT_EQ(Verdict(R"({"weights":{}})"),
            "weights.header | i: unknown key 'weights', expected 'metadata' and 'weight_map' (near byte 10)");
  EXPECT_EQ(
      Verdict("{\"weight_map\":{\"t\":\"f\"},}"),
      "weights.header | i: the index is not strict UTF-8 JSON after '\"weight_map\":{\"t\":\"f\"},}' (near byte 25)");
  EXPECT_EQ(
      Verdict(R"({"weight_map":{"t":"f"}}{})"),
      "weights.header | i: the index is not strict UTF-8 JSON after '\"weight_map\":{\"t\":\"f\"}}{' (near byte 25)");
  EXPECT_EQ(Verdict(absl::string_view("{\"weight_map\":{\"t\":\"f\"}}\0", 25)),
            "weights.header | i: the index holds a NUL at byte 24");
  EXPECT_EQ(Verdict(absl::StrCat(R"({"metadata":{"a":)", std::string(100'000, '['), "}}")),
            "weights.header | i: metadata: is nested deeper than 8 levels, the most read here (near byte 24)");
}

TEST(SafetensorsIndexTest, RefusesDuplicateKeysAtEveryLevel) {
  EXPECT_EQ(MapVerdict(R"("t":"a","t":"a")"), "weights.header | i: weight_map: tensor 't': occurs more than once");
  EXPECT_EQ(MapVerdict(R"("t":"a","\u0074":"b")"), "weights.header | i: weight_map: tensor 't': occurs more than once");
  EXPECT_EQ(Verdict(R"({"weight_map":{"t":"f"},"weight_map":{"u":"f"}})"),
            "weights.header | i: weight_map: occurs more than once (near byte 36)");
  EXPECT_EQ(Verdict(R"({"metadata":{},"metadata":{}})"),
            "weights.header | i: metadata: occurs more than once (near byte 25)");
  EXPECT_EQ(Verdict(R"({"metadata":{"a":1,"b":1,"a":1},"weight_map":{"t":"f"}})"),
            "weights.header | i: metadata: key 'a' occurs more than once (near byte 31)");
  EXPECT_EQ(Verdict(R"({"metadata":{"a":[{"b":1,"b":2}]},"weight_map":{"t":"f"}})"),
            "weights.header | i: metadata: key 'b' occurs more than once (near byte 31)");
}

TEST(SafetensorsIndexTest, FilesAreSinglePathComponents) {
  EXPECT_EQ(FileVerdict("any name.bin"), "accepted");
  EXPECT_EQ(FileVerdict("..a"), "accepted");
  const auto refused = [](absl::string_view shown, absl::string_view why, int byte) {
    return absl::StrCat("weights.header | i: tensor 't': is mapped to '", shown, "', which ", why,
                        ", expected the name of a file beside the index (near byte ", byte, ")");
  };
  EXPECT_EQ(FileVerdict("../x.safetensors"), refused("../x.safetensors", R"(holds '/', '\', ':' or a NUL)", 37));
  EXPECT_EQ(FileVerdict("/abs.safetensors"), refused("/abs.safetensors", R"(holds '/', '\', ':' or a NUL)", 37));
  EXPECT_EQ(FileVerdict("a/b.safetensors"), refused("a/b.safetensors", R"(holds '/', '\', ':' or a NUL)", 36));
  EXPECT_EQ(FileVerdict(R"(a\\b)"), refused(R"(a\\b)", R"(holds '/', '\', ':' or a NUL)", 25));
  EXPECT_EQ(FileVerdict("C:x"), refused("C:x", R"(holds '/', '\', ':' or a NUL)", 24));
  EXPECT_EQ(FileVerdict(R"(x\u0000y)"), refused(R"(x\000y)", R"(holds '/', '\', ':' or a NUL)", 29));
  EXPECT_EQ(FileVerdict(".."), refused("..", "is a folder", 23));
  EXPECT_EQ(FileVerdict("."), refused(".", "is a folder", 22));
  EXPECT_EQ(FileVerdict(""), refused("", "is empty", 21));
}

TEST(SafetensorsIndexTest, EntriesAreNamesAndFiles) {
  const auto mapped_to = [](absl::string_view found, int byte) {
    return absl::StrCat("weights.header | i: tensor 't': is mapped to ", found,
                        ", expected the name of a file (near byte ", byte, ")");
  };
  EXPECT_EQ(MapVerdict(R"("t":1)"), mapped_to("the number 1", 21));
  EXPECT_EQ(MapVerdict(R"("t":null)"), mapped_to("null", 23));
  EXPECT_EQ(MapVerdict(R"("t":["f"])"), mapped_to("an array", 20));
  EXPECT_EQ(MapVerdict(R"("t":{"f":1})"), mapped_to("an object", 20));
  EXPECT_EQ(MapVerdict(R"("":"f")"), "weights.header | i: tensor '': the name is empty (near byte 17)");
  EXPECT_EQ(MapVerdict(R"("a\u0000":"f")"), "weights.header | i: tensor 'a\\000': the name holds a NUL (near byte 24)");
}

TEST(SafetensorsIndexTest, FilesAndTensorsAreCapped) {
  std::string files;
  for (uint64_t i = 0; i <= kMaxShards; ++i) absl::StrAppend(&files, i == 0 ? "" : ",", "\"t", i, "\":\"", i, "\"");
  EXPECT_EQ(MapVerdict(files),
            "weights.header | i: tensor 't4096': one more than 4096 files, the most read here (near byte 59249)");
  std::string tensors;
  for (uint64_t i = 0; i <= kSafetensorsMaxTensors; ++i) {
    absl::StrAppend(&tensors, i == 0 ? "" : ",", "\"", i, "\":\"f\"");
  }
  EXPECT_EQ(
      MapVerdict(tensors),
      "weights.header | i: tensor '500000': one more than 500000 tensors, the most read here (near byte 6388913)");
}

TEST(SafetensorsIndexTest, ReadsAFile) {
  const support::TempFolder folder;
  const std::filesystem::path path = folder.path() / "i.json";
  support::WriteFile(path, R"({"weight_map":{"t":"f"}})");
  const auto index = ReadSafetensorsIndex(path);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->files, (std::vector<std::string>{"f"}));
  support::WriteFile(path, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
  EXPECT_EQ(VerdictOf(ReadSafetensorsIndex(path).status()),
            absl::StrCat("weights.lfs-pointer | ", path.string(),
                         ": is a Git LFS pointer, not the file (run 'git lfs pull')"));
  support::WriteFile(path, "");
  std::filesystem::resize_file(path, kSafetensorsMaxIndexBytes + 1);
  EXPECT_EQ(VerdictOf(ReadSafetensorsIndex(path).status()),
            absl::StrCat("weights.header | ", path.string(),
                         ": the index has 100000001 bytes, more than the 100000000 read here"));
}

}  // namespace
}  // namespace meshseal

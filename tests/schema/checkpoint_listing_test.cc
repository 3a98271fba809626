#include "schema/checkpoint_listing.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "schema/reason.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/gguf_writer.h"

namespace meshseal {
namespace {

using support::GgufType;
using support::GgufWriter;
using support::WriteFile;

const std::filesystem::path kContainers = MESHSEAL_TEST_DATA "/containers";

constexpr char kExpected[] =
    ", expected exactly one of model.safetensors, model.safetensors.index.json with its shards, one .gguf file, one "
    "split set of .gguf files";

// "reason-slug | text", or "accepted".
std::string VerdictOf(const absl::Status& status) {
  if (status.ok()) return "accepted";
  const std::optional<Reason> reason = ReasonOf(status);
  return absl::StrCat(reason.has_value() ? RowOf(*reason).slug : "no reason", " | ", status.message());
}

nlohmann::json ListingOf(const std::filesystem::path& file) {
  std::ifstream stream(file.string() + ".json");
  return nlohmann::json::parse(stream);
}

// "name dtype shape bytes" of every tensor.
std::string Text(const ListedTensor& tensor) {
  return absl::StrCat(tensor.name, " ", DTypeName(tensor.dtype), " [", absl::StrJoin(tensor.shape, ","), "] ",
                      tensor.bytes);
}

// The same from the recorded listing of a file.
std::vector<std::string> Recorded(const std::filesystem::path& file) {
  std::vector<std::string> texts;
  const nlohmann::json listing = ListingOf(file);
  for (const nlohmann::json& tensor : listing["tensors"]) {
    ListedTensor expected;
    expected.name = tensor["name"].get<std::string>();
    if (listing["format"] == "gguf") {
      const auto ne = tensor["ne"].get<std::vector<uint64_t>>();
      expected.shape.assign(ne.rbegin(), ne.rend());
      expected.dtype = *DTypeFromGguf(tensor["ggml_type"]);
      expected.bytes = tensor["bytes"];
    } else {
      expected.shape = tensor["shape"].get<std::vector<uint64_t>>();
      expected.dtype = *DTypeFromSafetensors(tensor["dtype"].get<std::string>());
      expected.bytes = tensor["data_offsets"][1].get<uint64_t>() - tensor["data_offsets"][0].get<uint64_t>();
    }
    texts.push_back(Text(expected));
  }
  return texts;
}

// Checks `listing` against the recorded listings of its files in `folder`.
void ExpectRecorded(const CheckpointListing& listing, const std::filesystem::path& folder) {
  std::vector<std::vector<std::string>> found(listing.files().size());
  std::string previous;
  for (const ListedTensor& tensor : listing.tensors()) {
    EXPECT_LT(previous, tensor.name);
    previous = tensor.name;
    found[tensor.file].push_back(Text(tensor));
    EXPECT_EQ(listing.Find(tensor.name), &tensor);
  }
  for (size_t i = 0; i < found.size(); ++i) {
    std::vector<std::string> recorded = Recorded(folder / listing.files()[i]);
    std::sort(recorded.begin(), recorded.end());
    std::sort(found[i].begin(), found[i].end());
    EXPECT_EQ(found[i], recorded) << listing.files()[i];
  }
  EXPECT_EQ(listing.Find("no such tensor"), nullptr);
}

class CheckpointListingTest : public testing::Test {
 protected:
  std::filesystem::path In(absl::string_view name) const { return folder_.path() / std::string(name); }
  void Write(absl::string_view name, absl::string_view bytes) const { WriteFile(In(name), bytes); }

  // A safetensors file with tensors of one byte.
  void WriteTensors(absl::string_view name, const std::vector<std::string>& tensors) const {
    std::string header = "{";
    for (size_t i = 0; i < tensors.size(); ++i) {
      absl::StrAppend(&header, i == 0 ? "" : ",", "\"", tensors[i], R"(":{"dtype":"U8","shape":[1],"data_offsets":[)",
                      i, ",", i + 1, "]}");
    }
    header += "}";
    Write(name, absl::StrCat(support::LittleEndian(header.size(), 8), header, std::string(tensors.size(), 'x')));
  }

  void WriteIndex(absl::string_view map) const {
    Write("model.safetensors.index.json", absl::StrCat(R"({"weight_map":{)", map, "}}"));
  }

  // A part of a split set: what its keys say, and its tensors.
  static GgufWriter Part(int64_t number, int64_t count, int64_t total, const std::vector<std::string>& tensors) {
    GgufWriter writer;
    writer.Integer("split.no", GgufType::kU16, number)
        .Integer("split.count", GgufType::kU16, count)
        .Integer("split.tensors.count", GgufType::kI32, total);
    for (const std::string& tensor : tensors) writer.Tensor(tensor, DType::kF32, {1});
    return writer;
  }

  // The verdict on a path in the folder, without the folder's name.
  std::string Verdict(absl::string_view name = "") const {
    const std::filesystem::path path = name.empty() ? folder_.path() : In(name);
    const std::string folder = folder_.path().string();
    return absl::StrReplaceAll(VerdictOf(CheckpointListing::Open(path).status()),
                               {{folder + "/", ""}, {folder, "FOLDER"}});
  }

  support::TempFolder folder_;
};

TEST_F(CheckpointListingTest, ListsRecordedFiles) {
  for (const char* const name : {"odd-valid", "empty", "moe64-nvfp4-modelopt", "moe64-mxfp4-gptoss"}) {
    SCOPED_TRACE(name);
    const std::filesystem::path folder = In(name);
    std::filesystem::create_directory(folder);
    const std::filesystem::path recorded = kContainers / absl::StrCat(name, ".safetensors");
    std::filesystem::copy_file(recorded, folder / "model.safetensors");
    std::filesystem::copy_file(recorded.string() + ".json", folder / "model.safetensors.json");
    const auto listing = CheckpointListing::Open(folder);
    ASSERT_TRUE(listing.ok()) << listing.status();
    EXPECT_EQ(listing->source(), WeightSource::kSafetensors);
    EXPECT_EQ(listing->files(), (std::vector<std::string>{"model.safetensors"}));
    EXPECT_EQ(listing->metadata(), nullptr);
    EXPECT_EQ(listing->tensors().size(), ListingOf(recorded)["tensors"].size());
    ExpectRecorded(*listing, folder);
  }
  for (const char* const name :
       {"align32-odd-sizes", "align64-odd-sizes", "v2-align32-odd-sizes", "meta-only-all-types", "moe64-mix4"}) {
    SCOPED_TRACE(name);
    const std::filesystem::path recorded = kContainers / absl::StrCat(name, ".gguf");
    const auto listing = CheckpointListing::Open(recorded);
    ASSERT_TRUE(listing.ok()) << listing.status();
    EXPECT_EQ(listing->source(), WeightSource::kGguf);
    EXPECT_EQ(listing->files(), (std::vector<std::string>{absl::StrCat(name, ".gguf")}));
    EXPECT_EQ(listing->tensors().size(), ListingOf(recorded)["tensors"].size());
    ASSERT_NE(listing->metadata(), nullptr);
    EXPECT_TRUE(listing->metadata()->Has("general.architecture"));
    ExpectRecorded(*listing, kContainers);
  }
}

TEST_F(CheckpointListingTest, ListsShards) {
  const auto listing = CheckpointListing::Open(kContainers / "sharded");
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_EQ(listing->source(), WeightSource::kSafetensors);
  EXPECT_EQ(listing->files(), (std::vector<std::string>{"moe64-sharded-00001-of-00002.safetensors",
                                                        "moe64-sharded-00002-of-00002.safetensors"}));
  EXPECT_EQ(listing->tensors().size(), 13u);
  ExpectRecorded(*listing, kContainers / "sharded");
}

// Every part stands for the set.
TEST_F(CheckpointListingTest, ListsASplitSet) {
  const std::filesystem::path folder = kContainers / "split";
  for (const std::filesystem::path& path :
       {folder, folder / "moe64-split-00001-of-00002.gguf", folder / "moe64-split-00002-of-00002.gguf"}) {
    SCOPED_TRACE(path.string());
    const auto listing = CheckpointListing::Open(path);
    ASSERT_TRUE(listing.ok()) << listing.status();
    EXPECT_EQ(listing->source(), WeightSource::kGguf);
    EXPECT_EQ(listing->files(),
              (std::vector<std::string>{"moe64-split-00001-of-00002.gguf", "moe64-split-00002-of-00002.gguf"}));
    EXPECT_EQ(listing->tensors().size(), 4u);
    ASSERT_NE(listing->metadata(), nullptr);
    EXPECT_EQ(*listing->metadata()->Unsigned("qwen3moe.expert_count"), 4u);  // the second part has no such key
    ExpectRecorded(*listing, folder);
  }
}

TEST_F(CheckpointListingTest, AFolderHoldsOneCheckpoint) {
  EXPECT_EQ(Verdict(), absl::StrCat("weights.file | FOLDER: holds no weights", kExpected));
  Write("config.json", "{}");
  WriteTensors("model-00001-of-00002.safetensors", {"t"});
  EXPECT_EQ(Verdict(), absl::StrCat("weights.file | FOLDER: holds 'model-00001-of-00002.safetensors'", kExpected));
  WriteTensors("model.safetensors", {"t"});
  EXPECT_EQ(Verdict(), "accepted");  // others of the format may lie beside it
  Write("a.gguf", GgufWriter().Bytes());
  EXPECT_EQ(Verdict(), absl::StrCat("weights.file | FOLDER: holds 'a.gguf', 'model-00001-of-00002.safetensors', "
                                    "'model.safetensors'",
                                    kExpected));
  std::filesystem::remove(In("a.gguf"));
  WriteIndex(R"("t":"model-00001-of-00002.safetensors")");
  EXPECT_EQ(Verdict(), absl::StrCat("weights.file | FOLDER: holds 'model-00001-of-00002.safetensors', "
                                    "'model.safetensors', 'model.safetensors.index.json'",
                                    kExpected));
  std::filesystem::remove(In("model.safetensors"));
  EXPECT_EQ(Verdict(), "accepted");
}

TEST_F(CheckpointListingTest, AFolderHoldsOneGgufFileOrSplitSet) {
  Write("a.gguf", GgufWriter().Bytes());
  EXPECT_EQ(Verdict(), "accepted");
  Write("b.gguf", GgufWriter().Bytes());
  EXPECT_EQ(Verdict(), absl::StrCat("weights.file | FOLDER: holds 'a.gguf', 'b.gguf'", kExpected));
  EXPECT_EQ(Verdict("b.gguf"), "accepted");
  for (const char* const name : {"c.gguf", "d.gguf", "e.gguf"}) Write(name, "");
  EXPECT_EQ(Verdict(),
            absl::StrCat("weights.file | FOLDER: holds 'a.gguf', 'b.gguf', 'c.gguf', 'd.gguf' and 1 more", kExpected));
}

TEST_F(CheckpointListingTest, TwoSplitSetsAreNotOne) {
  Write("m-00001-of-00001.gguf", Part(0, 1, 0, {}).Bytes());
  EXPECT_EQ(Verdict(), "accepted");
  Write("m-00002-of-00002.gguf", Part(1, 2, 0, {}).Bytes());
  EXPECT_EQ(Verdict(),
            absl::StrCat("weights.file | FOLDER: holds 'm-00001-of-00001.gguf', 'm-00002-of-00002.gguf'", kExpected));
  std::filesystem::rename(In("m-00002-of-00002.gguf"), In("n-00001-of-00001.gguf"));
  EXPECT_EQ(Verdict(),
            absl::StrCat("weights.file | FOLDER: holds 'm-00001-of-00001.gguf', 'n-00001-of-00001.gguf'", kExpected));
}

TEST_F(CheckpointListingTest, PathsOfOtherKindsAreRefused) {
  EXPECT_EQ(Verdict("none"), "weights.file | none: cannot be opened: No such file or directory");
  EXPECT_EQ(Verdict("none.gguf"), "weights.file | none.gguf: cannot be opened: No such file or directory");
  WriteTensors("model.safetensors", {"t"});
  EXPECT_EQ(Verdict("model.safetensors"), "weights.file | model.safetensors: expected a folder or a .gguf file");
}

TEST_F(CheckpointListingTest, FilesAreRegularFilesOfTheFolder) {
  WriteTensors("outside", {"t"});
  std::filesystem::create_directory(In("c"));
  const std::filesystem::path model = In("c/model.safetensors");
  std::filesystem::create_symlink(In("outside"), model);
  EXPECT_EQ(Verdict("c"), "weights.file | c/model.safetensors: is a symbolic link, expected a regular file");
  std::filesystem::remove(model);
  ASSERT_EQ(::mkfifo(model.c_str(), 0600), 0);
  EXPECT_EQ(Verdict("c"), "weights.file | c/model.safetensors: is a FIFO, expected a regular file");
  std::filesystem::remove(model);
  std::filesystem::create_directory(model);
  EXPECT_EQ(Verdict("c"), "weights.file | c/model.safetensors: is a directory, expected a regular file");
  std::filesystem::remove(model);
  WriteFile(model, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
  EXPECT_EQ(Verdict("c"),
            "weights.lfs-pointer | c/model.safetensors: is a Git LFS pointer, not the file (run 'git lfs pull')");
}

TEST_F(CheckpointListingTest, IndexAndShardsAgree) {
  WriteTensors("1", {"a", "b"});
  WriteTensors("2", {"c"});
  WriteIndex(R"("c":"2","b":"1","a":"1")");
  EXPECT_EQ(Verdict(), "accepted");
  WriteIndex(R"("c":"2","b":"1","a":"2")");
  EXPECT_EQ(Verdict(), "weights.tensor | model.safetensors.index.json: tensor 'a': is mapped to '2', but lies in '1'");
  WriteIndex(R"("c":"2","a":"1")");
  EXPECT_EQ(Verdict(), "weights.tensor | 1: tensor 'b': is not in model.safetensors.index.json");
  WriteIndex(R"("a":"1","b":"1","bb":"2","c":"2")");
  EXPECT_EQ(Verdict(),
            "weights.tensor | model.safetensors.index.json: tensor 'bb': is mapped to '2', which does not hold it");
  WriteIndex(R"("a":"1","b":"1","c":"2","d":"2")");
  EXPECT_EQ(Verdict(),
            "weights.tensor | model.safetensors.index.json: tensor 'd': is mapped to '2', which does not hold it");
  WriteIndex(R"("a":"1","b":"1","c":"3")");
  EXPECT_EQ(Verdict(), "weights.file | 3: cannot be opened: No such file or directory");
  WriteIndex(R"("a":"1","b":"1","c":"../2")");
  EXPECT_EQ(
      Verdict(),
      "weights.header | model.safetensors.index.json: tensor 'c': is mapped to '../2', which holds '/', '\\', ':' "
      "or a NUL, expected the name of a file beside the index (near byte 41)");
  WriteTensors("2", {"b", "c"});
  WriteIndex(R"("a":"1","b":"1","c":"2")");
  EXPECT_EQ(Verdict(), "weights.tensor | 1: tensor 'b': lies in '2' too");
}

TEST_F(CheckpointListingTest, AShardIsARegularFileToo) {
  WriteTensors("1", {"a"});
  WriteIndex(R"("a":"2")");
  std::filesystem::create_symlink(In("1"), In("2"));
  EXPECT_EQ(Verdict(), "weights.file | 2: is a symbolic link, expected a regular file");
  std::filesystem::remove(In("2"));
  Write("2", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
  EXPECT_EQ(Verdict(), "weights.lfs-pointer | 2: is a Git LFS pointer, not the file (run 'git lfs pull')");
}

TEST_F(CheckpointListingTest, SplitSetsAreWhole) {
  const auto write = [&](const GgufWriter& first, const GgufWriter& second) {
    Write("m-00001-of-00002.gguf", first.Bytes());
    Write("m-00002-of-00002.gguf", second.Bytes());
  };
  write(Part(0, 2, 2, {"b"}), Part(1, 2, 2, {"a"}));
  EXPECT_EQ(Verdict(), "accepted");
  EXPECT_EQ(Verdict("m-00002-of-00002.gguf"), "accepted");
  write(Part(0, 2, 1, {}), Part(1, 2, 1, {"a"}));
  EXPECT_EQ(Verdict(), "accepted");

  write(Part(0, 3, 2, {"b"}), Part(1, 3, 2, {"a"}));
  EXPECT_EQ(Verdict(),
            "weights.header | m-00001-of-00002.gguf: key 'split.count': is 3, expected 2 after the file's name");
  write(Part(1, 2, 2, {"b"}), Part(0, 2, 2, {"a"}));
  EXPECT_EQ(Verdict(),
            "weights.header | m-00001-of-00002.gguf: key 'split.no': is 1, expected 0 after the file's name");
  write(Part(0, 2, 2, {"b"}), Part(0, 2, 2, {"a"}));
  EXPECT_EQ(Verdict(),
            "weights.header | m-00002-of-00002.gguf: key 'split.no': is 0, expected 1 after the file's name");
  write(Part(0, 2, 3, {"b"}), Part(1, 2, 3, {"a"}));
  EXPECT_EQ(Verdict(),
            "weights.header | m-00001-of-00002.gguf: key 'split.tensors.count': is 3, but the 2 parts hold 2 tensors");
  write(Part(0, 2, 2, {"b"}), Part(1, 2, 3, {"a"}));
  EXPECT_EQ(Verdict(),
            "weights.header | m-00002-of-00002.gguf: key 'split.tensors.count': is 3, expected 2 as in "
            "'m-00001-of-00002.gguf'");
  write(Part(0, 2, -2, {"b"}), Part(1, 2, -2, {"a"}));
  EXPECT_EQ(Verdict(),
            "weights.header | m-00001-of-00002.gguf: key 'split.tensors.count': is -2, expected a whole number from 0 "
            "on");
  write(Part(0, 2, 2, {"a"}), Part(1, 2, 2, {"a"}));
  EXPECT_EQ(Verdict(), "weights.tensor | m-00001-of-00002.gguf: tensor 'a': lies in 'm-00002-of-00002.gguf' too");
  std::filesystem::remove(In("m-00001-of-00002.gguf"));
  EXPECT_EQ(Verdict(), "weights.file | m-00001-of-00002.gguf: cannot be opened: No such file or directory");
}

TEST_F(CheckpointListingTest, SplitKeysHaveTheirTypes) {
  const auto verdict = [&](GgufType number, GgufType count, GgufType total) {
    Write("m-00001-of-00001.gguf", GgufWriter()
                                       .Integer("split.no", number, 0)
                                       .Integer("split.count", count, 1)
                                       .Integer("split.tensors.count", total, 0)
                                       .Bytes());
    return Verdict();
  };
  const std::string where = "weights.header | m-00001-of-00001.gguf: key ";
  EXPECT_EQ(verdict(GgufType::kU16, GgufType::kU16, GgufType::kI32), "accepted");
  EXPECT_EQ(verdict(GgufType::kU32, GgufType::kU16, GgufType::kI32),
            where + "'split.no': is u32, expected u16 in a part of a split set");
  EXPECT_EQ(verdict(GgufType::kU16, GgufType::kI64, GgufType::kI32),
            where + "'split.count': is i64, expected u16 in a part of a split set");
  EXPECT_EQ(verdict(GgufType::kU16, GgufType::kU16, GgufType::kU32),
            where + "'split.tensors.count': is u32, expected i32 in a part of a split set");
  Write("m-00001-of-00001.gguf", GgufWriter().Bytes());
  EXPECT_EQ(Verdict(), where + "'split.no': is missing, expected u16 in a part of a split set");
}

TEST_F(CheckpointListingTest, NameAndKeysAgreeOnASplitSet) {
  Write("m.gguf", Part(0, 65'535, 0, {}).Bytes());
  EXPECT_EQ(Verdict("m.gguf"),
            "weights.file | m.gguf: key 'split.count': is 65535, but the file's name is not that of a "
            "part (NAME-00001-of-65535.gguf)");
  // What merging a set leaves.
  Write("m.gguf", Part(0, 0, 1, {"a"}).Bytes());
  EXPECT_EQ(Verdict("m.gguf"), "accepted");
  const std::string expected = ", expected parts 1 to at most 4096";
  for (const auto& [file, said] :
       std::vector<std::pair<std::string, std::string>>{{"m-00000-of-00002.gguf", "0 of 2"},
                                                        {"m-00003-of-00002.gguf", "3 of 2"},
                                                        {"m-00001-of-00000.gguf", "1 of 0"},
                                                        {"m-00001-of-04097.gguf", "1 of 4097"}}) {
    Write(file, Part(0, 2, 0, {}).Bytes());
    EXPECT_EQ(Verdict(file), absl::StrCat("weights.file | ", file, ": the name says part ", said, expected));
  }
}

TEST_F(CheckpointListingTest, TensorsAreCappedOverAllFiles) {
  const auto write = [&](int part, int tensors) {
    GgufWriter writer = Part(part - 1, 2, 500'001, {});
    for (int i = 0; i < tensors; ++i) writer.Tensor(absl::StrCat(part, ".", i), DType::kI8, {1});
    Write(absl::StrCat("m-0000", part, "-of-00002.gguf"), writer.Bytes());
  };
  write(1, 400'000);
  write(2, 100'001);
  EXPECT_EQ(Verdict(),
            "weights.header | m-00002-of-00002.gguf: with this file the checkpoint has 500001 tensors, more than the "
            "500000 read here");
}

}  // namespace
}  // namespace meshseal

#include "schema/load_profile.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schema/reason.h"
#include "tests/support/checkpoint_writer.h"

namespace meshseal {
namespace {

const std::string kPlan = std::string(62, '0') + "af";

// "reason-slug | text", or "accepted".
std::string VerdictOf(const absl::Status& status) {
  if (status.ok()) return "accepted";
  const std::optional<Reason> reason = ReasonOf(status);
  return absl::StrCat(reason.has_value() ? RowOf(*reason).slug : "no reason", " | ", status.message());
}

std::string Verdict(absl::string_view text) { return VerdictOf(ParseLoadProfile("p", text).status()); }

std::string LayersVerdict(absl::string_view layers) {
  return Verdict(absl::StrCat(R"({"version":1,"plan":")", kPlan, R"(","tokens":4,"layers":)", layers, "}"));
}

TEST(LoadProfileTest, ReadsADocument) {
  const auto profile = ParseLoadProfile(
      "p", absl::StrCat("{ \"layers\": {\"10\": [0, 4398046511104], \"3\": [5,6 ,7]},\n \"tokens\": 4398046511104,\n"
                        " \"plan\": \"",
                        kPlan, "\", \"version\": 1 }\n"));
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(HexOf(profile->plan), kPlan);
  EXPECT_EQ(profile->tokens, uint64_t{1} << 42);
  EXPECT_EQ(profile->slots, (std::map<uint32_t, std::vector<uint64_t>>{{3, {5, 6, 7}}, {10, {0, uint64_t{1} << 42}}}));
  EXPECT_EQ(LayersVerdict("{}"), "accepted");
  EXPECT_EQ(LayersVerdict(R"({"0":[],"65535":[1]})"), "accepted");
}

TEST(LoadProfileTest, WritesWhatItReads) {
  LoadProfile profile;
  profile.plan = *DigestFromHex(kPlan);
  profile.tokens = 9;
  EXPECT_EQ(LoadProfileText(profile),
            absl::StrCat(R"({"version": 1, "plan": ")", kPlan, R"(", "tokens": 9, "layers": {}})", "\n"));
  profile.slots = {{10, {7}}, {3, {0, 11}}};
  const std::string text = LoadProfileText(profile);
  EXPECT_EQ(text, absl::StrCat(R"({"version": 1, "plan": ")", kPlan, R"(", "tokens": 9, "layers": {)",
                               "\n\"3\": [0, 11],\n\"10\": [7]}}\n"));
  const auto again = ParseLoadProfile("p", text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, profile);
}

TEST(LoadProfileTest, RefusesOtherDocuments) {
  EXPECT_EQ(Verdict(""), "load-profile | p: the load profile is empty, expected '{'");
  EXPECT_EQ(Verdict("[]"), "load-profile | p: the load profile begins with byte 0x5b, expected '{'");
  EXPECT_EQ(Verdict("\xEF\xBB\xBF{}"), "load-profile | p: the load profile begins with byte 0xef, expected '{'");
  EXPECT_EQ(Verdict(R"({"version":1,})"),
            "load-profile | p: the load profile is not strict UTF-8 JSON after '{\"version\":1,}' (near byte 14)");
  EXPECT_EQ(Verdict(R"({"version":1 // one)"),
            "load-profile | p: the load profile is not strict UTF-8 JSON after '{\"version\":1 /' (near byte 14)");
  EXPECT_EQ(Verdict(absl::string_view("{\"version\":1}\0", 14)),
            "load-profile | p: the load profile holds a NUL at byte 13");
  EXPECT_EQ(Verdict(absl::StrCat(R"({"layers":{"0":)", std::string(100'000, '['))),
            "load-profile | p: layer 0, expert 0: found an array, expected a whole number from 0 to 4398046511104 "
            "(near byte 17)");
}

TEST(LoadProfileTest, HasEachKeyOnce) {
  EXPECT_EQ(Verdict("{}"), "load-profile | p: 'version' is missing");
  EXPECT_EQ(Verdict(R"({"version":1})"), "load-profile | p: 'plan' is missing");
  EXPECT_EQ(Verdict(absl::StrCat(R"({"version":1,"plan":")", kPlan, "\"}")), "load-profile | p: 'tokens' is missing");
  EXPECT_EQ(Verdict(absl::StrCat(R"({"version":1,"plan":")", kPlan, R"(","tokens":1})")),
            "load-profile | p: 'layers' is missing");
  EXPECT_EQ(Verdict(R"({"version":1,"model":"m"})"),
            "load-profile | p: unknown key 'model', expected 'version', 'plan', 'tokens' and 'layers' (near byte 20)");
  EXPECT_EQ(Verdict(R"({"tokens":1,"tokens":1})"), "load-profile | p: 'tokens' occurs more than once (near byte 20)");
  EXPECT_EQ(Verdict(R"({"layers":{},"layers":{}})"), "load-profile | p: 'layers' occurs more than once (near byte 21)");
}

TEST(LoadProfileTest, ValuesAreOfTheirKind) {
  EXPECT_EQ(Verdict(R"({"version":2})"),
            "load-profile | p: version: found the number 2, expected the number 1 (near byte 13)");
  EXPECT_EQ(Verdict(R"({"version":"1"})"),
            "load-profile | p: version: found the string '1', expected the number 1 (near byte 14)");
  EXPECT_EQ(Verdict(R"({"version":{}})"),
            "load-profile | p: version: found an object, expected the number 1 (near byte 12)");
  const auto plan = [](absl::string_view found, int byte) {
    return absl::StrCat("load-profile | p: plan: found ", found,
                        ", expected a plan's id, 64 lower-case hexadecimal digits (near byte ", byte, ")");
  };
  EXPECT_EQ(Verdict(R"({"plan":"AB"})"), plan("the string 'AB'", 12));
  EXPECT_EQ(Verdict(absl::StrCat(R"({"plan":")", kPlan, "0\"}")), plan(absl::StrCat("the string '", kPlan, "0'"), 75));
  EXPECT_EQ(Verdict(R"({"plan":null})"), plan("null", 12));
  const auto tokens = [](absl::string_view found, int byte) {
    return absl::StrCat("load-profile | p: tokens: found ", found,
                        ", expected a whole number from 1 to 4398046511104 (near byte ", byte, ")");
  };
  EXPECT_EQ(Verdict(R"({"tokens":0})"), tokens("the number 0", 12));
  EXPECT_EQ(Verdict(R"({"tokens":4398046511105})"), tokens("the number 4398046511105", 24));
  EXPECT_EQ(Verdict(R"({"tokens":-1})"), tokens("a signed number", 13));
  EXPECT_EQ(Verdict(R"({"tokens":true})"), tokens("true", 14));
  EXPECT_EQ(Verdict(R"({"layers":[]})"), "load-profile | p: layers: found an array, expected an object (near byte 11)");
}

TEST(LoadProfileTest, LayersAreNumbersWithCounts) {
  EXPECT_EQ(LayersVerdict(R"({"3":[1],"3":[1]})"), "load-profile | p: layer 3: occurs more than once (near byte 119)");
  const auto key = [](absl::string_view found, int byte) {
    return absl::StrCat("load-profile | p: layers: key ", found,
                        ", expected a layer's number from 0 to 65535 (near byte ", byte, ")");
  };
  EXPECT_EQ(LayersVerdict(R"({"":[]})"), key("''", 110));
  EXPECT_EQ(LayersVerdict(R"({"03":[]})"), key("'03'", 112));
  EXPECT_EQ(LayersVerdict(R"({" 3":[]})"), key("' 3'", 112));
  EXPECT_EQ(LayersVerdict(R"({"-3":[]})"), key("'-3'", 112));
  EXPECT_EQ(LayersVerdict(R"({"65536":[]})"), key("'65536'", 115));
  EXPECT_EQ(LayersVerdict(R"({"4294967299":[]})"), key("'4294967299'", 120));
  const auto list = [](absl::string_view found, int byte) {
    return absl::StrCat("load-profile | p: layer 3: found ", found, ", expected an array of counts (near byte ", byte,
                        ")");
  };
  EXPECT_EQ(LayersVerdict(R"({"3":7})"), list("the number 7", 114));
  EXPECT_EQ(LayersVerdict(R"({"3":{"0":7}})"), list("an object", 113));
  const auto count = [](absl::string_view found, int byte) {
    return absl::StrCat("load-profile | p: layer 3, expert 1: found ", found,
                        ", expected a whole number from 0 to 4398046511104 (near byte ", byte, ")");
  };
  EXPECT_EQ(LayersVerdict(R"({"3":[1,-1]})"), count("a signed number", 118));
  EXPECT_EQ(LayersVerdict(R"({"3":[1,1.5]})"), count("the number '1.5'", 119));
  EXPECT_EQ(LayersVerdict(R"({"3":[1,1e2]})"), count("the number '1e2'", 119));
  EXPECT_EQ(LayersVerdict(R"({"3":[1,4398046511105]})"), count("the number 4398046511105", 129));
  EXPECT_EQ(LayersVerdict(R"({"3":[1,99999999999999999999]})"), count("the number '99999999999999999999'", 136));
  EXPECT_EQ(LayersVerdict(R"({"3":[1,"2"]})"), count("the string '2'", 118));
  EXPECT_EQ(LayersVerdict(R"({"3":[1,null]})"), count("null", 119));
  EXPECT_EQ(LayersVerdict(R"({"3":[1,[2]]})"), count("an array", 116));
}

TEST(LoadProfileTest, ExpertsAreCapped) {
  std::string counts = "{\"3\":[0";
  for (uint64_t i = 1; i < kLoadProfileMaxExperts; ++i) counts += ",0";
  EXPECT_EQ(LayersVerdict(counts + "]}"), "accepted");
  EXPECT_EQ(LayersVerdict(counts + ",0]}"),
            "load-profile | p: layer 3: one more than 1048576 experts, the most read here (near byte 2097267)");
}

TEST(LoadProfileTest, ReadsAFile) {
  const support::TempFolder folder;
  const std::filesystem::path path = folder.path() / "load.json";
  LoadProfile profile;
  profile.tokens = 1;
  profile.slots = {{0, {1, 1}}};
  const std::string text = LoadProfileText(profile);
  support::WriteFile(path, text);
  const auto file = ReadLoadProfile(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->profile, profile);
  EXPECT_EQ(file->document, (SourceDocument{"load.json", Sha256(text)}));

  EXPECT_EQ(VerdictOf(ReadLoadProfile(folder.path()).status()),
            absl::StrCat("load-profile | ", folder.path().string(), ": is a directory, expected a regular file"));
  std::filesystem::resize_file(path, kLoadProfileMaxBytes + 1);
  EXPECT_EQ(VerdictOf(ReadLoadProfile(path).status()),
            absl::StrCat("load-profile | ", path.string(),
                         ": the load profile has 268435457 bytes, more than the 268435456 read here"));
  std::filesystem::remove(path);
  EXPECT_EQ(VerdictOf(ReadLoadProfile(path).status()),
            absl::StrCat("load-profile | ", path.string(), ": cannot be opened: No such file or directory"));
}

}  // namespace
}  // namespace meshseal

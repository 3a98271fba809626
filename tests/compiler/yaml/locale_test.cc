// A program that links the compiler may have set any C++ locale. Neither what is read nor what is said may
// depend on it.
#include <gtest/gtest.h>

#include <locale>
#include <sstream>
#include <string>

#include "compiler/text/render.h"
#include "compiler/yaml/fields.h"
#include "compiler/yaml/scalar.h"
#include "tests/compiler/yaml/yaml_document.h"

namespace meshseal::compiler {
namespace {

class HostileNumbers : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\1"; }
  std::string do_truename() const override { return "ja"; }
};

class HostileLocale : public testing::Test {
 protected:
  void SetUp() override {
    std::locale::global(std::locale(std::locale::classic(), new HostileNumbers));
    std::ostringstream stream;
    stream << 1024;
    ASSERT_EQ(stream.str(), "1.0.2.4");  // it does bite
  }
  void TearDown() override { std::locale::global(before_); }

 private:
  std::locale before_;
};

TEST_F(HostileLocale, NumbersReadTheSame) {
  YamlDocument document("[1024, 2.5, \"\\u00e9\\x41\", 4096MiB, true]");
  ASSERT_EQ(document.Said(), "");
  const YamlNode::List& items = *document.root().list();
  EXPECT_EQ(ReadUnsigned(items[0], "a", UnsignedRange{}, document.diagnostics()), 1024u);
  EXPECT_EQ(ReadFloat(items[1], "a", document.diagnostics()), 2.5);
  EXPECT_EQ(ReadText(items[2], "a", document.diagnostics()),
            "\xc3\xa9"
            "A");
  EXPECT_EQ(ReadBytes(items[3], "a", document.diagnostics()), uint64_t{4096} << 20);
  EXPECT_EQ(ReadBool(items[4], "a", document.diagnostics()), true);
  EXPECT_EQ(ReadFloat(items[0], "a", document.diagnostics()), 1024.0);
}

TEST_F(HostileLocale, MessagesReadTheSame) {
  std::string text(1233, '\n');
  text += "a: 5000\n";
  YamlDocument document(text);
  ReadUnsigned(document.at("a"), "a", UnsignedRange{1, 1024}, document.diagnostics());
  EXPECT_EQ(RenderText(document.diagnostics()),
            "in.yaml:1234:4: error: a: expected a whole number from 1 to 1024, found '5000' [out-of-range]\n"
            " 1234 | a: 5000\n"
            "      |    ^~~~\n");
  EXPECT_EQ(
      RenderJson(document.diagnostics()),
      R"({"version":1,"diagnostics":[{"severity":"error","rule":"out-of-range","file":"in.yaml","line":1234,"column":4,"length":4,)"
      R"("message":"a: expected a whole number from 1 to 1024, found '5000'","notes":[],"help":null}]})"
      "\n");
}

TEST_F(HostileLocale, SyntaxErrorsReadTheSame) {
  const YamlDocument document(std::string(1233, '\n') + "a: \"\\q\"");
  EXPECT_EQ(document.Said(), "1234:7+1: this escape does not exist [yaml-syntax]\n");
}

}  // namespace
}  // namespace meshseal::compiler

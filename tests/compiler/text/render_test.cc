#include "compiler/text/render.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace meshseal::compiler {
namespace {

// The rendering of one error in line 1 of a file that is `line`.
std::string Rendered(std::string line, uint32_t column, uint32_t length, std::string path = "in.yaml") {
  const auto file = SourceFile::FromText(std::move(path), std::move(line)).value();
  Diagnostics diagnostics;
  diagnostics.Error("rule", Span{file.get(), 1, column, length}, "text");
  return RenderText(diagnostics);
}

struct ToyError {
  std::unique_ptr<const SourceFile> deployment =
      SourceFile::FromText("deployments/toy.yaml",
                           "\n\n\n\n\n  parallel: {dp: 1, pp: 1, tp: 5, ep: 1, dense: {tp: 5}}\n")
          .value();
  std::unique_ptr<const SourceFile> model = SourceFile::FromText("models/toy.yaml", "").value();
  Diagnostics diagnostics;

  ToyError() {
    Diagnostic& error = diagnostics.Error("tp-divides-ffn", Span{deployment.get(), 6, 32, 1},
                                          "tensor-parallel degree 5 does not divide intermediate_size 768");
    error.notes.push_back({Span{model.get(), 12, 22, 3}, "768 columns over 5 ranks leaves 3 over"});
    error.help = "degrees that satisfy every rule on this mesh (5 devices): dp=5 pp=1 tp=1 ep=1; dp=1 pp=5 tp=1 ep=1";
  }
};

TEST(RenderText, TheOneShape) {
  EXPECT_EQ(RenderText(ToyError().diagnostics),
            "deployments/toy.yaml:6:32: error: tensor-parallel degree 5 does not divide intermediate_size 768 "
            "[tp-divides-ffn]\n"
            "    6 |   parallel: {dp: 1, pp: 1, tp: 5, ep: 1, dense: {tp: 5}}\n"
            "      |                                ^\n"
            "models/toy.yaml:12:22: note: 768 columns over 5 ranks leaves 3 over\n"
            "   help: degrees that satisfy every rule on this mesh (5 devices): dp=5 pp=1 tp=1 ep=1; "
            "dp=1 pp=5 tp=1 ep=1\n");
}

TEST(RenderText, ColourOnlyWhenAsked) {
  EXPECT_EQ(RenderText(ToyError().diagnostics, TextOptions{.colour = true}),
            "\x1b[1mdeployments/toy.yaml:6:32: \x1b[0m\x1b[1;31merror: \x1b[0m"
            "\x1b[1mtensor-parallel degree 5 does not divide intermediate_size 768\x1b[0m [tp-divides-ffn]\n"
            "    6 |   parallel: {dp: 1, pp: 1, tp: 5, ep: 1, dense: {tp: 5}}\n"
            "      |                                \x1b[1;32m^\x1b[0m\n"
            "\x1b[1mmodels/toy.yaml:12:22: \x1b[0m\x1b[1;36mnote: \x1b[0m768 columns over 5 ranks leaves 3 over\n"
            "   \x1b[1mhelp: \x1b[0mdegrees that satisfy every rule on this mesh (5 devices): dp=5 pp=1 tp=1 ep=1; "
            "dp=1 pp=5 tp=1 ep=1\n");
}

TEST(RenderText, WithoutAPlace) {
  const auto file = SourceFile::FromText("in.yaml", "a: 1\n").value();
  Diagnostics diagnostics;
  diagnostics.Error("rule", Span{file.get()}, "in a file");
  diagnostics.Error("rule", Span{}, "nowhere").notes.push_back({Span{}, "why"});
  EXPECT_EQ(RenderText(diagnostics), "error: nowhere [rule]\nnote: why\nin.yaml: error: in a file [rule]\n");
}

TEST(RenderText, SortsAndKeepsNothing) {
  EXPECT_EQ(RenderText(Diagnostics()), "");
  const auto file = SourceFile::FromText("in.yaml", "a\nb\n").value();
  Diagnostics diagnostics;
  diagnostics.Error("rule", Span{file.get(), 2, 1, 1}, "second");
  diagnostics.Error("rule", Span{file.get(), 1, 1, 1}, "first");
  EXPECT_EQ(RenderText(diagnostics),
            "in.yaml:1:1: error: first [rule]\n    1 | a\n      | ^\n"
            "in.yaml:2:1: error: second [rule]\n    2 | b\n      | ^\n");
}

TEST(RenderText, UnderlinesTheLength) {
  EXPECT_EQ(Rendered("key: value", 6, 5), "in.yaml:1:6: error: text [rule]\n    1 | key: value\n      |      ^~~~~\n");
  EXPECT_EQ(Rendered("key: value", 6, 0), "in.yaml:1:6: error: text [rule]\n    1 | key: value\n      |      ^\n");
  EXPECT_EQ(Rendered("key: value", 6, 99), "in.yaml:1:6: error: text [rule]\n    1 | key: value\n      |      ^~~~~\n");
  EXPECT_EQ(Rendered("key", 4, 1), "in.yaml:1:4: error: text [rule]\n    1 | key\n      |    ^\n");
  EXPECT_EQ(Rendered("", 1, 1), "in.yaml:1:1: error: text [rule]\n    1 | \n      | ^\n");
}

TEST(RenderText, TabsLineUp) {
  EXPECT_EQ(Rendered("\ta:\tb", 5, 1), "in.yaml:1:5: error: text [rule]\n    1 | \ta:\tb\n      | \t  \t^\n");
}

TEST(RenderText, ColumnsAreBytesButTheCaretCountsCharacters) {
  EXPECT_EQ(Rendered("\xc3\xa9: \xe2\x82\xac\xe2\x82\xac", 5, 6),
            "in.yaml:1:5: error: text [rule]\n    1 | \xc3\xa9: \xe2\x82\xac\xe2\x82\xac\n      |    ^~\n");
}

TEST(RenderText, NothingSteersTheTerminal) {
  EXPECT_EQ(Rendered("a\x1b[31m\xff\xc2\x9b\xe2\x80\xae"
                     "b\x7f",
                     13, 1, "in\x1b[0m.yaml"),
            "in?[0m.yaml:1:13: error: text [rule]\n    1 | a?[31m???b?\n      |          ^\n");
  Diagnostics diagnostics;
  Diagnostic& error = diagnostics.Error("ru\nle", Span{}, "a\rb\xff");
  error.notes.push_back({Span{}, "c\nd"});
  error.help = "e\x1b";
  EXPECT_EQ(RenderText(diagnostics), "error: a?b? [ru?le]\nnote: c?d\n   help: e?\n");
}

TEST(RenderText, LongLinesAreCutAroundTheCaret) {
  const std::string x(500, 'x');
  EXPECT_EQ(Rendered(std::string(200, 'x'), 200, 1), "in.yaml:1:200: error: text [rule]\n    1 | " +
                                                         std::string(200, 'x') + "\n      | " + std::string(199, ' ') +
                                                         "^\n");
  EXPECT_EQ(Rendered(x, 1, 500), "in.yaml:1:1: error: text [rule]\n    1 | " + std::string(200, 'x') +
                                     "...\n      | ^" + std::string(199, '~') + "\n");
  EXPECT_EQ(Rendered(x, 301, 2), "in.yaml:1:301: error: text [rule]\n    1 | ..." + std::string(200, 'x') +
                                     "...\n      |    " + std::string(100, ' ') + "^~\n");
  EXPECT_EQ(Rendered(x, 500, 1), "in.yaml:1:500: error: text [rule]\n    1 | ..." + std::string(200, 'x') +
                                     "\n      |    " + std::string(199, ' ') + "^\n");
}

TEST(RenderText, LongLinesAreCutBetweenCharacters) {
  std::string euros;
  for (int i = 0; i < 200; ++i) euros += "\xe2\x82\xac";
  const std::string text = Rendered(euros, 301, 3);
  EXPECT_EQ(text.find('?'), std::string::npos);
  EXPECT_EQ(text.substr(text.rfind('|')), "|    " + std::string(34, ' ') + "^\n");
  // Bytes that are all in the middle of a character.
  const std::string broken = Rendered(std::string(1000, '\x80'), 501, 1);
  EXPECT_EQ(broken.substr(broken.rfind('|')), "|    " + std::string(103, ' ') + "^\n");
}

TEST(RenderText, LargeLineNumbersKeepTheBarStraight) {
  const auto file = SourceFile::FromText("in.yaml", std::string(1'234'566, '\n') + "a").value();
  Diagnostics diagnostics;
  diagnostics.Error("rule", Span{file.get(), 1'234'567, 1, 1}, "text");
  EXPECT_EQ(RenderText(diagnostics), "in.yaml:1234567:1: error: text [rule]\n1234567 | a\n        | ^\n");
}

TEST(RenderText, ALineThatDoesNotExistIsNotShown) {
  const auto file = SourceFile::FromText("in.yaml", "a").value();
  Diagnostics diagnostics;
  diagnostics.Error("rule", Span{file.get(), 7, 1, 1}, "text");
  EXPECT_EQ(RenderText(diagnostics), "in.yaml:7:1: error: text [rule]\n");
}

TEST(RenderText, AWarningSaysSo) {
  const auto file = SourceFile::FromText("in.yaml", "a").value();
  Diagnostics diagnostics;
  diagnostics.Warning("rule", Span{file.get(), 1, 1, 1}, "text");
  EXPECT_EQ(RenderText(diagnostics), "in.yaml:1:1: warning: text [rule]\n    1 | a\n      | ^\n");
  EXPECT_EQ(RenderJson(diagnostics),
            R"({"version":1,"diagnostics":[{"severity":"warning","rule":"rule","file":"in.yaml","line":1,"column":1,)"
            R"("length":1,"message":"text","notes":[],"help":null}]})"
            "\n");
}

TEST(RenderJson, Everything) {
  EXPECT_EQ(
      RenderJson(ToyError().diagnostics),
      R"({"version":1,"diagnostics":[{"severity":"error","rule":"tp-divides-ffn","file":"deployments/toy.yaml","line":6,"column":32,)"
      R"("length":1,"message":"tensor-parallel degree 5 does not divide intermediate_size 768","notes":[{"file":)"
      R"("models/toy.yaml","line":12,"column":22,"message":"768 columns over 5 ranks leaves 3 over"}],"help":)"
      R"("degrees that satisfy every rule on this mesh (5 devices): dp=5 pp=1 tp=1 ep=1; dp=1 pp=5 tp=1 ep=1"}]})"
      "\n");
}

TEST(RenderJson, WhatIsAbsentIsNull) {
  EXPECT_EQ(RenderJson(Diagnostics()), "{\"version\":1,\"diagnostics\":[]}\n");
  const auto file = SourceFile::FromText("in.yaml", "").value();
  Diagnostics diagnostics;
  diagnostics.Error("rule", Span{file.get()}, "in a file");
  diagnostics.Error("rule", Span{}, "nowhere").notes.push_back({Span{}, "why"});
  EXPECT_EQ(
      RenderJson(diagnostics),
      R"({"version":1,"diagnostics":[{"severity":"error","rule":"rule","file":null,"line":null,"column":null,"length":null,"message":)"
      R"("nowhere","notes":[{"file":null,"line":null,"column":null,"message":"why"}],"help":null},{"severity":"error","rule":"rule",)"
      R"("file":"in.yaml","line":null,"column":null,"length":null,"message":"in a file","notes":[],"help":null}]})"
      "\n");
}

TEST(RenderJson, AnyBytesGiveValidJson) {
  Diagnostics diagnostics;
  diagnostics.Error("rule", Span{}, "\"\x1b\n\xff");
  EXPECT_EQ(RenderJson(diagnostics),
            "{\"version\":1,\"diagnostics\":[{\"severity\":\"error\",\"rule\":\"rule\",\"file\":null,\"line\":null,"
            "\"column\":null,"
            "\"length\":null,\"message\":\"\\\"\\u001b\\n\xef\xbf\xbd\",\"notes\":[],\"help\":null}]}\n");
}

}  // namespace
}  // namespace meshseal::compiler

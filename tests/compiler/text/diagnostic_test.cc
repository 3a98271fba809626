#include "compiler/text/diagnostic.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace meshseal::compiler {
namespace {

std::vector<std::string> Texts(const Diagnostics& diagnostics) {
  std::vector<std::string> texts;
  for (const Diagnostic* error : diagnostics.Sorted()) texts.push_back(error->text);
  return texts;
}

TEST(Diagnostics, StartsWithoutErrors) {
  const Diagnostics diagnostics;
  EXPECT_TRUE(diagnostics.ok());
  EXPECT_EQ(diagnostics.size(), 0u);
  EXPECT_TRUE(diagnostics.Sorted().empty());
}

TEST(Diagnostics, ReferencesStayValid) {
  Diagnostics diagnostics;
  Diagnostic& first = diagnostics.Error("rule", Span{}, "first");
  for (int i = 0; i < 1000; ++i) diagnostics.Error("rule", Span{}, "more");
  first.help = "help";
  first.notes.push_back({Span{}, "note"});
  EXPECT_FALSE(diagnostics.ok());
  EXPECT_EQ(diagnostics.size(), 1001u);
  EXPECT_EQ(diagnostics.Sorted().front()->help, "help");
  EXPECT_EQ(diagnostics.Sorted().front()->notes.front().text, "note");
}

TEST(Diagnostics, SortedByPathLineColumnRuleText) {
  const auto a = SourceFile::FromText("a.yaml", "").value();
  const auto b = SourceFile::FromText("b.yaml", "").value();
  Diagnostics diagnostics;
  diagnostics.Error("r", Span{b.get(), 1, 1, 1}, "8");
  diagnostics.Error("r", Span{a.get(), 10, 1, 1}, "7");
  diagnostics.Error("r", Span{a.get(), 2, 10, 1}, "6");
  diagnostics.Error("s", Span{a.get(), 2, 9, 1}, "4");
  diagnostics.Error("r", Span{a.get(), 2, 9, 1}, "3b");
  diagnostics.Error("r", Span{a.get(), 2, 9, 1}, "3a");
  diagnostics.Error("t", Span{a.get(), 2, 9, 1}, "5");
  diagnostics.Error("r", Span{a.get()}, "2");
  diagnostics.Error("r", Span{}, "1");
  EXPECT_EQ(Texts(diagnostics), (std::vector<std::string>{"1", "2", "3a", "3b", "4", "5", "6", "7", "8"}));
}

TEST(Diagnostics, AWarningIsNoError) {
  Diagnostics diagnostics;
  diagnostics.Warning("r", Span{}, "slow").notes.push_back({Span{}, "why"});
  EXPECT_TRUE(diagnostics.ok());
  EXPECT_EQ(diagnostics.size(), 0u);
  EXPECT_TRUE(diagnostics.has_warnings());
  diagnostics.Error("r", Span{}, "refused");
  EXPECT_FALSE(diagnostics.ok());
  EXPECT_EQ(Texts(diagnostics), (std::vector<std::string>{"refused", "slow"}));
  EXPECT_TRUE(diagnostics.Sorted()[1]->warning);
}

TEST(Diagnostics, EqualOnesAreKeptInOrder) {
  Diagnostics diagnostics;
  diagnostics.Error("r", Span{}, "same").help = "first";
  diagnostics.Error("r", Span{}, "same").help = "second";
  ASSERT_EQ(diagnostics.Sorted().size(), 2u);
  EXPECT_EQ(diagnostics.Sorted()[0]->help, "first");
  EXPECT_EQ(diagnostics.Sorted()[1]->help, "second");
}

}  // namespace
}  // namespace meshseal::compiler

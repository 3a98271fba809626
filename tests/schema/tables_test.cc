// The tables themselves: rows are dense, values and words unique, look-ups go both ways and fail where they should.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "schema/gate.h"
#include "schema/meaning/meaning.h"
#include "schema/reason.h"
#include "schema/step.h"
#include "schema/terms.h"

namespace meshseal {
namespace {

template <class E>
void ExpectSoundTerms() {
  std::set<std::string> words;
  uint8_t expected = 1;
  for (const Term& row : Terms<E>()) {
    EXPECT_EQ(row.value, expected++);
    EXPECT_TRUE(words.insert(row.word).second) << row.word;
    EXPECT_EQ(TermOf<E>(row.word), static_cast<E>(row.value));
    EXPECT_STREQ(WordOf(static_cast<E>(row.value)), row.word);
    EXPECT_TRUE(IsKnown(static_cast<E>(row.value)));
  }
  EXPECT_FALSE(IsKnown(E::kInvalid));
  EXPECT_FALSE(IsKnown(static_cast<E>(expected)));
  EXPECT_STREQ(WordOf(static_cast<E>(255)), "invalid");
  EXPECT_FALSE(TermOf<E>("no such word").has_value());
}

TEST(Tables, TermsAreDenseAndUnique) {
  ExpectSoundTerms<Scoring>();
  ExpectSoundTerms<RouteOrder>();
  ExpectSoundTerms<Renormalize>();
  ExpectSoundTerms<WeightPoint>();
  ExpectSoundTerms<ActivationKind>();
  ExpectSoundTerms<Residual>();
  ExpectSoundTerms<Basis>();
  ExpectSoundTerms<WeightSource>();
  ExpectSoundTerms<Phase>();
  ExpectSoundTerms<Reduction>();
  ExpectSoundTerms<ReduceAlgorithm>();
  ExpectSoundTerms<GroupKind>();
  ExpectSoundTerms<CollectiveOp>();
  ExpectSoundTerms<Numerics>();
  ExpectSoundTerms<FailureScope>();
  ExpectSoundTerms<MemoryKind>();
  ExpectSoundTerms<Transport>();
  ExpectSoundTerms<TensorRole>();
  ExpectSoundTerms<ShapeAxis>();
  ExpectSoundTerms<ValueOrder>();
  ExpectSoundTerms<ValueWidth>();
  ExpectSoundTerms<RowSet>();
  ExpectSoundTerms<AxisPlacement>();
}

TEST(Tables, StepsAreDenseAndUnique) {
  std::set<std::string> mnemonics;
  uint8_t expected = 1;
  for (const StepRow& row : StepRows()) {
    EXPECT_EQ(static_cast<uint8_t>(row.kind), expected++);
    EXPECT_TRUE(mnemonics.insert(row.mnemonic).second) << row.mnemonic;
    EXPECT_EQ(FindStep(row.kind), &row);
    EXPECT_FALSE(row.inputs.empty());
    EXPECT_FALSE(row.outputs.empty());
  }
  EXPECT_EQ(FindStep(StepKind::kInvalid), nullptr);
  EXPECT_EQ(FindStep(static_cast<StepKind>(expected)), nullptr);
}

std::string Text(const std::vector<StepKind>& steps) {
  std::string text;
  for (const StepKind kind : steps) text += std::string(text.empty() ? "" : " ") + FindStep(kind)->mnemonic;
  return text;
}

TEST(Tables, TwoGrammarsWithOneCollectiveAfterCombine) {
  ProgramShape shape = {Phase::kDecode, StepKind::kRoute, false, false, Residual::kNone};
  EXPECT_EQ(Text(GrammarOf(shape)), "route gate_up activation down combine collective");
  shape.residual = Residual::kAdd;
  EXPECT_EQ(Text(GrammarOf(shape)), "route gate_up activation down combine collective residual");
  shape = {Phase::kPrefill, StepKind::kRoute, false, false, Residual::kNone};
  EXPECT_EQ(Text(GrammarOf(shape)), "route scatter gate_up_grouped unscatter activation down combine collective");
  shape = {Phase::kDecode, StepKind::kRouteByTable, true, true, Residual::kNone};
  EXPECT_EQ(Text(GrammarOf(shape)),
            "gather route_by_table gate_up activation down shared_gate_up shared_activation shared_down combine_shared "
            "collective");
  shape = {Phase::kDecode, StepKind::kRouteGiven, false, false, Residual::kNone};
  EXPECT_EQ(Text(GrammarOf(shape)), "route_given gate_up activation down combine collective");
  shape.phase = Phase::kInvalid;
  EXPECT_TRUE(GrammarOf(shape).empty());
  EXPECT_TRUE(GrammarOf({Phase::kDecode, StepKind::kCombine, false, false, Residual::kNone}).empty());
}

TEST(Tables, GatesStandInTheirOrder) {
  std::string names;
  for (const GateRow& row : kGates) {
    EXPECT_EQ(GateName(row.gate), row.name);
    names += std::string(row.name) + " ";
  }
  EXPECT_EQ(names, "mark format size digest signature policy structure meaning ");
}

TEST(Tables, ReasonsHaveUniqueSlugsAndKnownExitCodes) {
  std::set<std::string> slugs;
  const std::set<int> exits = {1, 2, 3, 4, 5, 6, 7, 8, 70};
  for (int i = 0; i <= static_cast<int>(Reason::kBug); ++i) {
    const auto reason = static_cast<Reason>(i);
    EXPECT_EQ(RowOf(reason).reason, reason);
    EXPECT_TRUE(slugs.insert(RowOf(reason).slug).second) << RowOf(reason).slug;
    EXPECT_EQ(exits.count(RowOf(reason).exit_code), 1u);
    const absl::Status status = Refuse(reason, "why");
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(ReasonOf(status), reason);
    EXPECT_EQ(ExitCodeOf(status), RowOf(reason).exit_code);
  }
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("no reason")), 70);
  EXPECT_FALSE(ReasonOf(absl::OkStatus()).has_value());
}

TEST(Tables, RefusedWeightsExitWithFive) {
  std::string slugs;
  for (int i = 0; i <= static_cast<int>(Reason::kBug); ++i) {
    const ReasonRow& row = RowOf(static_cast<Reason>(i));
    const std::string slug = row.slug;
    EXPECT_EQ(row.exit_code == 5, slug.substr(0, 8) == "weights.") << slug;
    if (row.exit_code == 5) slugs += slug + " ";
  }
  EXPECT_NE(slugs.find("weights.lfs-pointer "), std::string::npos);
}

TEST(Tables, MeaningRulesHaveUniqueSlugs) {
  std::set<std::string> slugs;
  for (const MeaningRuleRow& row : MeaningRules()) {
    EXPECT_TRUE(slugs.insert(row.slug).second) << row.slug;
    EXPECT_STRNE(row.promise, "");
  }
}

}  // namespace
}  // namespace meshseal

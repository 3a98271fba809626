#include "compiler/yaml/fields.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/compiler/yaml/yaml_document.h"

namespace meshseal::compiler {
namespace {

TEST(FieldReader, GivesTheValuesAskedFor) {
  YamlDocument document("{tp: 2, ep: 4}");
  FieldReader fields(document.root(), "deployment.parallel", document.diagnostics());
  ASSERT_NE(fields.Required("tp"), nullptr);
  EXPECT_EQ(fields.Required("tp")->scalar()->text, "2");
  ASSERT_NE(fields.Optional("ep"), nullptr);
  EXPECT_EQ(fields.Optional("ep")->scalar()->text, "4");
  EXPECT_EQ(fields.Optional("dense"), nullptr);
  fields.Finish();
  EXPECT_EQ(document.Said(), "");
}

TEST(FieldReader, MissingFieldsPointAtTheMap) {
  YamlDocument document("parallel: {tp: 2}\nplacement:\n  uneven: refuse\n");
  FieldReader parallel(document.at("parallel"), "deployment.parallel", document.diagnostics());
  EXPECT_EQ(parallel.Required("ep"), nullptr);
  parallel.Required("tp");
  parallel.Finish();
  FieldReader placement(document.at("placement"), "deployment.placement", document.diagnostics());
  EXPECT_EQ(placement.Required("experts"), nullptr);
  placement.Optional("uneven");
  placement.Finish();
  EXPECT_EQ(document.Said(),
            "1:11+1: deployment.parallel: required key 'ep' is missing [missing-field]\n"
            "3:3+6: deployment.placement: required key 'experts' is missing [missing-field]\n");
}

TEST(FieldReader, UnknownKeysWithTheNearestKnownOne) {
  YamlDocument document("{expertss: 8, zzzzzz: 1, layers: 2}");
  FieldReader fields(document.root(), "moe", document.diagnostics());
  fields.Optional("experts");
  fields.Required("layers");
  fields.Optional("experts");
  fields.Finish();
  EXPECT_EQ(document.Said(),
            "1:2+8: unknown key 'expertss' in moe [unknown-key]\n"
            "  help: did you mean 'experts'? known keys: experts, layers\n"
            "1:15+6: unknown key 'zzzzzz' in moe [unknown-key]\n"
            "  help: known keys: experts, layers\n");
}

// Writing it again would be a duplicate key.
TEST(FieldReader, AKeyThatIsThereIsNotSuggested) {
  YamlDocument document("{tp: 8, tpp: 8}");
  FieldReader fields(document.root(), "parallel", document.diagnostics());
  fields.Optional("tp");
  fields.Finish();
  EXPECT_EQ(document.Said(), "1:9+3: unknown key 'tpp' in parallel [unknown-key]\n  help: known keys: tp\n");
}

TEST(FieldReader, AMissingAndAMistypedKey) {
  YamlDocument document("intermediate_sise: 768\n");
  FieldReader fields(document.root(), "moe", document.diagnostics());
  EXPECT_EQ(fields.Required("intermediate_size"), nullptr);
  fields.Finish();
  EXPECT_EQ(document.Said(),
            "1:1+17: moe: required key 'intermediate_size' is missing [missing-field]\n"
            "1:1+17: unknown key 'intermediate_sise' in moe [unknown-key]\n"
            "  help: did you mean 'intermediate_size'? known keys: intermediate_size\n");
}

TEST(FieldReader, WhatIsNoMapIsSaidOnce) {
  YamlDocument document("[1]");
  FieldReader fields(document.root(), "moe", document.diagnostics());
  EXPECT_EQ(fields.Required("experts"), nullptr);
  EXPECT_EQ(fields.Optional("layers"), nullptr);
  fields.Finish();
  EXPECT_EQ(document.Said(), "1:1+1: moe: expected a map, found a list [wrong-kind]\n");
}

TEST(FieldReader, AnEmptyMapMissesEverything) {
  YamlDocument document("{}");
  FieldReader fields(document.root(), "moe", document.diagnostics());
  EXPECT_EQ(fields.Required("experts"), nullptr);
  fields.Finish();
  EXPECT_EQ(document.Said(), "1:1+1: moe: required key 'experts' is missing [missing-field]\n");
}

}  // namespace
}  // namespace meshseal::compiler

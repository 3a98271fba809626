// The seal: nothing that differs from what was sealed by a single byte gets past, and the gate that refuses is the
// expected one.
#include "schema/seal.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/gate.h"
#include "schema/reason.h"
#include "schema/sealed_plan.h"
#include "tests/support/plan_builder.h"

namespace meshseal {
namespace {

std::string SealedFile() {
  support::PlanNumbers numbers;
  numbers.ep = 4;
  numbers.layers = 2;
  return *SealPlan(support::BuildPlan(numbers), 7);
}

std::string SlugOf(const std::string& file) {
  const absl::Status status = SealedPlan::Open(file, Policy{}).status();
  if (status.ok()) return "accepted";
  const std::optional<Reason> reason = ReasonOf(status);
  return reason.has_value() ? RowOf(*reason).slug : "no reason";
}

// The header's fields and the reason that refuses a change of each.
struct Field {
  size_t begin;
  size_t end;
  const char* slug;
};
constexpr Field kFields[] = {
    {0, 8, "mark.not-a-plan"},       {8, 12, "format.envelope-version"}, {12, 16, "format.header-length"},
    {16, 24, "size.payload-length"}, {24, 32, "size.total-length"},      {32, 34, "format.digest-algorithm"},
    {34, 36, "format.payload-type"}, {36, 40, "format.feature-bits"},    {40, 64, "digest.header"},
    {64, 96, "digest.header"},       {96, 128, "digest.header"},
};

TEST(Seal, EveryChangeOfEveryHeaderByteIsRefusedAtItsGate) {
  const std::string file = SealedFile();
  ASSERT_EQ(SlugOf(file), "accepted");
  size_t refused = 0;
  for (const Field& field : kFields) {
    for (size_t at = field.begin; at < field.end; ++at) {
      for (int change = 1; change < 256; ++change) {
        std::string changed = file;
        changed[at] = static_cast<char>(changed[at] ^ change);
        const std::string slug = SlugOf(changed);
        // A length that exceeds the cap is refused by the cap first.
        const bool expected = slug == field.slug || (field.begin == 16 && slug == "size.payload-too-large");
        ASSERT_TRUE(expected) << "byte " << at << " ^ " << change << ": " << slug;
        ++refused;
      }
    }
  }
  EXPECT_EQ(refused, kSealSize * 255);
}

TEST(Seal, EveryChangeOfEveryPayloadByteIsRefused) {
  const std::string file = SealedFile();
  std::string changed = file;
  for (size_t at = kSealSize; at < file.size(); ++at) {
    // One flip of each byte through all gates, and all 255 through the digest gate that refuses it.
    changed[at] = static_cast<char>(file[at] ^ (1 << (at % 8)));
    ASSERT_EQ(SlugOf(changed), "digest.payload") << "byte " << at;
    changed[at] = file[at];
  }
}

TEST(Seal, TruncationsAndAppendedBytesAreRefused) {
  const std::string file = SealedFile();
  for (size_t size = 0; size < file.size(); ++size) {
    const std::string slug = SlugOf(file.substr(0, size));
    const char* expected = size < 8           ? "mark.not-a-plan"
                           : size < kSealSize ? "size.short-header"
                                              : "size.payload-length";
    ASSERT_EQ(slug, expected) << size << " bytes";
  }
  for (const std::string& tail : {std::string(1, '\0'), std::string("\n"), std::string(4096, 'x')}) {
    EXPECT_EQ(SlugOf(file + tail), "size.payload-length");
  }
}

TEST(Seal, InsertionsAndDeletionsAreRefused) {
  const std::string file = SealedFile();
  for (size_t at = 0; at <= file.size(); at += 13) {
    std::string inserted = file;
    inserted.insert(at, 1, '\0');
    ASSERT_NE(SlugOf(inserted), "accepted") << at;
    if (at == file.size()) break;
    std::string deleted = file;
    deleted.erase(at, 1);
    ASSERT_NE(SlugOf(deleted), "accepted") << at;
  }
}

TEST(Seal, MessagesSayFoundAndExpected) {
  const std::string file = SealedFile();
  const auto message = [](const std::string& changed) {
    return std::string(SealedPlan::Open(changed, Policy{}).status().message());
  };
  EXPECT_EQ(message(""), "refused at gate 'mark': the file is empty");
  EXPECT_EQ(message(std::string("\x7f"
                                "ELF\x02\x01\x01\x00 and more",
                                16)),
            "refused at gate 'mark': not a sealed file: it starts with 7f454c4602010100, a sealed file with "
            "894d534c0d0a1a0a");
  std::string changed = file;
  changed[8] = 2;
  EXPECT_EQ(message(changed), "refused at gate 'format': envelope 2.0, this version reads 1.0");
  changed = file;
  changed[36] = 4;
  EXPECT_EQ(message(changed), "refused at gate 'format': the file requires feature bits 0x4, this version knows 0x0");
  EXPECT_EQ(message(file.substr(0, 100)),
            "refused at gate 'size': the file ends after 100 bytes, inside its header of 128");
  EXPECT_EQ(message(file + "x"),
            absl::StrCat("refused at gate 'size': sealed payload length ", file.size() - kSealSize, ", the file has ",
                         file.size() - kSealSize + 1, " bytes after its header"));
}

TEST(Seal, DigestsRecomputedByHandAreCaughtByTheNextGate) {
  // A payload that was changed and sealed again is sealed; then structure and meaning must refuse it.
  std::string payload(PayloadOf(SealedFile()));
  const auto reseal = [](const std::string& bytes) {
    return SealPayload(bytes, PayloadType::kPlan, 0, StreamOf("test"));
  };
  payload += '\0';
  EXPECT_EQ(SlugOf(reseal(payload)).substr(0, 9), "structure");
  EXPECT_EQ(SlugOf(reseal("")).substr(0, 9), "structure");
  EXPECT_EQ(SlugOf(reseal("random bytes, not a FlatBuffer")).substr(0, 9), "structure");
}

TEST(Policy, PinsAndSerials) {
  const std::string file = SealedFile();
  const absl::StatusOr<SealedPlan> plan = SealedPlan::Open(file, Policy{});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->serial(), 7u);
  Policy policy;
  policy.pinned_id = plan->id();
  policy.min_serial = 7;
  EXPECT_TRUE(SealedPlan::Open(file, policy).ok());
  policy.min_serial = 8;
  absl::Status refusal = SealedPlan::Open(file, policy).status();
  EXPECT_EQ(ReasonOf(refusal), Reason::kSerialTooLow);
  EXPECT_EQ(refusal.message(), "refused at gate 'policy': serial 7, the lowest one accepted is 8");
  policy.min_serial = 0;
  policy.pinned_id = Sha256("another plan");
  refusal = SealedPlan::Open(file, policy).status();
  EXPECT_EQ(ReasonOf(refusal), Reason::kPinnedId);
  EXPECT_EQ(GateOf(refusal), Gate::kPolicy);
}

TEST(SealedPlan, IsADeterministicFunctionOfThePlan) {
  support::PlanNumbers numbers;
  numbers.ep = 2;
  const Plan plan = support::BuildPlan(numbers);
  const std::string file = *SealPlan(plan, 3);
  EXPECT_EQ(*SealPlan(plan, 3), file);
  EXPECT_NE(*SealPlan(plan, 4), file);
  const absl::StatusOr<SealedPlan> opened = SealedPlan::Open(file, Policy{});
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(opened->plan() == plan);
}

}  // namespace
}  // namespace meshseal

// The seal: what its gates say, what policies ask, and that it is a function of the plan. That nothing gets past it is
// proven in signed_plan_test.cc and forgery_test.cc.
#include "schema/seal.h"

#include <gtest/gtest.h>

#include <string>

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

// Plans of another format are refused as such, and not for what else is strange in them.
TEST(Seal, APlanOfAnotherFormatIsToBeCompiledAgain) {
  std::string payload(PayloadOf(SealedFile()));
  const auto number = [&payload](size_t at, size_t bytes) {
    size_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= size_t{static_cast<unsigned char>(payload[at + i])} << (8 * i);
    return value;
  };
  // The root table begins with the distance back to its table of fields, whose rows begin at byte 4.
  const size_t root = number(0, 4);
  const size_t fields = root - number(root, 4);
  for (const size_t field : {size_t{0}, size_t{1}}) {
    std::string changed = payload;
    changed[root + number(fields + 4 + 2 * field, 2)] = 9;
    const std::string file = SealPayload(changed, PayloadType::kPlan, 0, StreamOf("test"));
    const absl::Status refusal = SealedPlan::Open(file, Policy{}).status();
    EXPECT_EQ(ReasonOf(refusal), Reason::kPlanFormat);
    EXPECT_EQ(refusal.message(),
              absl::StrCat("refused at gate 'structure': plan format ", field == 0 ? 9 : kPlanFormatMajor, ".",
                           field == 1 ? 9 : kPlanFormatMinor, ", this version reads ", kPlanFormatMajor, ".",
                           kPlanFormatMinor, "; compile the plan again"));
  }
  EXPECT_EQ(GateOf(Refuse(Reason::kUsage, "no gate")), std::nullopt);
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

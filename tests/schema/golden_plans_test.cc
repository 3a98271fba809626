// Plans that an earlier build sealed, in tests/data/plans/FORMAT: those of the current format open, unchanged to the
// byte. Their schema stands beside them; `flatc --conform` compares it with the current one.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "schema/plan.h"
#include "schema/sealed_plan.h"
#include "tests/support/open_unsigned.h"

namespace meshseal {
namespace {

namespace fs = std::filesystem;

TEST(GoldenPlans, OfTheCurrentFormatOpen) {
  const fs::path folder =
      fs::path(MESHSEAL_TEST_DATA) / "plans" / absl::StrCat(kPlanFormatMajor, ".", kPlanFormatMinor);
  std::ifstream ids(folder / "ids");
  std::string id;
  std::string name;
  size_t opened = 0;
  while (ids >> id >> name) {
    const absl::StatusOr<std::string> file = ReadPlanFile(folder / absl::StrCat(name, ".mseal"));
    ASSERT_TRUE(file.ok()) << file.status();
    const absl::StatusOr<SealedPlan> plan = support::OpenUnsigned(*file);
    ASSERT_TRUE(plan.ok()) << name << ": " << plan.status();
    EXPECT_EQ(HexOf(plan->id()), id) << name;
    EXPECT_EQ(plan->plan().deployment_name, name);
    const absl::StatusOr<std::string> sealed_again = SealPlan(plan->plan(), plan->serial());
    ASSERT_TRUE(sealed_again.ok()) << sealed_again.status();
    EXPECT_EQ(*sealed_again, *file) << name;
    ++opened;
  }
  EXPECT_EQ(opened, 4u);
}

}  // namespace
}  // namespace meshseal

#include "runtime/program/executed.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/reason.h"

namespace meshseal::runtime {

absl::Status CheckExecuted(const Plan& plan, ExecutorKind executor) {
  const std::vector<ExecutionGap> gaps = GapsOf(plan, executor);
  if (gaps.empty()) return absl::OkStatus();
  const auto append = [](std::string* text, const ExecutionGap& gap) {
    absl::StrAppend(text, gap.what, " (nearest: ", gap.nearest, ")");
  };
  return Refuse(Reason::kNotBuilt,
                absl::StrCat("executor '", NameOf(executor),
                             "' does not execute what the plan asks for: ", absl::StrJoin(gaps, "; ", append)));
}

}  // namespace meshseal::runtime

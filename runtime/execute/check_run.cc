#include "runtime/execute/check_run.h"

#include "absl/strings/str_cat.h"
#include "schema/mesh_view.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

absl::Status CheckSize(const char* what, size_t found, uint64_t expected) {
  if (found == expected) return absl::OkStatus();
  return Refuse(Reason::kUsage, absl::StrCat(what, " has ", found, " elements, expected ", expected));
}

// What each dense group brings, where they bring different tokens.
absl::Status CheckGroups(const RankProgram& program, const StepInput& input) {
  if (!program.gathers()) return CheckSize("the row of dense groups' tokens", input.group_tokens.size(), 0);
  MESHSEAL_RETURN_IF_ERROR(
      CheckSize("the row of dense groups' tokens", input.group_tokens.size(), DenseGroups(program.degrees())));
  uint64_t sum = 0;
  for (const uint32_t tokens : input.group_tokens) {
    if (tokens > program.max_own_tokens()) {
      return Refuse(Reason::kLimit, absl::StrCat(tokens, " tokens of a dense group, the ", WordOf(program.phase()),
                                                 " program takes ", program.max_own_tokens()));
    }
    sum += tokens;
  }
  if (sum == input.tokens) return absl::OkStatus();
  return Refuse(Reason::kUsage, absl::StrCat("the dense groups bring ", sum, " tokens, expected ", input.tokens));
}

}  // namespace

absl::Status CheckRun(const RankProgram& program, uint64_t arena_bytes, const StepInput& input,
                      const StepOutput& output) {
  if (input.tokens > program.max_tokens() || program.arena_bytes() > arena_bytes) {
    return Refuse(Reason::kLimit,
                  absl::StrCat(input.tokens, " tokens, the ", WordOf(program.phase()), " program takes ",
                               program.max_tokens(), " in ", program.arena_bytes(), " of ", arena_bytes, " bytes"));
  }
  MESHSEAL_RETURN_IF_ERROR(CheckGroups(program, input));
  const uint64_t own =
      program.gathers() ? input.group_tokens[DenseGroupOf(program.degrees(), program.at())] : input.tokens;
  const uint64_t elements = own * program.hidden();
  MESHSEAL_RETURN_IF_ERROR(CheckSize("the input", input.hidden.size(), elements));
  const uint64_t ids = program.route().kind == StepKind::kRouteByTable ? input.tokens : 0;
  MESHSEAL_RETURN_IF_ERROR(CheckSize("the row of token ids", input.token_ids.size(), ids));
  const uint64_t slots = uint64_t{input.tokens} * program.layer_class().top_k;
  const uint64_t given = program.route().kind == StepKind::kRouteGiven ? slots : 0;
  for (const size_t size : {input.routing.experts.size(), input.routing.weights.size()}) {
    MESHSEAL_RETURN_IF_ERROR(CheckSize("the given routing", size, given));
  }
  if (!output.hidden.empty()) MESHSEAL_RETURN_IF_ERROR(CheckSize("the output", output.hidden.size(), elements));
  for (const size_t size : {output.expert_ids.size(), output.expert_weights.size()}) {
    if (size != 0) MESHSEAL_RETURN_IF_ERROR(CheckSize("the routing", size, slots));
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime

// The last stage: a draft becomes sealed bytes, which are opened through all gates before anybody sees them.
#ifndef MESHSEAL_COMPILER_EMIT_EMIT_H_
#define MESHSEAL_COMPILER_EMIT_EMIT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/lowering/plan_draft.h"

namespace meshseal::compiler {

// The bytes of the sealed plan. Reason kBug when our own gates refuse them: then the compiler is wrong, not the user.
absl::StatusOr<std::string> Emit(const PlanDraft& draft, uint64_t serial);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_EMIT_EMIT_H_

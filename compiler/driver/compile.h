// The compiler as one call: documents in, sealed bytes or diagnostics out.
#ifndef MESHSEAL_COMPILER_DRIVER_COMPILE_H_
#define MESHSEAL_COMPILER_DRIVER_COMPILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/text/diagnostic.h"
#include "compiler/text/source.h"
#include "schema/executors.h"

namespace meshseal::compiler {

enum class Stage : uint8_t {
#define MESHSEAL_STAGE(enumerator, name, result) enumerator,
#include "compiler/driver/stages.def"
#undef MESHSEAL_STAGE
};

// The names of all stages, in order.
std::vector<std::string> StageNames();
std::optional<Stage> StageOf(absl::string_view name);

// A field of the deployment that a flag overrides; messages about it point at the flag.
struct Override {
  std::string field;  // dp, pp, tp, ep, dense-tp, placement or reduction
  // A degree, or a word of the field; `balanced:FILE` names a load profile beside the working directory.
  std::string value;
};

struct CompileRequest {
  std::string deployment;            // path
  std::optional<std::string> model;  // paths that override the deployment's
  std::optional<std::string> mesh;
  std::optional<std::string> weights;  // a checkpoint whose headers the model must fit; no payload is read
  std::optional<std::string> digests;  // a sealed digest list that the plan binds
  std::vector<Override> overrides;
  uint64_t serial = 0;
  std::optional<ExecutorKind> executor;  // that has to execute the plan
  bool find_layout = false;              // search all degrees and go on with the best layout
  bool explain_all = false;              // list refused layouts too
  Stage stop_after = Stage::kSeal;
};

// What came out. Exactly one of: diagnostics with errors, sealed bytes, or the text of the stage it stopped after.
struct CompileResult {
  std::vector<std::unique_ptr<const SourceFile>> files;  // diagnostics point into them
  Diagnostics diagnostics;
  std::string sealed;
  std::string stage_text;
  std::string layouts;  // what a search found, as a table
};

// Reason kUsage: a file cannot be opened; weights.*: a checkpoint's headers are refused;
// those of a gate: the digest list is refused. Reason kBug: our own gates
// refuse what was compiled. Violations of rules are not a status: they are in the result, all that the stage could see.
absl::StatusOr<CompileResult> Compile(const CompileRequest& request);

// All checks of one document: a deployment with its model and mesh as far as the budget, a model or a mesh alone. A
// model is compared with the headers of the checkpoint at `weights`.
absl::StatusOr<CompileResult> CheckDocument(const std::string& path,
                                            const std::optional<std::string>& weights = std::nullopt);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_DRIVER_COMPILE_H_

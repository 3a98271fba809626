// The rules as a table for people, and the functions behind it for the check stage.
#ifndef MESHSEAL_COMPILER_CHECK_RULES_H_
#define MESHSEAL_COMPILER_CHECK_RULES_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/manifest/manifest.h"
#include "compiler/text/diagnostic.h"

namespace meshseal::compiler {

struct RuleRow {
  const char* slug;
  const char* stage;  // "read", "check", "files" or "budget"
  const char* promise;
  const char* example;
  bool degrees_help;  // whether other parallel degrees may satisfy it
};

// All rows of rules.def.
absl::Span<const RuleRow> Rules();

// The row of a slug; null for an unknown one.
const RuleRow* FindRule(absl::string_view slug);

// One function per rule: reports every violation of its rule. They read what earlier stages proved and nothing of each
// other: all of them run on every input. Internal to the check stage.
namespace rules {

#define MESHSEAL_READ_RULE(slug, promise, example)
#define MESHSEAL_FILE_RULE(slug, promise, example)
#define MESHSEAL_BUDGET_RULE(slug, promise, example)
#define MESHSEAL_WARNING_RULE(slug, promise, example)
#define MESHSEAL_MODEL_RULE(Function, slug, promise, example) \
  void Function(absl::string_view rule, const Manifest& model, Diagnostics& diagnostics);
#define MESHSEAL_GROUP_RULE(Function, slug, promise, example) \
  void Function(absl::string_view rule, const Manifest& model, const LayerGroup& group, Diagnostics& diagnostics);
#define MESHSEAL_MESH_RULE(Function, slug, promise, example) \
  void Function(absl::string_view rule, const MeshSpec& mesh, Diagnostics& diagnostics);
#define MESHSEAL_DEPLOYMENT_RULE(Function, slug, promise, example) \
  void Function(absl::string_view rule, const Inputs& inputs, Diagnostics& diagnostics);
#define MESHSEAL_DEGREE_RULE MESHSEAL_DEPLOYMENT_RULE
#include "compiler/check/rules.def"
#undef MESHSEAL_DEGREE_RULE
#undef MESHSEAL_DEPLOYMENT_RULE
#undef MESHSEAL_MESH_RULE
#undef MESHSEAL_GROUP_RULE
#undef MESHSEAL_MODEL_RULE
#undef MESHSEAL_BUDGET_RULE
#undef MESHSEAL_WARNING_RULE
#undef MESHSEAL_FILE_RULE
#undef MESHSEAL_READ_RULE

}  // namespace rules

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_CHECK_RULES_H_

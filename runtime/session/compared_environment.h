// The environment variables that must be the same for all ranks: the table compared_environment.def.
#ifndef MESHSEAL_RUNTIME_SESSION_COMPARED_ENVIRONMENT_H_
#define MESHSEAL_RUNTIME_SESSION_COMPARED_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace meshseal::runtime {

bool IsCompared(absl::string_view variable);

// Those of `variables` (NAME=VALUE, in any order) that are compared: "NAME VALUE" lines, by name. A line break in a
// value is escaped.
std::string ComparedEnvironment(std::vector<std::string> variables);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_COMPARED_ENVIRONMENT_H_

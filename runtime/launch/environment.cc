#include "runtime/launch/environment.h"

#include <unistd.h>

#include <cstdlib>

namespace meshseal::runtime {

Environment ProcessEnvironment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

std::vector<std::string> ProcessVariables() {
  std::vector<std::string> variables;
  if (environ == nullptr) return variables;  // after clearenv()
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  return variables;
}

}  // namespace meshseal::runtime

#include "runtime/session/compared_environment.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace meshseal::runtime {
namespace {

struct VariableRow {
  absl::string_view name;
  bool compared;
};

constexpr VariableRow kVariables[] = {
#define MESHSEAL_VARIABLE(name, compared) {name, compared},
#include "runtime/session/compared_environment.def"
#undef MESHSEAL_VARIABLE
};

bool Fits(const VariableRow& row, absl::string_view variable) {
  const absl::string_view start = absl::StripSuffix(row.name, "*");
  return start.size() < row.name.size() ? absl::StartsWith(variable, start) : variable == row.name;
}

}  // namespace

bool IsCompared(absl::string_view variable) {
  const VariableRow* longest = nullptr;
  for (const VariableRow& row : kVariables) {
    if (!Fits(row, variable)) continue;
    if (longest == nullptr || row.name.size() > longest->name.size()) longest = &row;
  }
  return longest != nullptr && longest->compared;
}

std::string ComparedEnvironment(std::vector<std::string> variables) {
  std::sort(variables.begin(), variables.end());
  std::string lines;
  for (const std::string& variable : variables) {
    const size_t equals = variable.find('=');
    if (equals == std::string::npos || !IsCompared(absl::string_view(variable).substr(0, equals))) continue;
    absl::StrAppend(&lines, variable.substr(0, equals), " ", absl::CHexEscape(variable.substr(equals + 1)), "\n");
  }
  return lines;
}

}  // namespace meshseal::runtime

// The command table as rows; commands.def holds them.
#ifndef MESHSEAL_TOOLS_CLI_COMMANDS_H_
#define MESHSEAL_TOOLS_CLI_COMMANDS_H_

#include <array>
#include <string>

#include "absl/strings/string_view.h"

namespace meshseal::tools {

struct CommandRow {
  const char* name;
  const char* program;
  const char* summary;
};

inline constexpr std::array kCommands = {
#define MESHSEAL_COMMAND(name, program, summary) CommandRow{name, program, summary},
#include "tools/cli/commands.def"
#undef MESHSEAL_COMMAND
};

inline const CommandRow* FindCommand(absl::string_view name) {
  for (const CommandRow& row : kCommands) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

// " Did you mean 'show'?", or nothing when no command is near.
std::string NearestCommand(absl::string_view name);

// What --version prints: tool, formats read and written.
std::string VersionText();

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_CLI_COMMANDS_H_

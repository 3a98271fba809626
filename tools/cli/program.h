// One of meshseal's programs: its commands, flags, help and exit codes, over CLI11.
// Data goes to stdout, everything else to stderr. Exit codes are those of schema/reasons.def: 2 for bad flags.
#ifndef MESHSEAL_TOOLS_CLI_PROGRAM_H_
#define MESHSEAL_TOOLS_CLI_PROGRAM_H_

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace meshseal::tools {

class Program {
 public:
  explicit Program(std::string name);

  // Declares a command of commands.def; flags are added to the result, `run` gives the exit code. Two real examples,
  // without the leading "meshseal".
  CLI::App& Add(const std::string& command, const std::array<std::string, 2>& examples, std::function<int()> run);

  // Parses and runs; the exit code of main.
  int Main(int argc, char** argv);

 private:
  int ReportParseError(const CLI::ParseError& error);

  std::string name_;
  CLI::App app_;
  std::vector<std::pair<CLI::App*, std::function<int()>>> commands_;
};

// What every main() returns: `main`, whose exceptions end in a message and an exit code, that of kOutOfMemory where it
// runs out of memory.
int RunMain(int (*main)(int, char**), int argc, char** argv);

// Prints "meshseal COMMAND: text [reason]" to stderr; the status's exit code. 0 for OK. Takes no memory.
int Report(const char* command, const absl::Status& status);

// Whether `stream` (1 or 2) is a terminal and NO_COLOR is not set.
bool WantsColour(int stream);

// Prints to stdout and checks that it arrived: 0, or the exit code of a failed write, reported.
int Print(const std::string& command, const std::string& text);

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_CLI_PROGRAM_H_

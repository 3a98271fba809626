#include "tools/cli/program.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/nearest.h"
#include "schema/reason.h"
#include "tools/cli/commands.h"

namespace meshseal::tools {
namespace {

constexpr int kUsageExit = 2;
constexpr const char* kNoMemory = "out of memory";

constexpr absl::string_view kExitCodes =
    "Exit codes: 0 yes, 1 no (a rule, a limit, a difference), 2 bad flags or files,\n"
    "3 plan refused, 4 preflight, 5 weights, 6 peer or deadline, 7 device or memory,\n"
    "8 computation invalid, 70 fault of meshseal";

// The long flags of a command, for a misspelled one.
std::optional<std::string> NearestFlag(const CLI::App& command, absl::string_view flag) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::vector<absl::string_view> views(names.begin(), names.end());
  const std::optional<absl::string_view> nearest = Nearest(flag.substr(0, flag.find('=')), views);
  if (!nearest.has_value()) return std::nullopt;
  return std::string(*nearest);
}

}  // namespace

Program::Program(std::string name)
    : name_(std::move(name)), app_("part of meshseal; `meshseal COMMAND` finds it", "meshseal") {
  app_.set_version_flag("--version", VersionText);
  app_.require_subcommand(1);
}

CLI::App& Program::Add(const std::string& command, const std::array<std::string, 2>& examples,
                       std::function<int()> run) {
  CLI::App* subcommand = app_.add_subcommand(command, FindCommand(command)->summary);
  subcommand->footer(
      absl::StrCat("Examples:\n  meshseal ", examples[0], "\n  meshseal ", examples[1], "\n", std::string(kExitCodes)));
  commands_.emplace_back(subcommand, std::move(run));
  return *subcommand;
}

int Program::Main(int argc, char** argv) {
  try {
    app_.parse(argc, argv);
    for (const auto& [command, run] : commands_) {
      if (command->parsed()) return run();
    }
    return kUsageExit;
  } catch (const CLI::Success& help) {
    return app_.exit(help);
  } catch (const CLI::ParseError& error) {
    return ReportParseError(error);
  }
}

int Program::ReportParseError(const CLI::ParseError& error) {
  const CLI::App* command = &app_;
  std::string name = name_;
  for (const auto& [subcommand, run] : commands_) {
    if (subcommand->parsed()) {
      command = subcommand;
      name = absl::StrCat("meshseal ", subcommand->get_name());
    }
  }
  std::string text = error.what();
  for (const std::string& extra : app_.remaining(true)) {
    if (!absl::StartsWith(extra, "-")) continue;
    text = absl::StrCat("unknown flag '", extra, "'");
    if (const std::optional<std::string> nearest = NearestFlag(*command, extra)) {
      absl::StrAppend(&text, ". Did you mean '", *nearest, "'?");
    }
    break;
  }
  std::fprintf(stderr, "%s: %s\n%s --help shows its flags\n", name.c_str(), text.c_str(), name.c_str());
  return kUsageExit;
}

int RunMain(int (*main)(int, char**), int argc, char** argv) {
  const char* program = argc > 0 ? argv[0] : "meshseal";
  try {
    return main(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: %s [%s]\n", program, kNoMemory, RowOf(Reason::kOutOfMemory).slug);
    return RowOf(Reason::kOutOfMemory).exit_code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: fault of meshseal: %s\n", program, error.what());
    return RowOf(Reason::kBug).exit_code;
  }
}

int Report(const char* command, const absl::Status& status) {
  if (status.ok()) return 0;
  const ReasonRow& row = RowOf(ReasonOf(status).value_or(Reason::kBug));
  const absl::string_view text =
      row.reason == Reason::kOutOfMemory && status.message().empty() ? absl::string_view(kNoMemory) : status.message();
  std::fprintf(stderr, "meshseal %s: %.*s [%s]\n", command, static_cast<int>(text.size()), text.data(), row.slug);
  return row.exit_code;
}

bool WantsColour(int stream) {
  const char* no_color = std::getenv("NO_COLOR");
  return (no_color == nullptr || *no_color == '\0') && isatty(stream) == 1;
}

int Print(const std::string& command, const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (written) return 0;
  return Report(command.c_str(), Refuse(Reason::kUsage, "standard output cannot be written"));
}

}  // namespace meshseal::tools

// The one name to remember: finds the program of a command beside itself and becomes it.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "schema/format_text.h"
#include "tools/cli/commands.h"
#include "tools/cli/program.h"

namespace meshseal::tools {
namespace {

constexpr int kUsageExit = 2;

std::string Help() {
  std::string text =
      "meshseal compiles a Mixture-of-Experts model, a device mesh and a parallelism choice into one\n"
      "sealed plan, and executes that plan and nothing else on every rank.\n\n"
      "usage: meshseal COMMAND [ARGUMENTS]      meshseal COMMAND --help\n\n";
  for (const CommandRow& row : kCommands) {
    AppendFormat(&text, "  %-9s %s\n", row.name, row.summary);
  }
  absl::StrAppend(&text,
                  "\nExamples:\n"
                  "  meshseal check manifests/deployments/tiny-ep4.yaml\n"
                  "  meshseal compile manifests/deployments/tiny-ep4.yaml -o tiny-ep4.mseal\n");
  return text;
}

int Main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(Help().c_str(), stdout);
    return 0;
  }
  if (name == "--version") {
    std::printf("%s\n", VersionText().c_str());
    return 0;
  }
  if (name.empty()) {
    std::fputs(Help().c_str(), stderr);
    return kUsageExit;
  }
  const CommandRow* command = FindCommand(name);
  if (command == nullptr) {
    std::fprintf(stderr, "meshseal: unknown command '%s'.%s\nmeshseal --help lists them\n", name.c_str(),
                 NearestCommand(name).c_str());
    return kUsageExit;
  }
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::string program = (self.parent_path() / command->program).string();
  if (!failed) execv(program.c_str(), argv);
  std::fprintf(stderr, "meshseal: cannot start %s: %s\n", program.c_str(), std::strerror(errno));
  return kUsageExit;
}

}  // namespace
}  // namespace meshseal::tools

int main(int argc, char** argv) { return meshseal::tools::RunMain(meshseal::tools::Main, argc, argv); }

#include "runtime/cuda/nccl_settings.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "schema/reason.h"

namespace meshseal::cuda {
namespace {

absl::string_view NameOf(absl::string_view variable) { return variable.substr(0, variable.find('=')); }

std::string HomeOfUser() {
  std::array<char, 4096> text{};
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(::getuid(), &entry, text.data(), text.size(), &found) != 0 || found == nullptr) return "";
  return entry.pw_dir;
}

// Nothing of a file that cannot be read, as NCCL does.
std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Whether the algorithms that NCCL may choose from are rings and trees alone.
bool NamesRingsAndTrees(const runtime::Environment& environment) {
  const std::string names = absl::AsciiStrToLower(environment("NCCL_ALGO").value_or(""));
  const std::vector<absl::string_view> all = absl::StrSplit(names, ',');
  return std::all_of(all.begin(), all.end(), [](absl::string_view name) { return name == "ring" || name == "tree"; });
}

bool IsSet(const runtime::Environment& environment, const char* name) {
  const std::optional<std::string> value = environment(name);
  return value.has_value() && !value->empty();
}

// Whether switches may add.
bool MayUseNvls(const runtime::Environment& environment) {
  return environment(kNvlsVariable).value_or("") != "0" && !NamesRingsAndTrees(environment);
}
bool MayUseCollNet(const runtime::Environment& environment) {
  const std::string enabled = environment("NCCL_COLLNET_ENABLE").value_or("");
  return !enabled.empty() && enabled != "0" && !NamesRingsAndTrees(environment);
}

}  // namespace

NcclSettings::NcclSettings(std::vector<std::string> process, const std::vector<std::string>& files)
    : variables_(std::move(process)) {
  for (const std::string& text : files) {
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      if (line.front() == '#' || !absl::StrContains(line, '=')) continue;
      const auto has_name = [&](const std::string& variable) { return NameOf(variable) == NameOf(line); };
      if (std::none_of(variables_.begin(), variables_.end(), has_name)) variables_.emplace_back(line);
    }
  }
}

NcclSettings NcclSettings::OfProcess() {
  const runtime::Environment environment = runtime::ProcessEnvironment();
  const std::string given = environment("NCCL_CONF_FILE").value_or("");
  return {runtime::ProcessVariables(),
          {TextOf(given.empty() ? absl::StrCat(HomeOfUser(), "/.nccl.conf") : given), TextOf("/etc/nccl.conf")}};
}

runtime::Environment NcclSettings::environment() const {
  return [variables = variables_](const char* name) -> std::optional<std::string> {
    for (const std::string& variable : variables) {
      if (NameOf(variable) == name) return variable.substr(std::min(variable.size(), NameOf(variable).size() + 1));
    }
    return std::nullopt;
  };
}

absl::Status CheckSums(Reduction reduction, const runtime::Environment& environment) {
  if (reduction != Reduction::kFast || IsSet(environment, kNvlsVariable) || NamesRingsAndTrees(environment)) {
    return absl::OkStatus();
  }
  return Refuse(Reason::kRankRecord,
                "NCCL_NVLS_ENABLE is not set: NCCL may have switches add, whose float32 sums differ from call to call; "
                "set it to 0, or to 1 where that may be");
}

std::string AlgorithmText(const runtime::Environment& environment) {
  const auto chosen = [&](const char* name) {
    return IsSet(environment, name) ? *environment(name) : std::string("as NCCL chooses");
  };
  const char* const nvls = !MayUseNvls(environment)            ? "off"
                           : IsSet(environment, kNvlsVariable) ? "where the machine has it"
                                                               : "not decided";
  return absl::StrCat("algorithm ", chosen("NCCL_ALGO"), ", protocol ", chosen("NCCL_PROTO"), ", NVLS ", nvls,
                      MayUseCollNet(environment) ? ", CollNet where the network has it" : "");
}

std::string SumsText(Reduction reduction, const runtime::Environment& environment) {
  switch (reduction) {
    case Reduction::kOrdered:
      return "ordered: ranks add in rank order what NCCL moves";
    case Reduction::kExact:
      return "exact: NCCL adds int64, in any order the same";
    default:
      return absl::StrCat("fast, by NCCL: ", AlgorithmText(environment),
                          MayUseNvls(environment) || MayUseCollNet(environment)
                              ? "; may differ from call to call"
                              : "; on the same machines the same in every call");
  }
}

}  // namespace meshseal::cuda

#include "runtime/session/local_facts.h"

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/launch/environment.h"
#include "runtime/session/compared_environment.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/version.h"

namespace meshseal::runtime {
namespace {

constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";

const char* YesNo(bool yes) { return yes ? "yes" : "no"; }

// What makes one build of the same sources compute other bits than another, or lay out a record otherwise.
std::string BuildText() {
#if defined(__clang__)
  constexpr const char* kCompiler = "Clang ";
#else
  constexpr const char* kCompiler = "GCC ";
#endif
#if defined(__x86_64__)
  constexpr const char* kProcessor = "x86-64";
#elif defined(__aarch64__)
  constexpr const char* kProcessor = "aarch64";
#else
  constexpr const char* kProcessor = "another";
#endif
#if defined(__OPTIMIZE__)
  constexpr bool kOptimised = true;
#else
  constexpr bool kOptimised = false;
#endif
#if defined(__FAST_MATH__)
  constexpr bool kFastMath = true;
#else
  constexpr bool kFastMath = false;
#endif
#if defined(__FMA__)
  constexpr bool kFma = true;
#else
  constexpr bool kFma = false;
#endif
#if defined(__AVX2__)
  constexpr bool kAvx2 = true;
#else
  constexpr bool kAvx2 = false;
#endif
  const absl::string_view version = Version();
  return absl::StrCat("version ", version, "\ncompiler ", kCompiler, __VERSION__, "\nprocessor ", kProcessor,
                      "\noptimised ", YesNo(kOptimised), "\nfast-math ", YesNo(kFastMath), "\nfma ", YesNo(kFma),
                      "\navx2 ", YesNo(kAvx2), "\n");
}

}  // namespace

absl::StatusOr<LocalFacts> CollectLocalFacts() {
  LocalFacts facts;
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size()) != 0) {
    return Refuse(Reason::kUsage, absl::StrCat("gethostname: ", std::generic_category().message(errno)));
  }
  facts.host.assign(name.data(), ::strnlen(name.data(), name.size()));
  MESHSEAL_ASSIGN_OR_RETURN(const std::optional<std::string> boot_id, ReadKernelText(kBootId));
  if (!boot_id.has_value()) return Refuse(Reason::kUsage, absl::StrCat(kBootId, ": is missing"));
  facts.machine = Sha256(*boot_id);
  MESHSEAL_ASSIGN_OR_RETURN(HostMemory memory, ReadHostMemory());
  facts.free_memory = memory.available;
  facts.memory_limit = std::move(memory.limit);
  facts.build = BuildText();
  facts.environment = ComparedEnvironment(ProcessVariables());
  if (::getentropy(facts.nonce.data(), facts.nonce.size()) != 0) {
    return Refuse(Reason::kUsage, absl::StrCat("getentropy: ", std::generic_category().message(errno)));
  }
  return facts;
}

}  // namespace meshseal::runtime

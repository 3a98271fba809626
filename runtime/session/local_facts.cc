#include "runtime/session/local_facts.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/launch/environment.h"
#include "runtime/session/compared_environment.h"
#include "schema/checked_math.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/uninterrupted.h"
#include "schema/version.h"

namespace meshseal::runtime {
namespace {

constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";
constexpr const char* kMeminfo = "/proc/meminfo";

// The start of a file whose size the kernel does not tell.
absl::StatusOr<std::string> ReadProc(const char* path) {
  const auto failed = [path](int error) {
    return Refuse(Reason::kUsage, absl::StrCat(path, ": ", std::generic_category().message(error)));
  };
  const int descriptor = Uninterrupted([&] { return ::open(path, O_RDONLY | O_CLOEXEC); });
  if (descriptor < 0) return failed(errno);
  const absl::Cleanup closer = [descriptor] { ::close(descriptor); };
  std::string text(8192, '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = Uninterrupted([&] { return ::read(descriptor, text.data() + done, text.size() - done); });
    if (got < 0) return failed(errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

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

std::optional<uint64_t> AvailableMemory(absl::string_view meminfo) {
  for (absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    if (!absl::ConsumePrefix(&line, "MemAvailable:") || !absl::ConsumeSuffix(&line, " kB")) continue;
    uint64_t kibibytes = 0;
    if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(line), &kibibytes)) return std::nullopt;
    return CheckedMul(kibibytes, 1024);
  }
  return std::nullopt;
}

absl::StatusOr<LocalFacts> CollectLocalFacts() {
  LocalFacts facts;
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size()) != 0) {
    return Refuse(Reason::kUsage, absl::StrCat("gethostname: ", std::generic_category().message(errno)));
  }
  facts.host.assign(name.data(), ::strnlen(name.data(), name.size()));
  MESHSEAL_ASSIGN_OR_RETURN(const std::string boot_id, ReadProc(kBootId));
  facts.machine = Sha256(boot_id);
  MESHSEAL_ASSIGN_OR_RETURN(const std::string meminfo, ReadProc(kMeminfo));
  const std::optional<uint64_t> available = AvailableMemory(meminfo);
  if (!available.has_value()) return Refuse(Reason::kUsage, absl::StrCat(kMeminfo, ": no line MemAvailable"));
  facts.free_memory = *available;
  facts.build = BuildText();
  facts.environment = ComparedEnvironment(ProcessVariables());
  if (::getentropy(facts.nonce.data(), facts.nonce.size()) != 0) {
    return Refuse(Reason::kUsage, absl::StrCat("getentropy: ", std::generic_category().message(errno)));
  }
  return facts;
}

}  // namespace meshseal::runtime

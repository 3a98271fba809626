#include "tools/run/doctor.h"

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "runtime/launch/environment.h"
#include "runtime/launch/launch_identity.h"
#include "runtime/session/host_memory.h"
#include "schema/byte_text.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/version.h"
#include "tools/cli/program.h"
#include "tools/run/compute_choice.h"
#include "tools/run/listeners.h"
#include "tools/run/machine_limits.h"
#include "tools/run/proc_text.h"
#include "tools/run/rank_launch.h"
#ifdef MESHSEAL_CUDA
#include "runtime/cuda/cuda_report.h"
#endif
#ifdef MESHSEAL_MPI
#include "runtime/comm/mpi_world.h"
#endif

namespace meshseal::tools {
namespace {

// What the CUDA backend has here.
struct CudaFindings {
  std::string runtime;
  std::string nccl;
  std::string nccl_sums;
  std::string driver;  // "" where the driver's management library does not say
  struct Device {
    std::string name;
    std::string uuid;
    std::string pci_id;
    std::string capability;  // "9.0"
    uint64_t memory = 0;
  };
  std::vector<Device> devices;
  std::string refusal;  // why there are none
};

struct Findings {
  MachineFacts machine;
  uint32_t usable_cores = 0;  // that this process may run on
  std::string simd;
  runtime::HostMemory memory;
  uint64_t huge_pages = 0;  // reserved ones
  uint64_t huge_page_bytes = 0;
  std::string transparent_huge_pages;  // always, madvise, never; "" where the kernel does not say
  std::vector<std::string> nvidia_devices;
  std::string nvidia_driver;
  std::optional<CudaFindings> cuda;  // none: not built in
  std::string mpi_library;           // "": not built in
  std::string mpi_threads;
  std::vector<std::string> backends;
  std::string launch;          // "" with an error
  std::string launch_refusal;  // why its variables cannot be right
  std::vector<Listener> listeners;
};

// The widest instructions for floating point that the processor has.
std::string SimdLevel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return __builtin_cpu_supports("avx512bw") ? "AVX-512 (F, BW)" : "AVX-512 (F)";
  if (__builtin_cpu_supports("avx2")) return __builtin_cpu_supports("fma") ? "AVX2 and FMA" : "AVX2";
  return __builtin_cpu_supports("sse4.2") ? "SSE4.2" : "SSE2";
#elif defined(__aarch64__)
  return "NEON";
#else
  return "none known";
#endif
}

// The number of a line "NAME: number" of /proc/meminfo, 0 where there is none.
uint64_t NumberOf(absl::string_view meminfo, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    if (!absl::ConsumePrefix(&line, name) || !absl::ConsumePrefix(&line, ":")) continue;
    absl::ConsumeSuffix(&line, " kB");
    uint64_t number = 0;
    if (absl::SimpleAtoi(absl::StripAsciiWhitespace(line), &number)) return number;
  }
  return 0;
}

// The word in brackets of "always [madvise] never".
std::string ChosenWord(absl::string_view text) {
  const size_t begin = text.find('[');
  const size_t end = text.find(']');
  return begin < end && end != absl::string_view::npos ? std::string(text.substr(begin + 1, end - begin - 1)) : "";
}

uint32_t UsableCores() {
  cpu_set_t* set = CPU_ALLOC(CPU_SETSIZE * 8);
  if (set == nullptr) return 0;
  const size_t size = CPU_ALLOC_SIZE(CPU_SETSIZE * 8);
  const int count = ::sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
  CPU_FREE(set);
  return static_cast<uint32_t>(count);
}

// By the driver's own list, else by device files.
std::vector<std::string> NvidiaDevices() {
  std::vector<std::string> devices;
  const std::string folder = "/proc/driver/nvidia/gpus/";
  for (const std::string& place : ProcNames(folder)) {
    std::string model = "unknown model";
    const std::string information = ProcText(absl::StrCat(folder, place, "/information"));
    for (absl::string_view line : absl::StrSplit(information, '\n')) {
      if (absl::ConsumePrefix(&line, "Model:")) model = std::string(absl::StripAsciiWhitespace(line));
    }
    devices.push_back(absl::StrCat(model, ", PCI ", place));
  }
  if (!devices.empty()) return devices;
  for (const std::string& name : ProcNames("/dev")) {
    absl::string_view number = name;
    uint32_t index = 0;
    if (absl::ConsumePrefix(&number, "nvidia") && absl::SimpleAtoi(number, &index)) devices.push_back("/dev/" + name);
  }
  return devices;
}

std::optional<CudaFindings> FindCuda() {
#ifdef MESHSEAL_CUDA
  cuda::CudaReport report = cuda::ReportCuda({});
  CudaFindings found;
  found.runtime = std::move(report.runtime);
  found.nccl = std::move(report.nccl);
  found.nccl_sums = std::move(report.nccl_sums);
  found.driver = std::move(report.driver);
  found.refusal = std::move(report.refusal);
  for (const cuda::Device& device : report.devices) {
    found.devices.push_back({device.name, cuda::UuidText(device.uuid), device.pci_id,
                             absl::StrCat(device.major, ".", device.minor), device.memory});
  }
  return found;
#else
  return std::nullopt;
#endif
}

nlohmann::ordered_json JsonOf(const std::optional<CudaFindings>& cuda) {
  nlohmann::ordered_json json;
  json["built"] = cuda.has_value();
  if (!cuda.has_value()) return json;
  json["runtime"] = cuda->runtime;
  json["driver"] = cuda->driver;
  json["nccl"] = cuda->nccl;
  json["nccl_sums"] = cuda->nccl_sums;
  json["devices"] = nlohmann::ordered_json::array();
  for (const CudaFindings::Device& device : cuda->devices) {
    json["devices"].push_back({{"name", device.name},
                               {"uuid", device.uuid},
                               {"pci_id", device.pci_id},
                               {"compute_capability", device.capability},
                               {"memory", device.memory}});
  }
  json["refusal"] = cuda->refusal;
  return json;
}

std::string TextOf(const std::optional<CudaFindings>& cuda) {
  if (!cuda.has_value()) return "not built in";
  std::string text = absl::StrCat("runtime ", cuda->runtime, ", driver ",
                                  cuda->driver.empty() ? "unknown" : cuda->driver, ", NCCL ", cuda->nccl);
  for (const CudaFindings::Device& device : cuda->devices) {
    absl::StrAppend(&text, "; ", device.name, " ", device.uuid, " at ", device.pci_id, ", compute capability ",
                    device.capability, ", ", ByteText(device.memory));
  }
  if (!cuda->refusal.empty()) absl::StrAppend(&text, "; no device: ", cuda->refusal);
  return text;
}

absl::Status DescribeMachine(Findings* report) {
  report->machine = FactsOfMachine();
  report->usable_cores = UsableCores();
  report->simd = SimdLevel();
  MESHSEAL_ASSIGN_OR_RETURN(report->memory, runtime::ReadHostMemory());
  const std::string memory = ProcText("/proc/meminfo");
  report->huge_pages = NumberOf(memory, "HugePages_Total");
  report->huge_page_bytes = NumberOf(memory, "Hugepagesize") * 1024;
  report->transparent_huge_pages = ChosenWord(ProcText("/sys/kernel/mm/transparent_hugepage/enabled"));
  report->nvidia_devices = NvidiaDevices();
  const std::string driver = ProcText("/proc/driver/nvidia/version");
  report->nvidia_driver = std::string(absl::StripAsciiWhitespace(driver.substr(0, driver.find('\n'))));
  report->backends = BuiltBackends();
  report->cuda = FindCuda();
#ifdef MESHSEAL_MPI
  const runtime::MpiWorld::Library library = runtime::MpiWorld::Describe();
  report->mpi_library = library.version;
  report->mpi_threads = library.threads;
#endif
  return absl::OkStatus();
}

nlohmann::ordered_json JsonOf(const Listener& listener) {
  nlohmann::ordered_json json;
  json["pid"] = listener.pid;
  json["program"] = listener.program;
  json["protocol"] = listener.socket.protocol;
  json["address"] = listener.socket.address;
  json["port"] = listener.socket.port;
  json["reachable"] = listener.reachable;
  return json;
}

nlohmann::ordered_json LimitJson(const runtime::HostMemory& memory) {
  if (!memory.limit.has_value()) return nullptr;
  return {{"group", memory.limit->group}, {"bytes", memory.limit->bytes}, {"left", memory.limit->left}};
}

// Both bounds, the one that holds first.
std::string MemoryText(const runtime::HostMemory& memory) {
  const std::string host =
      absl::StrCat(ByteText(memory.available), " of ", ByteText(memory.total), " available (MemAvailable)");
  if (!memory.limit.has_value()) return absl::StrCat(host, ", no control group limits it");
  const std::string group = absl::StrCat(ByteText(memory.limit->left), " of ", ByteText(memory.limit->bytes),
                                         " left by the limit of control group ", memory.limit->group);
  return memory.limit->left < memory.available ? absl::StrCat(group, "; the host has ", host)
                                               : absl::StrCat(host, "; ", group);
}

std::string JsonText(const Findings& report) {
  nlohmann::ordered_json json;
  json["version"] = 1;
  json["meshseal"] = std::string(Version());
  json["machine"] = {{"processor", report.machine.processor},
                     {"cores", report.machine.cores},
                     {"usable_cores", report.usable_cores},
                     {"simd", report.simd},
                     {"cache_bytes", report.machine.cache_bytes},
                     {"memory_total", report.memory.total},
                     {"memory_available", report.memory.available},
                     {"memory_limit", LimitJson(report.memory)},
                     {"huge_pages", report.huge_pages},
                     {"huge_page_bytes", report.huge_page_bytes},
                     {"transparent_huge_pages", report.transparent_huge_pages}};
  json["nvidia"] = {{"driver", report.nvidia_driver}, {"devices", report.nvidia_devices}};
  json["cuda"] = JsonOf(report.cuda);
  json["mpi"] = {
      {"built", !report.mpi_library.empty()}, {"library", report.mpi_library}, {"threads", report.mpi_threads}};
  json["backends"] = report.backends;
  json["launch"] = {{"identity", report.launch}, {"refusal", report.launch_refusal}};
  json["listeners"] = nlohmann::ordered_json::array();
  for (const Listener& listener : report.listeners) json["listeners"].push_back(JsonOf(listener));
  return absl::StrCat(json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace), "\n");
}

std::string OrElse(const std::string& text, const char* otherwise) { return text.empty() ? otherwise : text; }

std::string Text(const Findings& report) {
  std::string text = absl::StrCat("meshseal   ", std::string(Version()), "\n");
  const auto line = [&text](const char* name, const std::string& value) {
    absl::StrAppend(&text, name, std::string(11 - std::string(name).size(), ' '), value, "\n");
  };
  line("cores", absl::StrCat(report.usable_cores, " of ", report.machine.cores, " may be used, ",
                             OrElse(report.machine.processor, "unknown processor"), ", ", report.simd));
  line("memory", MemoryText(report.memory));
  line("pages", absl::StrCat(report.huge_pages, " huge ones of ", ByteText(report.huge_page_bytes),
                             " reserved, transparent ones: ", OrElse(report.transparent_huge_pages, "none")));
  line("NVIDIA", report.nvidia_devices.empty() ? "none seen" : absl::StrJoin(report.nvidia_devices, "; "));
  if (!report.nvidia_driver.empty()) line("driver", report.nvidia_driver);
  line("CUDA", TextOf(report.cuda));
  if (report.cuda.has_value()) line("fast sums", absl::StrCat("by NCCL: ", report.cuda->nccl_sums));
  line("MPI", report.mpi_library.empty() ? "not built in"
                                         : absl::StrCat(report.mpi_library, "; threads: ", report.mpi_threads));
  line("backends", absl::StrJoin(report.backends, ", "));
  line("launch", report.launch_refusal.empty() ? report.launch : absl::StrCat("REFUSED: ", report.launch_refusal));
  if (report.listeners.empty()) line("listeners", "none");
  for (const Listener& listener : report.listeners) {
    line("listener", absl::StrCat(listener.program, " (", listener.pid, ") ", listener.socket.protocol, " ",
                                  listener.socket.address, " port ", listener.socket.port,
                                  listener.reachable ? ", REACHABLE from other hosts" : ", this host alone"));
  }
  return text;
}

absl::Status PrintFindings(Findings report, bool launched, absl::string_view format) {
  // The launcher is the parent; its other children are the job.
  report.listeners = ListenersOf(ProcessesBelow(launched ? ::getppid() : ::getpid()));
  if (Print("doctor", format == "json" ? JsonText(report) : Text(report)) != 0) {
    return Refuse(Reason::kUsage, "nothing printed");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunDoctor(absl::string_view format) {
  Findings report;
  MESHSEAL_RETURN_IF_ERROR(DescribeMachine(&report));
  const absl::StatusOr<std::optional<runtime::LaunchIdentity>> identity =
      runtime::ResolveLaunchIdentity(runtime::ProcessEnvironment());
  if (!identity.ok()) {
    report.launch_refusal = std::string(identity.status().message());
    return PrintFindings(report, false, format);
  }
  report.launch = runtime::IdentityText(*identity);
#ifdef MESHSEAL_MPI
  if (identity->has_value()) {
    constexpr std::chrono::seconds kDeadline{30};
    MESHSEAL_ASSIGN_OR_RETURN(RankLaunch launch,
                              RankLaunch::Start("mpi", {kDeadline, kDeadline},
                                                [](uint32_t, const absl::Status& cause) { Report("doctor", cause); }));
    const absl::Status printed = launch.is_first() ? PrintFindings(report, true, format) : absl::OkStatus();
    if (!printed.ok()) Report("doctor", printed);
    launch.Finish(printed);
    return absl::OkStatus();
  }
#endif
  return PrintFindings(report, identity->has_value(), format);
}

}  // namespace meshseal::tools

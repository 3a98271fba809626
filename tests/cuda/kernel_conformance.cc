// Whether a device computes the bits that the SIMT shim computes: the same chains of kernels, run by whichever CUDA
// runtime this program is linked to.
//
//   kernel_conformance_on_simt record FILE [--seed N] [--chains TEXT]   what every kernel of every chain wrote
//   kernel_conformance compare FILE [--chains TEXT]                     the same, run here, against the file
//   kernel_conformance replay N [--chains TEXT]                         each chain as a graph, N times, against its
//   first run
//
// --chains: those whose names have the text. Exit 0: the same; 1: a difference; 2: bad arguments or files; 7: the
// device failed, or there is none.
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/stream.h"
#include "schema/status_macros.h"
#include "tests/cuda/kernel_chain.h"
#include "tests/cuda/simulated_device.h"

namespace meshseal::cuda {
namespace {

constexpr char kMark[] = "meshseal kernel conformance 1\n";

// Chain and array -> bytes, in a file: lengths of 8 bytes in front of names and of bytes.
using Record = std::map<std::string, std::vector<std::byte>>;

std::string KeyOf(const ChainSpec& spec, const ChainOutput& output) {
  return absl::StrCat(spec.name, ": ", output.name);
}

bool Write(const std::string& path, const Record& record) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const auto put = [&file](const void* bytes, uint64_t count) {
    file.write(reinterpret_cast<const char*>(&count), sizeof(count));
    file.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
  };
  file << kMark;
  for (const auto& [key, bytes] : record) {
    put(key.data(), key.size());
    put(bytes.data(), bytes.size());
  }
  file.flush();
  return file.good();
}

std::optional<Record> ReadRecord(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string mark(sizeof(kMark) - 1, '\0');
  file.read(mark.data(), static_cast<std::streamsize>(mark.size()));
  if (!file.good() || mark != kMark) return std::nullopt;
  const auto get = [&file](auto* bytes) {
    uint64_t count = 0;
    file.read(reinterpret_cast<char*>(&count), sizeof(count));
    if (!file.good() || count > uint64_t{1} << 30) return false;
    bytes->resize(count);
    file.read(reinterpret_cast<char*>(bytes->data()), static_cast<std::streamsize>(count));
    return file.good();
  };
  Record record;
  while (file.peek() != std::ifstream::traits_type::eof()) {
    std::string key;
    std::vector<std::byte> bytes;
    if (!get(&key) || !get(&bytes)) return std::nullopt;
    record.emplace(std::move(key), std::move(bytes));
  }
  return record;
}

// How two arrays differ; empty: not at all, or by no more than they may.
std::string Difference(const std::vector<std::byte>& expected, const ChainOutput& found) {
  if (expected.size() != found.bytes.size()) {
    return absl::StrCat(found.bytes.size(), " bytes, expected ", expected.size());
  }
  uint64_t different = 0;
  uint64_t first = 0;
  for (uint64_t i = 0; i + 4 <= expected.size(); i += 4) {
    if (std::memcmp(&expected[i], &found.bytes[i], 4) == 0) continue;
    if (!found.tolerance.empty()) {
      float a = 0;
      float b = 0;
      std::memcpy(&a, &expected[i], 4);
      std::memcpy(&b, &found.bytes[i], 4);
      if (std::fabs(a - b) <= found.tolerance[i / 4]) continue;
    }
    if (different++ == 0) first = i / 4;
  }
  if (different == 0) return "";
  uint32_t words[2];
  std::memcpy(&words[0], &expected[first * 4], 4);
  std::memcpy(&words[1], &found.bytes[first * 4], 4);
  return absl::StrCat(different, " of ", expected.size() / 4, " words differ, the first at ", first, ": ",
                      absl::Hex(words[1], absl::kZeroPad8), ", expected ", absl::Hex(words[0], absl::kZeroPad8));
}

struct Count {
  uint64_t chains = 0;
  uint64_t arrays = 0;
  uint64_t within = 0;  // not the same bits, and allowed to be others
  uint64_t differences = 0;
};

// Compares, and prints what differs.
void Compare(const ChainSpec& spec, const Record& record, const std::vector<ChainOutput>& outputs, Count* count) {
  for (const ChainOutput& output : outputs) {
    ++count->arrays;
    const auto expected = record.find(KeyOf(spec, output));
    const std::string difference =
        expected == record.end() ? "is not in the file" : Difference(expected->second, output);
    if (difference.empty()) {
      if (expected->second != output.bytes) ++count->within;
      continue;
    }
    ++count->differences;
    std::printf("%s: %s\n", KeyOf(spec, output).c_str(), difference.c_str());
  }
}

absl::StatusOr<std::vector<ChainOutput>> RunOnce(const ChainSpec& spec, cudaStream_t stream) {
  KernelChain chain(spec, stream);
  MESHSEAL_RETURN_IF_ERROR(chain.Enqueue());
  return chain.Read();
}

struct GraphOf {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ~GraphOf() {
    if (exec != nullptr) static_cast<void>(cudaGraphExecDestroy(exec));
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  }
};

absl::Status Replay(const ChainSpec& spec, uint64_t times, cudaStream_t stream, Count* count) {
  KernelChain chain(spec, stream);
  MESHSEAL_RETURN_IF_ERROR(chain.Enqueue());
  MESHSEAL_ASSIGN_OR_RETURN(const std::vector<ChainOutput> first, chain.Read());
  GraphOf captured;
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "a capture");
  MESHSEAL_RETURN_IF_ERROR(chain.Enqueue());
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaStreamEndCapture(stream, &captured.graph), "a capture");
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaGraphInstantiate(&captured.exec, captured.graph, 0), "a graph");
  for (uint64_t i = 0; i < times; ++i) {
    MESHSEAL_RETURN_IF_CUDA_ERROR(cudaGraphLaunch(captured.exec, stream), "a replay");
    MESHSEAL_ASSIGN_OR_RETURN(const std::vector<ChainOutput> again, chain.Read());
    for (size_t j = 0; j < first.size(); ++j) {
      ++count->arrays;
      if (again[j].bytes == first[j].bytes) continue;
      if (count->differences++ == 0) std::printf("%s: replay %lu differs\n", KeyOf(spec, first[j]).c_str(), i);
    }
  }
  return absl::OkStatus();
}

absl::Status RunKernels(const ChainSpec& spec, uint64_t times, cudaStream_t stream) {
  KernelChain chain(spec, stream);
  for (uint64_t i = 0; i < times; ++i) MESHSEAL_RETURN_IF_ERROR(chain.EnqueueKernels());
  return FromCuda(cudaStreamSynchronize(stream), "the kernels");
}

struct Arguments {
  std::string command;
  std::string operand;
  uint64_t seed = 0;
  uint64_t times = 0;
  std::string chains;
};

std::optional<Arguments> Parse(const std::vector<std::string>& words) {
  if (words.size() < 2 || words.size() % 2 != 0) return std::nullopt;
  Arguments arguments;
  arguments.command = words[0];
  arguments.operand = words[1];
  for (size_t i = 2; i < words.size(); i += 2) {
    if (words[i] == "--chains") {
      arguments.chains = words[i + 1];
    } else if (words[i] != "--seed" || !absl::SimpleAtoi(words[i + 1], &arguments.seed)) {
      return std::nullopt;
    }
  }
  const std::string& command = arguments.command;
  if (command == "replay" || command == "run") {
    if (!absl::SimpleAtoi(arguments.operand, &arguments.times) || arguments.times == 0) return std::nullopt;
  } else if (command != "record" && command != "compare") {
    return std::nullopt;
  }
  return arguments;
}

absl::Status RunChains(const Arguments& arguments, Record* record, Count* count) {
  int devices = 0;
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaGetDeviceCount(&devices), "the devices of this machine");
  MESHSEAL_ASSIGN_OR_RETURN(const Stream stream, Stream::Make());
  for (const ChainSpec& spec : AllChains()) {
    if (spec.name.find(arguments.chains) == std::string::npos) continue;
    ++count->chains;
    if (arguments.command == "replay") {
      MESHSEAL_RETURN_IF_ERROR(Replay(spec, arguments.times, stream.get(), count));
      continue;
    }
    if (arguments.command == "run") {
      MESHSEAL_RETURN_IF_ERROR(RunKernels(spec, arguments.times, stream.get()));
      continue;
    }
    absl::StatusOr<std::vector<ChainOutput>> outputs = RunOnce(spec, stream.get());
    if (!outputs.ok())
      return absl::Status(outputs.status().code(), absl::StrCat(spec.name, ": ", outputs.status().message()));
    if (arguments.command == "compare") {
      Compare(spec, *record, *outputs, count);
      continue;
    }
    count->arrays += outputs->size();
    for (ChainOutput& output : *outputs) record->emplace(KeyOf(spec, output), std::move(output.bytes));
  }
  return absl::OkStatus();
}

int Main(const std::vector<std::string>& words) {
  const std::optional<Arguments> arguments = Parse(words);
  if (!arguments.has_value()) {
    std::fprintf(stderr,
                 "kernel_conformance: record FILE | compare FILE | replay N | run N [--seed N] [--chains TEXT]\n");
    return 2;
  }
  const bool simulated = SimulateDevice(arguments->seed);
  Record record;
  if (arguments->command == "compare") {
    std::optional<Record> read = ReadRecord(arguments->operand);
    if (!read.has_value()) {
      std::fprintf(stderr, "kernel_conformance: %s is not a record of kernel_conformance\n",
                   arguments->operand.c_str());
      return 2;
    }
    record = *std::move(read);
  }
  Count count;
  const absl::Status status = RunChains(*arguments, &record, &count);
  if (!status.ok()) {
    std::fprintf(stderr, "kernel_conformance: %s\n", std::string(status.message()).c_str());
    return 7;
  }
  if (count.chains == 0) {
    std::fprintf(stderr, "kernel_conformance: no chain has '%s' in its name\n", arguments->chains.c_str());
    return 2;
  }
  if (arguments->command == "record" && !Write(arguments->operand, record)) {
    std::fprintf(stderr, "kernel_conformance: %s cannot be written\n", arguments->operand.c_str());
    return 2;
  }
  std::printf("%s on %s: %lu chains, %lu arrays, %lu within their bound, %lu differ\n", arguments->command.c_str(),
              simulated ? "the SIMT shim" : "a device", count.chains, count.arrays, count.within, count.differences);
  return count.differences == 0 ? 0 : 1;
}

}  // namespace
}  // namespace meshseal::cuda

int main(int argc, char** argv) { return meshseal::cuda::Main({argv + 1, argv + argc}); }

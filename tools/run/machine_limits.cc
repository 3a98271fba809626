#include "tools/run/machine_limits.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <fstream>
#include <functional>
#include <new>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/reason.h"

namespace meshseal::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kLeastBuffer = uint64_t{64} << 20;
constexpr uint64_t kCaches = 2;  // times the last level's size
constexpr int kPasses = 3;
constexpr size_t kLanes = 4;
constexpr size_t kChains = 8;
constexpr uint64_t kRounds = 2'000'000;
constexpr double kOperationsOfRound = 2.0 * kLanes * kChains;

// What the compiler may not leave out.
std::atomic<uint64_t> sink{0};

// Seconds of `work(thread)` on all threads, from when all have begun.
absl::StatusOr<double> TimeThreads(uint32_t threads, const std::function<void(uint32_t)>& work) {
  std::vector<std::thread> running;
  std::atomic<uint32_t> waiting{0};
  std::atomic<bool> go{false};
  std::atomic<bool> stop{false};
  bool started = true;
  try {
    running.reserve(threads);
    for (uint32_t thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, thread] {
        ++waiting;
        while (!go.load()) std::this_thread::yield();
        if (!stop.load()) work(thread);
      });
    }
  } catch (const std::exception&) {  // system_error or bad_alloc
    started = false;
    stop = true;
  }
  while (started && waiting.load() < threads) std::this_thread::yield();
  const Clock::time_point begin = Clock::now();
  go = true;
  for (std::thread& thread : running) thread.join();
  if (!started) return Refuse(Reason::kOutOfMemory, absl::StrCat(threads, " threads cannot be started"));
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void ReadWords(const uint64_t* words, size_t count) {
  std::array<uint64_t, 16> sums = {};
  for (size_t i = 0; i + sums.size() <= count; i += sums.size()) {
    for (size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += words[i + lane];
  }
  uint64_t sum = 0;
  for (const uint64_t lane : sums) sum += lane;
  sink += sum;
}

// Chains that do not wait for each other, in the vectors that every processor of this architecture has.
void MultiplyAndAdd() {
  using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));
  const float factor = 0.5F + 1e-9F * static_cast<float>(sink.load() % 2);
  Vector chains[kChains] = {};
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (Vector& chain : chains) chain = chain * factor + 1.0F;
  }
  float sum = 0;
  for (const Vector& chain : chains) sum += chain[0];
  sink += static_cast<uint64_t>(sum);
}

}  // namespace

absl::StatusOr<MachineLimits> MeasureMachine(uint32_t threads) {
  MachineLimits limits;
  limits.threads = threads;
  const uint64_t words = std::max(kLeastBuffer, kCaches * FactsOfMachine().cache_bytes) / sizeof(uint64_t) / threads;
  limits.buffer_bytes = words * threads * sizeof(uint64_t);
  std::vector<std::vector<uint64_t>> buffers;
  try {
    for (uint32_t thread = 0; thread < threads; ++thread) buffers.emplace_back(words, thread);
  } catch (const std::bad_alloc&) {
    return Refuse(Reason::kOutOfMemory, absl::StrCat("a probe of the memory needs ", limits.buffer_bytes, " bytes"));
  }
  for (int pass = 0; pass < kPasses; ++pass) {
    const absl::StatusOr<double> read =
        TimeThreads(threads, [&](uint32_t thread) { ReadWords(buffers[thread].data(), words); });
    if (!read.ok()) return read.status();
    limits.read_bytes_per_second =
        std::max(limits.read_bytes_per_second, static_cast<double>(limits.buffer_bytes) / *read);
    const absl::StatusOr<double> computed = TimeThreads(threads, [](uint32_t) { MultiplyAndAdd(); });
    if (!computed.ok()) return computed.status();
    limits.operations_per_second =
        std::max(limits.operations_per_second, kOperationsOfRound * static_cast<double>(kRounds) * threads / *computed);
  }
  return limits;
}

MachineFacts FactsOfMachine() {
  MachineFacts facts;
  facts.cores = std::thread::hardware_concurrency();
  const long cache = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (cache > 0) facts.cache_bytes = static_cast<uint64_t>(cache);
  std::ifstream processors("/proc/cpuinfo");
  for (std::string line; std::getline(processors, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    facts.processor = std::string(absl::StripAsciiWhitespace(line.substr(line.find(':') + 1)));
    break;
  }
  return facts;
}

}  // namespace meshseal::tools

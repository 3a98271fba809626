// SealedPlan::Open, all gates, over plans of several sizes, next to what the machine needs for the same bytes at least.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "schema/sealed_plan.h"
#include "schema/sha256.h"
#include "tests/bench/deepseek_deployment.h"

namespace meshseal::bench {
namespace {

using benchmark::Counter;

// The largest is about 10 MB.
const Size kSizes[] = {{.ep = 8},
                       {.ep = 64},
                       {.ep = 64, .balanced = true},
                       {.dp = 4, .pp = 2, .tp = 2, .ep = 256},
                       {.dp = 64, .pp = 2, .tp = 2, .ep = 256},
                       {.dp = 64, .pp = 2, .tp = 2, .ep = 256, .experts = 2048, .balanced = true}};

const std::string& PlanOf(int64_t index) {
  static std::map<int64_t, std::string> plans;
  std::string& plan = plans[index];
  if (plan.empty()) plan = CompileOrDie(WriteDeepSeek(kSizes[index]));
  return plan;
}

void Count(benchmark::State& state, const std::string& plan) {
  const Size& size = kSizes[state.range(0)];
  state.counters["ranks"] = size.Ranks();
  state.counters["plan_bytes"] = static_cast<double>(plan.size());
  state.counters["time_per_10MB"] =
      Counter(static_cast<double>(plan.size()) / 1e7, Counter::kIsIterationInvariantRate | Counter::kInvert);
}

void Open(benchmark::State& state) {
  const std::string& plan = PlanOf(state.range(0));
  Policy policy;
  policy.allow_unsigned_hosts = true;
  for (auto _ : state) {
    const absl::StatusOr<SealedPlan> opened = SealedPlan::Open(plan, policy);
    if (!opened.ok()) {
      std::cerr << opened.status() << "\n";
      std::exit(1);
    }
    benchmark::DoNotOptimize(opened->plan().layers);
  }
  Count(state, plan);
}
BENCHMARK(Open)->DenseRange(0, std::size(kSizes) - 1)->Unit(benchmark::kMillisecond);

void HashOfTheBytes(benchmark::State& state) {
  const std::string& plan = PlanOf(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(Sha256(plan));
  Count(state, plan);
}
BENCHMARK(HashOfTheBytes)->DenseRange(0, std::size(kSizes) - 1)->Unit(benchmark::kMillisecond);

void CopyOfTheBytes(benchmark::State& state) {
  const std::string& plan = PlanOf(state.range(0));
  std::vector<char> copy(plan.size());
  for (auto _ : state) {
    std::memcpy(copy.data(), plan.data(), plan.size());
    benchmark::DoNotOptimize(copy.data());
    benchmark::ClobberMemory();
  }
  Count(state, plan);
}
BENCHMARK(CopyOfTheBytes)->DenseRange(0, std::size(kSizes) - 1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace meshseal::bench

BENCHMARK_MAIN();

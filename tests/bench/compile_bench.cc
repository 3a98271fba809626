// The whole compiler, documents to sealed bytes, over ranks and over experts.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>

#include "tests/bench/deepseek_deployment.h"

namespace meshseal::bench {
namespace {

using benchmark::Counter;

void Run(benchmark::State& state, const Size& size) {
  const std::string deployment = WriteDeepSeek(size);
  std::string sealed;
  for (auto _ : state) {
    sealed = CompileOrDie(deployment);
    benchmark::DoNotOptimize(sealed);
  }
  const auto time_of = Counter::kIsIterationInvariantRate | Counter::kInvert;
  state.counters["plan_bytes"] = static_cast<double>(sealed.size());
  state.counters["bytes_per_rank"] = static_cast<double>(sealed.size()) / size.Ranks();
  state.counters["time_per_rank"] = Counter(size.Ranks(), time_of);
  state.counters["time_per_layer_expert"] = Counter(double{kMoeLayers} * size.experts, time_of);
}

void CompileRanks(benchmark::State& state) { Run(state, SizeOf(static_cast<uint32_t>(state.range(0)))); }
BENCHMARK(CompileRanks)->RangeMultiplier(2)->Range(1, 4096)->Unit(benchmark::kMillisecond);

// Each layer has its own owners: the largest plan that 256 experts in 58 layers make.
void CompileRanksBalanced(benchmark::State& state) {
  Size size = SizeOf(static_cast<uint32_t>(state.range(0)));
  size.balanced = true;
  Run(state, size);
}
BENCHMARK(CompileRanksBalanced)->RangeMultiplier(4)->Range(1, 4096)->Unit(benchmark::kMillisecond);

void CompileExperts(benchmark::State& state) {
  Size size = {.dp = 8, .ep = 8, .experts = static_cast<uint32_t>(state.range(0))};
  Run(state, size);
}
BENCHMARK(CompileExperts)->RangeMultiplier(2)->Range(8, 1024)->Unit(benchmark::kMillisecond);

void CompileExpertsBalanced(benchmark::State& state) {
  Size size = {.dp = 8, .ep = 8, .experts = static_cast<uint32_t>(state.range(0)), .balanced = true};
  Run(state, size);
}
BENCHMARK(CompileExpertsBalanced)->RangeMultiplier(2)->Range(8, 1024)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace meshseal::bench

BENCHMARK_MAIN();

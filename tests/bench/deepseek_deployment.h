// DeepSeek-V3, as it is shipped, with any number of experts on any number of ranks: documents for the benchmarks.
#ifndef MESHSEAL_TESTS_BENCH_DEEPSEEK_DEPLOYMENT_H_
#define MESHSEAL_TESTS_BENCH_DEEPSEEK_DEPLOYMENT_H_

#include <cstdint>
#include <string>

namespace meshseal::bench {

struct Size {
  uint32_t dp = 1;
  uint32_t pp = 1;
  uint32_t tp = 1;
  uint32_t ep = 1;
  uint32_t experts = 256;
  // Each of the 58 layers has a load, and so owners, of its own; otherwise they are one class of the plan.
  bool balanced = false;

  uint32_t Ranks() const { return dp * pp * tp * ep; }
};

inline constexpr uint32_t kMoeLayers = 58;

// A size of `ranks` ranks, a power of two: ep up to 256, then dp, pp and tp.
Size SizeOf(uint32_t ranks);

// Writes the documents into a folder of their own under the temporary folder; the path of the deployment's.
std::string WriteDeepSeek(const Size& size);

// The plan, sealed. Ends the program with a message where there is none.
std::string CompileOrDie(const std::string& deployment);

}  // namespace meshseal::bench

#endif  // MESHSEAL_TESTS_BENCH_DEEPSEEK_DEPLOYMENT_H_

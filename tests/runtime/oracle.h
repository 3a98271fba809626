// A Mixture-of-Experts block in float64, straight from its definition: no ranks, no programs, no shared code.
#ifndef MESHSEAL_TESTS_RUNTIME_ORACLE_H_
#define MESHSEAL_TESTS_RUNTIME_ORACLE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/plan_builder.h"

namespace meshseal::support {

struct OracleResult {
  std::vector<double> hidden;    // [T, H]
  std::vector<int32_t> experts;  // [T*k]
  std::vector<double> weights;   // [T*k]
};

// bf16 keeps 8 significant bits.
inline double OracleBf16(double value) {
  int exponent = 0;
  const double fraction = std::frexp(static_cast<double>(static_cast<float>(value)), &exponent);
  return std::ldexp(std::nearbyint(fraction * 256), exponent - 8);
}

inline OracleResult Oracle(const PlanNumbers& n, uint32_t layer, Checkpoint& checkpoint,
                           const std::vector<float>& hidden) {
  const size_t size = n.hidden;
  const auto rounded = [](Basis basis, double value) { return basis == Basis::kBf16 ? OracleBf16(value) : value; };
  const auto tensor = [&](const std::string& name) -> const std::vector<float>& {
    return Tensor(checkpoint, absl::StrCat("layers.", layer, ".", name)).values;
  };
  const std::vector<float>& router = tensor("router");
  OracleResult result;
  for (size_t token = 0; token * size < hidden.size(); ++token) {
    std::vector<double> x(hidden.begin() + static_cast<ptrdiff_t>(token * size),
                          hidden.begin() + static_cast<ptrdiff_t>((token + 1) * size));
    std::vector<std::pair<double, int32_t>> ranked;  // minus the logit: sorts the way experts are chosen
    for (uint32_t expert = 0; expert < n.experts; ++expert) {
      double logit = 0;
      for (size_t h = 0; h < size; ++h) {
        logit += rounded(n.router.input, x[h]) * static_cast<double>(router[expert * size + h]);
      }
      ranked.emplace_back(-rounded(n.router.input, static_cast<double>(static_cast<float>(logit))), expert);
    }
    std::sort(ranked.begin(), ranked.end());
    double all = 0;
    double chosen = 0;
    for (uint32_t j = 0; j < n.experts; ++j) {
      all += std::exp(-ranked[j].first);
      if (j < n.top_k) chosen += std::exp(-ranked[j].first);
    }
    const bool over_chosen = n.router.order == RouteOrder::kTopKThenScore || n.router.renormalize == Renormalize::kSum;
    std::vector<double> out(size, 0);
    for (uint32_t j = 0; j < n.top_k; ++j) {
      const int32_t expert = ranked[j].second;
      const double weight =
          std::exp(-ranked[j].first) / (over_chosen ? chosen : all) * static_cast<double>(n.router.scale);
      result.experts.push_back(expert);
      result.weights.push_back(weight);
      const std::string name = absl::StrCat("experts.", expert, ".");
      for (size_t c = 0; c < n.intermediate; ++c) {
        double gate = 0;
        double up = 0;
        for (size_t h = 0; h < size; ++h) {
          const double value = rounded(n.gate_up_basis, x[h]);
          gate += value * static_cast<double>(tensor(name + "gate")[c * size + h]);
          up += value * static_cast<double>(tensor(name + "up")[c * size + h]);
        }
        const double activation = rounded(n.down_basis, gate / (1 + std::exp(-gate)) * up);
        for (size_t h = 0; h < size; ++h) {
          out[h] += weight * activation * static_cast<double>(tensor(name + "down")[h * n.intermediate + c]);
        }
      }
    }
    for (size_t h = 0; h < size; ++h) {
      const double value = out[h] + (n.residual == Residual::kAdd ? x[h] : 0);
      result.hidden.push_back(rounded(n.output, value));
    }
  }
  return result;
}

// The largest difference, in units of the largest magnitude of `expected`. NaN counts as infinite.
template <class A, class B>
double RelativeDifference(const std::vector<A>& found, const std::vector<B>& expected) {
  if (found.size() != expected.size()) return INFINITY;
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const double d = std::fabs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
    if (!(d < INFINITY)) return INFINITY;
    difference = std::max(difference, d);
    largest = std::max(largest, std::fabs(static_cast<double>(expected[i])));
  }
  return difference == 0 ? 0 : difference / largest;
}

}  // namespace meshseal::support

#endif  // MESHSEAL_TESTS_RUNTIME_ORACLE_H_

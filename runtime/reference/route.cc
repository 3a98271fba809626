// Logits, scores, top-k, weights.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"
#include "schema/reason.h"

namespace meshseal::runtime {
namespace {

// Softmax over the chosen `experts`' logits, in float64 and in their order, the largest logit subtracted.
std::vector<double> Softmax(absl::Span<const float> logits, absl::Span<const int32_t> experts) {
  const auto logit = [&](int32_t expert) { return static_cast<double>(logits[static_cast<size_t>(expert)]); };
  double largest = logit(experts.front());
  for (const int32_t expert : experts) largest = std::max(largest, logit(expert));
  std::vector<double> scores;
  double sum = 0;
  for (const int32_t expert : experts) {
    scores.push_back(std::exp(logit(expert) - largest));
    sum += scores.back();
  }
  for (double& score : scores) score /= sum;
  return scores;
}

// The k experts with the highest ranks, highest first; of equals the lower index.
std::vector<int32_t> TopK(absl::Span<const float> ranks, uint32_t k) {
  std::vector<int32_t> order(ranks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return ranks[static_cast<size_t>(a)] > ranks[static_cast<size_t>(b)]; });
  order.resize(k);
  return order;
}

struct Choice {
  std::vector<int32_t> experts;
  std::vector<double> scores;  // of the chosen, in their order
};

Choice Choose(const Router& router, absl::Span<const float> logits, uint32_t k) {
  Choice choice;
  if (router.order == RouteOrder::kTopKThenScore) {
    choice.experts = TopK(logits, k);
    choice.scores = Softmax(logits, choice.experts);
    return choice;
  }
  std::vector<int32_t> all(logits.size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<double> scores = Softmax(logits, all);
  // Scores are compared as the float32 a model stores them in: what is equal there is a tie.
  choice.experts = TopK(std::vector<float>(scores.begin(), scores.end()), k);
  for (const int32_t expert : choice.experts) choice.scores.push_back(scores[static_cast<size_t>(expert)]);
  return choice;
}

}  // namespace

absl::Status ReferenceBackend::Route(const RouteArgs& args) {
  const StepShape& shape = args.shape;
  std::vector<float> logits(args.weight.rows);
  for (uint32_t token = 0; token < shape.tokens; ++token) {
    Multiply(args.weight, ToBasis(args.router.input, RowOf(args.x, token, shape.hidden)), absl::MakeSpan(logits));
    logits = ToBasis(args.router.input, logits);
    for (size_t expert = 0; expert < logits.size(); ++expert) {
      if (std::isfinite(logits[expert])) continue;
      return Refuse(Reason::kNonFinite, absl::StrCat("token ", shape.first_token + token,
                                                     ": the router score of expert ", expert, " is not finite"));
    }
    const Choice choice = Choose(args.router, logits, shape.top_k);
    double divisor = 1;
    if (args.router.renormalize == Renormalize::kSum) {
      divisor = std::accumulate(choice.scores.begin(), choice.scores.end(), 0.0);
    }
    for (uint32_t j = 0; j < shape.top_k; ++j) {
      const uint64_t slot = uint64_t{token} * shape.top_k + j;
      args.experts[slot] = choice.experts[j];
      args.weights[slot] = static_cast<float>(choice.scores[j] / divisor * static_cast<double>(args.router.scale));
    }
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime

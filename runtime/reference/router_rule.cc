#include "runtime/reference/router_rule.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "runtime/numerics/interleaved_sum.h"
#include "runtime/numerics/router_scores.h"

namespace meshseal::runtime {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

size_t Index(int32_t expert) { return static_cast<size_t>(expert); }

std::vector<int32_t> AllOf(size_t count) {
  std::vector<int32_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// The k highest, highest first; of equals the lower index.
std::vector<int32_t> TopK(absl::Span<const float> ranks, uint32_t k) {
  std::vector<int32_t> order = AllOf(ranks.size());
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return ranks[Index(a)] > ranks[Index(b)]; });
  order.resize(k);
  return order;
}

// Softmax over the logits of `experts`, in their order, the largest logit subtracted.
std::vector<double> Softmax(absl::Span<const float> logits, absl::Span<const int32_t> experts) {
  float largest = logits[Index(experts.front())];
  for (const int32_t expert : experts) largest = std::max(largest, logits[Index(expert)]);
  std::vector<double> scores;
  for (const int32_t expert : experts) scores.push_back(SoftmaxTerm(logits[Index(expert)], largest));
  const double sum = InterleavedSum(scores);
  for (double& score : scores) score /= sum;
  return scores;
}

// The scores of `experts`, in their order; a softmax is over them alone.
std::vector<double> ScoresOf(Scoring scoring, absl::Span<const float> logits, absl::Span<const int32_t> experts) {
  if (scoring == Scoring::kSoftmax) return Softmax(logits, experts);
  std::vector<double> scores;
  for (const int32_t expert : experts) scores.push_back(ScoreOf(scoring, logits[Index(expert)]));
  return scores;
}

float GroupRank(GroupScore score, absl::Span<const float> ranks) {
  const float best = *std::max_element(ranks.begin(), ranks.end());
  if (score == GroupScore::kMax) return best;
  std::vector<float> sorted(ranks.begin(), ranks.end());
  std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end(), std::greater<>());
  return sorted[0] + sorted[1];
}

// Excludes the experts outside the best groups of neighbours.
void KeepGroups(const RouterGroups& groups, std::vector<float>& ranks) {
  const size_t size = ranks.size() / groups.count;
  std::vector<float> group_ranks;
  for (size_t group = 0; group < groups.count; ++group) {
    group_ranks.push_back(GroupRank(groups.score, absl::MakeConstSpan(ranks).subspan(group * size, size)));
  }
  std::vector<bool> kept(groups.count, false);
  for (const int32_t group : TopK(group_ranks, groups.keep)) kept[Index(group)] = true;
  for (size_t expert = 0; expert < ranks.size(); ++expert) {
    if (!kept[expert / size]) ranks[expert] = kExcluded;
  }
}

Selection Weigh(const Router& router, std::vector<int32_t> experts, absl::Span<const double> scores) {
  const double sum = InterleavedSum(scores);
  Selection selection;
  selection.experts = std::move(experts);
  for (const double score : scores) selection.weights.push_back(WeightOf(router, score, sum));
  return selection;
}

// One expert after the other: the highest logit of those left, weighed by a softmax over the left ones whose logit is
// near it. Source: the inference form of Phi-3.5-MoE's router.
Selection SelectBySparsemixer(const Router& router, absl::Span<const float> logits, uint32_t k) {
  std::vector<float> left(logits.begin(), logits.end());
  std::vector<int32_t> experts;
  std::vector<double> scores;
  for (uint32_t j = 0; j < k; ++j) {
    const int32_t best = TopK(left, 1).front();
    const float highest = left[Index(best)];
    std::vector<double> terms(left.size(), 0);
    for (size_t expert = 0; expert < left.size(); ++expert) {
      const float logit = left[expert];
      if (logit != kExcluded && IsNear(router, logit, highest)) terms[expert] = SoftmaxTerm(logit, highest);
    }
    experts.push_back(best);
    scores.push_back(terms[Index(best)] / InterleavedSum(terms));
    left[Index(best)] = kExcluded;
  }
  return Weigh(router, std::move(experts), scores);
}

}  // namespace

std::vector<float> RanksOf(const Router& router, absl::Span<const float> logits,
                           absl::Span<const float> selection_bias) {
  std::vector<float> ranks(logits.begin(), logits.end());
  if (router.scoring == Scoring::kSparsemixer) return ranks;
  if (router.order == RouteOrder::kScoreThenTopK) {
    const std::vector<double> scores = ScoresOf(router.scoring, logits, AllOf(logits.size()));
    ranks.assign(scores.begin(), scores.end());
  }
  for (size_t expert = 0; expert < selection_bias.size(); ++expert) ranks[expert] += selection_bias[expert];
  return ranks;
}

Selection SelectExperts(const Router& router, absl::Span<const float> logits, absl::Span<const float> selection_bias,
                        uint32_t k) {
  if (router.scoring == Scoring::kSparsemixer) return SelectBySparsemixer(router, logits, k);
  std::vector<float> ranks = RanksOf(router, logits, selection_bias);
  if (router.groups.count > 0) KeepGroups(router.groups, ranks);
  return WeighExperts(router, logits, TopK(ranks, k));
}

Selection WeighExperts(const Router& router, absl::Span<const float> logits, absl::Span<const int32_t> experts) {
  std::vector<double> scores;
  if (router.order == RouteOrder::kTopKThenScore) {
    scores = ScoresOf(router.scoring, logits, experts);
  } else {
    const std::vector<double> all = ScoresOf(router.scoring, logits, AllOf(logits.size()));
    for (const int32_t expert : experts) scores.push_back(all[Index(expert)]);
  }
  return Weigh(router, {experts.begin(), experts.end()}, scores);
}

}  // namespace meshseal::runtime

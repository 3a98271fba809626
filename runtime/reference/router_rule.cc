#include "runtime/reference/router_rule.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

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
  const auto logit = [&](int32_t expert) { return static_cast<double>(logits[Index(expert)]); };
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

double Softplus(double value) { return value > 20 ? value : std::log1p(std::exp(value)); }

// The scores of `experts`, in their order; a softmax is over them alone.
std::vector<double> ScoresOf(Scoring scoring, absl::Span<const float> logits, absl::Span<const int32_t> experts) {
  if (scoring == Scoring::kSoftmax) return Softmax(logits, experts);
  std::vector<double> scores;
  for (const int32_t expert : experts) {
    const auto logit = static_cast<double>(logits[Index(expert)]);
    scores.push_back(scoring == Scoring::kSigmoid ? 1 / (1 + std::exp(-logit)) : std::sqrt(Softplus(logit)));
  }
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
  double divisor = 1;
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
  switch (router.renormalize) {
    case Renormalize::kSum:
      divisor = sum;
      break;
    case Renormalize::kSumPlus:
      divisor = sum + static_cast<double>(router.guard);
      break;
    case Renormalize::kSumFloor:
      divisor = std::max(sum, static_cast<double>(router.guard));
      break;
    case Renormalize::kNone:
    case Renormalize::kInvalid:  // the meaning gate refuses it
      break;
  }
  Selection selection;
  selection.experts = std::move(experts);
  for (const double score : scores) {
    selection.weights.push_back(static_cast<float>(score / divisor * static_cast<double>(router.scale)));
  }
  return selection;
}

// One expert after the other: the highest logit of those left, weighed by a softmax over the left ones whose logit is
// near it. Source: the inference form of Phi-3.5-MoE's router.
Selection SelectBySparsemixer(const Router& router, absl::Span<const float> logits, uint32_t k) {
  const double reach = 2 * static_cast<double>(router.epsilon);
  std::vector<float> left(logits.begin(), logits.end());
  std::vector<int32_t> experts;
  std::vector<double> scores;
  for (uint32_t j = 0; j < k; ++j) {
    const int32_t best = TopK(left, 1).front();
    const auto highest = static_cast<double>(left[Index(best)]);
    std::vector<int32_t> near;
    for (const int32_t expert : AllOf(left.size())) {
      if (left[Index(expert)] == kExcluded) continue;
      const auto logit = static_cast<double>(left[Index(expert)]);
      // A zero scale means that both are zero, and so equal.
      const double scale = std::max(std::abs(logit), highest);
      if (logit == highest || (highest - logit) / scale <= reach) near.push_back(expert);
    }
    const std::vector<double> shares = Softmax(left, near);
    const auto place = std::find(near.begin(), near.end(), best) - near.begin();
    experts.push_back(best);
    scores.push_back(shares[static_cast<size_t>(place)]);
    left[Index(best)] = kExcluded;
  }
  return Weigh(router, std::move(experts), scores);
}

}  // namespace

Selection SelectExperts(const Router& router, absl::Span<const float> logits, absl::Span<const float> selection_bias,
                        uint32_t k) {
  if (router.scoring == Scoring::kSparsemixer) return SelectBySparsemixer(router, logits, k);
  const bool logits_first = router.order == RouteOrder::kTopKThenScore;
  std::vector<double> all_scores;
  std::vector<float> ranks(logits.begin(), logits.end());
  if (!logits_first) {
    all_scores = ScoresOf(router.scoring, logits, AllOf(logits.size()));
    ranks.assign(all_scores.begin(), all_scores.end());
  }
  for (size_t expert = 0; expert < selection_bias.size(); ++expert) ranks[expert] += selection_bias[expert];
  if (router.groups.count > 0) KeepGroups(router.groups, ranks);
  std::vector<int32_t> experts = TopK(ranks, k);
  std::vector<double> scores;
  if (logits_first) {
    scores = ScoresOf(router.scoring, logits, experts);
  } else {
    for (const int32_t expert : experts) scores.push_back(all_scores[Index(expert)]);
  }
  return Weigh(router, std::move(experts), scores);
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

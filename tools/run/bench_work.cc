#include "tools/run/bench_work.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/program/rank_facts.h"
#include "schema/checked_math.h"
#include "schema/mesh_view.h"
#include "schema/rank_part.h"
#include "schema/reason.h"

namespace meshseal::tools {
namespace {

constexpr uint32_t kMostTokens = 1U << 24;  // as the limits of a plan
constexpr double kTwoPi = 6.283185307179586;

// SplitMix64.
uint64_t NextOf(uint64_t* state) {
  *state += 0x9e3779b97f4a7c15U;
  uint64_t value = *state;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

// Above 0, at most 1.
double UnitOf(uint64_t* state) { return static_cast<double>((NextOf(state) >> 11) + 1) * 0x1p-53; }

// Bytes and products of one row, of a layer's tensors on a rank.
struct Part {
  uint64_t bytes = 0;
  uint64_t operations = 0;
};

struct LayerParts {
  Part always;  // router and shared expert: all tokens
  Part expert;  // each routed expert: its own slots
};

LayerParts PartsOf(const Plan& plan, const LayerClass& c, const Coordinate& at) {
  LayerParts parts;
  const Interval columns = meshseal::ColumnsOf(c, at.tp);
  const Interval shared = meshseal::SharedColumnsOf(c, plan.degrees, at.tp, at.ep);
  for (const TensorClass& tensor : c.tensors) {
    if (tensor.role == TensorRole::kTokenTable) continue;  // a row a token
    const meaning::RoleFacts& facts = *meaning::FactsOf(tensor.role);
    const LocalTensor local = LocalOf(plan, c, facts, 1, columns, shared);
    if (local.count == 0) continue;
    Part& part = ScopeOf(facts) == TensorScope::kExperts ? parts.expert : parts.always;
    part.bytes += StoredBytes(tensor, local.outputs, local.inputs).value_or(0);
    part.operations += 2 * local.outputs * local.inputs;
  }
  return parts;
}

absl::Status NoCounts(absl::string_view text) {
  return Refuse(Reason::kUsage, absl::StrCat("--tokens ", std::string(text),
                                             ": expected ascending numbers such as 8 or 1,8,64, or a range 1..4096*2"));
}

std::optional<uint32_t> CountOf(absl::string_view text) {
  uint32_t count = 0;
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == absl::string_view::npos;
  if (!digits || !absl::SimpleAtoi(text, &count) || count == 0 || count > kMostTokens) return std::nullopt;
  return count;
}

}  // namespace

std::vector<RankWork> WorkOf(const Plan& plan, uint32_t layer, Phase phase, uint32_t tokens,
                             absl::Span<const int32_t> experts) {
  const LayerClass& c = plan.layer_classes[*runtime::ClassOfLayer(plan, layer)];
  const Degrees& d = plan.degrees;
  const uint32_t chunk = phase == Phase::kDecode ? plan.limits.decode_tokens : plan.limits.prefill_chunk;
  std::vector<RankWork> work(*WorldOf(d));
  for (uint32_t rank = 0; rank < work.size(); ++rank) {
    const Coordinate at = CoordinateOf(d, rank);
    const LayerRange stage = runtime::LayersOfStage(plan, at.pp);
    if (layer < stage.first || layer >= stage.last) continue;
    const LayerParts parts = PartsOf(plan, c, at);
    const std::vector<runtime::ExpertPlace> places = runtime::ExpertPlaces(c, at.ep);
    // Its replica's band of the tokens, in chunks.
    const uint32_t size = tokens / d.dp;
    const uint32_t larger = tokens % d.dp;
    const uint32_t first = at.dp * size + std::min(at.dp, larger);
    const uint32_t last = first + size + (at.dp < larger ? 1 : 0);
    for (uint32_t begin = first; begin < last; begin += std::min(chunk, last - begin)) {
      const uint32_t end = begin + std::min(chunk, last - begin);
      std::vector<bool> touched(c.experts);
      for (uint32_t token = begin; token < end; ++token) {
        for (uint32_t j = 0; j < c.top_k; ++j) {
          const auto expert = static_cast<size_t>(experts[size_t{token} * c.top_k + j]);
          const runtime::ExpertPlace& place = places[expert];
          if (place.local < 0 || token % place.copies != place.copy) continue;
          if (!touched[expert]) work[rank].weight_bytes += parts.expert.bytes;
          touched[expert] = true;
          work[rank].operations += parts.expert.operations;
        }
      }
      work[rank].weight_bytes += parts.always.bytes;
      work[rank].operations += parts.always.operations * (end - begin);
    }
  }
  return work;
}

absl::StatusOr<std::vector<uint32_t>> TokenCounts(absl::string_view text) {
  std::vector<uint32_t> counts;
  const size_t dots = text.find("..");
  if (dots != absl::string_view::npos) {
    const std::pair<absl::string_view, absl::string_view> rest =
        absl::StrSplit(text.substr(dots + 2), absl::MaxSplits('*', 1));
    const std::optional<uint32_t> first = CountOf(text.substr(0, dots));
    const std::optional<uint32_t> last = CountOf(rest.first);
    const std::optional<uint32_t> factor = CountOf(rest.second);
    if (!first.has_value() || !last.has_value() || factor.value_or(0) < 2 || *last < *first) return NoCounts(text);
    for (uint64_t count = *first; count <= *last; count *= *factor) counts.push_back(static_cast<uint32_t>(count));
    return counts;
  }
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::optional<uint32_t> count = CountOf(part);
    if (!count.has_value() || (!counts.empty() && *count <= counts.back())) return NoCounts(text);
    counts.push_back(*count);
  }
  return counts;
}

std::vector<float> NormalNumbers(uint64_t seed, size_t count) {
  std::vector<float> numbers(count);
  uint64_t state = seed;
  for (float& number : numbers) {
    const double radius = std::sqrt(-2 * std::log(UnitOf(&state)));
    number = static_cast<float>(radius * std::cos(kTwoPi * UnitOf(&state)));
  }
  return numbers;
}

std::vector<int32_t> DistinctExperts(uint64_t seed, uint32_t tokens, uint32_t top_k, uint32_t experts) {
  std::vector<int32_t> all(experts);
  std::iota(all.begin(), all.end(), 0);
  std::vector<int32_t> chosen;
  uint64_t state = seed;
  for (uint32_t token = 0; token < tokens; ++token) {
    for (uint32_t j = 0; j < top_k; ++j) {  // the first steps of a shuffle
      std::swap(all[j], all[j + NextOf(&state) % (experts - j)]);
      chosen.push_back(all[j]);
    }
  }
  return chosen;
}

}  // namespace meshseal::tools

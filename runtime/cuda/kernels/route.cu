#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/route.h"
#include "runtime/numerics/router_scores.h"
#include "schema/route_workspace.h"

namespace meshseal::cuda {
namespace {

constexpr uint32_t kNobody = 0xFFFFFFFFu;
constexpr uint32_t kMaxWarps = 4;  // of a block

// What a warp keeps of its token: RouteWorkspaceBytes.
struct Workspace {
  double* scores;      // [k], of the chosen
  float* logits;       // [E]
  float* ranks;        // [E], what is compared
  float* group_ranks;  // [groups]
  uint32_t* chosen;    // [k]
};

MESHSEAL_DEVICE Workspace WorkspaceOf(const RouteStep& step, uint32_t bytes) {
  Workspace work;
  work.scores = reinterpret_cast<double*>(DynamicShared<unsigned char>() + Warp() * bytes);
  work.logits = reinterpret_cast<float*>(work.scores + step.grid.top_k);
  work.ranks = work.logits + step.experts;
  work.group_ranks = work.ranks + step.experts;
  work.chosen = reinterpret_cast<uint32_t*>(work.group_ranks + step.rule.groups.count);
  return work;
}

// An expert or a group with what it is compared by.
struct Ranked {
  float rank;
  uint32_t id;  // kNobody: none
};

// Higher first; of equals the lower id. Never of a NaN.
MESHSEAL_DEVICE bool ComesBefore(const Ranked& a, const Ranked& b) {
  return a.rank > b.rank || (a.rank == b.rank && a.id < b.id);
}

// The first that comes after `last`, or of all where that is nobody; the same on all lanes.
MESHSEAL_DEVICE Ranked NextBest(const float* ranks, uint32_t count, const Ranked& last) {
  Ranked best{0, kNobody};
  for (uint32_t id = Lane(); id < count; id += kWarpLanes) {
    const Ranked one{ranks[id], id};
    if (last.id != kNobody && !ComesBefore(last, one)) continue;
    if (best.id == kNobody || ComesBefore(one, best)) best = one;
  }
  for (uint32_t offset = kWarpLanes / 2; offset > 0; offset /= 2) {
    const Ranked other{__shfl_xor_sync(kWholeWarp, best.rank, static_cast<int>(offset)),
                       __shfl_xor_sync(kWholeWarp, best.id, static_cast<int>(offset))};
    if (other.id != kNobody && (best.id == kNobody || ComesBefore(other, best))) best = other;
  }
  return best;
}

// The token's logits. The lowest expert whose logit is not finite; kNobody where all are.
MESHSEAL_DEVICE uint32_t LoadLogits(const RouteStep& step, uint32_t token, float* logits) {
  const float* products = step.logits + uint64_t{token} * step.experts;
  uint32_t refused = kNobody;
  for (uint32_t first = 0; first < step.experts; first += kWarpLanes) {
    const uint32_t expert = first + Lane();
    if (expert >= step.experts) continue;
    const float logit = products[expert];
    logits[expert] = logit;
    if (!IsFinite(logit) && refused == kNobody) refused = expert;
  }
  __syncwarp();
  return WarpMin(refused);
}

// The part of a softmax that its logits share.
struct SharedPart {
  float largest;
  double sum;
};

// Over logit(0) to logit(count - 1); the sum in the order of InterleavedSum.
template <class LogitAt>
MESHSEAL_DEVICE SharedPart SoftmaxOver(uint32_t count, const LogitAt& logit) {
  float largest = logit(0);
  for (uint32_t i = Lane(); i < count; i += kWarpLanes) largest = largest < logit(i) ? logit(i) : largest;
  largest = WarpMax(largest);
  double sum = 0;
  for (uint32_t i = Lane(); i < count; i += kWarpLanes) sum += runtime::SoftmaxTerm(logit(i), largest);
  return {largest, WarpSum(sum)};
}

MESHSEAL_DEVICE double ScoreIn(const RouteStep& step, const SharedPart& softmax, float logit) {
  if (step.rule.scoring != Scoring::kSoftmax) return runtime::ScoreOf(step.rule.scoring, logit);
  return runtime::SoftmaxTerm(logit, softmax.largest) / softmax.sum;
}

// Of the softmax that is taken over all experts, before they are chosen.
MESHSEAL_DEVICE SharedPart SoftmaxOverAll(const RouteStep& step, const float* logits) {
  if (step.rule.scoring != Scoring::kSoftmax || step.rule.order == RouteOrder::kTopKThenScore) return {};
  return SoftmaxOver(step.experts, [&](uint32_t expert) { return logits[expert]; });
}

// The scores of work.chosen.
MESHSEAL_DEVICE void ScoreChosen(const RouteStep& step, const SharedPart& over_all, const Workspace& work) {
  const uint32_t top_k = step.grid.top_k;
  const auto logit = [&](uint32_t j) { return work.logits[work.chosen[j]]; };
  SharedPart softmax = over_all;
  if (step.rule.scoring == Scoring::kSoftmax && step.rule.order == RouteOrder::kTopKThenScore) {
    softmax = SoftmaxOver(top_k, logit);
  }
  for (uint32_t j = Lane(); j < top_k; j += kWarpLanes) work.scores[j] = ScoreIn(step, softmax, logit(j));
}

// The worth of a group of neighbours.
MESHSEAL_DEVICE float GroupRank(GroupScore score, const float* ranks, uint32_t size) {
  float best = ranks[0];
  float second = -HUGE_VALF;
  for (uint32_t i = 1; i < size; ++i) {
    if (ranks[i] > best) {
      second = best;
      best = ranks[i];
    } else if (ranks[i] > second) {
      second = ranks[i];
    }
  }
  return score == GroupScore::kMax ? best : best + second;
}

// Experts outside the best groups can not be chosen.
MESHSEAL_DEVICE void KeepGroups(const RouteStep& step, const Workspace& work) {
  const RouterGroups& groups = step.rule.groups;
  const uint32_t size = step.experts / groups.count;
  for (uint32_t group = Lane(); group < groups.count; group += kWarpLanes) {
    work.group_ranks[group] = GroupRank(groups.score, work.ranks + group * size, size);
  }
  __syncwarp();
  Ranked last{0, kNobody};
  for (uint32_t kept = 0; kept < groups.keep; ++kept) last = NextBest(work.group_ranks, groups.count, last);
  for (uint32_t expert = Lane(); expert < step.experts; expert += kWarpLanes) {
    const uint32_t group = expert / size;
    if (ComesBefore(last, {work.group_ranks[group], group})) work.ranks[expert] = -HUGE_VALF;
  }
  __syncwarp();
}

MESHSEAL_DEVICE void ChooseByRank(const RouteStep& step, const Workspace& work) {
  Ranked last{0, kNobody};
  for (uint32_t j = 0; j < step.grid.top_k; ++j) {
    last = NextBest(work.ranks, step.experts, last);
    if (Lane() == 0) work.chosen[j] = last.id;
  }
  __syncwarp();
}

// The lowest expert whose rank is not finite, and nothing is chosen; kNobody where all are.
MESHSEAL_DEVICE uint32_t Select(const RouteStep& step, const Workspace& work) {
  const SharedPart over_all = SoftmaxOverAll(step, work.logits);
  const bool logits_first = step.rule.order == RouteOrder::kTopKThenScore;
  uint32_t refused = kNobody;
  for (uint32_t expert = Lane(); expert < step.experts; expert += kWarpLanes) {
    const float logit = work.logits[expert];
    float rank = logits_first ? logit : static_cast<float>(ScoreIn(step, over_all, logit));
    if (!step.selection_bias.empty()) rank += ReadVector(step.selection_bias, expert);
    work.ranks[expert] = rank;
    if (!IsFinite(rank) && refused == kNobody) refused = expert;
  }
  refused = WarpMin(refused);
  if (refused != kNobody) return refused;
  __syncwarp();
  if (step.rule.groups.count > 0) KeepGroups(step, work);
  ChooseByRank(step, work);
  ScoreChosen(step, over_all, work);
  return kNobody;
}

// One expert after the other: those left come after the last chosen one.
MESHSEAL_DEVICE void SelectBySparsemixer(const RouteStep& step, const Workspace& work) {
  Ranked last{0, kNobody};
  for (uint32_t j = 0; j < step.grid.top_k; ++j) {
    const Ranked before = last;
    last = NextBest(work.logits, step.experts, last);
    double sum = 0;
    for (uint32_t expert = Lane(); expert < step.experts; expert += kWarpLanes) {
      const float logit = work.logits[expert];
      if (before.id != kNobody && !ComesBefore(before, {logit, expert})) continue;
      if (runtime::IsNear(step.rule, logit, last.rank)) sum += runtime::SoftmaxTerm(logit, last.rank);
    }
    sum = WarpSum(sum);
    if (Lane() != 0) continue;
    work.chosen[j] = last.id;
    work.scores[j] = runtime::SoftmaxTerm(last.rank, last.rank) / sum;
  }
}

// work.chosen with weights that follow from work.scores.
MESHSEAL_DEVICE void Write(const RouteStep& step, uint32_t token, const Workspace& work) {
  __syncwarp();
  const uint32_t top_k = step.grid.top_k;
  const uint64_t slot = uint64_t{token} * top_k;
  double sum = 0;
  for (uint32_t j = Lane(); j < top_k; j += kWarpLanes) sum += work.scores[j];
  sum = WarpSum(sum);
  for (uint32_t j = Lane(); j < top_k; j += kWarpLanes) {
    step.out.experts[slot + j] = static_cast<int32_t>(work.chosen[j]);
    step.out.weights[slot + j] = runtime::WeightOf(step.rule, work.scores[j], sum);
    step.out.computed[slot + j] = 0;
  }
  if (Lane() == 0) step.out.failures[token] = 0;
}

MESHSEAL_DEVICE void WriteFailure(const RouteStep& step, uint32_t token, uint64_t word) {
  const uint64_t slot = uint64_t{token} * step.grid.top_k;
  for (uint32_t j = Lane(); j < step.grid.top_k; j += kWarpLanes) {
    step.out.experts[slot + j] = static_cast<int32_t>(j);
    step.out.weights[slot + j] = 0;
    step.out.computed[slot + j] = 0;
  }
  if (Lane() == 0) step.out.failures[token] = word;
}

__global__ void RouteKernel(RouteStep step, uint32_t workspace_bytes) {
  const uint32_t token = blockIdx.x * (blockDim.x / kWarpLanes) + Warp();
  if (token >= step.grid.step->tokens) return;
  const Workspace work = WorkspaceOf(step, workspace_bytes);
  uint32_t refused = LoadLogits(step, token, work.logits);
  if (refused == kNobody) {
    if (step.rule.scoring == Scoring::kSparsemixer) {
      SelectBySparsemixer(step, work);
    } else {
      refused = Select(step, work);
    }
  }
  if (refused != kNobody) return WriteFailure(step, token, FailureWord(FailureKind::kRouterScore, refused, token));
  Write(step, token, work);
}

MESHSEAL_DEVICE int64_t EntryOf(const TokenTable& table, uint32_t row, uint32_t column) {
  const uint32_t bytes = table.wide ? 8 : 4;
  const auto* at = static_cast<const unsigned char*>(table.entries) + row * table.row_bytes + uint64_t{column} * bytes;
  uint64_t bits = 0;
  for (uint32_t i = 0; i < bytes; ++i) bits |= uint64_t{at[i]} << (8 * i);
  return table.wide ? static_cast<int64_t>(bits) : int64_t{static_cast<int32_t>(bits)};
}

// The experts of a row, in its order. Whether they are different experts of the layer.
MESHSEAL_DEVICE bool ChooseByTable(const RouteStep& step, const TokenTable& table, uint32_t row,
                                   const Workspace& work) {
  bool good = true;
  for (uint32_t j = Lane(); j < step.grid.top_k; j += kWarpLanes) {
    const int64_t expert = EntryOf(table, row, j);
    good = good && expert >= 0 && expert < int64_t{step.experts};
    for (uint32_t earlier = 0; earlier < j; ++earlier) good = good && EntryOf(table, row, earlier) != expert;
    work.chosen[j] = static_cast<uint32_t>(expert);
  }
  __syncwarp();
  return __all_sync(kWholeWarp, good) != 0;
}

__global__ void RouteByTableKernel(RouteStep step, TokenTable table, uint32_t workspace_bytes) {
  const uint32_t token = blockIdx.x * (blockDim.x / kWarpLanes) + Warp();
  if (token >= step.grid.step->tokens) return;
  const Workspace work = WorkspaceOf(step, workspace_bytes);
  const auto id = static_cast<uint32_t>(table.token_ids[token]);  // a negative id is above every vocabulary
  if (id >= table.rows) return WriteFailure(step, token, FailureWord(FailureKind::kTokenId, 0, id));
  if (!ChooseByTable(step, table, id, work)) {
    return WriteFailure(step, token, FailureWord(FailureKind::kTokenTableRow, 0, id));
  }
  const uint32_t refused = LoadLogits(step, token, work.logits);
  if (refused != kNobody) return WriteFailure(step, token, FailureWord(FailureKind::kRouterScore, refused, token));
  ScoreChosen(step, SoftmaxOverAll(step, work.logits), work);
  Write(step, token, work);
}

__global__ void RouteGivenKernel(StepGrid grid, const int32_t* experts, const float* weights, RouteOutput out) {
  const uint64_t slot = GridThread();
  if (slot >= uint64_t{grid.step->tokens} * grid.top_k) return;
  out.experts[slot] = experts[slot];
  out.weights[slot] = weights[slot];
  out.computed[slot] = 0;
  if (slot % grid.top_k == 0) out.failures[slot / grid.top_k] = 0;
}

// One warp for each token, as many to a block as have room.
template <class... Parameters, class... Args>
cudaError_t LaunchWarps(cudaStream_t stream, void (*kernel)(Parameters...), const RouteStep& step,
                        const Args&... args) {
  const uint64_t bytes = RouteWorkspaceBytes(step.experts, step.grid.top_k, step.rule.groups.count);
  if (step.grid.top_k == 0 || step.grid.top_k > step.experts || bytes > kKernelSharedBytes)
    return cudaErrorInvalidValue;
  const auto fit = static_cast<uint32_t>(kKernelSharedBytes / bytes);
  const uint32_t warps = fit < kMaxWarps ? fit : kMaxWarps;
  return Launch(stream, kernel, dim3(BlocksFor(step.grid.max_tokens, warps)), dim3(warps * kWarpLanes), warps * bytes,
                step, args..., static_cast<uint32_t>(bytes));
}

}  // namespace

cudaError_t LaunchRoute(cudaStream_t stream, const RouteStep& step) { return LaunchWarps(stream, RouteKernel, step); }

cudaError_t LaunchRouteByTable(cudaStream_t stream, const RouteStep& step, const TokenTable& table) {
  return LaunchWarps(stream, RouteByTableKernel, step, table);
}

cudaError_t LaunchRouteGiven(cudaStream_t stream, const StepGrid& grid, const int32_t* experts, const float* weights,
                             const RouteOutput& out) {
  constexpr unsigned kThreads = 128;
  return Launch(stream, RouteGivenKernel, dim3(BlocksFor(grid.max_slots(), kThreads)), dim3(kThreads), 0, grid, experts,
                weights, out);
}

}  // namespace meshseal::cuda

#include "compiler/budget/price.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/budget/stored_size.h"
#include "schema/mesh_view.h"

namespace meshseal::compiler {
namespace {

constexpr double kAddendBytes = 4;      // the collective sums float32
constexpr double kActivationBytes = 2;  // what is not MoE hands on bf16
constexpr double kStatusLaneBytes = 64;
constexpr double kNanosecond = 1e-9;

// The islands of a mesh's nodes.
std::vector<uint32_t> IslandOfNode(const MeshSpec& mesh) {
  std::map<std::string, uint32_t> islands;
  for (uint32_t island = 0; island < mesh.islands.size(); ++island) {
    for (const Spanned<std::string>& node : mesh.islands[island].nodes) islands[node.value] = island;
  }
  std::vector<uint32_t> of_node;
  for (const NodeSpec& node : mesh.nodes) of_node.push_back(islands.at(node.name.value));
  return of_node;
}

// Bytes that one rank receives in one collective, by the link they come over.
struct Traffic {
  double inside = 0;
  double between = 0;
  uint64_t messages = 0;
};

class Pricer {
 public:
  Pricer(const CheckedModel& checked, const Placement& placement, const MemoryPlan& memory)
      : checked_(checked), placement_(placement), memory_(memory), islands_(IslandOfNode(checked.mesh())) {}

  StepPrice Step(uint32_t tokens) {
    const Degrees& degrees = placement_.degrees();
    StepPrice step;
    step.tokens = tokens;
    for (uint32_t pp = 0; pp < degrees.pp; ++pp) Stage(pp, step);
    return step;
  }

 private:
  // The longest of the stage's ranks; replicas are alike, so those of dp 0 stand for all.
  void Stage(uint32_t pp, StepPrice& step) {
    const Degrees& degrees = placement_.degrees();
    StepPrice busiest;
    for (uint32_t tp = 0; tp < degrees.tp; ++tp) {
      for (uint32_t ep = 0; ep < degrees.ep; ++ep) {
        const StepPrice rank = Compute(RankOf(degrees, {0, pp, tp, ep}), step.tokens);
        if (rank.seconds > busiest.seconds) busiest = rank;
      }
    }
    step.weight_bytes += busiest.weight_bytes;
    step.operations += busiest.operations;
    step.seconds += busiest.seconds;

    const uint32_t first_rank = RankOf(degrees, {0, pp, 0, 0});
    const uint32_t group = degrees.tp * degrees.ep;
    const double hidden = static_cast<double>(checked_.model().hidden_size.value);
    const double tokens = step.tokens;
    const uint64_t layers = placement_.LayersOf({{0, placement_.stage_ends().back()}}, pp);
    const uint64_t moe_layers = placement_.LayersOf(checked_.model().moe_layers.value, pp);
    // The MoE blocks' collective: every rank receives the addends of all others.
    Add(AllGather(first_rank, group, tokens * hidden * kAddendBytes + kStatusLaneBytes), moe_layers, step);
    // Attention, and the MLP of dense layers, sum over the dense group; a ring of reduce-scatter and all-gather.
    const double dense_tokens = tokens * degrees.dense_tp / group;
    const uint64_t sums = layers + (layers - moe_layers);
    Add(AllReduce(first_rank, degrees.dense_tp, dense_tokens * hidden * kActivationBytes), sums, step);
    // Tokens differ inside the group: they are gathered before a block.
    if (degrees.dense_tp < group) {
      Add(AllGather(first_rank, group / degrees.dense_tp, dense_tokens * hidden * kActivationBytes), moe_layers, step);
    }
    if (pp + 1 < degrees.pp) {
      const bool inside = Island(first_rank) == Island(RankOf(degrees, {0, pp + 1, 0, 0}));
      const double bytes = tokens * hidden * kActivationBytes;
      Add(inside ? Traffic{bytes, 0, 1} : Traffic{0, bytes, 1}, 1, step);
    }
  }

  StepPrice Compute(uint32_t rank, uint32_t tokens) {
    const Degrees& degrees = placement_.degrees();
    const Coordinate at = CoordinateOf(degrees, rank);
    const Manifest& model = checked_.model();
    const double hidden = static_cast<double>(model.hidden_size.value);
    const DeviceKindSpec& device = checked_.mesh().KindOfNode(placement_.rank_slots()[rank].node);
    StepPrice price;
    for (size_t group = 0; group < model.groups.size(); ++group) {
      const MoeSpec& moe = model.groups[group].moe;
      const GroupPlacement& owned = placement_.groups()[group];
      const double layers = static_cast<double>(placement_.LayersOf(model.groups[group].layers, at.pp));
      const double experts = static_cast<double>(moe.experts.value);
      const double share = static_cast<double>(moe.experts_per_token.value) / experts;
      const double mine = owned.expert_counts[at.ep];
      const double matrices = moe.gated.value ? 3 : 2;
      const uint64_t columns = owned.ColumnsOf(at.tp);
      const uint64_t shared = owned.SharedColumnsOf(at.tp, at.ep);
      const LayerBytes bytes = sizes_.Layer(model, moe, columns, shared);
      // Tokens select experts evenly and independently: an expert is read when any token selects it.
      const double active = mine * (1 - std::pow(1 - share, tokens));
      const double rows = tokens * share * mine;
      price.weight_bytes += layers * (static_cast<double>(bytes.replicated + bytes.shared) +
                                      active * static_cast<double>(bytes.per_expert));
      price.operations += layers * 2 * hidden *
                          (tokens * experts + matrices * rows * static_cast<double>(columns) +
                           matrices * tokens * static_cast<double>(shared));
    }
    // What is not MoE is read once a step, and each of its elements multiplies every token of its dense group.
    const double other = static_cast<double>(memory_.ranks()[rank].other);
    const double dense_tokens =
        static_cast<double>(tokens) * degrees.dense_tp / (static_cast<double>(degrees.tp) * degrees.ep);
    price.weight_bytes += other;
    price.operations += other / kActivationBytes * 2 * dense_tokens;
    price.seconds = std::max(price.weight_bytes / static_cast<double>(device.bandwidth->value),
                             price.operations / static_cast<double>(device.bf16->value));
    return price;
  }

  // Among `size` ranks from `first` on: the ranks of an expert group are neighbours.
  Traffic AllGather(uint32_t first, uint32_t size, double slice) const {
    Traffic traffic;
    for (uint32_t peer = 1; peer < size; ++peer) {
      (Island(first) == Island(first + peer) ? traffic.inside : traffic.between) += slice;
    }
    traffic.messages = size > 1 ? 1 : 0;
    return traffic;
  }

  Traffic AllReduce(uint32_t first, uint32_t size, double bytes) const {
    Traffic traffic = AllGather(first, size, 2 * bytes / size);
    traffic.messages *= 2;
    return traffic;
  }

  void Add(const Traffic& traffic, uint64_t times, StepPrice& step) const {
    if (traffic.messages == 0) return;
    const MeshSpec& mesh = checked_.mesh();
    const LinkSpec& inside = mesh.islands.front().link;
    const LinkSpec& between = mesh.between_islands.has_value() ? *mesh.between_islands : inside;
    const LinkSpec& slowest = traffic.between > 0 ? between : inside;
    const double count = static_cast<double>(times);
    step.link_bytes += count * traffic.inside;
    step.between_bytes += count * traffic.between;
    step.messages += times * traffic.messages;
    step.seconds += count * (static_cast<double>(traffic.messages * slowest.latency.value) * kNanosecond +
                             traffic.inside / static_cast<double>(inside.bandwidth.value) +
                             traffic.between / static_cast<double>(between.bandwidth.value));
  }

  uint32_t Island(uint32_t rank) const { return islands_[placement_.rank_slots()[rank].node]; }

  const CheckedModel& checked_;
  const Placement& placement_;
  const MemoryPlan& memory_;
  std::vector<uint32_t> islands_;  // per node
  StoredSize sizes_;
};

}  // namespace

std::vector<std::string> PriceAssumptions() {
  return {"tokens select experts evenly and independently",
          "a product takes the longer of its operations at the bf16 rate and its weights at the memory's bandwidth",
          "what is not MoE is bf16, read once a step",
          "the block's collective gathers float32 addends; attention and dense layers sum in a ring",
          "a collective takes its latency and its bytes at the link's bandwidth; nothing overlaps",
          "attention over cached keys, sampling and launches are not counted"};
}

Pricing PriceOf(const CheckedModel& checked, const Placement& placement, const MemoryPlan& memory) {
  for (const DeviceKindSpec& kind : checked.mesh().device_kinds) {
    const char* missing = !kind.bandwidth.has_value() ? "bandwidth" : !kind.bf16.has_value() ? "bf16" : nullptr;
    if (missing != nullptr) {
      return {std::nullopt, absl::StrCat("device kind '", kind.name.value, "' does not state its ", missing)};
    }
  }
  Pricer pricer(checked, placement, memory);
  Price price;
  price.decode = pricer.Step(static_cast<uint32_t>(checked.deployment().decode_tokens.value));
  price.prefill = pricer.Step(static_cast<uint32_t>(checked.deployment().prefill_chunk.value));
  return {price, ""};
}

}  // namespace meshseal::compiler

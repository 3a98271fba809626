#include "compiler/budget/price.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/budget/stored_size.h"
#include "schema/mesh_view.h"

namespace meshseal::compiler {
namespace {

constexpr double kAddendBytes = 4;       // the collective sums float32,
constexpr double kExactAddendBytes = 8;  // or int64
constexpr double kActivationBytes = 2;   // what is not MoE hands on bf16
constexpr double kNanosecond = 1e-9;

// A step's price while it is added up.
struct StepCost {
  double weight_bytes = 0;
  double operations = 0;
  double link_bytes = 0;
  double between_bytes = 0;
  uint64_t messages = 0;
  double seconds = 0;
};

// By squaring: products alone are the same bits with every library, and prices are part of a plan.
double Power(double base, uint32_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result *= base;
    base *= base;
  }
  return result;
}

uint64_t Whole(double number) { return static_cast<uint64_t>(std::llround(number)); }

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

  StepPrice Step(Phase phase) {
    StepCost step;
    phase_ = phase;
    for (uint32_t pp = 0; pp < placement_.degrees().pp; ++pp) Stage(pp, step);
    return {Tokens(),
            Whole(step.weight_bytes),
            Whole(step.operations),
            Whole(step.link_bytes),
            Whole(step.between_bytes),
            step.messages,
            Whole(step.seconds / kNanosecond)};
  }

 private:
  // The longest of the stage's ranks; replicas are alike, so those of dp 0 stand for all.
  void Stage(uint32_t pp, StepCost& step) {
    const Degrees& degrees = placement_.degrees();
    StepCost busiest;
    for (uint32_t tp = 0; tp < degrees.tp; ++tp) {
      for (uint32_t ep = 0; ep < degrees.ep; ++ep) {
        const StepCost rank = Compute(RankOf(degrees, {0, pp, tp, ep}), Tokens());
        if (rank.seconds > busiest.seconds) busiest = rank;
      }
    }
    step.weight_bytes += busiest.weight_bytes;
    step.operations += busiest.operations;
    step.seconds += busiest.seconds;

    const uint32_t first_rank = RankOf(degrees, {0, pp, 0, 0});
    const uint32_t group = degrees.tp * degrees.ep;
    const double hidden = static_cast<double>(checked_.model().hidden_size.value);
    const double tokens = Tokens();
    const uint64_t layers = placement_.LayersOf({{0, placement_.stage_ends().back()}}, pp);
    const uint64_t moe_layers = placement_.LayersOf(checked_.model().moe_layers.value, pp);
    Add(BlockSum(first_rank, group, hidden), moe_layers, step);
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

  uint32_t Tokens() const { return GroupTokens(checked_.deployment(), phase_); }

  // The MoE block's collective. In rank order, every rank receives the addends of all others: of all tokens, or of its
  // own where tokens differ; or slices of them and then the others' sums, which is what a transport's ring brings it.
  Traffic BlockSum(uint32_t first_rank, uint32_t group, double hidden) const {
    const Reduction reduction = checked_.deployment().reduction.value;
    const Degrees& degrees = placement_.degrees();
    const double element = reduction == Reduction::kExact ? kExactAddendBytes : kAddendBytes;
    const double tokens = Tokens();
    const double own = tokens * degrees.dense_tp / group;
    const ReduceAlgorithm algorithm =
        ReduceAlgorithmOf(reduction, degrees, Tokens(), checked_.model().hidden_size.value);
    if (algorithm == ReduceAlgorithm::kGatherThenSum) {
      return AllGather(first_rank, group, tokens * hidden * element + kStatusLaneBytes);
    }
    if (algorithm == ReduceAlgorithm::kExchangeThenSum && Gathers(degrees)) {
      return AllGather(first_rank, group, own * hidden * element + kStatusLaneBytes);
    }
    Traffic ring = AllReduce(first_rank, group, tokens * hidden * element + kStatusLaneBytes);
    if (Gathers(degrees)) ring = {ring.inside / 2, ring.between / 2, ring.messages / 2};  // no all-gather follows
    return ring;
  }

  StepCost Compute(uint32_t rank, uint32_t tokens) {
    const Degrees& degrees = placement_.degrees();
    const Coordinate at = CoordinateOf(degrees, rank);
    const Manifest& model = checked_.model();
    const double hidden = static_cast<double>(model.hidden_size.value);
    const DeviceKindSpec& device = checked_.mesh().KindOfNode(placement_.rank_slots()[rank].node);
    StepCost price;
    for (size_t index = 0; index < placement_.classes().size(); ++index) {
      const ClassPlacement& owned = placement_.classes()[index];
      const MoeSpec& moe = model.groups[owned.group].moe;
      const double layers = static_cast<double>(placement_.LayersOf(owned.layers, at.pp));
      const double experts = static_cast<double>(moe.experts.value);
      const double share = static_cast<double>(moe.experts_per_token.value) / experts;
      // Copies of an expert share its tokens: a rank's share of the slots is as if it held fewer experts.
      const double copied = static_cast<double>(owned.owners.copies.size());
      const double held = owned.expert_counts[at.ep];
      const double mine = held * experts / (experts + copied);
      const double matrices = moe.gated.value ? 3 : 2;
      const uint64_t columns = owned.ColumnsOf(at.tp);
      const uint64_t shared = owned.SharedColumnsOf(at.tp, at.ep);
      const LayerBytes& bytes = BytesOf(index, columns, shared);
      // Tokens select experts evenly and independently: an expert is read when any token selects it.
      const double active = held * (1 - Power(1 - share * mine / held, tokens));
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

  const LayerBytes& BytesOf(size_t index, uint64_t columns, uint64_t shared) {
    const auto [at, inserted] = bytes_.try_emplace({index, columns, shared});
    if (inserted) {
      const MoeSpec& moe = checked_.model().groups[placement_.classes()[index].group].moe;
      at->second = sizes_.Layer(checked_.model(), moe, columns, shared);
    }
    return at->second;
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

  void Add(const Traffic& traffic, uint64_t times, StepCost& step) const {
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
  Phase phase_ = Phase::kInvalid;
  StoredSize sizes_;
  std::map<std::tuple<size_t, uint64_t, uint64_t>, LayerBytes> bytes_;  // by class, columns, shared columns
};

}  // namespace

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

std::vector<std::string> PriceAssumptions() {
  return {"tokens select experts evenly and independently",
          "a product takes the longer of its operations at the bf16 rate and its weights at the memory's bandwidth",
          "what is not MoE is bf16, read once a step",
          "an ordered sum gathers or exchanges float32 addends; other sums, attention and dense layers take a ring",
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
  price.decode = pricer.Step(Phase::kDecode);
  price.prefill = pricer.Step(Phase::kPrefill);
  return {price, ""};
}

}  // namespace meshseal::compiler

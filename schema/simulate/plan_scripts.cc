#include "schema/simulate/plan_scripts.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/checked_math.h"
#include "schema/meaning/shape_facts.h"
#include "schema/mesh_view.h"
#include "schema/plan_words.h"
#include "schema/rank_part.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal {
namespace {

constexpr double kStatusLaneBytes = 64;
constexpr double kDenseBytes = 2;  // an element of what is not MoE: bf16
constexpr uint32_t kExpertGroup = 0;
constexpr uint32_t kDenseGroup = 1;
constexpr uint32_t kPrevious = 0;
constexpr uint32_t kNext = 1;

double Real(uint64_t number) { return static_cast<double>(number); }

// (1 - chance)^tokens, by squaring: the same with every library.
double NeverIn(uint32_t tokens, double chance) {
  double base = 1 - std::min(1.0, chance);
  double never = 1;
  for (; tokens > 0; tokens /= 2) {
    if (tokens % 2 == 1) never *= base;
    base *= base;
  }
  return never;
}

double OutputBytes(Basis output) { return output == Basis::kF32 ? 4 : 2; }

// What an ep coordinate computes of a layer, as it is expected.
struct Share {
  double rows = 0;    // slots
  double active = 0;  // experts that any token selects
};

Share ShareOf(const LayerClass& c, uint32_t ep, uint32_t tokens) {
  std::vector<double> holders(c.experts, 1);
  for (const ExpertCopy& copy : c.expert_copies) ++holders[copy.expert];
  double slots = 0;
  for (const uint64_t of_expert : c.load.slots) slots += Real(of_expert);
  Share share;
  for (const uint32_t expert : ExpertsOf(c, ep).all) {
    const double part = slots > 0 ? Real(c.load.slots[expert]) / slots : 1.0 / c.experts;
    const double chance = c.top_k * part / holders[expert];  // that a token's slot is computed here
    share.rows += tokens * chance;
    share.active += 1 - NeverIn(tokens, chance);
  }
  return share;
}

class PlanScripts {
 public:
  explicit PlanScripts(const Plan& plan, const PlayedWork& work) : plan_(plan), work_(work) {}

  absl::StatusOr<MeshScripts> Make() {
    MESHSEAL_RETURN_IF_ERROR(CheckWork());
    const Degrees& d = plan_.degrees;
    const uint32_t world = *WorldOf(d);
    const uint32_t group = d.tp * d.ep;
    for (uint32_t first = 0; first < world; first += group) AddGroup(first, group);
    dense_groups_ = result_.groups.size();
    for (uint32_t first = 0; first < world; first += d.dense_tp) AddGroup(first, d.dense_tp);
    const uint32_t chunk = StepTokens(plan_, work_.phase);
    const uint32_t whole = work_.tokens / chunk;
    const uint32_t rest = work_.tokens % chunk;
    for (uint32_t rank = 0; rank < world; ++rank) {
      const Coordinate at = CoordinateOf(d, rank);
      RankScript script;
      if (at.dp > 0) {  // replicas do the same
        script.passages = result_.ranks[RankOf(d, {0, at.pp, at.tp, at.ep})].passages;
      } else {
        if (whole > 0) script.passages.push_back({Interned(ScriptFor(at, rank, chunk)), whole});
        if (rest > 0) script.passages.push_back({Interned(ScriptFor(at, rank, rest)), 1});
      }
      script.groups = {rank / group, static_cast<uint32_t>(dense_groups_) + rank / d.dense_tp};
      script.peers = {at.pp > 0 ? rank - group : rank, at.pp + 1 < d.pp ? rank + group : rank};
      result_.ranks.push_back(std::move(script));
    }
    return std::move(result_);
  }

 private:
  absl::Status CheckWork() const {
    const uint32_t most = MostTokens(plan_, work_.phase);
    if (work_.tokens == 0) return Refuse(Reason::kUsage, "0 tokens, expected at least 1");
    if (work_.tokens > most) {
      return Refuse(Reason::kLimit, absl::StrCat(WordOf(work_.phase), " of ", CountText(work_.tokens, "token"),
                                                 ", the plan's limit is ", most));
    }
    if (work_.layer.has_value() && ClassAt(*work_.layer) == nullptr) {
      return Refuse(Reason::kUsage, absl::StrCat("the plan has no MoE layer ", *work_.layer));
    }
    return absl::OkStatus();
  }

  const LayerClass* ClassAt(uint32_t layer) const {
    for (const LayerClass& c : plan_.layer_classes) {
      for (const LayerRange& range : c.layers) {
        if (layer >= range.first && layer < range.last) return &c;
      }
    }
    return nullptr;
  }

  void AddGroup(uint32_t first, uint32_t size) {
    std::vector<uint32_t>& group = result_.groups.emplace_back();
    for (uint32_t rank = first; rank < first + size; ++rank) group.push_back(rank);
  }

  // One of all equal scripts is kept.
  uint32_t Interned(Script script) {
    const std::array<double, 4> key = KeyOf(script);
    for (const uint32_t index : known_[key]) {
      if (result_.scripts[index] == script) return index;
    }
    const auto index = static_cast<uint32_t>(result_.scripts.size());
    known_[key].push_back(index);
    result_.scripts.push_back(std::move(script));
    return index;
  }

  static std::array<double, 4> KeyOf(const Script& script) {
    std::array<double, 4> key = {Real(script.size()), script.empty() ? 0 : Real(script.front().layer), 0, 0};
    for (const ScriptOp& op : script) {
      key[2] += op.bytes;
      key[3] += op.operations;
    }
    return key;
  }

  Script ScriptFor(const Coordinate& at, uint32_t rank, uint32_t tokens) {
    Script script;
    const uint32_t first = at.pp == 0 ? 0 : plan_.stage_ends[at.pp - 1];
    const uint32_t last = plan_.stage_ends[at.pp];
    if (work_.layer.has_value()) {
      if (*work_.layer >= first && *work_.layer < last) AddLayer(*work_.layer, at, tokens, &script);
      return script;
    }
    if (at.pp > 0) script.push_back(HandOff(ScriptOpKind::kReceive, kPrevious, first - 1, tokens));
    for (uint32_t layer = first; layer < last; ++layer) {
      AddDense(layer, rank, last - first, tokens, &script);
      AddLayer(layer, at, tokens, &script);
    }
    if (at.pp + 1 < plan_.degrees.pp) script.push_back(HandOff(ScriptOpKind::kSend, kNext, last - 1, tokens));
    return script;
  }

  // Tokens that a rank has outside the MoE block.
  uint64_t OwnTokens(uint32_t tokens) const { return CeilDiv(tokens, DenseGroups(plan_.degrees)); }

  ScriptOp HandOff(ScriptOpKind kind, uint32_t peer, uint32_t layer, uint32_t tokens) const {
    ScriptOp op;
    op.kind = kind;
    op.layer = layer;
    op.with = peer;
    op.rounds = 1;
    op.elements = OwnTokens(tokens) * plan_.hidden;
    op.bytes = Real(op.elements) * OutputBytes(plan_.output);
    return op;
  }

  // Attention, and the MLP of a layer without experts: an even part of the rank's bytes, each of whose elements
  // multiplies every token of its dense group, and a sum over that group for each of the two.
  void AddDense(uint32_t layer, uint32_t rank, uint32_t layers, uint32_t tokens, Script* script) const {
    if (plan_.other_weights == OtherWeights{}) return;
    ScriptOp work;
    work.layer = layer;
    work.bytes = Real(plan_.memory[rank].other) / layers;
    work.operations = work.bytes / kDenseBytes * 2 * Real(OwnTokens(tokens));
    script->push_back(work);
    const uint32_t size = plan_.degrees.dense_tp;
    if (size < 2) return;
    ScriptOp sum;
    sum.kind = ScriptOpKind::kCollective;
    sum.movement = Movement::kDenseSum;
    sum.layer = layer;
    sum.with = kDenseGroup;
    sum.rounds = 2;
    sum.elements = OwnTokens(tokens) * plan_.hidden;
    sum.bytes = 2 * Real(sum.elements) * kDenseBytes / size;
    script->push_back(sum);
    if (ClassAt(layer) == nullptr) script->push_back(sum);
  }

  void AddLayer(uint32_t layer, const Coordinate& at, uint32_t tokens, Script* script) {
    const LayerClass* c = ClassAt(layer);
    if (c == nullptr) return;
    for (ScriptOp op : StepsOf(*c, at, tokens)) {
      op.layer = layer;
      script->push_back(op);
    }
  }

  // The steps of a class's program on the ranks at (tp, ep).
  const Script& StepsOf(const LayerClass& c, const Coordinate& at, uint32_t tokens) {
    const auto [found, inserted] = steps_.try_emplace({&c, at.tp, at.ep, tokens});
    if (!inserted) return found->second;
    const Share share = ShareOf(c, at.ep, tokens);
    for (const Program& program : c.programs) {
      if (program.phase != work_.phase) continue;
      for (const Step& step : program.steps) {
        ScriptOp op =
            IsCommunication(step.kind) ? Exchange(program, step, tokens) : Product(c, step, at, tokens, share);
        op.step = static_cast<uint32_t>(found->second.size() + 1);
        found->second.push_back(op);
      }
    }
    return found->second;
  }

  // A step's weights are read once, of experts that are selected at all; each row multiplies all of them.
  ScriptOp Product(const LayerClass& c, const Step& step, const Coordinate& at, uint32_t tokens,
                   const Share& share) const {
    ScriptOp op;
    const Interval columns = ColumnsOf(c, at.tp);
    const Interval shared = SharedColumnsOf(c, plan_.degrees, at.tp, at.ep);
    for (const uint32_t index : step.tensors) {
      const TensorClass& tensor = c.tensors[index];
      if (tensor.role == TensorRole::kTokenTable) continue;  // a row a token
      const meaning::RoleFacts& facts = *meaning::FactsOf(tensor.role);
      const LocalTensor local = LocalOf(plan_, c, facts, 1, columns, shared);
      if (local.count == 0) continue;
      const bool routed = ScopeOf(facts) == TensorScope::kExperts;
      const double bytes = Real(StoredBytes(tensor, local.outputs, local.inputs).value_or(0));
      op.bytes += bytes * (routed ? share.active : 1);
      op.operations += 2 * Real(local.outputs) * Real(local.inputs) * (routed ? share.rows : tokens);
    }
    return op;
  }

  ScriptOp Exchange(const Program& program, const Step& step, uint32_t tokens) const {
    const Degrees& d = plan_.degrees;
    const uint64_t own = OwnTokens(tokens) * plan_.hidden;  // elements of a rank's own tokens
    const double size = d.tp * d.ep;
    const double addend = plan_.reduction == Reduction::kExact ? 8 : 4;
    ScriptOp op;
    op.kind = ScriptOpKind::kCollective;
    op.with = kExpertGroup;
    op.rounds = 1;
    if (step.kind == StepKind::kGather) {  // once from each other dense group, spread over its ranks
      op.movement = Movement::kGather;
      op.elements = own;
      op.bytes = Real(own) * OutputBytes(plan_.output) * (DenseGroups(d) - 1) / std::max(1.0, size - 1);
      return op;
    }
    const bool scatters = step.collectives.front().op == CollectiveOp::kReduceScatter;
    op.movement = scatters ? Movement::kReduceScatter : Movement::kSum;
    op.elements = scatters ? own * DenseGroups(d) : uint64_t{tokens} * plan_.hidden;
    const double addends = Real(op.elements) * addend + kStatusLaneBytes;
    if (program.reduce_algorithm == ReduceAlgorithm::kGatherThenSum) {  // all addends of every other rank
      op.bytes = addends;
    } else if (program.reduce_algorithm == ReduceAlgorithm::kExchangeThenSum && scatters) {  // those of its own tokens
      op.bytes = Real(own) * addend + kStatusLaneBytes;
    } else {  // a piece of the addends, and of the sum where all ranks get it; of a transport, in a ring
      op.rounds = scatters ? 1 : 2;
      op.bytes = op.rounds * addends / size;
    }
    return op;
  }

  const Plan& plan_;
  const PlayedWork& work_;
  MeshScripts result_;
  size_t dense_groups_ = 0;
  std::map<std::tuple<const LayerClass*, uint32_t, uint32_t, uint32_t>, Script> steps_;  // by class, tp, ep, tokens
  std::map<std::array<double, 4>, std::vector<uint32_t>> known_;                         // scripts
};

}  // namespace

uint32_t MostTokens(const Plan& plan, Phase phase) {
  return phase == Phase::kDecode ? plan.limits.decode_tokens : plan.limits.prefill_tokens;
}

uint32_t StepTokens(const Plan& plan, Phase phase) {
  return phase == Phase::kDecode ? plan.limits.decode_tokens : plan.limits.prefill_chunk;
}

absl::StatusOr<MeshScripts> ScriptsOf(const Plan& plan, const PlayedWork& work) {
  return PlanScripts(plan, work).Make();
}

}  // namespace meshseal

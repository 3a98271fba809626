#include "schema/simulate/simulate.h"

#include <map>
#include <tuple>
#include <utility>

#include "schema/checked_math.h"
#include "schema/status_macros.h"

namespace meshseal {
namespace {

absl::StatusOr<Played> PlayWork(const Plan& plan, const PlayedWork& work, const MeshRates* rates) {
  MESHSEAL_ASSIGN_OR_RETURN(const MeshScripts scripts, ScriptsOf(plan, work));
  return Play(scripts, rates);
}

std::optional<uint64_t> SealedPrice(const Plan& plan, const PlayedWork& work) {
  if (plan.prices.size() != 2 || work.layer.has_value()) return std::nullopt;
  const StepPrice& price = plan.prices[work.phase == Phase::kDecode ? 0 : 1];
  if (price.tokens != work.tokens) return std::nullopt;
  return price.nanoseconds;
}

}  // namespace

absl::StatusOr<Simulation> Simulate(const Plan& plan, absl::string_view id, const SimulationOptions& options,
                                    const Calibration* calibration) {
  Simulation simulation;
  RatesFound found = RatesOf(plan, calibration == nullptr ? MeasuredRates{} : calibration->rates);
  simulation.missing = std::move(found.missing);
  const MeshRates* rates = found.rates.has_value() ? &*found.rates : nullptr;
  for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
    if (options.phase.value_or(phase) != phase) continue;
    PlayedPhase played;
    played.work = {phase, options.tokens.value_or(StepTokens(plan, phase)), options.layer};
    MESHSEAL_ASSIGN_OR_RETURN(played.played, PlayWork(plan, played.work, rates));
    played.sealed_nanoseconds = SealedPrice(plan, played.work);
    simulation.phases.push_back(std::move(played));
  }
  if (calibration == nullptr || rates == nullptr) return simulation;
  std::map<std::tuple<Phase, uint32_t, uint32_t>, double> predicted;  // by phase, layer, tokens
  for (const MeasuredCall& call : calibration->calls) {
    if (call.plan != id) continue;
    const auto [at, inserted] = predicted.try_emplace({call.phase, call.layer, call.tokens});
    if (inserted) {
      const auto tokens = static_cast<uint32_t>(CeilDiv(call.tokens, plan.degrees.dp));
      MESHSEAL_ASSIGN_OR_RETURN(const Played played, PlayWork(plan, {call.phase, tokens, call.layer}, rates));
      at->second = played.critical.total();
    }
    simulation.compared.push_back({call, at->second});
  }
  return simulation;
}

}  // namespace meshseal

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "schema/byte_text.h"
#include "schema/format_text.h"
#include "schema/mesh_view.h"
#include "schema/ordered_json.h"
#include "schema/plan_words.h"
#include "schema/simulate/simulate.h"

namespace meshseal {
namespace {

// Raised when a field's meaning changes or it goes away.
constexpr int kSimulationJsonVersion = 1;

constexpr std::array kAssumptions = {
    "tokens select experts as the plan's measured load says, else evenly, and independently",
    "a product takes the longer of its weights at the memory's bandwidth and its arithmetic at the bf16 rate",
    "what is not MoE is bf16, read once a step or chunk; attention over cached keys is not counted",
    "an ordered sum gathers or exchanges float32 addends; other sums take a ring; nothing overlaps within a rank",
    "activations within a rank, sampling and launches cost nothing"};

std::string SecondsText(double seconds) {
  constexpr std::array kUnits = {"ns", "us", "ms", "s"};
  double value = seconds * 1e9;
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return FormatText("%.3g %s", value, kUnits[unit]);
}

// Whole, where that is enough.
uint64_t Rounded(double number) { return static_cast<uint64_t>(std::llround(std::min(number, 1e18))); }

double Seconds(const PlayedPhase& phase) { return phase.played.critical.total(); }

double TokensPerSecond(const Plan& plan, const PlayedPhase& phase) {
  return phase.work.tokens * static_cast<double>(plan.degrees.dp) / Seconds(phase);
}

// The rank that works longest.
uint32_t SlowestRank(const Played& played) {
  const auto slowest =
      std::max_element(played.ranks.begin(), played.ranks.end(),
                       [](const RankPlayed& a, const RankPlayed& b) { return a.spent.busy() < b.spent.busy(); });
  return static_cast<uint32_t>(slowest - played.ranks.begin());
}

TimeSpent MeanOf(const Played& played) {
  TimeSpent mean;
  const auto ranks = static_cast<double>(played.ranks.size());
  for (const RankPlayed& rank : played.ranks) {
    mean.weights += rank.spent.weights / ranks;
    mean.arithmetic += rank.spent.arithmetic / ranks;
    mean.collectives += rank.spent.collectives / ranks;
    mean.hand_offs += rank.spent.hand_offs / ranks;
    mean.waiting += rank.spent.waiting / ranks;
  }
  return mean;
}

std::vector<std::string> RowOf(std::string name, const TimeSpent& spent) {
  return {std::move(name),
          SecondsText(spent.weights),
          SecondsText(spent.arithmetic),
          SecondsText(spent.collectives),
          SecondsText(spent.hand_offs),
          SecondsText(spent.waiting),
          SecondsText(spent.total())};
}

std::string WorkText(const Plan& plan, const PlayedWork& work) {
  std::string text = absl::StrCat(WordOf(work.phase), " of ", CountText(work.tokens, "token"));
  if (plan.degrees.dp > 1) absl::StrAppend(&text, " a replica");
  if (work.layer.has_value()) absl::StrAppend(&text, " through layer ", *work.layer, " alone");
  return text;
}

void AppendPhase(const Plan& plan, const Simulation& simulation, const PlayedPhase& phase, std::string* text) {
  const Played& played = phase.played;
  absl::StrAppend(text, WorkText(plan, phase.work), "\n  ", CountText(played.ranks.size(), "rank"), " did ",
                  CountText(played.operations, "operation"), ": ", CountText(played.collectives, "collective"),
                  " of the plan, ", CountText(played.dense_sums, "sum"), " of what is not MoE and ",
                  CountText(played.hand_offs, "hand-off"), " met, nobody waits for ever\n");
  if (!simulation.missing.empty()) {
    absl::StrAppend(text, "  time unknown: ", simulation.missing, "\n");
    return;
  }
  absl::StrAppend(text, "  predicted, not measured: ", SecondsText(Seconds(phase)), ", ",
                  FormatText("%.3g", TokensPerSecond(plan, phase)), " tok/s");
  if (phase.sealed_nanoseconds.has_value()) {
    absl::StrAppend(text, "; the plan's own prediction is ",
                    SecondsText(static_cast<double>(*phase.sealed_nanoseconds) * 1e-9));
  }
  absl::StrAppend(text, "\n");
  const uint32_t slowest = SlowestRank(played);
  AppendTable({{"", "weights", "arithmetic", "collectives", "hand-offs", "waiting", "in all"},
               RowOf(absl::StrCat("critical path, ends on rank ", played.last_rank), played.critical),
               RowOf(absl::StrCat("slowest rank, ", slowest), played.ranks[slowest].spent),
               RowOf("mean of all ranks", MeanOf(played))},
              "  ", text);
  const RankPlayed& rank = played.ranks[slowest];
  absl::StrAppend(text, "  rank ", slowest, " (", CoordinateText(CoordinateOf(plan.degrees, slowest)), ") reads ",
                  ByteText(Rounded(rank.weight_bytes)), " of weights and does ",
                  FormatText("%.3g", rank.operations * 1e-9), " GFLOP\n");
}

void AppendCalibration(const Calibration& calibration, std::string* text) {
  const MeasuredRates& rates = calibration.rates;
  absl::StrAppend(text, "calibrated: weights ", PerSecondText(Rounded(*rates.bytes), "B/s"), " and arithmetic ",
                  PerSecondText(Rounded(*rates.operations), "FLOP/s"), " a rank, from ",
                  CountText(calibration.lines, "line"), "; collectives ");
  if (rates.link.has_value()) {
    absl::StrAppend(text, PerSecondText(Rounded(rates.link->bytes), "B/s"), " after ", SecondsText(rates.link->latency),
                    ", from ", CountText(calibration.collective_lines, "line"), "\n");
  } else {
    absl::StrAppend(text, "as the mesh says: ", CountText(calibration.collective_lines, "line"),
                    " with one, no two sizes of which the larger takes longer\n");
  }
}

Json Of(const TimeSpent& spent) {
  return {{"weights", spent.weights},     {"arithmetic", spent.arithmetic}, {"collectives", spent.collectives},
          {"hand_offs", spent.hand_offs}, {"waiting", spent.waiting},       {"total", spent.total()}};
}

Json Of(const Plan& plan, const Simulation& simulation, const PlayedPhase& phase) {
  const Played& played = phase.played;
  Json json = {
      {"phase", WordOf(phase.work.phase)},
      {"tokens", phase.work.tokens},
      {"layer", phase.work.layer.has_value() ? Json(*phase.work.layer) : Json()},
      {"operations", played.operations},
      {"collectives", played.collectives},
      {"dense_sums", played.dense_sums},
      {"hand_offs", played.hand_offs},
      {"seconds", Json()},
      {"sealed_seconds",
       phase.sealed_nanoseconds.has_value() ? Json(static_cast<double>(*phase.sealed_nanoseconds) * 1e-9) : Json()}};
  if (!simulation.missing.empty()) return json;
  const uint32_t slowest = SlowestRank(played);
  json["seconds"] = Seconds(phase);
  json["tokens_per_second"] = TokensPerSecond(plan, phase);
  json["critical_path"] = Of(played.critical);
  json["critical_path"]["ends_on_rank"] = played.last_rank;
  json["slowest_rank"] = Of(played.ranks[slowest].spent);
  json["slowest_rank"]["rank"] = slowest;
  json["slowest_rank"]["weight_bytes"] = played.ranks[slowest].weight_bytes;
  json["slowest_rank"]["floating_point_operations"] = played.ranks[slowest].operations;
  json["mean_of_ranks"] = Of(MeanOf(played));
  return json;
}

}  // namespace

std::string SimulationText(const Plan& plan, absl::string_view id, const Simulation& simulation,
                           const Calibration* calibration) {
  const Degrees& d = plan.degrees;
  std::string text =
      absl::StrCat("plan \"", Shown(plan.model_name), " on ", Shown(plan.mesh.name), "\" id ", std::string(id),
                   "\nmesh dp=", d.dp, " pp=", d.pp, " tp=", d.tp, " ep=", d.ep, " world=", *WorldOf(d), ", ",
                   CountText(plan.layers, "layer"), plan.mesh.emulated ? ", EMULATED: ranks share slots" : "", "\n");
  if (calibration != nullptr) AppendCalibration(*calibration, &text);
  for (const PlayedPhase& phase : simulation.phases) AppendPhase(plan, simulation, phase, &text);
  for (const ComparedCall& call : simulation.compared) {
    absl::StrAppend(&text, "measured ", WordOf(call.measured.phase), " of ", CountText(call.measured.tokens, "token"),
                    " through layer ", call.measured.layer, ": ", SecondsText(call.measured.seconds), ", predicted ",
                    SecondsText(call.predicted), FormatText(" (x %.2f)\n", call.predicted / call.measured.seconds));
  }
  if (!simulation.missing.empty()) return text;
  absl::StrAppend(&text, "taken for granted:\n");
  for (const char* assumption : kAssumptions) absl::StrAppend(&text, "  ", assumption, "\n");
  return text;
}

std::string SimulationJson(const Plan& plan, absl::string_view id, const Simulation& simulation,
                           const Calibration* calibration) {
  Json json = {{"version", kSimulationJsonVersion},
               {"plan", std::string(id)},
               {"ranks", *WorldOf(plan.degrees)},
               {"times_unknown", simulation.missing.empty() ? Json() : Json(simulation.missing)},
               {"calibration", Json()},
               {"phases", Json::array()},
               {"measured", Json::array()}};
  if (calibration != nullptr) {
    const MeasuredRates& rates = calibration->rates;
    json["calibration"] = {{"bytes_per_second", *rates.bytes},
                           {"operations_per_second", *rates.operations},
                           {"lines", calibration->lines},
                           {"collective", Json()},
                           {"collective_lines", calibration->collective_lines}};
    if (rates.link.has_value()) {
      json["calibration"]["collective"] = {{"latency_seconds", rates.link->latency},
                                           {"bytes_per_second", rates.link->bytes}};
    }
  }
  for (const PlayedPhase& phase : simulation.phases) json["phases"].push_back(Of(plan, simulation, phase));
  for (const ComparedCall& call : simulation.compared) {
    json["measured"].push_back({{"phase", WordOf(call.measured.phase)},
                                {"layer", call.measured.layer},
                                {"tokens", call.measured.tokens},
                                {"seconds", call.measured.seconds},
                                {"predicted_seconds", call.predicted}});
  }
  // Names of a plan may be any bytes.
  return absl::StrCat(json.dump(2, ' ', false, Json::error_handler_t::replace), "\n");
}

}  // namespace meshseal

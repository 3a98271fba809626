// Thousands of runs of small worlds over simulated messages, each decided by its seed: in which order the ranks run,
// how long messages take, and what goes wrong. Whatever it is, all ranks end in time with one named cause, or nobody
// notices.
//
// A seed alone, with its trace: MESHSEAL_SEED=17 simulated_ranks_test --gtest_filter='SimulatedRanks.TheAskedSeed'
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/comm/message_communicator.h"
#include "runtime/session/session.h"
#include "runtime/session/token_bands.h"
#include "schema/mesh_view.h"
#include "schema/reason.h"
#include "schema/sealed_plan.h"
#include "tests/ranks/laws.h"
#include "tests/ranks/planted_world.h"
#include "tests/ranks/simulated_world.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/open_unsigned.h"
#include "tests/support/plan_builder.h"
#include "tests/support/sanitized.h"

namespace meshseal::runtime {
namespace {

using support::FaultKind;
using support::MessageFault;
using support::PassingEndpoint;
using support::PlanNumbers;
using support::Plant;
using support::PlantedWorld;
using support::SeededNumbers;
using support::Simulation;
using support::SimulationOptions;
using support::VirtualTime;

constexpr uint64_t kSeeds = support::kSanitized ? 160 : 2000;
constexpr uint64_t kBlocks = 8;   // of seeds, which may run side by side
constexpr uint64_t kShapes = 32;  // of worlds; a block has every eighth
constexpr uint64_t kTwice = 10;   // every so many of a block's seeds run twice
constexpr size_t kMostReports = 3;

constexpr std::chrono::milliseconds kDeadline{30'000};
constexpr std::chrono::milliseconds kGrace{2'000};  // of the acceptance: all end within deadline + 2 s

// One call of a session; with a layer, of that one alone.
struct Call {
  std::optional<uint32_t> layer;
  Phase phase = Phase::kDecode;
  uint32_t tokens = 0;
  std::vector<uint32_t> group_tokens;
};

// What a rank's process, or the one of all ranks, got of a call.
struct Answer {
  absl::Status status;
  std::vector<float> output;
  std::vector<std::vector<int32_t>> expert_ids;  // by layer
  std::vector<absl::Status> ranks;               // as the result tells
  std::vector<RankReport> reports;               // of all layers
  std::vector<std::optional<absl::Status>> replicas;
  VirtualTime ended{0};

  // Whether nothing runs any more: of the replicas that the process knows all have failed.
  bool over() const {
    return !status.ok() && std::none_of(replicas.begin(), replicas.end(),
                                        [](const auto& replica) { return replica.has_value() && replica->ok(); });
  }
};

Answer Ask(Session& session, const Call& call, uint32_t hidden_size) {
  const std::vector<float> hidden = support::RandomValues(size_t{call.tokens} * hidden_size, call.tokens + 1);
  Answer answer;
  answer.output.resize(hidden.size());
  std::vector<RunResult> results;
  if (call.layer.has_value()) {
    RunRequest request = {*call.layer, call.phase, call.tokens, hidden, absl::MakeSpan(answer.output)};
    request.group_tokens = call.group_tokens;
    answer.status = session.Run(request, &results.emplace_back());
  } else {
    const StackRequest request = {call.phase, call.tokens,      hidden, absl::MakeSpan(answer.output),
                                  {},         call.group_tokens};
    answer.status = session.RunStack(request, &results);
  }
  for (RunResult& result : results) {
    answer.expert_ids.push_back(std::move(result.expert_ids));
    answer.reports.insert(answer.reports.end(), result.ranks.begin(), result.ranks.end());
  }
  if (!results.empty()) {
    for (const RankReport& rank : results.front().ranks) answer.ranks.push_back(rank.status);
    answer.replicas = results.front().replicas;
  }
  return answer;
}

bool SameBits(const Answer& a, const Answer& b) {
  return a.output.size() == b.output.size() && a.expert_ids == b.expert_ids &&
         (a.output.empty() || std::memcmp(a.output.data(), b.output.data(), a.output.size() * sizeof(float)) == 0);
}

// What the ranks tell of their collectives: as much as without a simulation, and that on a clock which stands still
// while they compute, all of a rank's time is waiting and moving.
bool SameCollectives(const Answer& a, const Answer& expected) {
  for (size_t i = 0; i < a.reports.size(); ++i) {
    const RankReport& report = a.reports[i];
    if (report.ran != expected.reports[i].ran || report.collectives != expected.reports[i].collectives ||
        report.collective_bytes != expected.reports[i].collective_bytes) {
      return false;
    }
    if (std::abs(report.computing_seconds()) > 1e-9) return false;
  }
  return a.reports.size() == expected.reports.size();
}

// A plan, its calls, and what the plain world of threads makes of them.
struct Shape {
  std::string text;
  std::string sealed;
  uint32_t world = 0;
  uint32_t scope = 0;  // ranks that fail together
  uint32_t group = 0;  // ranks of an expert group
  bool fast = false;
  uint32_t hidden = 0;
  std::vector<std::filesystem::path> weights;
  std::vector<Call> calls;  // the last one is there for what went wrong in the others to be noticed
  std::vector<Answer> expected;
  std::vector<std::vector<Piece>> rows;  // of each call, by replica
  // Messages that each rank sends before the last call, when all goes well: by whether all ranks are in one process.
  std::map<bool, std::vector<uint64_t>> sent;
};

SessionOptions OptionsOf(const Shape& shape, std::shared_ptr<RankWorld> world) {
  SessionOptions options;
  options.weights = shape.weights;
  options.unverified_weights = true;
  options.world = std::move(world);
  options.deadline = kDeadline;
  options.load_deadline = kDeadline;
  options.load_threads = 1;
  return options;
}

absl::StatusOr<std::unique_ptr<Session>> Open(const Shape& shape, std::shared_ptr<RankWorld> world) {
  absl::StatusOr<SealedPlan> plan = support::OpenUnsigned(shape.sealed);
  if (!plan.ok()) return plan.status();
  return Session::Create(std::move(*plan), OptionsOf(shape, std::move(world)));
}

// Tokens of each group, some of them none, at most `most` each.
std::vector<uint32_t> RaggedTokens(SeededNumbers& numbers, uint32_t groups, uint32_t most) {
  std::vector<uint32_t> tokens;
  for (uint32_t i = 0; i < groups; ++i) tokens.push_back(static_cast<uint32_t>(numbers.Below(most + 1)));
  return tokens;
}

uint32_t Sum(const std::vector<uint32_t>& values) {
  uint32_t sum = 0;
  for (const uint32_t value : values) sum += value;
  return sum;
}

// The worlds, made when they are first asked for.
class Shapes {
 public:
  Shapes() { support::WriteCheckpoint(folder_.path(), support::RandomCheckpoint(support::BuildPlan(Base()), 3)); }

  Shape& Of(uint64_t number) {
    std::unique_ptr<Shape>& shape = shapes_[number];
    if (shape == nullptr) shape = Make(number);
    return *shape;
  }

 private:
  static PlanNumbers Base() {
    PlanNumbers n;
    n.layers = 3;
    n.residual = Residual::kAdd;
    n.decode_tokens = 24;
    n.prefill_tokens = 48;
    n.prefill_chunk = 8;
    return n;
  }

  std::unique_ptr<Shape> Make(uint64_t number) {
    SeededNumbers numbers(number);
    PlanNumbers n = Base();
    do {
      n.ep = static_cast<uint32_t>(1 + numbers.Below(4));
      n.tp = static_cast<uint32_t>(1 + numbers.Below(2));
      n.pp = static_cast<uint32_t>(1 + numbers.Below(3));
      n.dp = static_cast<uint32_t>(1 + numbers.Below(3));
    } while (n.ep * n.tp * n.pp * n.dp > 8 || n.ep * n.tp * n.pp * n.dp == 1);
    const uint32_t stage = n.ep * n.tp;
    if (numbers.Below(2) == 0) n.dense_tp = numbers.Below(2) == 0 ? 1 : n.tp;
    if (numbers.Below(2) == 0) n.reduction = Reduction::kFast;
    if (numbers.Below(4) == 0) n.weight_source = WeightSource::kSynthetic;
    if (n.dp > 1 && numbers.Below(2) == 0) n.failure_scope = FailureScope::kReplica;
    const uint32_t groups = n.dp * stage / (n.dense_tp == 0 ? stage : n.dense_tp);

    auto shape = std::make_unique<Shape>();
    shape->text = absl::StrCat("dp ", n.dp, " pp ", n.pp, " tp ", n.tp, " ep ", n.ep, ", dense_tp ", n.dense_tp,
                               n.reduction == Reduction::kFast ? ", fast" : ", ordered",
                               n.weight_source == WeightSource::kSynthetic ? ", synthetic" : "",
                               n.failure_scope == FailureScope::kReplica ? ", replicas fail alone" : "");
    shape->sealed = SealPlan(support::BuildPlan(n), 1).value();
    shape->world = n.dp * n.pp * stage;
    shape->scope = n.failure_scope == FailureScope::kReplica ? shape->world / n.dp : shape->world;
    shape->group = stage;
    shape->fast = n.reduction == Reduction::kFast;
    shape->hidden = n.hidden;
    if (n.weight_source != WeightSource::kSynthetic) shape->weights = {folder_.path()};
    std::vector<uint32_t> tokens = RaggedTokens(numbers, groups, 3);
    shape->calls.push_back({std::nullopt, Phase::kDecode, Sum(tokens), tokens});
    tokens = RaggedTokens(numbers, groups, 5);
    tokens.front() += 3;  // more than one round
    shape->calls.push_back({std::nullopt, Phase::kPrefill, Sum(tokens), tokens});
    const uint32_t few = static_cast<uint32_t>(1 + numbers.Below(4));
    shape->calls.push_back({static_cast<uint32_t>(numbers.Below(n.layers)), Phase::kDecode, few, {}});
    shape->calls.push_back({std::nullopt, Phase::kDecode, 2, {}});

    const absl::StatusOr<std::unique_ptr<Session>> session = Open(*shape, nullptr);
    EXPECT_TRUE(session.ok()) << shape->text << ": " << session.status();
    for (const Call& call : shape->calls) {
      shape->expected.push_back(session.ok() ? Ask(**session, call, shape->hidden) : Answer{});
      EXPECT_TRUE(shape->expected.back().status.ok()) << shape->text << ": " << shape->expected.back().status;
      if (!session.ok()) continue;
      const absl::StatusOr<TokenBands> bands =
          TokenBands::Of((*session)->plan()->plan(), call.phase, call.tokens, call.group_tokens);
      std::vector<Piece>& rows = shape->rows.emplace_back();
      for (uint32_t replica = 0; replica < n.dp; ++replica) rows.push_back(bands->RowsOf(replica));
    }
    return shape;
  }

  const support::TempFolder folder_;
  std::map<uint64_t, std::unique_ptr<Shape>> shapes_;
};

Shapes& AllShapes() {
  static Shapes& shapes = *new Shapes;
  return shapes;
}

// What a seed draws, and what came of it.
struct Scenario {
  uint64_t seed = 0;
  uint64_t shape = 0;
  bool together = false;  // all ranks in one process
  SimulationOptions simulation;
};

// How a process went: its answers up to the first that is not OK, and what it says when it is asked again after that.
struct Course {
  absl::Status status;
  std::vector<Answer> answers;
  absl::Status refusal;
  std::vector<uint64_t> sent;  // by rank, before the last call
};

struct Outcome {
  std::vector<Course> processes;
  std::vector<std::string> faults;  // of meshseal
  uint64_t trace = 0;
  std::string text;
  bool noticed = false;  // some rank ended with another status than OK
};

Course RunCourse(const Shape& shape, Simulation& simulation, std::shared_ptr<RankWorld> world,
                 const std::string& name) {
  Course course;
  const auto note = [&](const char* what, const absl::Status& status) {
    simulation.Write(absl::StrCat(name, " ", what, ": ", status.ok() ? "OK" : status.message()));
    if (course.status.ok()) course.status = status;
  };
  absl::StatusOr<std::unique_ptr<Session>> session = Open(shape, std::move(world));
  note("loads", session.status());
  if (!session.ok()) return course;
  for (size_t i = 0; i < shape.calls.size(); ++i) {
    if (i + 1 == shape.calls.size()) {
      for (uint32_t rank = 0; rank < shape.world; ++rank) course.sent.push_back(simulation.sent(rank));
    }
    course.answers.push_back(Ask(**session, shape.calls[i], shape.hidden));
    course.answers.back().ended = simulation.now();
    note("runs", course.answers.back().status);
    if (!course.answers.back().over()) continue;
    course.refusal = Ask(**session, shape.calls.back(), shape.hidden).status;
    break;
  }
  return course;
}

std::string PlacedFault(const MessageFault& fault) {
  const char* name = "";
  switch (fault.kind) {
    case FaultKind::kNone:
      return "no fault";
    case FaultKind::kDelay:
      name = fault.delay < kDeadline ? "short delay" : "long delay";
      break;
    case FaultKind::kDrop:
      name = "drop";
      break;
    case FaultKind::kDuplicate:
      name = "duplicate";
      break;
    case FaultKind::kRepeat:
      name = "repeat";
      break;
    case FaultKind::kKill:
      name = "kill";
      break;
    case FaultKind::kKillInNote:
      name = "kill in note";
      break;
  }
  return absl::StrCat(name, " at message ", fault.message, " of rank ", fault.rank);
}

std::string NameOf(const Scenario& scenario) {
  return absl::StrCat("seed ", scenario.seed, " (", AllShapes().Of(scenario.shape).text,
                      scenario.together ? ", one process" : ", a process per rank",
                      scenario.simulation.buffers ? ", buffered" : "", ", ", PlacedFault(scenario.simulation.fault),
                      ")");
}

// Whether a cause, "rank 2 (dp0 pp0 tp0 ep2): TEXT", says which rank it was: in its own text, unless it may be the one
// in front.
bool NamesARank(absl::string_view cause, bool may_be_own) {
  const size_t text = cause.find("): ");
  if (text != absl::string_view::npos && !may_be_own) cause.remove_prefix(text);
  for (const absl::string_view word : {"rank ", "ranks "}) {
    for (size_t at = cause.find(word); at != absl::string_view::npos; at = cause.find(word, at + 1)) {
      const size_t digit = at + word.size();
      if (digit < cause.size() && cause[digit] >= '0' && cause[digit] <= '9') return true;
    }
  }
  return false;
}

// Whether an answer has a replica's rows and routing: as many bits as are expected.
bool SameRows(const Shape& shape, const Answer& answer, size_t call, uint32_t replica) {
  const Answer& expected = shape.expected[call];
  const Piece& rows = shape.rows[call][replica];
  const auto same = [&](const auto& found, const auto& wanted, uint64_t width) {
    const auto first = static_cast<ptrdiff_t>(rows.first * width);
    const auto last = static_cast<ptrdiff_t>((rows.first + rows.count) * width);
    return std::equal(found.begin() + first, found.begin() + last, wanted.begin() + first);
  };
  if (!same(answer.output, expected.output, shape.hidden)) return false;
  for (size_t layer = 0; layer < expected.expert_ids.size(); ++layer) {
    const std::vector<int32_t>& wanted = expected.expert_ids[layer];
    if (shape.calls[call].tokens == 0) continue;
    if (!same(answer.expert_ids[layer], wanted, wanted.size() / shape.calls[call].tokens)) return false;
  }
  return true;
}

// What must hold of a run whose replicas fail alone.
void CheckReplicas(const Scenario& scenario, const Shape& shape, const Simulation& simulation, Outcome* outcome) {
  const MessageFault& fault = scenario.simulation.fault;
  const auto broken = [&](auto... text) { outcome->faults.push_back(absl::StrCat(text...)); };
  // First ranks that have met wait a fourth of the deadline for each other.
  const bool slow = fault.kind == FaultKind::kDelay && fault.delay < kDeadline;
  const bool between = simulation.fault_channel() == Channel::kBetweenScopes;
  const bool harmless = fault.kind == FaultKind::kNone || (slow && (!between || fault.delay < kDeadline / 4 - kGrace));
  const bool may_pass = fault.kind == FaultKind::kDuplicate || fault.kind == FaultKind::kRepeat || slow;
  if (simulation.stuck()) broken("a rank did not come back");
  if (fault.kind != FaultKind::kNone && !simulation.fault_time().has_value()) broken("the fault did not happen");
  const uint32_t faulty = fault.rank / shape.scope;
  const VirtualTime limit = simulation.fault_time().value_or(VirtualTime(0)) + kDeadline + kGrace;
  const uint32_t replicas = shape.world / shape.scope;

  size_t living = 0;
  size_t without_session = 0;
  for (uint32_t i = 0; i < outcome->processes.size(); ++i) {
    if (!scenario.together && simulation.killed(i)) continue;
    ++living;
    without_session += outcome->processes[i].answers.empty() ? 1u : 0u;
    outcome->noticed = outcome->noticed || !outcome->processes[i].status.ok();
  }
  // A fault while they load is of all; who has heard the last vote before it strikes may have gone on.
  const bool while_loading = without_session > 0;

  size_t ended_of_faulty = 0;
  size_t living_of_faulty = 0;
  for (uint32_t i = 0; i < outcome->processes.size(); ++i) {
    if (!scenario.together && simulation.killed(i)) continue;
    const Course& course = outcome->processes[i];
    const std::string who = scenario.together ? "the process" : absl::StrCat("rank ", i);
    const bool collects = scenario.together || i == 0;
    const bool of_faulty = !scenario.together && i / shape.scope == faulty;
    living_of_faulty += of_faulty ? 1u : 0u;
    ended_of_faulty += of_faulty && !course.answers.empty() && course.answers.back().over() ? 1u : 0u;
    if (harmless && !course.status.ok()) broken(who, " ended: ", course.status.message());
    for (size_t call = 0; call < course.answers.size(); ++call) {
      const Answer& answer = course.answers[call];
      if (answer.replicas.size() != replicas) {
        broken(who, " tells of ", answer.replicas.size(), " replicas");
        continue;
      }
      if (!answer.status.ok() && !NamesARank(answer.status.message(), may_pass || scenario.together)) {
        broken(who, " names no rank: ", answer.status.message());
      }
      for (uint32_t replica = 0; replica < replicas; ++replica) {
        const bool own = scenario.together || i / shape.scope == replica;
        if (!answer.replicas[replica].has_value()) {
          if (own) broken(who, " does not know how replica ", replica, " ended call ", call);
          continue;
        }
        if (answer.replicas[replica]->ok()) {
          const bool has_rows = collects || i == replica * shape.scope;
          if (has_rows && !SameRows(shape, answer, call, replica)) {
            broken(who, " has other rows of replica ", replica, " in call ", call);
          }
          continue;
        }
        const Piece& rows = shape.rows[call][replica];
        for (uint64_t at = rows.first * shape.hidden; at < (rows.first + rows.count) * shape.hidden; ++at) {
          if (answer.output[at] == answer.output[at]) broken(who, " has output of replica ", replica, " that failed");
        }
        if (while_loading) continue;
        if (own && (replica != faulty || slow)) {
          broken(who, ": replica ", replica, " failed, too: ", answer.replicas[replica]->message());
        }
        const std::string named = absl::StrCat("replica ", replica, " (rank");
        const bool silent = rows.count == 0 && answer.status.ok();  // it was over, and nothing was asked of it
        if (own && !silent && !absl::StrContains(answer.status.message(), named)) {
          broken(who, " does not name replica ", replica, ": ", answer.status.message());
        }
      }
      if (!while_loading && !harmless && !may_pass && of_faulty && answer.over() && answer.ended > limit) {
        broken(who, " took until ", answer.ended.count(), " us, at most ", limit.count(), " us");
      }
      if (!while_loading && !collects && !of_faulty && !answer.status.ok()) {
        broken(who, " ended, of another replica: ", answer.status.message());
      }
    }
    if (course.answers.empty() || !course.answers.back().over()) continue;
    if (!absl::StartsWith(course.refusal.message(), "the session is over: ")) {
      broken(who, " went on with: ", course.refusal.message());
    }
  }
  if (while_loading || harmless || may_pass) return;
  // Between replicas, a message that is lost ends neither.
  const bool kills = fault.kind == FaultKind::kKill;
  if (!scenario.together && (!between || kills) && ended_of_faulty != living_of_faulty) {
    broken(living_of_faulty - ended_of_faulty, " of the replica's ", living_of_faulty, " ranks go on");
  }
  // World rank 0 hears from the replica what happened in it, if anybody there can tell.
  const bool tells = living_of_faulty > 0 && fault.kind != FaultKind::kKillInNote && (!between || kills);
  if (!scenario.together && tells && faulty != 0 &&
      absl::StrContains(outcome->processes[0].status.message(),
                        absl::StrCat("waited ", 2 * kDeadline.count(), " ms"))) {
    broken("rank 0 does not know why: ", outcome->processes[0].status.message());
  }
  const bool nobody_left = living_of_faulty == 0 && simulation.killed(0);  // nobody waits for them
  if (!outcome->noticed && !nobody_left) broken("nobody noticed");
}

// What must hold of a run, whatever went wrong in it.
void Check(const Scenario& scenario, const Shape& shape, const Simulation& simulation, Outcome* outcome) {
  if (shape.scope != shape.world) return CheckReplicas(scenario, shape, simulation, outcome);
  const MessageFault& fault = scenario.simulation.fault;
  const auto broken = [&](auto... text) { outcome->faults.push_back(absl::StrCat(text...)); };
  const bool harmless = fault.kind == FaultKind::kNone || (fault.kind == FaultKind::kDelay && fault.delay < kDeadline);
  const bool may_pass = fault.kind == FaultKind::kDuplicate || fault.kind == FaultKind::kRepeat;
  if (simulation.stuck()) broken("a rank did not come back");
  if (fault.kind != FaultKind::kNone && !simulation.fault_time().has_value()) broken("the fault did not happen");
  size_t ended = 0;
  size_t living = 0;
  for (uint32_t i = 0; i < outcome->processes.size(); ++i) {
    if (!scenario.together && simulation.killed(i)) continue;
    ++living;
    const Course& course = outcome->processes[i];
    const std::string who = scenario.together ? "the process" : absl::StrCat("rank ", i);
    for (size_t call = 0; call < course.answers.size(); ++call) {
      const Answer& answer = course.answers[call];
      if (!answer.status.ok()) {
        for (const float value : answer.output) {
          if (value == value) broken(who, " has output of a call that failed");
        }
        continue;
      }
      if (i == 0 && !SameBits(answer, shape.expected[call])) broken(who, " has other bits of call ", call);
      if (i == 0 && !SameCollectives(answer, shape.expected[call])) {
        broken(who, " tells of other collectives of call ", call);
      }
    }
    if (course.status.ok()) continue;
    ++ended;
    // A copy that is taken for the next message may be what its receiver cannot compute with.
    if (!NamesARank(course.status.message(), may_pass)) broken(who, " names no rank: ", course.status.message());
    if (course.answers.empty()) continue;  // there is no session
    const std::string expected = absl::StrCat("the session is over: ", course.status.message());
    if (course.refusal.message() != expected || ReasonOf(course.refusal) != ReasonOf(course.status)) {
      broken(who, " went on with: ", course.refusal.message(), ", after: ", course.status.message());
    }
    if (!scenario.together) continue;
    // In one process, a rank that was done when it went wrong is OK.
    if (std::all_of(course.answers.back().ranks.begin(), course.answers.back().ranks.end(),
                    [](const absl::Status& status) { return status.ok(); })) {
      broken("no rank has a cause");
    }
  }
  outcome->noticed = ended > 0;
  if (harmless && ended > 0) broken(ended, " ended: ", outcome->processes[0].status.message());
  if (!harmless && !may_pass && ended < living) broken(living - ended, " of ", living, " ended OK");
  if (may_pass && ended != 0 && ended != living) broken(living - ended, " of ", living, " ended OK after a duplicate");
  const VirtualTime limit = harmless ? VirtualTime(kGrace) + fault.delay
                                     : simulation.fault_time().value_or(VirtualTime(0)) + kDeadline + kGrace;
  if (simulation.now() > limit) {
    broken("it took until ", simulation.now().count(), " us, at most ", limit.count(), " us");
  }
}

Outcome RunScenario(const Scenario& scenario, const Plant* plant = nullptr) {
  const Shape& shape = AllShapes().Of(scenario.shape);
  Simulation simulation(scenario.simulation);
  const auto planted = [&](std::shared_ptr<RankWorld> world) -> std::shared_ptr<RankWorld> {
    if (plant == nullptr) return world;
    return std::make_shared<PlantedWorld>(std::move(world), *plant);
  };
  Outcome outcome;
  if (scenario.together) {
    outcome.processes.push_back(RunCourse(shape, simulation, planted(simulation.Together()), "all"));
  } else {
    outcome.processes.resize(shape.world);
    std::vector<std::shared_ptr<RankWorld>> worlds;
    for (uint32_t rank = 0; rank < shape.world; ++rank) worlds.push_back(planted(simulation.Process(rank)));
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < shape.world; ++rank) {
      threads.emplace_back([&, rank] {
        outcome.processes[rank] = RunCourse(shape, simulation, worlds[rank], absl::StrCat("process ", rank));
        simulation.EndProcess(rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  Check(scenario, shape, simulation, &outcome);
  outcome.trace = simulation.trace_digest();
  outcome.text = simulation.trace_text();
  return outcome;
}

// Messages that each rank sends in a run without faults, which no schedule changes.
const std::vector<uint64_t>& MessagesOf(uint64_t number, bool together) {
  Shape& shape = AllShapes().Of(number);
  const auto known = shape.sent.find(together);
  if (known != shape.sent.end()) return known->second;
  Scenario scenario;
  scenario.shape = number;
  scenario.together = together;
  scenario.simulation.world = shape.world;
  const Outcome outcome = RunScenario(scenario);
  EXPECT_TRUE(outcome.faults.empty()) << NameOf(scenario) << ": " << absl::StrJoin(outcome.faults, "\n");
  std::vector<uint64_t> sent(shape.world, 1);
  for (uint32_t rank = 0; rank < shape.world; ++rank) {
    const Course& course = outcome.processes[together ? 0 : rank];
    if (!course.sent.empty()) sent[rank] = course.sent[rank];
  }
  return shape.sent[together] = sent;
}

Scenario ScenarioOf(uint64_t seed) {
  SeededNumbers numbers(seed * 2 + 1);
  Scenario scenario;
  scenario.seed = seed;
  scenario.shape = seed % kShapes;
  scenario.together = numbers.Below(3) == 0;
  scenario.simulation.seed = numbers.Next();
  scenario.simulation.world = AllShapes().Of(scenario.shape).world;
  scenario.simulation.buffers = numbers.Below(2) == 0;
  MessageFault& fault = scenario.simulation.fault;
  switch (numbers.Below(8)) {
    case 0:
      return scenario;
    case 1:
      fault.kind = FaultKind::kDelay;
      fault.delay = std::chrono::milliseconds(1 + numbers.Below(20'000));
      break;
    case 2:
      fault.kind = FaultKind::kDelay;
      fault.delay = std::chrono::milliseconds(40'000 + numbers.Below(1'000'000));
      break;
    case 3:
      fault.kind = FaultKind::kDrop;
      break;
    case 4:
      fault.kind = FaultKind::kDuplicate;
      break;
    case 5:
      fault.kind = FaultKind::kKillInNote;
      break;
    default:
      fault.kind = FaultKind::kKill;
      break;
  }
  fault.rank = static_cast<uint32_t>(numbers.Below(scenario.simulation.world));
  fault.message = numbers.Below(MessagesOf(scenario.shape, scenario.together)[fault.rank]);
  fault.notes = static_cast<uint32_t>(numbers.Below(scenario.simulation.world - 1));
  fault.loses_flying = numbers.Below(2) == 0;
  return scenario;
}

// The one seed that is asked for.
std::optional<uint64_t> AskedSeed() {
  const char* text = std::getenv("MESHSEAL_SEED");
  uint64_t seed = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &seed)) return std::nullopt;
  return seed;
}

TEST(SimulatedRanks, TheAskedSeed) {
  const std::optional<uint64_t> seed = AskedSeed();
  if (!seed.has_value()) GTEST_SKIP() << "MESHSEAL_SEED names none";
  Scenario scenario = ScenarioOf(*seed);
  scenario.simulation.keeps_lines = true;
  const Outcome outcome = RunScenario(scenario);
  std::cout << NameOf(scenario) << "\n" << outcome.text << std::flush;
  EXPECT_TRUE(outcome.faults.empty()) << absl::StrJoin(outcome.faults, "\n");
}

class SimulatedRanks : public testing::TestWithParam<uint64_t> {};

TEST_P(SimulatedRanks, EndInTimeWithOneCauseOrAsIfNothingHadBeen) {
  if (AskedSeed().has_value()) GTEST_SKIP() << "MESHSEAL_SEED names one";
  size_t reports = 0;
  std::map<std::string, uint64_t> outcomes;
  size_t of_worlds = 0;  // kinds of outcomes where all ranks fail together
  for (uint64_t seed = GetParam(); seed < kSeeds && reports < kMostReports; seed += kBlocks) {
    const Scenario scenario = ScenarioOf(seed);
    Outcome outcome = RunScenario(scenario);
    const std::string kind = PlacedFault(scenario.simulation.fault);
    const Shape& shape = AllShapes().Of(scenario.shape);
    const bool fails_together = shape.scope == shape.world;
    uint64_t& count =
        outcomes[absl::StrCat(kind.substr(0, kind.find(" at ")), outcome.noticed ? ", ended" : ", unnoticed",
                              fails_together ? "" : ", of replicas")];
    of_worlds += fails_together && count == 0 ? 1u : 0u;
    ++count;
    if (seed / kBlocks % kTwice == 0 && RunScenario(scenario).trace != outcome.trace) {
      outcome.faults.push_back("run again: another trace");
    }
    if (outcome.faults.empty()) continue;
    ADD_FAILURE() << NameOf(scenario) << ":\n" << absl::StrJoin(outcome.faults, "\n");
    ++reports;
  }
  for (const auto& [text, count] : outcomes) std::cout << count << " " << text << "\n";
  // Of a duplicate both; of the others what they must.
  if (support::kSanitized || reports > 0) return;
  EXPECT_EQ(of_worlds, 8u);
}

INSTANTIATE_TEST_SUITE_P(Block, SimulatedRanks, testing::Range(uint64_t{0}, kBlocks),
                         [](const testing::TestParamInfo<uint64_t>& block) { return absl::StrCat(block.param); });

TEST(SimulatedRanks, TheSeedDecidesTheTrace) {
  if (AskedSeed().has_value()) GTEST_SKIP() << "MESHSEAL_SEED names one";
  Scenario scenario;
  scenario.simulation.world = AllShapes().Of(0).world;
  std::set<uint64_t> traces;
  for (scenario.simulation.seed = 0; scenario.simulation.seed < 10; ++scenario.simulation.seed) {
    const uint64_t trace = RunScenario(scenario).trace;
    EXPECT_EQ(RunScenario(scenario).trace, trace);
    traces.insert(trace);
  }
  EXPECT_EQ(traces.size(), 10u);
}

// Members of a group as processes, without a session.
template <class Work>
void OnMembers(const SimulationOptions& options, Work work) {
  const uint32_t size = options.world;
  Simulation simulation(options);
  std::vector<uint32_t> members;
  std::vector<std::shared_ptr<RankWorld>> worlds;
  for (uint32_t rank = 0; rank < size; ++rank) {
    members.push_back(rank);
    worlds.push_back(simulation.Process(rank));
  }
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const std::vector<std::unique_ptr<Endpoint>> ends = worlds[rank]->Connect(size, size).value();
      const std::unique_ptr<Communicator> member =
          MakeMessageCommunicator(*ends[0], Channel::kExpertGroup, members, {kDeadline}).value();
      EXPECT_TRUE(member->Reserve(support::kLawBytes).ok());
      work(*member);
      simulation.EndProcess(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(simulation.stuck());
  EXPECT_LE(simulation.now(), VirtualTime(kDeadline));
}

template <class Work>
void OnMembers(uint64_t seed, uint32_t size, Work work) {
  SimulationOptions options;
  options.world = size;
  options.seed = seed;
  options.buffers = seed % 2 == 0;
  OnMembers(options, work);
}

TEST(SimulatedRanks, CommunicatorsKeepTheirLaws) {
  if (AskedSeed().has_value()) GTEST_SKIP() << "MESHSEAL_SEED names one";
  for (uint64_t seed = 0; seed < (support::kSanitized ? 6 : 30); ++seed) {
    const auto size = static_cast<uint32_t>(2 + seed % 4);
    std::vector<std::vector<std::string>> broken(size);
    OnMembers(seed, size, [&](Communicator& member) { broken[member.rank()] = support::BrokenLaws(member, seed); });
    for (const std::vector<std::string>& laws : broken) {
      EXPECT_TRUE(laws.empty()) << "seed " << seed << ": " << absl::StrJoin(laws, "\n");
    }
  }
}

// Nothing takes time but the one message of rank 1 that is late: its announcement, then its first addends.
TEST(SimulatedRanks, AWaitAndTheMovingAreToldApart) {
  if (AskedSeed().has_value()) GTEST_SKIP() << "MESHSEAL_SEED names one";
  constexpr VirtualTime kLate{5'000};
  constexpr VirtualTime kNone{0};
  for (const ReduceAlgorithm algorithm :
       {ReduceAlgorithm::kGatherThenSum, ReduceAlgorithm::kExchangeThenSum, ReduceAlgorithm::kTransport}) {
    for (const uint64_t late : {0u, 1u}) {
      SimulationOptions options;
      options.world = 2;
      options.longest_delay = kNone;
      options.buffers = true;
      options.fault = {FaultKind::kDelay, 1, late, kLate, 0, false};
      std::vector<CallTotals> totals(2);
      OnMembers(options, [&](Communicator& member) {
        member.SetReduceAlgorithm(algorithm);
        std::vector<float> sum = {1, 2};
        StatusLane lanes;
        EXPECT_TRUE(member.AllReduceSum(sum, {}, absl::MakeSpan(sum), &lanes).ok());
        totals[member.rank()] = member.totals();
      });
      for (const CallTotals& of_member : totals) {
        EXPECT_EQ(of_member.calls, 1u);
        EXPECT_EQ(of_member.received_bytes, 2 * sizeof(float));
      }
      EXPECT_EQ(totals[0].waited, late == 0 ? kLate : kNone);
      EXPECT_EQ(totals[0].moved, late == 1 ? kLate : kNone);
      EXPECT_EQ(totals[1].waited, kNone);
    }
  }
}

// What follows shows that the checks above see something: faults of the program itself.

TEST(SimulatedFaults, TwoSwappedCallsAreRefusedOnAllRanks) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<absl::Status> statuses(3);
    OnMembers(seed, 3, [&](Communicator& member) {
      const std::vector<float> own(4);
      std::vector<float> sum(4);
      std::vector<std::byte> bytes(4);
      std::vector<std::byte> all(12);
      StatusLane lanes;
      const auto adds = [&] { return member.AllReduceSum(own, {}, absl::MakeSpan(sum), &lanes); };
      const auto gathers = [&] { return member.AllGather(bytes, absl::MakeSpan(all)); };
      absl::Status& status = statuses[member.rank()];
      status = member.rank() == 1 ? gathers() : adds();
      if (status.ok()) status = member.rank() == 1 ? adds() : gathers();
    });
    for (const absl::Status& status : statuses) {
      EXPECT_EQ(status.message(), "rank 0 calls all_reduce_sum with 4, rank 1 all_gather with 4");
    }
  }
}

// Changes the exchanges of world rank 1 in its expert group: `change` gets the number of each, from 0, and how to go
// on.
struct GroupExchange {
  uint64_t number = 0;
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  std::chrono::milliseconds deadline{0};
};
using Pass = std::function<absl::Status(const GroupExchange&)>;
using Change = std::function<absl::Status(GroupExchange, const Pass&)>;

class ChangedEndpoint : public PassingEndpoint {
 public:
  ChangedEndpoint(std::unique_ptr<Endpoint> real, Change change)
      : PassingEndpoint(std::move(real)), change_(std::move(change)) {}
  absl::Status Exchange(Channel channel, absl::Span<const Outgoing> out, absl::Span<const Incoming> in,
                        std::chrono::milliseconds deadline) override {
    if (channel != Channel::kExpertGroup) return PassingEndpoint::Exchange(channel, out, in, deadline);
    return change_({next_++, {out.begin(), out.end()}, {in.begin(), in.end()}, deadline},
                   [this](const GroupExchange& changed) {
                     return PassingEndpoint::Exchange(Channel::kExpertGroup, changed.out, changed.in, changed.deadline);
                   });
  }

 private:
  const Change change_;
  uint64_t next_ = 0;
};

// Worlds whose rank 1 is in an expert group with rank 0; with fast sums where that is asked for.
std::vector<uint64_t> GroupShapes(bool fast = false) {
  std::vector<uint64_t> shapes;
  for (uint64_t number = 0; number < kShapes && shapes.size() < 3; ++number) {
    const Shape& shape = AllShapes().Of(number);
    if (shape.group >= 2 && shape.scope == shape.world && (shape.fast || !fast)) shapes.push_back(number);
  }
  return shapes;
}

// What is reported of worlds with a planted fault: of each run something.
std::string ReportsOf(const Plant& plant, const MessageFault& fault = {}) {
  std::vector<std::string> reports;
  for (const uint64_t number : GroupShapes()) {
    for (uint64_t seed = 0; seed < (support::kSanitized ? 4 : 8); ++seed) {
      Scenario scenario;
      scenario.shape = number;
      scenario.together = seed % 4 < 2;
      scenario.simulation.seed = seed;
      scenario.simulation.world = AllShapes().Of(number).world;
      scenario.simulation.buffers = seed % 2 == 0;
      scenario.simulation.fault = fault;
      const Outcome outcome = RunScenario(scenario, &plant);
      EXPECT_FALSE(outcome.faults.empty()) << NameOf(scenario) << ": nothing was found";
      reports.insert(reports.end(), outcome.faults.begin(), outcome.faults.end());
    }
  }
  return absl::StrJoin(reports, "\n");
}

std::string ReportsWith(const Change& change) {
  return ReportsOf([&](std::unique_ptr<Endpoint> end) -> std::unique_ptr<Endpoint> {
    if (end->rank() != 1) return end;
    return std::make_unique<ChangedEndpoint>(std::move(end), change);
  });
}

TEST(SimulatedFaults, ASkippedAnnouncementIsFound) {
  const std::string reports = ReportsWith([](const GroupExchange& exchange, const Pass& pass) {
    return exchange.number == 0 ? absl::OkStatus() : pass(exchange);
  });
  EXPECT_TRUE(absl::StrContains(reports, "sent something else where its 1th announcement was expected")) << reports;
}

TEST(SimulatedFaults, AMessageThatIsLostSilentlyIsFound) {
  const std::string reports = ReportsWith([](GroupExchange exchange, const Pass& pass) {
    if (exchange.number == 0) exchange.out.pop_back();
    return pass(exchange);
  });
  EXPECT_TRUE(absl::StrContains(reports, " ended: ")) << reports;
}

TEST(SimulatedFaults, OneOtherBitIsFound) {
  const std::string reports = ReportsWith([](GroupExchange exchange, const Pass& pass) {
    std::vector<std::string> copies;
    for (Outgoing& message : exchange.out) {
      copies.emplace_back(reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size());
    }
    for (size_t i = 0; i < copies.size(); ++i) {
      const bool announces = copies[i].size() == 128;
      if (!announces && !copies[i].empty()) copies[i][0] = static_cast<char>(copies[i][0] ^ 64);
      exchange.out[i].bytes = {reinterpret_cast<const std::byte*>(copies[i].data()), copies[i].size()};
    }
    return pass(exchange);
  });
  EXPECT_TRUE(absl::StrContains(reports, "the ranks routed differently")) << reports;
}

TEST(SimulatedFaults, AWaitBeyondTheDeadlineIsFound) {
  class PatientEndpoint : public PassingEndpoint {
   public:
    using PassingEndpoint::PassingEndpoint;
    absl::Status Exchange(Channel channel, absl::Span<const Outgoing> out, absl::Span<const Incoming> in,
                          std::chrono::milliseconds deadline) override {
      return PassingEndpoint::Exchange(channel, out, in, deadline * 10);
    }
  };
  MessageFault fault;
  fault.kind = FaultKind::kKill;
  fault.message = MessagesOf(GroupShapes().front(), false)[0] / 2;
  const std::string reports = ReportsOf(
      [](std::unique_ptr<Endpoint> end) -> std::unique_ptr<Endpoint> {
        return std::make_unique<PatientEndpoint>(std::move(end));
      },
      fault);
  EXPECT_TRUE(absl::StrContains(reports, "it took until 30")) << reports;
}

TEST(SimulatedFaults, ACauseWithoutARankIsFound) {
  const std::string reports = ReportsWith([](const GroupExchange& exchange, const Pass& pass) -> absl::Status {
    if (exchange.number == 2) return absl::InternalError("something went wrong");
    return pass(exchange);
  });
  EXPECT_TRUE(absl::StrContains(reports, "names no rank: ")) << reports;
}

// Why an endpoint may not deliver twice (endpoint.h): where it also says too early that a message was taken, the copy
// is taken for the next message of the same call.
TEST(SimulatedFaults, ARepeatedMessageIsFound) {
  const uint64_t number = GroupShapes(true).front();
  Scenario scenario;
  scenario.shape = number;
  scenario.simulation.world = AllShapes().Of(number).world;
  scenario.simulation.buffers = true;
  scenario.simulation.fault.kind = FaultKind::kRepeat;
  scenario.simulation.fault.rank = 1;
  bool found = false;
  for (uint64_t message = MessagesOf(number, false)[1]; message > 0 && !found; --message) {
    scenario.simulation.fault.message = message - 1;
    found = absl::StrContains(absl::StrJoin(RunScenario(scenario).faults, "\n"), "has other bits of call");
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace meshseal::runtime

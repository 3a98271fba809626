// Ranks over a simulated transport, for tests: the real session, executor and communicators, on threads of which one
// runs at a time, with a clock of its own. One number decides in which order the ranks run, how long every message
// takes and what goes wrong: the same number gives the same run.
//
// A rank is scheduled where it calls its endpoint. While one that takes part has not arrived there, nobody else runs;
// when all wait, the clock jumps to the next arrival or deadline. Computing takes no time.
#ifndef MESHSEAL_TESTS_RANKS_SIMULATED_WORLD_H_
#define MESHSEAL_TESTS_RANKS_SIMULATED_WORLD_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "runtime/comm/endpoint.h"

namespace meshseal::support {

using VirtualTime = std::chrono::microseconds;

// Numbers that are the same with every standard library.
class SeededNumbers {
 public:
  explicit SeededNumbers(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  // Below `end`, which is not 0.
  uint64_t Below(uint64_t end) { return Next() % end; }

 private:
  uint64_t state_;
};

enum class FaultKind : uint8_t {
  kNone,
  kDelay,       // the message takes `delay` longer, and so do those behind it
  kDrop,        // it never arrives, nor does what comes behind it
  kDuplicate,   // it arrives twice; a transport that buffers drops the copy, as it must
  kRepeat,      // it arrives twice, and the transport does not notice
  kKill,        // its sender's process dies instead of sending it
  kKillInNote,  // like kDrop, and the first rank that ends the world dies when it has told `notes` others
};

// What goes wrong with the `message`th message, from 0, that world rank `rank` sends.
struct MessageFault {
  FaultKind kind = FaultKind::kNone;
  uint32_t rank = 0;
  uint64_t message = 0;
  VirtualTime delay{0};
  uint32_t notes = 0;
  bool loses_flying = false;  // what a killed rank has sent and nobody has got is lost, too
};

struct SimulationOptions {
  uint32_t world = 1;
  uint64_t seed = 0;
  VirtualTime longest_delay{2'000};  // of a message or of a note that a rank has ended the world
  // A message counts as taken as soon as it is sent, as a transport does that buffers it; otherwise when its receiver
  // has it.
  bool buffers = false;
  MessageFault fault;
  bool keeps_lines = false;  // of the trace, to be printed
};

// Everything of one run. Thread-safe.
class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // All ranks in this process, which one thread drives: they take part during its calls.
  std::shared_ptr<runtime::RankWorld> Together();

  // World rank `rank` as a process of its own. It takes part from the start until EndProcess, which the thread that
  // plays the process calls last.
  std::shared_ptr<runtime::RankWorld> Process(uint32_t rank);
  void EndProcess(uint32_t rank);

  // Adds a line to the trace; by the thread of a rank that runs, or when none does.
  void Write(absl::string_view line);

  VirtualTime now() const;
  uint64_t sent(uint32_t rank) const;  // messages
  bool killed(uint32_t rank) const;
  std::optional<VirtualTime> fault_time() const;          // nothing: it has not happened
  std::optional<runtime::Channel> fault_channel() const;  // of the message
  bool stuck() const;  // a rank neither called its endpoint nor ended for a minute of real time
  uint64_t trace_digest() const;
  std::string trace_text() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace meshseal::support

#endif  // MESHSEAL_TESTS_RANKS_SIMULATED_WORLD_H_

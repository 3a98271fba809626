// How a session is made.
#ifndef MESHSEAL_RUNTIME_SESSION_SESSION_OPTIONS_H_
#define MESHSEAL_RUNTIME_SESSION_SESSION_OPTIONS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/endpoint.h"
#include "runtime/session/compute.h"
#include "runtime/session/job_key.h"
#include "runtime/weights/rank_weights.h"
#include "schema/policy.h"

namespace meshseal::runtime {

struct SessionOptions {
  // Checkpoints (folders, or .gguf files): one for all ranks, or one per world rank; none where the plan's weights are
  // synthetic.
  std::vector<std::filesystem::path> weights;
  // The digest list that the plan binds: what is loaded is verified with it. Empty: none is given.
  std::filesystem::path digests;
  // Take weights unverified where no list is given or bound. Synthetic ones need no list.
  bool unverified_weights = false;
  // What computes on the host: "reference".
  std::string backend = "reference";
  // What computes instead of it, on devices; null: nothing.
  std::shared_ptr<Compute> compute;
  // Where the ranks are; null: all are threads of this process.
  std::shared_ptr<RankWorld> world;
  // Run a plan whose mesh has another transport than `world` all the same.
  bool emulate = false;
  // The policy that the plan was opened with: all ranks must have been given the same.
  Policy policy;
  // Between hosts, one of these: the secret that all ranks share, or that nobody else is on the network.
  std::optional<JobKey> job_key;
  bool isolated_network = false;
  // The longest wait for a peer in a run, and while a session is made, where peers read their weights
  // meanwhile.
  std::chrono::milliseconds deadline{30'000};
  std::chrono::milliseconds load_deadline{600'000};
  // Set when this process is asked to end: all ranks then stop together before their next step. Null: nobody asks. Must
  // live longer than the session.
  const std::atomic<bool>* drain = nullptr;
  // Fill work memory with NaN before each program.
  bool poison = true;
  // Threads that read weights, of all ranks of this process together, at least one for each; 0: one for each core.
  uint32_t load_threads = 0;
  // How far loading is; null: nobody looks.
  LoadProgress* progress = nullptr;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_SESSION_OPTIONS_H_

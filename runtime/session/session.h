// A session: the model that is resident, and how another takes its place.
//
// The store's life: EMPTY -> a model is loaded, verified and agreed on by all ranks beside the resident one
// (resident_model.h) -> LIVE: it is published by one pointer swap, under a new generation -> RETIRING: the one before
// it ends with its last call -> EMPTY. A refused load leaves the resident model as it was, and it serves meanwhile.
#ifndef MESHSEAL_RUNTIME_SESSION_SESSION_H_
#define MESHSEAL_RUNTIME_SESSION_SESSION_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/session/resident_model.h"
#include "runtime/session/run_request.h"
#include "runtime/session/session_options.h"
#include "schema/sealed_plan.h"

namespace meshseal::runtime {

// Runs are made by one thread at a time. Replace, Unload and model() may be called by others meanwhile; a run keeps the
// model that it began with.
class Session {
 public:
  // Loads and publishes a first model. Reasons: kUsage for a plan that was moved from; those of ResidentModel::Load.
  static absl::StatusOr<std::unique_ptr<Session>> Create(SealedPlan plan, SessionOptions options);

  ~Session();

  // Loads another plan, with its own weights, beside the resident model and publishes it. Its mesh is the resident
  // plan's, and every device has room for both. On failure nothing has changed. Reasons: kUsage for another mesh,
  // kLimit for a device without the room, before anything is opened; those of ResidentModel::Load.
  absl::StatusOr<ModelHandle> Replace(SealedPlan plan, SessionOptions options);

  // Takes the model away and gives all its memory back. Once more for the same handle does nothing. Reasons: kUsage
  // while it runs, kStaleModel for a model that another has replaced and for a handle that was never given out.
  absl::Status Unload(ModelHandle model);

  // The published model; generation 0 when there is none.
  ModelHandle model() const;

  // Of the model that was published last, also when it was unloaded. Never null.
  std::shared_ptr<const SealedPlan> plan() const;

  // Reasons: kStaleModel when nothing is loaded, or another model than the one that is asked for; kLimit and kUsage for
  // the request, before anything runs; kNonFinite, kBound, kStatusLane, kPeerFailed, kDeadline, of the rank that failed
  // first, named by the text. After such a failure the model is over: every later run is refused with the same reason.
  // Where replicas fail alone, that is so when the last of them has failed (run_request.h). `result` is filled in both
  // cases.
  absl::Status Run(const RunRequest& request, RunResult* result);

  // All layers of the plan that have experts, in order, each reading the output of the one before it.
  // `results` gets one entry per layer that ran. Reasons: those of Run, where kLimit and kUsage are of a request that
  // no layer has seen; kNotBuilt for a plan with pipeline stages; kUsage for one whose routing is precomputed.
  absl::Status RunStack(const StackRequest& request, std::vector<RunResult>* results);

  // Bytes that a world rank has reserved: of weights, and of its work arena; 0 when nothing is loaded.
  uint64_t resident_weight_bytes(uint32_t rank) const;
  uint64_t work_bytes(uint32_t rank) const;

 private:
  Session() = default;

  ModelHandle Publish(std::shared_ptr<ResidentModel> model);
  // The published model, which must be the one that is asked for, if one is.
  absl::StatusOr<std::shared_ptr<ResidentModel>> Asked(ModelHandle asked) const;

  std::mutex replace_mutex_;  // one model at a time is loaded
  mutable std::mutex mutex_;  // of what follows
  std::shared_ptr<ResidentModel> live_;
  ModelHandle last_;  // published; unloaded where live_ is null
  std::shared_ptr<const SealedPlan> plan_;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_SESSION_H_

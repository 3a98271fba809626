// Shows how far weights are loaded, and says in the end what that took.
#ifndef MESHSEAL_TOOLS_RUN_LOAD_WATCH_H_
#define MESHSEAL_TOOLS_RUN_LOAD_WATCH_H_

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "runtime/session/session.h"
#include "runtime/weights/rank_weights.h"
#include "schema/sealed_plan.h"

namespace meshseal::tools {

// Used by one thread, between whose calls a thread of its own writes to standard error (ReadingProgress). Without
// memory for that thread nothing is shown.
class LoadWatch {
 public:
  LoadWatch();
  ~LoadWatch();
  LoadWatch(const LoadWatch&) = delete;
  LoadWatch& operator=(const LoadWatch&) = delete;

  // What the load reports to, while the watch lives.
  runtime::LoadProgress* progress() { return &progress_; }

  // Ends the showing. "loaded 9.0 MiB of weights in 0.12 s, 75.0 MiB/s".
  std::string End();

 private:
  void Watch();

  const std::chrono::steady_clock::time_point begin_;
  runtime::LoadProgress progress_;
  std::mutex mutex_;
  std::condition_variable end_;
  bool ended_ = false;
  std::thread thread_;
};

// A session, made while its load is watched; `loaded` gets what End says, also of a load that fails.
absl::StatusOr<std::unique_ptr<runtime::Session>> LoadWatched(SealedPlan plan, runtime::SessionOptions options,
                                                              std::string* loaded);

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_RUN_LOAD_WATCH_H_

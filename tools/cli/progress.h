// How far a long reading has come, on standard error.
#ifndef MESHSEAL_TOOLS_CLI_PROGRESS_H_
#define MESHSEAL_TOOLS_CLI_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "schema/hash_tensors.h"

namespace meshseal::tools {

// On a terminal one line that changes and is gone at the end; otherwise a line every ten seconds.
class ReadingProgress {
 public:
  // `done` is what becomes of the bytes, such as "loaded"; it lives for ever.
  explicit ReadingProgress(const char* done = "hashed");
  ~ReadingProgress();
  ReadingProgress(const ReadingProgress&) = delete;
  ReadingProgress& operator=(const ReadingProgress&) = delete;

  // `bytes` of `all`, which may grow.
  void Show(uint64_t bytes, uint64_t all);
  void Show(const HashProgress& progress) { Show(progress.hashed_bytes, progress.all_bytes); }

 private:
  using Clock = std::chrono::steady_clock;

  const char* const done_;
  const bool terminal_;
  const Clock::time_point begin_;
  Clock::time_point told_;
  bool shown_ = false;
};

// "3.2 GiB/s".
std::string RateText(uint64_t bytes, double seconds);

// Threads for hashing: as many as the machine has, at least one.
unsigned HashingThreads();

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_CLI_PROGRESS_H_

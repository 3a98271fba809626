#include "tools/cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "absl/strings/str_cat.h"
#include "schema/byte_text.h"

namespace meshseal::tools {
namespace {

constexpr std::chrono::seconds kLineEvery(10);
constexpr const char* kClearLine = "\r\x1b[K";

double Rate(uint64_t bytes, double seconds) { return static_cast<double>(bytes) / std::max(seconds, 1e-3); }

}  // namespace

ReadingProgress::ReadingProgress(const char* done)
    : done_(done), terminal_(isatty(STDERR_FILENO) == 1), begin_(Clock::now()), told_(begin_) {}

ReadingProgress::~ReadingProgress() {
  if (shown_ && terminal_) std::fputs(kClearLine, stderr);
}

void ReadingProgress::Show(uint64_t bytes, uint64_t all) {
  const Clock::time_point now = Clock::now();
  if (!terminal_ && now - told_ < kLineEvery) return;
  told_ = now;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const double rate = Rate(bytes, seconds);
  std::string text = absl::StrCat(done_, " ", ByteText(bytes), " of ", ByteText(all));
  if (all > 0) {
    absl::StrAppend(&text, ", ", static_cast<uint64_t>(100.0 * static_cast<double>(bytes) / static_cast<double>(all)),
                    " %");
  }
  absl::StrAppend(&text, ", ", RateText(bytes, seconds));
  if (rate >= 1 && seconds >= 1) {  // a rate of less says nothing of what is to come
    absl::StrAppend(&text, ", ", static_cast<uint64_t>(static_cast<double>(all - bytes) / rate), " s left");
  }
  std::fprintf(stderr, "%s%s%s", terminal_ ? kClearLine : "", text.c_str(), terminal_ ? "" : "\n");
  std::fflush(stderr);
  shown_ = true;
}

std::string RateText(uint64_t bytes, double seconds) {
  return absl::StrCat(ByteText(static_cast<uint64_t>(Rate(bytes, seconds))), "/s");
}

unsigned HashingThreads() { return std::max(1U, std::thread::hardware_concurrency()); }

}  // namespace meshseal::tools

#include "tools/run/load_watch.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/byte_text.h"
#include "schema/format_text.h"
#include "tools/cli/progress.h"

namespace meshseal::tools {
namespace {

constexpr std::chrono::milliseconds kLookEvery(100);

}  // namespace

LoadWatch::LoadWatch() : begin_(std::chrono::steady_clock::now()) {
  try {
    thread_ = std::thread([this] { Watch(); });
  } catch (const std::exception&) {  // system_error or bad_alloc: the load goes on unseen
  }
}

LoadWatch::~LoadWatch() { End(); }

void LoadWatch::Watch() {
  ReadingProgress shown("loaded");
  std::unique_lock<std::mutex> lock(mutex_);
  while (!end_.wait_for(lock, kLookEvery, [this] { return ended_; })) {
    const uint64_t bytes = progress_.bytes.load();  // before the total, which is never less
    const uint64_t total = progress_.total.load();
    if (total > 0) shown.Show(bytes, total);
  }
}

std::string LoadWatch::End() {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  end_.notify_all();
  if (thread_.joinable()) thread_.join();
  const uint64_t bytes = progress_.bytes.load();
  return absl::StrCat("loaded ", ByteText(bytes), " of weights in ", FormatText("%.2f s, ", seconds),
                      RateText(bytes, seconds));
}

absl::StatusOr<std::unique_ptr<runtime::Session>> LoadWatched(SealedPlan plan, runtime::SessionOptions options,
                                                              std::string* loaded) {
  LoadWatch watch;
  options.progress = watch.progress();
  absl::StatusOr<std::unique_ptr<runtime::Session>> made =
      runtime::Session::Create(std::move(plan), std::move(options));
  *loaded = watch.End();
  return made;
}

}  // namespace meshseal::tools

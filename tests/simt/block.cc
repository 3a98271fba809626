#include "tests/simt/block.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace simt {
namespace {

constexpr int kPattern = 0xFF;  // a float of these bytes is a NaN
constexpr size_t kAlignment = 128;

std::string TextOf(const Site& site) {
  const char* slash = std::strrchr(site.file, '/');
  std::ostringstream text;
  text << (slash == nullptr ? site.file : slash + 1) << ":" << site.line;
  return text.str();
}

std::string Hex(unsigned mask) {
  std::ostringstream text;
  text << "0x" << std::hex << mask;
  return text.str();
}

bool Has(unsigned mask, size_t lane) { return ((mask >> lane) & 1u) != 0; }

std::string TextOf(const char* what, const uint3& index) {
  std::ostringstream text;
  text << what << " (" << index.x << ", " << index.y << ", " << index.z << ")";
  return text.str();
}

}  // namespace

void Block::Free::operator()(void* memory) const { std::free(memory); }

Block::Memory Block::FilledMemory(size_t bytes) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, kAlignment, bytes) != 0) std::abort();  // its bytes, and not one more, are accessible
  std::memset(memory, kPattern, bytes);
  return Memory(memory);
}

Block::Block(const LaunchedKernel& kernel, uint3 index, uint64_t seed,
             const std::vector<std::unique_ptr<Fiber>>& fibers)
    : kernel_(kernel),
      index_(index),
      random_(seed),
      in_order_(seed == 0),
      prefers_warps_(seed % 2 == 0),
      dynamic_shared_(FilledMemory(kernel.shared_bytes)) {
  threads_.resize(size_t{kernel.block.x} * kernel.block.y * kernel.block.z);
  warps_.resize((threads_.size() + kWarpLanes - 1) / kWarpLanes);
  for (size_t i = 0; i < threads_.size(); ++i) {
    Thread& thread = threads_[i];
    thread.block = this;
    thread.fiber = fibers[i].get();
    thread.index.x = static_cast<unsigned>(i % kernel.block.x);
    thread.index.y = static_cast<unsigned>(i / kernel.block.x % kernel.block.y);
    thread.index.z = static_cast<unsigned>(i / kernel.block.x / kernel.block.y);
    thread.fiber->Begin(&Block::ThreadMain, &thread);
    warps_[i / kWarpLanes].exists |= 1u << i % kWarpLanes;
    MakeReady(i);
  }
}

void Block::ThreadMain(void* argument) {
  const Thread& thread = *static_cast<Thread*>(argument);
  const LaunchedKernel& kernel = thread.block->kernel_;
  kernel.known->call(kernel.address, kernel.arguments);
  thread.block->Exit();
}

std::optional<std::string> Block::Run() {
  Block* const outer = current_block;
  current_block = this;
  while (!error_.has_value() && exited_ < threads_.size()) {
    if (!HasReady()) {
      const auto waits = [](const Thread& thread) { return thread.state != State::kExited; };
      const auto first = std::find_if(threads_.begin(), threads_.end(), waits);
      running_ = static_cast<size_t>(first - threads_.begin());
      std::ostringstream text;
      text << "deadlock: " << std::count_if(threads_.begin(), threads_.end(), waits) << " threads wait for each other, "
           << WaitingOf(running_);
      error_ = text.str();
      break;
    }
    running_ = NextToRun();
    threads_[running_].fiber->Resume();
  }
  current_block = outer;
  if (!error_.has_value()) return std::nullopt;
  return TextOf("block", index_) + ", " + NameOf(running_) + ": " + *error_;
}

bool Block::HasReady() const {
  return std::any_of(warps_.begin(), warps_.end(), [](const Warp& warp) { return warp.ready != 0; });
}

// In order; or anyone; or, where warps are preferred, anyone of the warp that ran last, as long as it can run.
size_t Block::NextToRun() {
  const auto warps = warps_.size();
  size_t number = in_order_ ? 0 : random_() % warps;
  if (prefers_warps_ && !in_order_) {
    const size_t last = running_ / kWarpLanes;
    if (warps_[last].ready != 0) number = last;
  }
  while (warps_[number].ready == 0) number = (number + 1) % warps;
  Warp& warp = warps_[number];
  const unsigned first = in_order_ ? 0 : static_cast<unsigned>(random_() % kWarpLanes);
  const auto turned = static_cast<unsigned>(std::countr_zero(std::rotr(warp.ready, static_cast<int>(first))));
  const unsigned lane = (turned + first) % kWarpLanes;
  warp.ready &= ~(1u << lane);
  return number * kWarpLanes + lane;
}

void Block::MakeReady(size_t thread) {
  threads_[thread].state = State::kReady;
  warps_[thread / kWarpLanes].ready |= 1u << thread % kWarpLanes;
}

void Block::WaitForBlock(Site site) {
  error_ = ArriveAtBlock(site);
  running().fiber->Suspend();
}

std::optional<std::string> Block::ArriveAtBlock(Site site) {
  if (exited_ > 0) {
    const auto gone = std::find_if(threads_.begin(), threads_.end(),
                                   [](const Thread& thread) { return thread.state == State::kExited; });
    return "barrier after exits: it arrives at " + TextOf(site) + ", " +
           NameOf(static_cast<size_t>(gone - threads_.begin())) + " has exited";
  }
  if (at_barrier_ == 0) first_at_barrier_ = running_;
  if (at_barrier_ > 0 && !(threads_[first_at_barrier_].site == site)) {
    return "divergent barriers: it arrives at " + TextOf(site) + ", " + WaitingOf(first_at_barrier_);
  }
  running().state = State::kAtBlockBarrier;
  running().site = site;
  if (++at_barrier_ == threads_.size()) {
    at_barrier_ = 0;
    for (size_t i = 0; i < threads_.size(); ++i) MakeReady(i);
  }
  return std::nullopt;
}

void Block::WaitForLanes(unsigned mask, Site site) { WaitInWarp({mask, nullptr, nullptr, 0, std::nullopt}, site); }

void Block::Shuffle(unsigned mask, const void* value, void* result, size_t bytes, unsigned from, Site site) {
  WaitInWarp({mask, value, result, bytes, from}, site);
}

void Block::Gather(unsigned mask, const void* value, void* results, size_t bytes, Site site) {
  WaitInWarp({mask, value, results, bytes, std::nullopt}, site);
}

void Block::WaitInWarp(const WarpArrival& arrival, Site site) {
  error_ = ArriveInWarp(arrival, site);
  running().fiber->Suspend();
}

std::optional<std::string> Block::FindOthers(const WarpArrival& arrival, Site site, bool* all) const {
  const size_t first = running_ / kWarpLanes * kWarpLanes;
  const unsigned mask = arrival.mask;
  const auto at = [&] { return " at " + TextOf(site); };
  for (size_t lane = 0; lane < kWarpLanes; ++lane) {
    if (!Has(mask, lane) || first + lane == running_) continue;
    if (first + lane >= threads_.size()) {
      return "lane " + std::to_string(lane) + " of the mask " + Hex(mask) + " does not exist" + at();
    }
    const Thread& other = threads_[first + lane];
    if (other.state == State::kExited) {
      return "lane " + std::to_string(lane) + " of the mask " + Hex(mask) + " has exited" + at();
    }
    const bool arrived = other.state == State::kInWarp && other.arrival.mask == mask;
    if (arrived && !(other.site == site)) {
      return "divergent warp: it arrives at " + TextOf(site) + ", " + WaitingOf(first + lane);
    }
    *all = *all && arrived;
  }
  return std::nullopt;
}

std::optional<std::string> Block::ArriveInWarp(const WarpArrival& arrival, Site site) {
  Warp& warp = warps_[running_ / kWarpLanes];
  const unsigned mask = arrival.mask;
  const unsigned self = 1u << running_ % kWarpLanes;
  if ((mask & self) == 0) return "lane outside its own mask " + Hex(mask) + " at " + TextOf(site);
  if (arrival.from.has_value() && !Has(mask, *arrival.from)) {
    return "shuffle from lane " + std::to_string(*arrival.from) + " outside the mask " + Hex(mask) + " at " +
           TextOf(site);
  }
  if (warp.waiting == 0) {
    warp.common_mask = mask;
    warp.has_common_mask = true;
  }
  warp.has_common_mask = warp.has_common_mask && warp.common_mask == mask;
  const unsigned others = mask & ~self;
  bool all = true;
  // Where all wait with this mask, one of them stands for the others' place.
  const size_t first_waiting = running_ / kWarpLanes * kWarpLanes + static_cast<size_t>(std::countr_zero(warp.waiting));
  if ((others & ~warp.exists) == 0 && (others & warp.exited) == 0 && warp.has_common_mask &&
      (warp.waiting == 0 || threads_[first_waiting].site == site)) {
    all = (others & ~warp.waiting) == 0;
  } else if (std::optional<std::string> error = FindOthers(arrival, site, &all); error.has_value()) {
    return error;
  }
  Thread& thread = running();
  thread.state = State::kInWarp;
  thread.site = site;
  thread.arrival = arrival;
  warp.waiting |= self;
  if (all) CompleteWarp(running_ / kWarpLanes * kWarpLanes, mask);
  return std::nullopt;
}

void Block::CompleteWarp(size_t warp, unsigned mask) {
  // What all lanes gather is the same: where none is outside the mask, it is put together once.
  const WarpArrival* whole = nullptr;
  for (size_t lane = 0; lane < kWarpLanes; ++lane) {
    const WarpArrival& to = threads_[warp + lane].arrival;
    if (!Has(mask, lane) || to.result == nullptr) continue;
    if (to.from.has_value()) {
      std::memcpy(to.result, threads_[warp + *to.from].arrival.value, to.bytes);
    } else if (whole != nullptr && whole->bytes == to.bytes) {
      std::memcpy(to.result, whole->result, kWarpLanes * to.bytes);
    } else {
      for (size_t from = 0; from < kWarpLanes; ++from) {
        if (!Has(mask, from)) continue;
        std::memcpy(static_cast<std::byte*>(to.result) + from * to.bytes, threads_[warp + from].arrival.value,
                    to.bytes);
      }
      if (mask == kAllLanes) whole = &to;
    }
  }
  for (size_t lane = 0; lane < kWarpLanes; ++lane) {
    if (Has(mask, lane)) MakeReady(warp + lane);
  }
  warps_[warp / kWarpLanes].waiting &= ~mask;
}

void Block::Exit() {
  running().state = State::kExited;
  ++exited_;
  Warp& own = warps_[running_ / kWarpLanes];
  own.exited |= 1u << running_ % kWarpLanes;
  if (at_barrier_ > 0) {
    error_ = "barrier not reached by all: it exits, " + WaitingOf(first_at_barrier_);
    return;
  }
  if (own.waiting == 0) return;
  const size_t warp = running_ / kWarpLanes * kWarpLanes;
  for (size_t i = warp; i < std::min(warp + kWarpLanes, threads_.size()); ++i) {
    if (threads_[i].state != State::kInWarp || !Has(threads_[i].arrival.mask, running_ % kWarpLanes)) continue;
    error_ = "warp operation not reached by all: it exits, " + WaitingOf(i);
    return;
  }
}

void* Block::StaticShared(Site site, const void* type, size_t bytes) {
  for (const SharedArray& array : static_shared_) {
    if (array.type == type && array.site == site) return array.memory.get();
  }
  static_shared_.push_back({site, type, FilledMemory(bytes)});
  return static_shared_.back().memory.get();
}

std::string Block::NameOf(size_t thread) const { return TextOf("thread", threads_[thread].index); }

std::string Block::WaitingOf(size_t thread) const {
  return NameOf(thread) + " waits at " + TextOf(threads_[thread].site);
}

}  // namespace simt

#include "tests/fake_cuda/graph.h"

#include <algorithm>
#include <utility>

#include "tests/fake_cuda/machine.h"

namespace fake_cuda {

bool Capture::HasUnjoined(const std::vector<size_t>& tail) const {
  std::vector<bool> needed(graph->nodes.size(), false);
  for (const std::unique_ptr<Node>& node : graph->nodes) {
    for (const size_t need : node->needs) needed[need] = true;
  }
  for (const size_t node : tail) needed[node] = true;
  return std::find(needed.begin(), needed.end(), false) != needed.end();
}

GraphRun::GraphRun(std::shared_ptr<GraphExec> exec, Stream* stream)
    : exec_(std::move(exec)), stream_(stream), done_(exec_->nodes.size(), false), left_(exec_->nodes.size()) {
  for (const Node& node : exec_->nodes) items_.push_back({node.work->ForOneRun()});
}

// It has not run, and what it needs has.
bool GraphRun::IsNext(size_t node) const {
  const std::vector<size_t>& needs = exec_->nodes[node].needs;
  return !done_[node] && std::all_of(needs.begin(), needs.end(), [this](size_t need) { return done_[need]; });
}

std::vector<size_t> GraphRun::Ready() const {
  std::vector<size_t> ready;
  for (size_t i = 0; i < items_.size(); ++i) {
    if (IsNext(i) && TheMachine().MayRun(*stream_, items_[i])) ready.push_back(i);
  }
  return ready;
}

std::string GraphRun::Text() const {
  std::string text = "a graph";
  for (size_t i = 0; i < items_.size(); ++i) {
    if (IsNext(i)) text += " at " + items_[i].work->Text();
  }
  return text;
}

bool GraphRun::Runnable() const {
  if (!started_ && exec_->running) return false;
  return left_ == 0 || !Ready().empty();
}

Outcome GraphRun::Run(std::unique_lock<std::mutex>& lock) {
  Machine& machine = TheMachine();
  started_ = exec_->running = true;
  if (left_ > 0) {
    const std::vector<size_t> ready = Ready();
    const size_t next = ready[machine.options().seed == 0 ? 0 : machine.random()() % ready.size()];
    const Outcome outcome = machine.RunItem(lock, *stream_, items_[next]);
    if (outcome.error != cudaSuccess) return outcome;
    if (outcome.done) {
      done_[next] = true;
      --left_;
    }
  }
  if (left_ > 0) return {false};
  exec_->running = false;
  return {};
}

void GraphRun::Withdraw() {
  for (size_t i = 0; i < items_.size(); ++i) {
    if (!done_[i]) items_[i].work->Withdraw();
  }
  if (started_) exec_->running = false;
}

}  // namespace fake_cuda

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

GraphRun::GraphRun(const GraphExec& exec, Stream* stream)
    : running_(exec.running), stream_(stream), done_(exec.nodes.size(), false), left_(exec.nodes.size()) {
  for (const Node& node : exec.nodes) {
    items_.push_back({node.work->ForOneRun()});
    needs_.push_back(node.needs);
  }
}

// It has not run, and what it needs has.
bool GraphRun::IsNext(size_t node) const {
  const std::vector<size_t>& needs = needs_[node];
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
  if (!started_ && *running_) return false;
  return left_ == 0 || !Ready().empty();
}

Outcome GraphRun::Run(std::unique_lock<std::mutex>& lock) {
  Machine& machine = TheMachine();
  started_ = *running_ = true;
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
  *running_ = false;
  return {};
}

void GraphRun::Withdraw() {
  for (size_t i = 0; i < items_.size(); ++i) {
    if (!done_[i]) items_[i].work->Withdraw();
  }
  if (started_) *running_ = false;
}

}  // namespace fake_cuda

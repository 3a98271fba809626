// Captures, graphs and their runs. Used under the machine's lock.
#ifndef MESHSEAL_TESTS_FAKE_CUDA_GRAPH_H_
#define MESHSEAL_TESTS_FAKE_CUDA_GRAPH_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/fake_cuda/work.h"

namespace fake_cuda {

struct Stream;

struct Node {
  std::shared_ptr<Work> work;
  std::vector<size_t> needs;  // earlier nodes
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;  // in the order of capture
};

// A capture that goes on. Streams join it by waiting for an event of it.
struct Capture {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  const Stream* origin = nullptr;
  bool invalidated = false;
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();

  // Is a node not before one of `tail`?
  bool HasUnjoined(const std::vector<size_t>& tail) const;
};

// An instantiated graph; runs of it go one after the other.
struct GraphExec {
  std::vector<Node> nodes;
  std::shared_ptr<bool> running = std::make_shared<bool>(false);
};

// One launch: nodes run in any order that their needs allow. It goes on when the graph is destroyed.
class GraphRun : public Work {
 public:
  GraphRun(const GraphExec& exec, Stream* stream);

  cudaGraphNodeType type() const override { return cudaGraphNodeTypeGraph; }
  std::string Text() const override;  // "a graph at a kernel"
  bool Runnable() const override;
  Outcome Run(std::unique_lock<std::mutex>& lock) override;
  void Withdraw() override;

 private:
  bool IsNext(size_t node) const;
  std::vector<size_t> Ready() const;

  std::shared_ptr<bool> running_;  // a run of the graph
  std::vector<std::vector<size_t>> needs_;
  Stream* stream_;
  bool started_ = false;
  mutable std::vector<Item> items_;
  std::vector<bool> done_;
  size_t left_;
};

}  // namespace fake_cuda

#endif  // MESHSEAL_TESTS_FAKE_CUDA_GRAPH_H_

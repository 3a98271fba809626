// What streams and graphs are made of: work that runs when its turn comes. Everything here is used under the machine's
// lock (machine.h).
#ifndef MESHSEAL_TESTS_FAKE_CUDA_WORK_H_
#define MESHSEAL_TESTS_FAKE_CUDA_WORK_H_

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace fake_cuda {

// A part of an allocation that work reads or writes.
struct Operand {
  uint64_t allocation = 0;  // its number
  int device = 0;           // that the work runs on
  std::string what;         // "a kernel's argument", "the source"
};

struct Outcome {
  bool done = true;                 // false: it holds its stream, and is asked again when Runnable
  cudaError_t error = cudaSuccess;  // the device is lost
};

class Work : public std::enable_shared_from_this<Work> {
 public:
  virtual ~Work() = default;

  // For one run of a graph. Work that keeps nothing from run to run is its own copy.
  virtual std::shared_ptr<Work> ForOneRun() { return shared_from_this(); }

  virtual cudaGraphNodeType type() const = 0;
  // "a kernel", for what is said of a stream that waits.
  virtual std::string Text() const = 0;
  virtual const std::vector<Operand>& operands() const;
  virtual bool Runnable() const { return true; }

  // May let go of the lock while it is busy. One work runs at a time.
  virtual Outcome Run(std::unique_lock<std::mutex>& lock) = 0;

  // It will not run: its device is lost.
  virtual void Withdraw() {}
};

// One turn of work on a stream or in a run of a graph.
struct Item {
  std::shared_ptr<Work> work;
  bool drawn = false;  // has it been its turn? Faults are dealt out then
  bool never = false;
  uint64_t due = 0;  // on the machine's clock of delays
  cudaError_t fault = cudaSuccess;
};

struct KernelLaunch {
  const void* kernel = nullptr;
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
};

// A kernel with its arguments as they were at the launch.
class KernelWork : public Work {
 public:
  KernelWork(const KernelLaunch& launch, const std::vector<size_t>& parameter_bytes, void** arguments, int device);

  cudaGraphNodeType type() const override { return cudaGraphNodeTypeKernel; }
  std::string Text() const override { return "a kernel"; }
  const std::vector<Operand>& operands() const override { return operands_; }
  Outcome Run(std::unique_lock<std::mutex>& lock) override;

  // As cudaGraphKernelNodeGetParams gives them; the arguments are this object's.
  cudaKernelNodeParams Params();

 private:
  KernelLaunch launch_;
  std::vector<std::vector<std::max_align_t>> storage_;
  std::vector<void*> arguments_;
  std::vector<Operand> operands_;
};

class CopyWork : public Work {
 public:
  CopyWork(void* to, const void* from, size_t bytes, std::vector<Operand> operands)
      : to_(to), from_(from), bytes_(bytes), operands_(std::move(operands)) {}
  // From bytes that were read when the copy was asked for, as CUDA does with memory that is not pinned.
  CopyWork(void* to, std::vector<std::byte> staged, std::vector<Operand> operands)
      : to_(to), bytes_(staged.size()), staged_(std::move(staged)), operands_(std::move(operands)) {}

  cudaGraphNodeType type() const override { return cudaGraphNodeTypeMemcpy; }
  std::string Text() const override { return "a copy"; }
  const std::vector<Operand>& operands() const override { return operands_; }
  Outcome Run(std::unique_lock<std::mutex>& lock) override;

 private:
  void* to_;
  const void* from_ = nullptr;  // null: staged_
  size_t bytes_;
  std::vector<std::byte> staged_;
  std::vector<Operand> operands_;
};

class SetWork : public Work {
 public:
  SetWork(void* to, int value, size_t bytes, Operand operand)
      : to_(to), value_(value), bytes_(bytes), operands_({std::move(operand)}) {}

  cudaGraphNodeType type() const override { return cudaGraphNodeTypeMemset; }
  std::string Text() const override { return "a fill"; }
  const std::vector<Operand>& operands() const override { return operands_; }
  Outcome Run(std::unique_lock<std::mutex>& lock) override;

 private:
  void* to_;
  int value_;
  size_t bytes_;
  std::vector<Operand> operands_;
};

class HostWork : public Work {
 public:
  HostWork(cudaHostFn_t function, void* data) : function_(function), data_(data) {}

  cudaGraphNodeType type() const override { return cudaGraphNodeTypeHost; }
  std::string Text() const override { return "a host function"; }
  Outcome Run(std::unique_lock<std::mutex>& lock) override;

 private:
  cudaHostFn_t function_;
  void* data_;
};

// One call of cudaEventRecord.
struct EventRecord {
  bool done = false;
  std::chrono::steady_clock::time_point when;
};

class RecordWork : public Work {
 public:
  explicit RecordWork(std::shared_ptr<EventRecord> record) : record_(std::move(record)) {}

  cudaGraphNodeType type() const override { return cudaGraphNodeTypeEventRecord; }
  std::string Text() const override { return "an event's record"; }
  Outcome Run(std::unique_lock<std::mutex>& lock) override;
  void Withdraw() override { record_->done = true; }

 private:
  std::shared_ptr<EventRecord> record_;
};

class WaitWork : public Work {
 public:
  explicit WaitWork(std::shared_ptr<EventRecord> record) : record_(std::move(record)) {}

  cudaGraphNodeType type() const override { return cudaGraphNodeTypeWaitEvent; }
  std::string Text() const override { return "a wait for an event"; }
  bool Runnable() const override { return record_->done; }
  Outcome Run(std::unique_lock<std::mutex>&) override { return {}; }

 private:
  std::shared_ptr<EventRecord> record_;
};

}  // namespace fake_cuda

#endif  // MESHSEAL_TESTS_FAKE_CUDA_WORK_H_

// One layer's kernels one after the other on a stream, and every array that they write: what a device computes can then
// be held against what the SIMT shim computed of the same. It calls CUDA's runtime, whichever the program is linked to.
#ifndef MESHSEAL_TESTS_CUDA_KERNEL_CHAIN_H_
#define MESHSEAL_TESTS_CUDA_KERNEL_CHAIN_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/kernels/activation.h"
#include "runtime/cuda/kernels/combine.h"
#include "runtime/cuda/kernels/dense_rows.h"
#include "runtime/cuda/kernels/down.h"
#include "runtime/cuda/kernels/down_exact.h"
#include "runtime/cuda/kernels/gate_up.h"
#include "runtime/cuda/kernels/gate_up_activation.h"
#include "runtime/cuda/kernels/gate_up_grouped.h"
#include "runtime/cuda/kernels/lane.h"
#include "runtime/cuda/kernels/rank_order_sum.h"
#include "runtime/cuda/kernels/residual.h"
#include "runtime/cuda/kernels/route.h"
#include "runtime/cuda/kernels/router_logits.h"
#include "runtime/cuda/kernels/scatter.h"
#include "runtime/cuda/kernels/shared_down.h"
#include "runtime/cuda/kernels/shared_down_exact.h"
#include "runtime/cuda/kernels/shared_gate.h"
#include "runtime/cuda/kernels/shared_gate_up.h"
#include "runtime/cuda/kernels/to_basis.h"
#include "tests/cuda/stored_layer.h"

namespace meshseal::cuda {

// What a layer is like. Its numbers follow from the spec alone.
struct ChainSpec {
  std::string name;
  Storage gate_up;
  Storage down;
  ProductKind kind = ProductKind::kLanes;  // kTiles: of what has them; all other products are then by lanes
  bool integers = false;                   // factors of tiles are small integers, so that any order of sums is exact
  Basis basis = Basis::kBf16;
  uint32_t tokens = 7;
  uint32_t columns = 40;
  Scoring scoring = Scoring::kSoftmax;
  ActivationKind activation = ActivationKind::kSwiGlu;
  bool whole = true;  // else to gate and up alone
};

// Every storage, router score, activation, basis and kind of product.
std::vector<ChainSpec> AllChains();

// An array that a kernel wrote. Of floats that may differ: by how much each may; empty: no bit may.
struct ChainOutput {
  std::string name;
  std::vector<std::byte> bytes;
  std::vector<float> tolerance;
};

// Needs a current device. Not copyable; enqueued work must be over before it ends.
class KernelChain {
 public:
  explicit KernelChain(const ChainSpec& spec, cudaStream_t stream);

  // What failed so far. Reasons kDevice, kOutOfMemory.
  const absl::Status& status() const { return status_; }

  // Fills what kernels write with bytes 0xFF, then enqueues all of them. May be captured.
  absl::Status Enqueue();
  // Without filling: a read of what no kernel wrote is one of memory that was never written.
  absl::Status EnqueueKernels();

  // Waits, and copies.
  absl::StatusOr<std::vector<ChainOutput>> Read() const;

 private:
  struct Array {
    std::string name;
    DeviceMemory memory;
  };

  void MakeInputs();
  void MakeSteps();
  void Do(cudaError_t error, const char* what);
  std::byte* Reserve(uint64_t bytes, const char* what, std::vector<Array>* arrays);
  // On the device: a copy, and room for results.
  template <class T>
  const T* Put(const std::vector<T>& values);
  template <class T>
  T* Out(const char* name, uint64_t count);
  std::vector<float> Floats(uint64_t count, bool integers);
  void AddTolerance(const std::vector<ChainOutput>& read, ChainOutput* output) const;
  void AddSharedTolerance(const std::vector<ChainOutput>& read, ChainOutput* output) const;

  const ChainSpec spec_;
  const cudaStream_t stream_;
  absl::Status status_;
  std::mt19937 random_;
  StoredWeights weights_;
  std::vector<Array> inputs_;
  std::vector<Array> outputs_;
  std::vector<runtime::ExpertWeights> experts_;
  runtime::SharedWeights shared_;
  std::vector<float> x_;       // of the tokens
  std::vector<float> down_x_;  // of the slots, for tiles
  StepGrid grid_;
  DeviceOwned owned_;

  RouterLogitsStep logits_;
  RouteStep route_;
  ScatterStep scatter_;
  GateUpStep gate_up_;
  GateUpGroupedStep grouped_;
  UnscatterStep unscatter_;
  ActivationStep activation_;
  GateUpActivationStep fused_;
  ToBasisStep to_basis_;
  DownStep down_;
  DownStep down_tiles_;
  DownExactStep down_exact_;
  SharedGateUpStep shared_gate_up_;
  SharedGateUpStep shared_gate_up_tiles_;
  SharedActivationStep shared_activation_;
  SharedGateStep shared_gate_;
  SharedDownStep shared_down_;
  SharedDownStep shared_down_tiles_;
  SharedDownExactStep shared_down_exact_;
  CombineStep combine_;
  CombineExactStep combine_exact_;
  LaneStep lane_;
  ZeroOnErrorStep zero_;
  ResidualStep residual_;
  DenseRowsStep spread_;
  DenseRowsStep pack_;
  float* added_ = nullptr;
  RankOrderSumStep<float> ranks_;
  RankOrderSumStep<int64_t> fixed_ranks_;
  FixedToFloatStep to_float_;
};

}  // namespace meshseal::cuda

#endif  // MESHSEAL_TESTS_CUDA_KERNEL_CHAIN_H_

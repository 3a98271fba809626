// The steps of a program as kernels on a stream: spans lie in device memory, and a step that returns OK is enqueued.
//
// How many tokens there are, kernels read from the scratch's parameters; shapes say the most. What is wrong with a
// token's numbers is not a step's to return: kernels leave failure words, which the lane's kernel reads.
#ifndef MESHSEAL_RUNTIME_CUDA_CUDA_BACKEND_H_
#define MESHSEAL_RUNTIME_CUDA_CUDA_BACKEND_H_

#include <cuda_runtime_api.h>

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/backend/backend.h"
#include "runtime/cuda/device_tables.h"
#include "runtime/cuda/kernels/gate_up.h"
#include "runtime/cuda/kernels/lane.h"
#include "runtime/cuda/kernels/product_kind.h"
#include "runtime/cuda/step_scratch.h"

namespace meshseal::cuda {

// The numerics contracts that its kernels satisfy.
absl::Span<const Numerics> CudaNumerics();

class CudaBackend : public runtime::Backend {
 public:
  static constexpr absl::string_view kName = "cuda";

  // All of it must live longer. `kind`: how products are summed. Where it is kLanes, those of grouped rows, and of the
  // shared expert in a program that groups, are made by tensor cores if they can be given every factor as it is
  // (kTiles).
  CudaBackend(cudaStream_t stream, const StepScratch& scratch, ProductKind kind)
      : stream_(stream), scratch_(scratch), kind_(kind) {}

  // The tables of the rank; before the first step.
  void Use(const DeviceTables& tables) { tables_ = &tables; }

  absl::string_view name() const override { return kName; }
  absl::Span<const Numerics> numerics() const override { return CudaNumerics(); }

  // Forgets the lists below and what steps left for later ones: a program begins.
  void Begin() {
    failures_.clear();
    groups_ = false;
    grouping_ = {};
    gate_up_.reset();
  }
  // Where the steps since then leave their failures, in their order; and of which step each is.
  struct Failures {
    FailureList list;
    StepKind step = StepKind::kInvalid;
  };
  absl::Span<const Failures> failures() const { return failures_; }

 protected:
  absl::Status Route(const runtime::RouteArgs& args) override;
  absl::Status RouteByTable(const runtime::RouteByTableArgs& args) override;
  absl::Status RouteGiven(const runtime::RouteGivenArgs& args) override;
  absl::Status Scatter(const runtime::ScatterArgs& args) override;
  absl::Status GateUp(const runtime::GateUpArgs& args) override;
  absl::Status GateUpGrouped(const runtime::GateUpGroupedArgs& args) override;
  absl::Status Unscatter(const runtime::UnscatterArgs& args) override;
  absl::Status Activation(const runtime::ActivationArgs& args) override;
  absl::Status Down(const runtime::DownArgs& args) override;
  absl::Status DownExact(const runtime::DownExactArgs& args) override;
  absl::Status SharedGateUp(const runtime::SharedGateUpArgs& args) override;
  absl::Status SharedActivation(const runtime::SharedActivationArgs& args) override;
  absl::Status SharedDown(const runtime::SharedDownArgs& args) override;
  absl::Status SharedDownExact(const runtime::SharedDownExactArgs& args) override;
  absl::Status Combine(const runtime::CombineArgs& args) override;
  absl::Status CombineShared(const runtime::CombineSharedArgs& args) override;
  absl::Status CombineExact(const runtime::CombineExactArgs& args) override;
  absl::Status CombineSharedExact(const runtime::CombineSharedExactArgs& args) override;
  absl::Status Residual(const runtime::ResidualArgs& args) override;

 private:
  const StepTokens* tokens() const { return &scratch_.parameters->tokens; }
  StepGrid GridOf(const runtime::StepShape& shape) const;
  DeviceOwned OwnedOf(const runtime::OwnedSlots& owned) const;
  absl::Status Score(const runtime::StepShape& shape, const Router& rule, const runtime::WeightMatrix& weight,
                     const runtime::WeightMatrix& bias, absl::Span<const float> x);
  absl::Status ShareOf(const runtime::StepShape& shape, const runtime::SharedWeights& shared, absl::Span<const float> x,
                       const float** shares);
  // Of a product of grouped rows with one matrix of every expert, or with two of them.
  struct GroupedProduct {
    ProductKind kind = ProductKind::kLanes;
    bool are_halves = false;
  };
  GroupedProduct ChooseGrouped(Basis basis, absl::Span<const runtime::ExpertWeights> experts,
                               absl::Span<const runtime::WeightMatrix runtime::ExpertWeights::*const> matrices) const;
  // The same of the shared expert's.
  ProductKind ChooseShared(Basis basis, absl::Span<const runtime::WeightMatrix* const> matrices) const;
  absl::Status SumSlots(const runtime::CombineArgs& args, const float* shared, StepKind step);
  void Note(StepKind step, const FailureList& list) { failures_.push_back({list, step}); }

  const cudaStream_t stream_;
  const StepScratch& scratch_;
  const ProductKind kind_;
  const DeviceTables* tables_ = nullptr;
  std::vector<Failures> failures_;
  // A gate_up that waits for its activation, which every program has next: the two are one launch where the activation
  // does not take the place of what gate_up reads.
  std::optional<GateUpStep> gate_up_;
  bool groups_ = false;      // the program has many tokens, and groups them by expert
  DeviceGrouping grouping_;  // of the program's owned slots; empty where none were grouped
};

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_CUDA_BACKEND_H_

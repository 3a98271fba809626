// The reference backend: the definition of what every step computes, written to be read. One file per step.
//
// A dot product adds float64 products in index order and rounds once to float32; see dot.h. Functions are those of
// numerics/exact_functions.h, sums over experts have the order of numerics/interleaved_sum.h. All else is float32
// unless a step's file says otherwise. Nothing is parallel, nothing is blocked. This is the numerics contract
// "reference-1".
#ifndef MESHSEAL_RUNTIME_REFERENCE_REFERENCE_BACKEND_H_
#define MESHSEAL_RUNTIME_REFERENCE_REFERENCE_BACKEND_H_

#include "runtime/backend/backend.h"

namespace meshseal::runtime {

class ReferenceBackend : public Backend {
 public:
  static constexpr absl::string_view kName = "reference";

  absl::string_view name() const override { return kName; }
  absl::Span<const Numerics> numerics() const override {
    static constexpr Numerics kSatisfied[] = {Numerics::kBackendOwn, Numerics::kReference1};
    return kSatisfied;
  }

 protected:
  absl::Status Route(const RouteArgs& args) override;
  absl::Status RouteByTable(const RouteByTableArgs& args) override;
  absl::Status RouteGiven(const RouteGivenArgs& args) override;
  absl::Status Scatter(const ScatterArgs& args) override;
  absl::Status GateUp(const GateUpArgs& args) override;
  absl::Status GateUpGrouped(const GateUpGroupedArgs& args) override;
  absl::Status Unscatter(const UnscatterArgs& args) override;
  absl::Status Activation(const ActivationArgs& args) override;
  absl::Status Down(const DownArgs& args) override;
  absl::Status DownExact(const DownExactArgs& args) override;
  absl::Status SharedGateUp(const SharedGateUpArgs& args) override;
  absl::Status SharedActivation(const SharedActivationArgs& args) override;
  absl::Status SharedDown(const SharedDownArgs& args) override;
  absl::Status SharedDownExact(const SharedDownExactArgs& args) override;
  absl::Status Combine(const CombineArgs& args) override;
  absl::Status CombineShared(const CombineSharedArgs& args) override;
  absl::Status CombineExact(const CombineExactArgs& args) override;
  absl::Status CombineSharedExact(const CombineSharedExactArgs& args) override;
  absl::Status Residual(const ResidualArgs& args) override;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_REFERENCE_REFERENCE_BACKEND_H_

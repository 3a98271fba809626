// What computes: one virtual per row of the step table, except those of the communicator.
//
// A step writes all of its output that its comment names and nothing else; slot rows of other ranks and
// padding rows stay as they were. It keeps nothing between calls. It returns a failure instead of an invalid
// result; the executor then still takes part in the collective, so that no peer waits.
//
// Steps are protected: only the executor runs them, and only for a program that was bound from a sealed plan.
#ifndef MESHSEAL_RUNTIME_BACKEND_BACKEND_H_
#define MESHSEAL_RUNTIME_BACKEND_BACKEND_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/backend/step_args.h"
#include "runtime/program/executed.h"
#include "schema/step.h"
#include "schema/terms.h"

namespace meshseal::runtime {

class Executor;

// One object per rank, used by one thread at a time.
class Backend {
 public:
  virtual ~Backend() = default;

  // The name a session asks for.
  virtual absl::string_view name() const = 0;

  // The numerics contracts that it satisfies.
  virtual absl::Span<const Numerics> numerics() const = 0;

  // Whether B has a virtual for every row of the step table that is not the communicator's, and one more for those that
  // give fixed point.
  template <class B>
  static constexpr bool HasEveryStep() {
    return
#define MESHSEAL_STEP(Name, value, mnemonic, inputs, outputs, tensors) \
  (IsCommunication(StepKind::k##Name) || requires { &B::Name; })&&
#include "schema/steps.def"
#undef MESHSEAL_STEP
#define MESHSEAL_STEP(Name, value, mnemonic, inputs, outputs, tensors) \
  (!HasExactForm(StepKind::k##Name) || requires { &B::Name##Exact; })&&
#include "schema/steps.def"
#undef MESHSEAL_STEP
        true;
  }

 protected:
  friend class Executor;

  // Top-k experts and weights of every token, by the router's rule; experts by score descending, index
  // ascending. Reason kNonFinite for a token whose scores are not all finite.
  virtual absl::Status Route(const RouteArgs& args) = 0;

  // Experts of every token by its id's row of the table, in the row's order, with the weights that the router's rule
  // gives them. Reasons: kNonFinite as above, kUsage for an id outside the table, kWeightsTensor for a row that does
  // not name different experts.
  virtual absl::Status RouteByTable(const RouteByTableArgs& args) = 0;

  // The caller's experts and weights, as they are. Reason kUsage as CheckGivenRouting says.
  virtual absl::Status RouteGiven(const RouteGivenArgs& args) = 0;

  // Copies token rows to the rows of their owned slots, grouped by local expert, ascending by slot inside an
  // expert. Reason kBug when they need more rows than there are.
  virtual absl::Status Scatter(const ScatterArgs& args) = 0;

  // Gate and up products of every owned slot's token, with their biases.
  virtual absl::Status GateUp(const GateUpArgs& args) = 0;

  // The same of every grouped row that has a slot.
  virtual absl::Status GateUpGrouped(const GateUpGroupedArgs& args) = 0;

  // Grouped rows back to slot rows; a permutation.
  virtual absl::Status Unscatter(const UnscatterArgs& args) = 0;

  // Gate and up columns of every owned slot to its activations.
  virtual absl::Status Activation(const ActivationArgs& args) = 0;

  // Down product of every owned slot: one row per slot.
  virtual absl::Status Down(const DownArgs& args) = 0;

  // The same of an exact sum: of each owned slot the sum of its addends. Reasons: kNonFinite for an addend that is not
  // finite, kBound for one that is not below the bound.
  virtual absl::Status DownExact(const DownExactArgs& args) = 0;

  // Gate and up products of every token with the rank's columns of the shared expert.
  virtual absl::Status SharedGateUp(const SharedGateUpArgs& args) = 0;

  // Their activations.
  virtual absl::Status SharedActivation(const SharedActivationArgs& args) = 0;

  // The shared expert's row of every token, times the sigmoid of its own gate where it has one; exact zeros on a rank
  // without columns of it.
  virtual absl::Status SharedDown(const SharedDownArgs& args) = 0;

  // The same of an exact sum. Reasons as for DownExact.
  virtual absl::Status SharedDownExact(const SharedDownExactArgs& args) = 0;

  // Weighted sum of each token's owned slots; exact zeros for a token without one. Reason kNonFinite for an output of
  // an expert that is not finite, whatever its weight.
  virtual absl::Status Combine(const CombineArgs& args) = 0;

  // The same, and then the shared expert's row, likewise.
  virtual absl::Status CombineShared(const CombineSharedArgs& args) = 0;

  // The same of an exact sum, whose slots are weighted: sums of integers.
  virtual absl::Status CombineExact(const CombineExactArgs& args) = 0;
  virtual absl::Status CombineSharedExact(const CombineSharedExactArgs& args) = 0;

  // The reduced rows plus the layer's input.
  virtual absl::Status Residual(const ResidualArgs& args) = 0;
};

// A row of the step table does not compile before it has its virtual above.
static_assert(Backend::HasEveryStep<Backend>());

// The backend of that name; reason kNotBuilt for a name that this version does not have.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view name);

// OK, or reason kNotBuilt where `backend`, which satisfies these contracts, does not satisfy that of a plan.
absl::Status CheckNumerics(absl::string_view backend, absl::Span<const Numerics> satisfied, Numerics contract);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_BACKEND_BACKEND_H_

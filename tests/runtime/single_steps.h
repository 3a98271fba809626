// The reference backend with its steps in reach of a test that runs one of them alone.
#ifndef MESHSEAL_TESTS_RUNTIME_SINGLE_STEPS_H_
#define MESHSEAL_TESTS_RUNTIME_SINGLE_STEPS_H_

#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

class SingleSteps : public ReferenceBackend {
 public:
  using ReferenceBackend::Activation;
  using ReferenceBackend::Combine;
  using ReferenceBackend::Down;
  using ReferenceBackend::GateUp;
  using ReferenceBackend::GateUpGrouped;
  using ReferenceBackend::Residual;
  using ReferenceBackend::Route;
  using ReferenceBackend::Scatter;
  using ReferenceBackend::Unscatter;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_TESTS_RUNTIME_SINGLE_STEPS_H_

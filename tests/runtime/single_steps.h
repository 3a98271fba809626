// The reference backend with its steps in reach of a test that runs one of them alone, and what such a test hands them.
#ifndef MESHSEAL_TESTS_RUNTIME_SINGLE_STEPS_H_
#define MESHSEAL_TESTS_RUNTIME_SINGLE_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

class SingleSteps : public ReferenceBackend {
 public:
  using ReferenceBackend::Activation;
  using ReferenceBackend::Combine;
  using ReferenceBackend::CombineExact;
  using ReferenceBackend::CombineShared;
  using ReferenceBackend::CombineSharedExact;
  using ReferenceBackend::Down;
  using ReferenceBackend::DownExact;
  using ReferenceBackend::GateUp;
  using ReferenceBackend::GateUpGrouped;
  using ReferenceBackend::Residual;
  using ReferenceBackend::Route;
  using ReferenceBackend::RouteByTable;
  using ReferenceBackend::RouteGiven;
  using ReferenceBackend::Scatter;
  using ReferenceBackend::SharedActivation;
  using ReferenceBackend::SharedDown;
  using ReferenceBackend::SharedDownExact;
  using ReferenceBackend::SharedGateUp;
  using ReferenceBackend::Unscatter;
};

// A view of `values`, row by row.
inline WeightMatrix Matrix(const std::vector<float>& values, uint32_t rows) {
  WeightMatrix matrix;
  matrix.dtype = DType::kF32;
  matrix.rows = rows;
  matrix.columns = static_cast<uint32_t>(values.size() / rows);
  matrix.row_bytes = matrix.columns * sizeof(float);
  matrix.data = reinterpret_cast<const std::byte*>(values.data());
  return matrix;
}

inline StepShape Shape(uint32_t tokens, uint32_t top_k, uint32_t hidden, uint32_t columns = 1) {
  StepShape shape;
  shape.tokens = tokens;
  shape.top_k = top_k;
  shape.hidden = hidden;
  shape.columns = columns;
  return shape;
}

// Experts with these local numbers, and no copies.
inline std::vector<ExpertPlace> HeldAs(const std::vector<int32_t>& local) {
  std::vector<ExpertPlace> places(local.size());
  for (size_t i = 0; i < local.size(); ++i) places[i].local = local[i];
  return places;
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_TESTS_RUNTIME_SINGLE_STEPS_H_

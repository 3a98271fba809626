// route, route_by_table and route_given: which experts each token's slots go to, and with what weights.
//
// One warp for each token. Whether its logits are finite is checked here. Weights have the reference's bits, given its
// logits.
//
// A token that fails writes its failure word and is routed to experts 0 to k-1 with weights 0, so that no later step
// reads outside of anything.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_ROUTE_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_ROUTE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/cuda/kernels/step_pods.h"
#include "schema/rules.h"

namespace meshseal::cuda {

// What a routing step writes.
struct RouteOutput {
  int32_t* experts = nullptr;    // [T*k]
  float* weights = nullptr;      // [T*k]
  uint32_t* computed = nullptr;  // [T*k], zeros
  uint64_t* failures = nullptr;  // [T]
};

struct RouteStep {
  StepGrid grid;
  Router rule;
  uint32_t experts = 0;           // E, at least k
  const float* logits = nullptr;  // [T, E], of router_logits
  DeviceMatrix selection_bias;    // [1, E], added to what is compared; empty where the layer has none
  RouteOutput out;
};

// Failures: kRouterScore. cudaErrorInvalidValue for a layer whose E and k do not fit the workspace of a warp (48 KiB; 8
// bytes an expert and 12 a slot): more than 6,000 experts.
cudaError_t LaunchRoute(cudaStream_t stream, const RouteStep& step);

// Experts of each token id, row by row.
struct TokenTable {
  const void* entries = nullptr;  // [rows, k], int32 or int64, any alignment
  bool wide = false;              // int64
  uint32_t rows = 0;
  uint64_t row_bytes = 0;
  const int32_t* token_ids = nullptr;  // [T]
};

// Failures: kTokenId, kTokenTableRow, kRouterScore. `selection_bias` is not read. Errors as above.
cudaError_t LaunchRouteByTable(cudaStream_t stream, const RouteStep& step, const TokenTable& table);

// The caller's routing, which the host has checked, as it is.
cudaError_t LaunchRouteGiven(cudaStream_t stream, const StepGrid& grid, const int32_t* experts, const float* weights,
                             const RouteOutput& out);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_ROUTE_H_

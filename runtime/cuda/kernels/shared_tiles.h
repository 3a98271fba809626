// Products of all tokens with the rank's part of the shared expert by tensor cores, as those of grouped rows with an
// expert's: the factors are those of the other kinds of products, and so are the roundings; tile_product.h says how
// sums differ.
//
// Grid: a block for up to 128 tokens and 128 columns.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_SHARED_TILES_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_SHARED_TILES_H_

#include <cuda_runtime_api.h>

#include "runtime/cuda/kernels/shared_down.h"
#include "runtime/cuda/kernels/shared_gate_up.h"

namespace meshseal::cuda {

// Of a basis and weights that PiecesOf (tile_pieces.h) takes; others' products are NaN. `down` is not empty. Errors as
// of LaunchRouterLogits; cudaErrorInvalidValue for another basis.
cudaError_t LaunchSharedTiles(cudaStream_t stream, const SharedGateUpStep& step);
cudaError_t LaunchSharedTiles(cudaStream_t stream, const SharedDownStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_SHARED_TILES_H_

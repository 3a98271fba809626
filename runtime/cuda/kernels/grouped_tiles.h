// Products of grouped rows by tensor cores: gate and up of rows in the order of the grouping, and down of slot rows,
// which the grouping tells. The factors are those of the other kinds of products, and so are the roundings;
// tile_product.h says how sums differ.
//
// Grid: a block for up to 128 rows of one expert and 128 columns: as many as there may be where every expert's rows end
// inside a tile. Which rows a block has it reads from the grouping; those without exit.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_GROUPED_TILES_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_GROUPED_TILES_H_

#include <cuda_runtime_api.h>

#include "runtime/cuda/kernels/down.h"
#include "runtime/cuda/kernels/gate_up_grouped.h"

namespace meshseal::cuda {

// Of a basis and weights that PiecesOf (tile_pieces.h) takes; others' products are NaN. Errors as of
// LaunchRouterLogits; cudaErrorInvalidValue for another basis.
cudaError_t LaunchGroupedTiles(cudaStream_t stream, const GateUpGroupedStep& step);
cudaError_t LaunchGroupedTiles(cudaStream_t stream, const DownStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_GROUPED_TILES_H_

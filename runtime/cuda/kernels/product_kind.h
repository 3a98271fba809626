// The ways in which a matrix kernel adds products up.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_PRODUCT_KIND_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_PRODUCT_KIND_H_

#include <cstdint>

namespace meshseal::cuda {

enum class ProductKind : uint8_t {
  kLanes = 1,      // float32, fixed columns for each lane of a warp, and a fixed tree
  kReference = 2,  // float64 in column order: the bits of the numerics contract reference-1
  kTiles = 3,      // float32 by tensor cores, for many rows of one matrix: gate_up_grouped, down of grouped slots, and
                   // shared_gate_up and shared_down of as many tokens
};

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_PRODUCT_KIND_H_

// Elements of NCCL's types, and how they are combined.
#ifndef MESHSEAL_TESTS_FAKE_CUDA_ELEMENT_SUMS_H_
#define MESHSEAL_TESTS_FAKE_CUDA_ELEMENT_SUMS_H_

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace fake_nccl {

// 0: not a type.
size_t ElementBytes(ncclDataType_t type);
const char* TypeName(ncclDataType_t type);
const char* ReductionName(ncclRedOp_t reduction);

// Sums, products, smallest and largest of integers and of floats of 16 bits or more.
bool CanCombine(ncclDataType_t type, ncclRedOp_t reduction);

// out[i] = parts[0][i], then combined with parts[1][i] and so on, rounded to the type after each. `out` overlaps no
// part.
void Combine(ncclDataType_t type, ncclRedOp_t reduction, const std::vector<const std::byte*>& parts, size_t count,
             std::byte* out);

}  // namespace fake_nccl

#endif  // MESHSEAL_TESTS_FAKE_CUDA_ELEMENT_SUMS_H_

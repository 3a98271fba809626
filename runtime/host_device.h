// Marks functions that the host and CUDA kernels share, so that both compute the same bits.
#ifndef MESHSEAL_RUNTIME_HOST_DEVICE_H_
#define MESHSEAL_RUNTIME_HOST_DEVICE_H_

#if defined(__CUDACC__)
#define MESHSEAL_HOST_DEVICE __host__ __device__
#else
#define MESHSEAL_HOST_DEVICE
#endif

// The same, of a function that a device must not call: what it keeps in registers a call would put into memory.
#if defined(__CUDACC__)
#define MESHSEAL_INTO_CALLER __host__ __device__ __forceinline__
#else
#define MESHSEAL_INTO_CALLER inline
#endif

// In front of a loop of constant length. Unrolled, a device keeps the arrays that it indexes in registers.
#if defined(__CUDA_ARCH__)
#define MESHSEAL_UNROLL _Pragma("unroll")
#define MESHSEAL_NO_UNROLL _Pragma("unroll 1")
#else
#define MESHSEAL_UNROLL
#define MESHSEAL_NO_UNROLL
#endif

#endif  // MESHSEAL_RUNTIME_HOST_DEVICE_H_

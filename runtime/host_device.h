// Marks functions that the host and CUDA kernels share, so that both compute the same bits.
#ifndef MESHSEAL_RUNTIME_HOST_DEVICE_H_
#define MESHSEAL_RUNTIME_HOST_DEVICE_H_

#if defined(__CUDACC__)
#define MESHSEAL_HOST_DEVICE __host__ __device__
#else
#define MESHSEAL_HOST_DEVICE
#endif

#endif  // MESHSEAL_RUNTIME_HOST_DEVICE_H_

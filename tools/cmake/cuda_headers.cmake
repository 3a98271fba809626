# The headers of CUDA and NCCL, which tests of GPU code on machines without a GPU need: the target meshseal_cuda_headers,
# or none where they are not installed. Looked for where CUDAToolkit is found, below CUDA_HOME and /usr/local/cuda.
find_package(CUDAToolkit QUIET)
set(places ${CUDAToolkit_INCLUDE_DIRS} $ENV{CUDA_HOME} /usr/local/cuda)
find_path(MESHSEAL_CUDA_INCLUDE cuda_runtime_api.h HINTS ${places} PATH_SUFFIXES include)
find_path(MESHSEAL_NCCL_INCLUDE nccl.h HINTS ${places} PATH_SUFFIXES include)
mark_as_advanced(MESHSEAL_CUDA_INCLUDE MESHSEAL_NCCL_INCLUDE)

if(MESHSEAL_CUDA_INCLUDE AND MESHSEAL_NCCL_INCLUDE)
  add_library(meshseal_cuda_headers INTERFACE)
  target_include_directories(meshseal_cuda_headers SYSTEM INTERFACE ${MESHSEAL_CUDA_INCLUDE} ${MESHSEAL_NCCL_INCLUDE})
endif()

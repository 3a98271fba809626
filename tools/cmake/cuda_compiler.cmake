# What the CUDA backend is built with (MESHSEAL_CUDA=ON): nvcc, CUDA's runtime and NCCL, or an error that says what is
# missing. nvcc is called by its own options, as the tests of kernels call it, and not as CMake's compiler of CUDA.
if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE)
  message(FATAL_ERROR "MESHSEAL_CUDA: nvcc is not found: put it on PATH, or build without the backend")
endif()
if(CUDAToolkit_VERSION VERSION_LESS 13.0)
  message(FATAL_ERROR "MESHSEAL_CUDA: CUDA is ${CUDAToolkit_VERSION}, expected 13.0 or above")
endif()
find_library(MESHSEAL_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} $ENV{CUDA_HOME} /usr/local/cuda
             PATH_SUFFIXES lib64 lib)
mark_as_advanced(MESHSEAL_NCCL_LIBRARY)
if(NOT MESHSEAL_NCCL_LIBRARY OR NOT TARGET meshseal_cuda_headers)
  message(FATAL_ERROR "MESHSEAL_CUDA: NCCL is not found: install nccl.h and libnccl.so beside CUDA, or build without the backend")
endif()
add_library(meshseal_nccl SHARED IMPORTED GLOBAL)
set_target_properties(meshseal_nccl PROPERTIES IMPORTED_LOCATION ${MESHSEAL_NCCL_LIBRARY})
set(MESHSEAL_CUDA_ARCHITECTURES "80;90;100;120" CACHE STRING "Architectures that kernels are compiled for")

# meshseal_cuda_library(NAME OPTIONS file SOURCES a.cu ...)
function(meshseal_cuda_library name)
  cmake_parse_arguments(ARG "" "OPTIONS" "SOURCES" ${ARGN})
  set(codes ${MESHSEAL_CUDA_ARCHITECTURES})
  list(TRANSFORM codes REPLACE "(.+)" "-gencode=arch=compute_\\1,code=sm_\\1")
  set(objects)
  foreach(source ${ARG_SOURCES})
    get_filename_component(stem ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}/${stem}.o)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/${name}
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${CUDAToolkit_NVCC_EXECUTABLE} --options-file ${ARG_OPTIONS} ${codes} -DNDEBUG
              -Xcompiler -fPIC -I ${PROJECT_SOURCE_DIR} -MD -MF ${object}.d -c ${source} -o ${object}
      DEPENDS ${source} ${ARG_OPTIONS}
      DEPFILE ${object}.d
      COMMENT "Building CUDA object ${stem}.o"
      VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  add_library(${name} STATIC ${objects})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()

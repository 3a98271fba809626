# Options that every target of the project is built with, and one way to declare a library and a program.

set(MESHSEAL_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror)

function(meshseal_options target)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  # No contraction: a*b+c rounds twice unless the source says fma, so that every compiler gives the same bits.
  target_compile_options(${target} PRIVATE ${MESHSEAL_WARNINGS} -ffp-contract=off -fvisibility=hidden)
  if(MESHSEAL_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${MESHSEAL_SANITIZE} -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${MESHSEAL_SANITIZE})
  endif()
endfunction()

# Precompiles what most sources of a kind of target include, once for all targets of the kind: in a target of its own,
# so that no preset builds another one for it. The first target of the kind says with what.
# meshseal_precompile(TARGET KIND [OPTIONS option ...] [HEADERS <header> ...])
function(meshseal_precompile target kind)
  cmake_parse_arguments(ARG "" "" "OPTIONS;HEADERS" ${ARGN})
  if(NOT MESHSEAL_PRECOMPILE)
    return()
  endif()
  target_compile_options(${target} PRIVATE ${ARG_OPTIONS})
  # g++ 12 does not know precompiled headers as the system's, and shows what it holds back elsewhere: copies inside
  # std::string that it wrongly takes to be out of bounds (GCC bug 105329). Presets without them have these warnings.
  target_compile_options(${target} PRIVATE
    "$<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overread;-Wno-stringop-overflow;-Wno-restrict>")
  set(owner meshseal_precompiled_${kind})
  if(NOT TARGET ${owner})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${owner}.cc CONTENT "")
    add_library(${owner} OBJECT ${PROJECT_BINARY_DIR}/${owner}.cc)
    meshseal_options(${owner})
    target_compile_options(${owner} PRIVATE ${ARG_OPTIONS})
    get_target_property(independent ${target} POSITION_INDEPENDENT_CODE)
    get_target_property(links ${target} LINK_LIBRARIES)
    set_target_properties(${owner} PROPERTIES POSITION_INDEPENDENT_CODE ${independent})
    target_link_libraries(${owner} PRIVATE ${links})
    target_precompile_headers(${owner} PRIVATE
      <algorithm> <array> <cstdint> <filesystem> <functional> <map> <memory> <optional> <set> <string> <utility>
      <variant> <vector> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
      <absl/strings/str_join.h> <absl/strings/str_split.h> <absl/types/span.h> ${ARG_HEADERS})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

# meshseal_library(NAME SOURCES a.cc ... DEPENDS target ...)
function(meshseal_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)  # libmeshseal.so is made of some of them
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${MESHSEAL_UNITY} UNITY_BUILD_BATCH_SIZE 10)
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS})
  meshseal_options(${name})
  meshseal_precompile(${name} library)
endfunction()

# meshseal_program(NAME SOURCES a.cc ... DEPENDS target ...)
function(meshseal_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${MESHSEAL_UNITY})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  meshseal_options(${name})
endfunction()

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

# meshseal_library(NAME SOURCES a.cc ... DEPENDS target ...)
function(meshseal_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS})
  meshseal_options(${name})
endfunction()

# meshseal_program(NAME SOURCES a.cc ... DEPENDS target ...)
function(meshseal_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  meshseal_options(${name})
endfunction()

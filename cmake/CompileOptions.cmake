# Options for our own targets; LibTorch's headers are system headers and are not warned about.

add_library(bespoke_options INTERFACE)
target_compile_options(bespoke_options INTERFACE -Wall -Wextra -Wpedantic -Wno-unknown-pragmas)
if(BESPOKE_WARNINGS_AS_ERRORS)
  # GCC's flow-based warnings fire inside LibTorch's inlined templates, so those stay warnings.
  target_compile_options(bespoke_options INTERFACE -Werror
    $<$<CXX_COMPILER_ID:GNU>:-Wno-error=array-bounds -Wno-error=maybe-uninitialized
    -Wno-error=stringop-overflow>)
endif()
# No fused multiply-add behind our back: a sample must not depend on where a vector loop ends.
# omp simd lets named reductions vectorise without giving up IEEE arithmetic elsewhere.
target_compile_options(bespoke_options INTERFACE -ffp-contract=off -fopenmp-simd)

# Position independent, so that a shared library can take ours in; programs too, since they share
# the library's precompiled header.
target_compile_options(bespoke_options INTERFACE -fPIC)

find_program(CCACHE ccache)
if(CCACHE)
  # A precompiled header is cached only if ccache may trust its timestamps; with the compiler's list
  # of dependencies it need not preprocess every file on its own first.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1 ${CCACHE})
  target_compile_options(bespoke_options INTERFACE
    $<IF:$<CXX_COMPILER_ID:GNU>,-fpch-preprocess,SHELL:-Xclang -fno-pch-timestamp>)
endif()

# All of our files, with what tells libFuzzer where an input leads.
if(BESPOKE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    message(FATAL_ERROR "BESPOKE_FUZZ needs Clang's libFuzzer: configure with the preset fuzz")
  endif()
  set(sanitizers -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined)
  add_compile_options(${sanitizers} -fno-omit-frame-pointer -O1 -g1)
  add_link_options(${sanitizers})
endif()

# Compiles the sources of a target as one for every `batch` of them; 0 for all.
function(bespoke_unity target batch)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${BESPOKE_UNITY}
                                             UNITY_BUILD_BATCH_SIZE ${batch})
endfunction()

# Where nothing is hot, and waiting for the compiler is what costs. GCC 13 refuses a precompiled header
# of another level, and any GCC one of none.
function(bespoke_quick_to_build target)
  target_compile_options(
    ${target}
    PRIVATE $<$<AND:$<NOT:$<CONFIG:Debug>>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-O1>)
endfunction()

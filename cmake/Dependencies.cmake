# What the build needs, and what it uses when it is there.

find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
set(BESPOKE_FMT fmt::fmt CACHE STRING "fmt::fmt, or fmt::fmt-header-only to need no library")
if(NOT BESPOKE_TORCH)
  return()
endif()

find_package(Torch REQUIRED)
find_package(CLI11 REQUIRED)
# LibTorch's parallel_for is compiled into our files. Clang's OpenMP is another than LibTorch's, so
# what fuzzes does without.
if(BESPOKE_FUZZ)
  add_library(OpenMP::OpenMP_CXX INTERFACE IMPORTED)
else()
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()

# LibTorch 2 carries fmt headers of its own, found before any other, so there fmt's library must not
# be linked. Without them the library is taken: compiling fmt into every file doubles the build.
find_path(FMT_INCLUDE_DIR fmt/format.h)
foreach(directory IN LISTS TORCH_INCLUDE_DIRS)
  if(EXISTS ${directory}/fmt/format.h AND NOT directory STREQUAL FMT_INCLUDE_DIR)
    set(BESPOKE_FMT fmt::fmt-header-only)
  endif()
endforeach()

# Without these, the parts that use them are left out.
function(bespoke_optional name found)
  if(${found})
    message(STATUS "bespoke: optional ${name} found")
  else()
    message(STATUS "bespoke: optional ${name} not found, left out")
  endif()
endfunction()

find_package(PNG QUIET)
find_package(JPEG QUIET)
find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(sndfile QUIET IMPORTED_TARGET sndfile)
  pkg_check_modules(libzip QUIET IMPORTED_TARGET libzip)
  pkg_check_modules(cairo QUIET IMPORTED_TARGET cairo)
endif()
find_package(MPI QUIET COMPONENTS CXX)
# Whether LibTorch's headers have what a source needs. Compiled, not linked: LibTorch's targets stand
# on others that a trial project does not know.
include(CheckCXXSourceCompiles)
function(bespoke_try_libtorch source found)
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
  set(CMAKE_REQUIRED_INCLUDES ${TORCH_INCLUDE_DIRS} ${CUDAToolkit_INCLUDE_DIRS})
  check_cxx_source_compiles("${source}" ${found})
endfunction()
# Calls of a network as CUDA graphs: LibTorch with CUDA, 2.3 or later, and CUDA's headers.
if(TARGET torch_cuda)
  bespoke_try_libtorch("
    #include <ATen/cuda/CUDAGraph.h>
    #include <c10/cuda/CUDACachingAllocator.h>
    #include <c10/cuda/CUDAGuard.h>
    int main() {
      const auto pool = at::cuda::graph_pool_handle();
      at::cuda::CUDAGraph().capture_begin(pool, cudaStreamCaptureModeThreadLocal);
      c10::cuda::CUDACachingAllocator::endAllocateToPool(0, pool);
    }" BESPOKE_CUDA_GRAPHS)
endif()
# Packages that AOTInductor compiled: LibTorch 2.9 or later.
bespoke_try_libtorch("
  #include <ATen/DeviceAccelerator.h>
  #include <torch/csrc/inductor/aoti_package/model_package_loader.h>
  int main() {
    torch::inductor::AOTIModelPackageLoader loader(\"\", \"model\", true, 1, -1);
    return static_cast<int>(at::accelerator::getDeviceStats(0).num_ooms + loader.run({}).size());
  }" BESPOKE_PACKAGES)
bespoke_optional(libpng PNG_FOUND)
bespoke_optional(libjpeg JPEG_FOUND)
bespoke_optional(libsndfile sndfile_FOUND)
bespoke_optional(libzip libzip_FOUND)
bespoke_optional(cairo cairo_FOUND)
bespoke_optional(MPI MPI_CXX_FOUND)
bespoke_optional("CUDA graphs" BESPOKE_CUDA_GRAPHS)
bespoke_optional("AOTInductor packages (LibTorch 2.9)" BESPOKE_PACKAGES)

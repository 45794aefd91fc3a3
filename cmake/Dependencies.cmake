# What the build needs, and what it uses when it is there.

find_package(Torch REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)  # LibTorch's parallel_for is compiled into our files

# Says plainly what an optional library adds, or what is left out without it.
function(bespoke_optional name found what_for)
  if(${found})
    message(STATUS "bespoke: ${name} found, ${what_for}: in")
  else()
    message(STATUS "bespoke: ${name} not found, ${what_for}: left out")
  endif()
endfunction()

find_package(JPEG QUIET)
find_package(MPI QUIET COMPONENTS CXX)
find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(sndfile QUIET IMPORTED_TARGET sndfile)
  pkg_check_modules(libzip QUIET IMPORTED_TARGET libzip)
endif()
bespoke_optional(libjpeg JPEG_FOUND "reading JPEG images")
bespoke_optional(libsndfile sndfile_FOUND "reading and writing audio")
bespoke_optional(libzip libzip_FOUND "reading datasets from zip files")
bespoke_optional("Open MPI" MPI_CXX_FOUND "work over several machines")

# `./dev deb`: the program, the libraries and the embedded models as a package for Debian, by CPack.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME bespoke)
set(CPACK_PACKAGE_CONTACT "Bespoke maintainers <maintainers@bespoke.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "few-step solvers for diffusion and flow models")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# LibTorch finds its BLAS while it runs; without this one it is thirty times slower.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS libopenblas0-openmp)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libtorch-dev, libfmt-dev, nlohmann-json3-dev")
include(CPack)

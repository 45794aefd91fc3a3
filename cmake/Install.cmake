# Install and export, so that a client writes find_package(bespoke) and links bespoke::bespoke, or
# bespoke::core where it needs no tensors.
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/bespoke)
install(TARGETS bespoke_core bespoke_options EXPORT bespokeTargets)
if(BESPOKE_TORCH)
  install(TARGETS bespoke EXPORT bespokeTorchTargets)
  install(TARGETS bespoke_cli bespoke_train_cli RUNTIME)
  install(TARGETS bespoke_program bespoke_train_program
          RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/bespoke)
  install(DIRECTORY models DESTINATION ${CMAKE_INSTALL_DATADIR}/bespoke)
  install(EXPORT bespokeTorchTargets NAMESPACE bespoke:: DESTINATION ${config_dir})
endif()
install(DIRECTORY include/bespoke DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT bespokeTargets NAMESPACE bespoke:: DESTINATION ${config_dir})
configure_package_config_file(cmake/bespokeConfig.cmake.in bespokeConfig.cmake
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(bespokeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bespokeConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/bespokeConfigVersion.cmake
        DESTINATION ${config_dir})

# Installed: the libraries with their headers, the program, the CMake package and a pkg-config file.
include(CMakePackageConfigHelpers)
set(AUTOLAUNCH_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/autolaunch")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/lib/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.hpp")
install(EXPORT autolaunchTargets NAMESPACE autolaunch:: DESTINATION "${AUTOLAUNCH_CMAKE_DIR}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/autolaunchConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/autolaunchConfig.cmake" INSTALL_DESTINATION "${AUTOLAUNCH_CMAKE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/autolaunchConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/autolaunchConfig.cmake" "${PROJECT_BINARY_DIR}/autolaunchConfigVersion.cmake"
  DESTINATION "${AUTOLAUNCH_CMAKE_DIR}")

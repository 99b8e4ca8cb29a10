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

# pkg-config: relocatable, its prefix is relative to the file itself.
set(AUTOLAUNCH_PC_DIR "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH AUTOLAUNCH_PC_UP "/${AUTOLAUNCH_PC_DIR}" "/")
set(AUTOLAUNCH_PC_CFLAGS "")
if(NOT BUILD_SHARED_LIBS)
  set(AUTOLAUNCH_PC_CFLAGS "-DAUTOLAUNCH_STATIC")
endif()
set(AUTOLAUNCH_PC_LIBS "-pthread")
if(AUTOLAUNCH_FMT_COMPILES AND NOT BUILD_SHARED_LIBS)
  string(PREPEND AUTOLAUNCH_PC_LIBS "-lautolaunch_fmt ")
endif()
if(AUTOLAUNCH_HAVE_MPI)
  list(JOIN MPI_C_LIBRARIES " " _mpi_libraries)
  string(APPEND AUTOLAUNCH_PC_LIBS " ${_mpi_libraries}")
endif()
if(AUTOLAUNCH_HAVE_URING)
  list(JOIN URING_LINK_LIBRARIES " " _uring_libraries)
  string(APPEND AUTOLAUNCH_PC_LIBS " ${_uring_libraries}")
endif()
configure_file("${PROJECT_SOURCE_DIR}/cmake/autolaunch.pc.in" "${PROJECT_BINARY_DIR}/autolaunch.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/autolaunch.pc" DESTINATION "${AUTOLAUNCH_PC_DIR}")

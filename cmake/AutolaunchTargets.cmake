# How every target of the project is made: language level, warnings, sanitizers, visibility.

add_library(autolaunch_build_flags INTERFACE)
target_compile_features(autolaunch_build_flags INTERFACE cxx_std_20)
target_compile_options(autolaunch_build_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual;-Wcast-align>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${AUTOLAUNCH_WERROR}>>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports these inside its own and fmt's headers at -O2, and under sanitizers.
  target_compile_options(autolaunch_build_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-maybe-uninitialized;-Wno-stringop-overflow;-Wno-array-bounds>)
endif()
if(AUTOLAUNCH_SANITIZE)
  target_compile_options(autolaunch_build_flags INTERFACE
    -fsanitize=${AUTOLAUNCH_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(autolaunch_build_flags INTERFACE -fsanitize=${AUTOLAUNCH_SANITIZE})
endif()
if(AUTOLAUNCH_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "AUTOLAUNCH_BUILD_FUZZERS needs clang: libFuzzer is a part of it (use the preset fuzz)")
  endif()
  target_compile_options(autolaunch_build_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Sources of kernels are optimised in every build type; unoptimised they would be too slow to test with. Under sanitizers a
# little, for there -O3 takes minutes.
set(AUTOLAUNCH_KERNEL_OPTIMIZATION -O3)
if(AUTOLAUNCH_SANITIZE)
  set(AUTOLAUNCH_KERNEL_OPTIMIZATION -O1)
endif()

# autolaunch_configure(target): the settings that every target of ours shares.
function(autolaunch_configure target)
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON INSTALL_RPATH "$ORIGIN;$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  if(NOT BUILD_SHARED_LIBS)
    # Otherwise CMake pads a built file's empty path with colons, and an empty entry means the current directory: whoever
    # could write there could have a program of ours load his library.
    set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
  endif()
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:autolaunch_build_flags>)
endfunction()

# autolaunch_library(name SOURCES ... PUBLIC ... PRIVATE ...): one installed library, autolaunch::name.
# Its public headers are in lib/include, its private ones in lib/src.
function(autolaunch_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  set(target autolaunch_${name})
  add_library(${target} ${ARG_SOURCES})
  add_library(autolaunch::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR})
  target_compile_features(${target} PUBLIC cxx_std_20)
  if(NOT BUILD_SHARED_LIBS)
    target_compile_definitions(${target} PUBLIC AUTOLAUNCH_STATIC)
  endif()
  target_include_directories(${target}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/lib/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
           $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/lib/src>)
  target_link_libraries(${target} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  autolaunch_configure(${target})
  install(TARGETS ${target} EXPORT autolaunchTargets)
endfunction()

# Compiling takes half of a whole run of the tests, and the launcher's part is no work in loops: with -O1 it compiles in three
# quarters of the time.
set(AUTOLAUNCH_LAUNCHER_OPTIONS "" CACHE STRING "Compile options of the launcher's sources, after all others")
separate_arguments(_launcher_options UNIX_COMMAND "${AUTOLAUNCH_LAUNCHER_OPTIONS}")

# autolaunch_launcher_module(name SOURCES ... PUBLIC ... PRIVATE ...): one folder of launcher/, linked into the program
# and into its tests.
function(autolaunch_launcher_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  set(target launcher_${name})
  add_library(${target} STATIC ${ARG_SOURCES})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/launcher)
  target_link_libraries(${target} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  autolaunch_configure(${target})
  target_compile_options(${target} PRIVATE ${_launcher_options})
endfunction()

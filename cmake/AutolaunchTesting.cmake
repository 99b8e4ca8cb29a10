# Tests are named FOLDER.NAME, labelled with their folder, and always have a timeout. A test that exits with 77 is
# counted as skipped; it has printed why.
#
# A program has the tests of a room, a source NAME_test.cpp each; ctest lists, runs and times each source's cases apart. The
# sources may be compiled as one: all that is in one of them is in `namespace NAME_test`.

find_package(doctest QUIET)
if(NOT doctest_FOUND)
  message(FATAL_ERROR "doctest was not found. The tests need it; scripts/install-deps.sh --tests installs it. "
    "To build without tests: -DAUTOLAUNCH_BUILD_TESTS=OFF")
endif()

set(AUTOLAUNCH_TEST_OPTIONS "" CACHE STRING "Compile options of the tests' own sources, after all others")
separate_arguments(_test_options UNIX_COMMAND "${AUTOLAUNCH_TEST_OPTIONS}")

add_library(autolaunch_doctest INTERFACE)
target_link_libraries(autolaunch_doctest INTERFACE doctest::doctest)
# Not the build folder: a compiler's cache could not serve two presets then.
target_compile_definitions(autolaunch_doctest INTERFACE AUTOLAUNCH_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
add_library(autolaunch_doctest_main OBJECT ${PROJECT_SOURCE_DIR}/tests/doctest_main.cpp)
target_link_libraries(autolaunch_doctest_main PRIVATE autolaunch_doctest)
autolaunch_configure(autolaunch_doctest_main)

# What most tests include is read once, where the build is for speed: each reads 1 s less. Not for work on the tests: it
# hides an include that is missing.
option(AUTOLAUNCH_PRECOMPILE_TESTS "Precompile the headers that most tests include" OFF)
if(AUTOLAUNCH_PRECOMPILE_TESTS)
  add_executable(autolaunch_precompiled_tests EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/doctest_main.cpp)
  target_link_libraries(autolaunch_precompiled_tests PRIVATE autolaunch_doctest autolaunch::base)
  autolaunch_configure(autolaunch_precompiled_tests)
  target_compile_options(autolaunch_precompiled_tests PRIVATE ${_test_options})
  target_precompile_headers(autolaunch_precompiled_tests PRIVATE <doctest/doctest.h>
    <algorithm> <array> <atomic> <chrono> <cstdint> <cstdio> <cstring> <filesystem> <fstream> <functional> <map> <memory>
    <optional> <random> <set> <span> <sstream> <string> <string_view> <thread> <unordered_map> <variant> <vector>)
endif()

# autolaunch_test_configure(target): the settings that every program of the tests shares.
function(autolaunch_test_configure target)
  autolaunch_configure(${target})
  target_compile_options(${target} PRIVATE ${_test_options})
endfunction()

# Every test has its folder as its label. Those that see what the build's options change have `option` as well, and can be
# built alone.
option(AUTOLAUNCH_TEST_OPTIONS_ONLY "Build and list only the tests that see what AUTOLAUNCH_WITH_* change" OFF)

add_custom_target(unit_tests)  # all programs of the unit tests

# autolaunch_test_program(FOLDER ROOM LIBRARIES ... [SOURCES shared by its tests ...] [DEFINITIONS ...]
# [DEPENDS targets ...]): FOLDER_ROOM_tests, which autolaunch_tests() fills.
function(autolaunch_test_program folder room)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES;DEFINITIONS;DEPENDS" ${ARGN})
  set(target ${folder}_${room}_tests)
  add_executable(${target} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:autolaunch_doctest_main> ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE ${ARG_LIBRARIES} autolaunch_doctest)
  target_compile_definitions(${target} PRIVATE ${ARG_DEFINITIONS})
  autolaunch_test_configure(${target})
  if(AUTOLAUNCH_PRECOMPILE_TESTS)
    target_precompile_headers(${target} REUSE_FROM autolaunch_precompiled_tests)
  endif()
  if(ARG_DEPENDS)
    add_dependencies(${target} ${ARG_DEPENDS})
  endif()
  if(folder STREQUAL "unit")
    add_dependencies(unit_tests ${target})
  endif()
endfunction()

# autolaunch_tests(FOLDER ROOM [OPTION] [TIMEOUT seconds] NAME ...): NAME_test.cpp of the folder is in the room's program.
function(autolaunch_tests folder room)
  cmake_parse_arguments(ARG "OPTION" "TIMEOUT" "" ${ARGN})
  if(AUTOLAUNCH_TEST_OPTIONS_ONLY AND NOT ARG_OPTION)
    return()
  endif()
  foreach(name IN LISTS ARG_UNPARSED_ARGUMENTS)
    target_sources(${folder}_${room}_tests PRIVATE ${name}_test.cpp)
    autolaunch_case_test(${folder} ${name} ${folder}_${room}_tests ${name}_test.cpp ${ARGN})
  endforeach()
endfunction()

# autolaunch_case_test(FOLDER NAME PROGRAM SOURCE [OPTION] [TIMEOUT seconds]): the program's cases that are in the source.
function(autolaunch_case_test folder name program source)
  set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL OFF)
  add_test(NAME ${folder}.${name} COMMAND ${program} --source-file=*/${folder}/${source})
  autolaunch_test_properties(${folder} ${name} ${ARGN})
endfunction()

# autolaunch_script_test(FOLDER NAME SCRIPT [OPTION] [TIMEOUT seconds] [ARGS ...]): a bash script that drives built programs.
function(autolaunch_script_test folder name script)
  cmake_parse_arguments(ARG "OPTION" "TIMEOUT" "ARGS" ${ARGN})
  if(AUTOLAUNCH_TEST_OPTIONS_ONLY AND NOT ARG_OPTION)
    return()
  endif()
  add_test(NAME ${folder}.${name} COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/${script}" ${ARG_ARGS})
  autolaunch_test_properties(${folder} ${name} ${ARGN})
  set_property(TEST ${folder}.${name} PROPERTY ENVIRONMENT
    "AUTOLAUNCH_SOURCE_DIR=${PROJECT_SOURCE_DIR}" "AUTOLAUNCH_BINARY_DIR=${PROJECT_BINARY_DIR}"
    "AUTOLAUNCH=${PROJECT_BINARY_DIR}/launcher/autolaunch")
endfunction()

# autolaunch_test_properties(FOLDER NAME [OPTION] [TIMEOUT seconds])
function(autolaunch_test_properties folder name)
  cmake_parse_arguments(ARG "OPTION" "TIMEOUT" "" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set(labels ${folder})
  if(ARG_OPTION)
    list(APPEND labels option)
  endif()
  set_tests_properties(${folder}.${name} PROPERTIES
    LABELS "${labels}" TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77)
endfunction()

# Tests are named FOLDER.NAME, labelled with their folder, and always have a timeout. A test that exits with 77 is
# counted as skipped; it has printed why.

find_package(doctest QUIET)
if(NOT doctest_FOUND)
  message(FATAL_ERROR "doctest was not found. The tests need it; scripts/install-deps.sh --tests installs it. "
    "To build without tests: -DAUTOLAUNCH_BUILD_TESTS=OFF")
endif()

add_library(autolaunch_doctest_main STATIC ${PROJECT_SOURCE_DIR}/tests/doctest_main.cpp)
target_link_libraries(autolaunch_doctest_main PUBLIC doctest::doctest)
target_compile_definitions(autolaunch_doctest_main PUBLIC
  AUTOLAUNCH_SOURCE_DIR="${PROJECT_SOURCE_DIR}" AUTOLAUNCH_BINARY_DIR="${PROJECT_BINARY_DIR}")
autolaunch_configure(autolaunch_doctest_main)

# autolaunch_test(FOLDER NAME SOURCES ... LIBRARIES ... [TIMEOUT seconds] [DEPENDS targets ...])
function(autolaunch_test folder name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBRARIES;DEPENDS" ${ARGN})
  set(target ${folder}_${name}_test)
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE ${ARG_LIBRARIES} autolaunch_doctest_main)
  autolaunch_configure(${target})
  if(ARG_DEPENDS)
    add_dependencies(${target} ${ARG_DEPENDS})
  endif()
  add_test(NAME ${folder}.${name} COMMAND ${target})
  autolaunch_test_properties(${folder} ${name} "${ARG_TIMEOUT}")
endfunction()

# autolaunch_script_test(FOLDER NAME SCRIPT [TIMEOUT seconds] [ARGS ...]): a bash script that drives built programs.
function(autolaunch_script_test folder name script)
  cmake_parse_arguments(ARG "" "TIMEOUT" "ARGS" ${ARGN})
  add_test(NAME ${folder}.${name} COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/${script}" ${ARG_ARGS})
  autolaunch_test_properties(${folder} ${name} "${ARG_TIMEOUT}")
  set_property(TEST ${folder}.${name} PROPERTY ENVIRONMENT
    "AUTOLAUNCH_SOURCE_DIR=${PROJECT_SOURCE_DIR}" "AUTOLAUNCH_BINARY_DIR=${PROJECT_BINARY_DIR}"
    "AUTOLAUNCH=${PROJECT_BINARY_DIR}/launcher/autolaunch")
endfunction()

function(autolaunch_test_properties folder name timeout)
  if(NOT timeout)
    set(timeout 120)
  endif()
  set_tests_properties(${folder}.${name} PROPERTIES LABELS ${folder} TIMEOUT ${timeout} SKIP_RETURN_CODE 77)
endfunction()

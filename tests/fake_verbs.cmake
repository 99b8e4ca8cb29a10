# tests/fake_verbs.so and tests/fake_verbs_old.so: libibverbs without an HCA (tests/integration/fake_verbs.c says how to use
# them), where its headers are. Targets fake_verbs and fake_verbs_old; autolaunch_use_fake_verbs() tells a test of the first.
if(AUTOLAUNCH_HAVE_IBVERBS)
  foreach(name fake_verbs fake_verbs_old)
    add_library(${name} MODULE ${CMAKE_CURRENT_SOURCE_DIR}/integration/fake_verbs.c)
    set_target_properties(${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}
      C_VISIBILITY_PRESET hidden C_STANDARD 11 C_EXTENSIONS ON)
    target_include_directories(${name} SYSTEM PRIVATE ${IBVERBS_INCLUDE_DIRS})
    target_compile_options(${name} PRIVATE -Wall -Wextra -Werror)
  endforeach()
  target_compile_definitions(fake_verbs_old PRIVATE FAKE_VERBS_OLD)
endif()

function(autolaunch_use_fake_verbs target)
  if(AUTOLAUNCH_HAVE_IBVERBS)
    add_dependencies(${target} fake_verbs fake_verbs_old)
    target_compile_definitions(${target} PRIVATE
      FAKE_VERBS="$<TARGET_FILE:fake_verbs>" FAKE_VERBS_OLD="$<TARGET_FILE:fake_verbs_old>")
  endif()
endfunction()

# tests/fake_nvml.so and tests/fake_nvml_old.so: management libraries without a GPU (tests/integration/fake_nvml.c says how
# to use them). Targets fake_nvml and fake_nvml_old.
foreach(name fake_nvml fake_nvml_old)
  add_library(${name} MODULE ${CMAKE_CURRENT_SOURCE_DIR}/integration/fake_nvml.c)
  set_target_properties(${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}
    C_VISIBILITY_PRESET hidden C_STANDARD 11 C_EXTENSIONS ON)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Werror)
endforeach()
target_compile_definitions(fake_nvml_old PRIVATE FAKE_NVML_OLD)

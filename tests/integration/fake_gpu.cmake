# CUDA drivers and NCCLs without a GPU (tests/integration/fake_gpu.hpp says how to use them): targets fake_gpu and
# fake_gpu_218 and, in tests/fake_gpu, the names that programs load. Only where CUDA's and NCCL's headers are.
function(autolaunch_fake_gpu name version)
  add_library(${name} MODULE ${CMAKE_CURRENT_SOURCE_DIR}/integration/fake_cuda.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/integration/fake_kernels.cpp ${CMAKE_CURRENT_SOURCE_DIR}/integration/fake_nccl.cpp)
  autolaunch_configure(${name})
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  set_target_properties(${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${name})
  target_compile_definitions(${name} PRIVATE FAKE_NCCL_VERSION=${version})
  target_include_directories(${name} SYSTEM PRIVATE ${NCCL_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(${name} PRIVATE autolaunch::comm Threads::Threads rt)
  # The kernels: a product and a sum are two roundings, as on GPUs.
  target_compile_options(${name} PRIVATE -ffp-contract=off)
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL)
  foreach(link libcuda.so.1 libnccl.so.2)
    add_custom_command(TARGET ${name} POST_BUILD COMMAND ${CMAKE_COMMAND} -E create_symlink ${name}.so ${link}
      WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${name} VERBATIM)
  endforeach()
endfunction()
function(autolaunch_uses_fake_gpu target)
  add_dependencies(${target} fake_gpu fake_gpu_218)
  target_include_directories(${target} SYSTEM PRIVATE ${NCCL_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
  target_compile_definitions(${target} PRIVATE FAKE_GPU="$<TARGET_FILE:fake_gpu>"
    FAKE_GPU_218="$<TARGET_FILE:fake_gpu_218>")
endfunction()
if(AUTOLAUNCH_HAVE_NCCL_BACKEND)
  autolaunch_fake_gpu(fake_gpu 22809)
  autolaunch_fake_gpu(fake_gpu_218 21805)
endif()

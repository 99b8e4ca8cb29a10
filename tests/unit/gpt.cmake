# The parts of examples/gpt, where examples are built.
if(TARGET gpt_model)
  autolaunch_test(unit gpt_gradient SOURCES gpt_gradient_test.cpp LIBRARIES gpt_model)
  autolaunch_test(unit gpt_kernels SOURCES gpt_kernels_test.cpp LIBRARIES gpt_model)
  autolaunch_test(unit gpt_data SOURCES gpt_data_test.cpp LIBRARIES gpt_model)
  autolaunch_test(unit gpt_config SOURCES gpt_config_test.cpp LIBRARIES gpt_trainer)
endif()

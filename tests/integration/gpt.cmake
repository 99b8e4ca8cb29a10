# examples/gpt, where examples are built.
if(TARGET gpt)
  autolaunch_script_test(integration gpt_train gpt_train_test.sh TIMEOUT 300)
  autolaunch_script_test(integration gpt_stop gpt_stop_test.sh TIMEOUT 300)
endif()

# The changes of a port to ShardedModel, behind main.sed's.
/^} GPT2;/a #include "sharded.hpp"
s/ParameterTensors params = model->params;.*/ParameterTensors params = sharded->whole(model->params);/
s/ParameterTensors grads = model->grads;/ParameterTensors grads = sharded->gradients(model->grads);/
s/float\* l_[a-z0-9]* = params\.\([a-z0-9]*\) + l .*/float* l_\1 = sharded->weight(l, "\1");/
s/float\* dl_[a-z0-9]* = grads\.\([a-z0-9]*\) + l .*/float* dl_\1 = sharded->gradient(l, "\1");/
/ softmax_forward(acts\.probs/a \    sharded->end_forward();
/ encoder_backward(grads\.wte/a \    sharded->end_backward();
/model->grads_memory = malloc_and_point_parameters/d
s/if (model->grads_memory == NULL)/if (model->grads_acts_memory == NULL)/
s/gpt2_update(&model, \(.*\), step+1);/sharded->update(\1);/
/ gpt2_build_from_checkpoint(&model/a \    ShardedGpt2 trainer(\&model);\n    sharded = \&trainer;
s/int B = \(atoi(.*)\);/int B = sharded->part_of(\1);/
s/dataloader_init(\(&[a-z]*_loader\), \([a-z]*_tokens\), B, T, 0, 1, \([01]\));/dataloader_init(\1, \2, B, T, 0, sharded->size(), \3);\n    sharded->take_part(\1);/
s/^\( *\)float val_loss = 0.0f;/\1const auto evaluation = sharded->evaluation();\n&/
s/^\( *\)printf("generating:/\1const auto evaluation = sharded->evaluation();\n&/
s/val_loss += model.mean_loss;/val_loss += sharded->mean(model.mean_loss);/
s/step, model.mean_loss, time_elapsed_s/step, sharded->mean(model.mean_loss), time_elapsed_s/

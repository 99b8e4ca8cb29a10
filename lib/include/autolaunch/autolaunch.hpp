#pragma once
#include <autolaunch/cxx20.hpp>

// Everything a trainer needs. Usual shorthand: namespace al = autolaunch;
#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/comm/device.hpp>
#include <autolaunch/comm/types.hpp>
#include <autolaunch/data/staged_files.hpp>
#include <autolaunch/data/token_reader.hpp>
#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/activation_checkpoints.hpp>
#include <autolaunch/fsdp/adamw.hpp>
#include <autolaunch/fsdp/grad_scaler.hpp>
#include <autolaunch/fsdp/learning_rate.hpp>
#include <autolaunch/fsdp/lion.hpp>
#include <autolaunch/fsdp/memory_plan.hpp>
#include <autolaunch/fsdp/optimizer.hpp>
#include <autolaunch/fsdp/sgd.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>
#include <autolaunch/fsdp/sharding.hpp>
#include <autolaunch/session.hpp>
#include <autolaunch/session/batch.hpp>
#include <autolaunch/store.hpp>

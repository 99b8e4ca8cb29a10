// configs/quickstart.yaml and gpt2_124m.yaml reach examples/gpt as the launcher passes them on, and
// every key of them is one the trainer reads.
#include "gpt/trainer_config.hpp"
#include "spec/spec.hpp"

#include <doctest/doctest.h>

#include <string>

namespace gpt_quickstart_test {

using namespace autolaunch::launcher;

namespace {

SpecResult load(const std::string& name, const std::vector<std::string>& overrides) {
    SpecRequest request;
    request.file = AUTOLAUNCH_SOURCE_DIR "/configs/" + name;
    request.overrides = overrides;
    request.environment = {{"AUTOLAUNCH_TEXT", "/some/text"}};
    return load_spec(request);
}

}  // namespace

TEST_CASE("quickstart.yaml is understood by the launcher and by the trainer") {
    const auto result = load("quickstart.yaml", {});
    for (const auto& error : result.errors)
        FAIL_CHECK(to_string(error));
    CHECK(result.spec.resources.ranks_per_node == 2);
    CHECK(result.spec.trainer.command == std::vector<std::string>{"gpt"});
    const auto config = gpt::parse_trainer_config(result.spec.trainer_config);
    CHECK(config.dataloader.path == "/some/text");
    CHECK(config.step_scheduler.max_steps == 1000);
    CHECK(config.step_scheduler.checkpoint_every == 200);
    CHECK(config.checkpoint.enabled);
    CHECK(config.checkpoint.directory.empty());  // the run directory's
    CHECK_FALSE(config.fail);
}

TEST_CASE("overrides on the command line reach the trainer with their types") {
    const auto result =
        load("quickstart.yaml", {"trainer.config.fail.rank=1", "trainer.config.fail.step=450",
                                 "distributed.sharding_strategy=no_shard",
                                 "distributed.mixed_precision=no", "step_scheduler.max_steps=20"});
    for (const auto& error : result.errors)
        FAIL_CHECK(to_string(error));
    const auto config = gpt::parse_trainer_config(result.spec.trainer_config);
    REQUIRE(config.fail);
    CHECK(config.fail->rank == 1);
    CHECK(config.fail->step == 450);
    CHECK(config.sharding_strategy == autolaunch::fsdp::ShardingStrategy::no_shard);
    CHECK(config.step_scheduler.max_steps == 20);
}

TEST_CASE("gpt2_124m.yaml is understood by both, and names the preset and the GPU") {
    const auto result = load("gpt2_124m.yaml", {});
    for (const auto& error : result.errors)
        FAIL_CHECK(to_string(error));
    const auto config = gpt::parse_trainer_config(result.spec.trainer_config);
    CHECK(config.model.layers == 12);
    CHECK(config.model.vocabulary == 50304);
    CHECK(config.device == gpt::ComputeDevice::cuda);
    CHECK(config.precision.param == autolaunch::bf16);
    CHECK(config.dataloader.micro_batch == 16);
}

}  // namespace gpt_quickstart_test

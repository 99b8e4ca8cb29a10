// The configuration of examples/gpt: defaults, every key, and messages that name what is wrong.
#include "gpt/cpu_math.hpp"
#include "gpt/presets.hpp"
#include "gpt/throughput.hpp"
#include "gpt/trainer_config.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <csignal>
#include <stdexcept>
#include <string>

namespace gpt_config_test {

using namespace gpt;
using autolaunch::fsdp::ShardingStrategy;

namespace {

std::string error_of(const std::string& json) {
    try {
        parse_trainer_config(json);
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "no error";
}

}  // namespace

TEST_CASE("nothing given: the defaults, no checkpoints, no fault") {
    const auto config = parse_trainer_config("{}");
    CHECK(config.model == ModelConfig{});
    CHECK(config.sharding_strategy == ShardingStrategy::full_shard);
    CHECK_FALSE(config.checkpoint.enabled);
    CHECK_FALSE(config.checkpoint.pass_over_unusable);
    CHECK_FALSE(config.fail);
    CHECK(config.device == ComputeDevice::automatic);
    CHECK(parse_trainer_config(R"({"trainer": {"config": {"device": "cpu"}}})").device ==
          ComputeDevice::cpu);
}

TEST_CASE("every key is read") {
    const auto config = parse_trainer_config(R"({
        "model": {"layers": 2, "heads": 8, "width": 64, "context": 32},
        "dataloader": {"path": "/some/text", "global_batch": 6},
        "optimizer": {"lr": 0.01, "min_lr": 0.002, "beta1": 0.8, "beta2": 0.95, "weight_decay": 0, "max_grad_norm": 2},
        "step_scheduler": {"max_steps": 30, "warmup_steps": 4, "checkpoint_every": 7, "log_every": 3},
        "checkpoint": {"enabled": true, "checkpoint_dir": "/some/where", "keep": 5, "pass_over_unusable": true, "model_save_format": "safetensors"},
        "distributed": {"sharding_strategy": "HYBRID_SHARD", "shard_group": 2, "mixed_precision": "bf16", "backend": "shm"},
        "trainer": {"config": {"seed": 9, "sample_bytes": 10, "temperature": 0.5,
                               "fail": {"rank": 1, "step": 12, "signal": "SIGABRT"}}}})");
    CHECK(config.model == ModelConfig{2, 8, 64, 32});
    CHECK(config.dataloader.path == "/some/text");
    CHECK(config.dataloader.global_batch == 6);
    CHECK(config.optimizer.lr == 0.01);
    CHECK(config.optimizer.min_lr == 0.002);
    CHECK(config.optimizer.beta1 == 0.8);
    CHECK(config.optimizer.beta2 == 0.95);
    CHECK(config.optimizer.weight_decay == 0);
    CHECK(config.optimizer.max_grad_norm == 2);
    CHECK(config.step_scheduler.max_steps == 30);
    CHECK(config.step_scheduler.warmup_steps == 4);
    CHECK(config.step_scheduler.checkpoint_every == 7);
    CHECK(config.step_scheduler.log_every == 3);
    CHECK(config.checkpoint.enabled);
    CHECK(config.checkpoint.directory == "/some/where");
    CHECK(config.checkpoint.keep == 5);
    CHECK(config.checkpoint.pass_over_unusable);
    CHECK(config.sharding_strategy == ShardingStrategy::hybrid_shard);
    CHECK(config.shard_group == 2);
    CHECK(config.precision.param == autolaunch::bf16);
    CHECK(config.precision.master == autolaunch::f32);
    CHECK(config.seed == 9);
    CHECK(config.sample_bytes == 10);
    CHECK(config.temperature == 0.5);
    REQUIRE(config.fail);
    CHECK(config.fail->rank == 1);
    CHECK(config.fail->step == 12);
    CHECK(config.fail->signal == SIGABRT);
}

TEST_CASE("the newer keys: vocabulary, tied head, micro-batches, evaluation, device, precision") {
    const auto config = parse_trainer_config(R"({
        "model": {"vocabulary": 300, "tied_head": true}, "dataloader": {"micro_batch": 2},
        "step_scheduler": {"evaluate_every": 5}, "distributed": {"mixed_precision": "fp16"},
        "trainer": {"config": {"device": "cuda", "precision": {"reduce": "f32", "master": "f16"}}}})");
    CHECK(config.model.vocabulary == 300);
    CHECK(config.model.tied_head);
    CHECK(config.dataloader.micro_batch == 2);
    CHECK(config.step_scheduler.evaluate_every == 5);
    CHECK(config.device == ComputeDevice::cuda);
    CHECK(config.precision.param == autolaunch::f16);
    CHECK(config.precision.reduce == autolaunch::f32);
    CHECK(config.precision.accumulate == autolaunch::f32);
    CHECK(config.precision.master == autolaunch::f16);
    CHECK(error_of(R"({"model": {"vocabulary": 255}})") ==
          "configuration: model.vocabulary must be at least 256");
    CHECK(error_of(R"({"trainer": {"config": {"device": "tpu"}}})") ==
          "configuration: trainer.config.device must be auto, cpu or cuda, not tpu");
    CHECK(error_of(R"({"trainer": {"config": {"precision": {"param": "f64"}}}})") ==
          "configuration: trainer.config.precision.param must be f32, bf16 or f16, not f64");
}

namespace {

std::int64_t parameter_count(const ModelConfig& config) {
    std::int64_t count = 0;
    for (const auto& unit : unit_shapes(config)) {
        for (const auto& tensor : unit.tensors)
            count += tensor.element_count();
    }
    return count;
}

}  // namespace

TEST_CASE("presets: their sizes, and what the configuration says beside them counts") {
    CHECK(parameter_count(find_preset("tiny")->model) == 136'960);
    CHECK(parameter_count(find_preset("small")->model) == 875'264);
    CHECK(parameter_count(find_preset("gpt2-124m")->model) == 124'475'904);
    CHECK(find_preset("small")->model == ModelConfig{});
    CHECK(find_preset("large") == nullptr);
    const auto config = parse_trainer_config(R"({"model": {"preset": "gpt2-124m", "layers": 3}})");
    CHECK(config.model.layers == 3);
    CHECK(config.model.width == 768);
    CHECK(config.optimizer.lr == 6e-4);
    CHECK(config.optimizer.min_lr == doctest::Approx(6e-5));
    CHECK(parse_trainer_config(R"({"model": {"preset": "small"}})", "tiny").model.layers == 2);
    CHECK(error_of(R"({"model": {"preset": "large"}})") ==
          "configuration: model.preset must be one of tiny, small, gpt2-124m, not large");
}

TEST_CASE("arithmetic a token: PaLM's formula, by hand for GPT-2's size") {
    // 12 layers of 12 x 768² multiplied weights and the head's 768 x 50304; attention 12 L H Q T.
    const double multiplied = 12.0 * 12 * 768 * 768 + 768.0 * 50304;
    CHECK(flops_per_token(find_preset("gpt2-124m")->model) ==
          doctest::Approx(6 * multiplied + 12.0 * 12 * 768 * 1024));
    ThreadPool pool(1);
    CpuMath<float> math(pool);
    const Peak peak = peak_flops(math);
    CHECK(peak.source == "measured");
    CHECK(peak.per_second > 1e8);
}

TEST_CASE(
    "checkpoint.every_steps wins over the scheduler's; enabled may turn a given section off") {
    const auto config = parse_trainer_config(
        R"({"step_scheduler": {"checkpoint_every": 7}, "checkpoint": {"enabled": false, "every_steps": 3}})");
    CHECK(config.step_scheduler.checkpoint_every == 3);
    CHECK_FALSE(config.checkpoint.enabled);
}

TEST_CASE("an unknown key is named with what there is instead") {
    CHECK(error_of(R"({"model": {"layer": 2}})") ==
          "configuration: model.layer is not known; model may have preset, layers, heads, width, "
          "context, "
          "vocabulary, tied_head");
    CHECK(error_of(R"({"optimiser": {}})").find("configuration: optimiser is no section") == 0);
    CHECK(error_of(R"({"trainer": {"config": {"sede": 1}}})").find("trainer.config.sede") !=
          std::string::npos);
    CHECK(error_of(R"({"trainer": {"config": {"fail": {"ranks": 1}}}})").find("fail.ranks") !=
          std::string::npos);
}

TEST_CASE("a value of the wrong type or out of range is named") {
    CHECK(error_of(R"({"model": {"layers": "two"}})") ==
          "configuration: model.layers must be a whole number");
    CHECK(error_of(R"({"model": {"layers": 0}})") ==
          "configuration: model.layers must be at least 1");
    CHECK(error_of(R"({"model": {"layers": 2.5}})") ==
          "configuration: model.layers must be a whole number");
    CHECK(error_of(R"({"model": {"width": 10}})") ==
          "configuration: model.width must be a multiple of model.heads");
    CHECK(error_of(R"({"model": 3})") == "configuration: model must be a mapping");
    CHECK(error_of(R"({"checkpoint": {"enabled": "yes"}})") ==
          "configuration: checkpoint.enabled must be true or false");
    CHECK(error_of(R"({"distributed": {"sharding_strategy": "zero"}})").find("not zero") !=
          std::string::npos);
    CHECK(error_of(R"({"distributed": {"mixed_precision": "fp8"}})").find("mixed_precision") !=
          std::string::npos);
    CHECK(
        error_of(R"({"trainer": {"config": {"fail": {"signal": "SIGX"}}}})").find("fail.signal") !=
        std::string::npos);
    CHECK(error_of("[]") == "configuration: must be a JSON object");
    CHECK(error_of("{").find("configuration: not JSON") == 0);
    const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
    CHECK(error_of("{\"model\": " + deep + "}") == "configuration: nested too deeply");
}

TEST_CASE("learning rate: linear warm-up, then half a cosine to min_lr") {
    const auto config = parse_trainer_config(
        R"({"optimizer": {"lr": 1, "min_lr": 0.2}, "step_scheduler": {"max_steps": 110, "warmup_steps": 10}})");
    CHECK(learning_rate(config, 1) == doctest::Approx(0.1));
    CHECK(learning_rate(config, 10) == doctest::Approx(1));
    CHECK(learning_rate(config, 60) == doctest::Approx(0.6));
    CHECK(learning_rate(config, 110) == doctest::Approx(0.2));
    CHECK(learning_rate(config, 500) == doctest::Approx(0.2));
    const auto without =
        parse_trainer_config(R"({"step_scheduler": {"max_steps": 5, "warmup_steps": 0}})");
    CHECK(std::isfinite(learning_rate(without, 1)));
}

}  // namespace gpt_config_test

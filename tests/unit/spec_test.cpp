// What a spec means: sections, types, ${VAR}, includes, overrides, and the errors with their
// positions.

#include "spec/spec.hpp"

#include "spec/checkpoint_words.hpp"
#include "spec/schema.hpp"
#include "spec/units.hpp"
#include "spec_files.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace spec_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

json config_of(const SpecResult& result) { return json::parse(result.spec.trainer_config); }

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("what checkpoint says of other keys of its own") {
    const auto lines = [](const std::string& text) { return lines_of(load_text(text)); };
    CHECK(lines("checkpoint: {checkpoint_dir: a, every: 500, drain: b, drain_keep: 3}").empty());
    CHECK(lines("checkpoint: {every: 10m, keep_best: 2, better: higher}").empty());
    CHECK(lines("checkpoint: {node_local: true, drain: s3://b/p, drain_wait: 0}").empty());
    const auto is = [&](const std::string& text, const std::string& error) {
        const auto found = lines(text);
        REQUIRE_MESSAGE(found.size() == 1, text);
        CHECK_MESSAGE(found[0].starts_with(error), found[0]);
    };
    for (const char* wrong : {"soon", "0", "-3", "0s", "1.5 steps", "Optimal"})
        is(std::string("checkpoint: {every: \"") + wrong + "\"}",
           "t.yaml:1:21: checkpoint.every: expected steps (500), a time (10m, 1h) or optimal");
    is("checkpoint: {every: 5, every_steps: 5}", "t.yaml:1:21: checkpoint.every: every_steps says");
    is("checkpoint: {drain_keep: 2}", "t.yaml:1:26: checkpoint.drain_keep: there is no");
    is("checkpoint: {node_local: true}", "t.yaml:1:26: checkpoint.node_local: a node that is lost");
    is("checkpoint: {drain: s3://}", "t.yaml:1:21: checkpoint.drain: expected s3://BUCKET/PREFIX");
    is("checkpoint: {restore_from: gs://b}",
       "t.yaml:1:28: checkpoint.restore_from: expected a directory or s3://");
    is("checkpoint: {drain: gs://b}", "t.yaml:1:21: checkpoint.drain: expected a directory or");
    is("checkpoint: {checkpoint_dir: a/, drain: ./a}",
       "t.yaml:1:41: checkpoint.drain: is checkpoint_dir");
    CHECK(
        lines(
            "checkpoint: {checkpoint_dir: a, drain_wait: 5m, node_local: true, tiers: [{place: b, "
            "every: 500, keep: 3, bandwidth: 500MB}, {place: 's3://c/d', every: 2h, keep_best: "
            "1}]}")
            .empty());
    is("checkpoint: {drain: b, tiers: [{place: c}]}",
       "t.yaml:1:31: checkpoint.tiers: checkpoint.drain says where checkpoints go, too: name b in "
       "checkpoint.tiers and remove checkpoint.drain");
    is("checkpoint: {drain_keep: 2, tiers: [{place: c}]}",
       "t.yaml:1:26: checkpoint.drain_keep: each entry of checkpoint.tiers has its own keep");
    is("checkpoint: {tiers: [{place: gs://c}]}",
       "t.yaml:1:30: checkpoint.tiers[0].place: expected a directory or s3://BUCKET/PREFIX");
    is("checkpoint: {tiers: [{place: c}, {place: ./c/}]}",
       "t.yaml:1:34: checkpoint.tiers[1].place: ./c/ is in the list already");
    is("checkpoint: {checkpoint_dir: c, tiers: [{place: c}]}",
       "t.yaml:1:40: checkpoint.tiers: c is checkpoint_dir");
    is("checkpoint: {tiers: [{every: 5}]}", "t.yaml:1:22: checkpoint.tiers[0]: says not place");
    is("checkpoint: {tiers: [{place: c, every: optimal}]}",
       "t.yaml:1:40: checkpoint.tiers[0].every: expected steps (500) or a time (30m, 2h)");
    is("checkpoint: {tiers: [{place: c, keep: 0}]}",
       "t.yaml:1:39: checkpoint.tiers[0].keep: expected a whole number >= 1; found");
    is("checkpoint: {tiers: [{place: c, bandwidth: fast}]}",
       "t.yaml:1:44: checkpoint.tiers[0].bandwidth: expected bytes a second, such as 500MB; found");
    is("checkpoint: {tiers: [{place: c, keeps: 1}]}",
       "t.yaml:1:33: checkpoint.tiers[0].keeps: unknown key; did you mean \"keep\"?");
    is("checkpoint: {tiers: c}", "t.yaml:1:21: checkpoint.tiers: expected a list of {place:");
    for (const char* good : {"auto", "{count: 8, size: 4MiB}", "{count: all}", "{size: 1MiB}"})
        CHECK_MESSAGE(lines(std::string("checkpoint: {stripe: ") + good + "}").empty(), good);
    is("checkpoint: {stripe: wide}", "t.yaml:1:22: checkpoint.stripe: expected auto, or {count: 8");
    is("checkpoint: {stripe: {}}", "t.yaml:1:22: checkpoint.stripe: says neither count nor size");
    is("checkpoint: {stripe: {count: 0}}",
       "t.yaml:1:30: checkpoint.stripe.count: expected a number from 1 to 2000, or all; found");
    is("checkpoint: {stripe: {size: 3MB}}",
       "t.yaml:1:29: checkpoint.stripe.size: expected a power of two from 64KiB to 2GiB");
    is("checkpoint: {better: sideways}", "t.yaml:1:22: checkpoint.better: expected");
}

TEST_CASE("how often checkpoints are saved") {
    CHECK(save_interval_from("500") == SaveInterval{.steps = 500});
    CHECK(save_interval_from("1h30m") == SaveInterval{.time = std::chrono::minutes(90)});
    CHECK(save_interval_from("optimal") == SaveInterval{.optimal = true});
    CHECK(!save_interval_from(""));
}

TEST_CASE("every section is read into its place") {
    const auto result = load_text(R"(
trainer:
  command: [python, train.py, --steps, 100]
  workdir: /data
  env: {DEBUG: true, EMPTY: , N: 3}
distributed: {sharding_strategy: FULL_SHARD, mixed_precision: no, backend: nccl}
resource_management:
  nodes: 2
  gpus_per_node: 8
  ranks_per_node: gpu
  memory_per_gpu: 80GB
  cpu_cores_per_gpu: 12
  binding: core-complex
nccl: {manage: off, env: {NCCL_DEBUG: INFO}}
rendezvous: {timeout: 2m, lost_after: 3s, secret_file: key, preflight: yes, address: 10.0.0.1, port: 29500}
slurm_config: {job_name: gpt, partition: gpu, time_limit: 1:30:00, account: 0123, nodes: 2, requeue: true,
               extra_args: [--exclusive, "--comment=a b"]}
checkpoint: {enabled: true, checkpoint_dir: ckpt, every_steps: 100, keep: 3, save_consolidated: false}
monitoring: {log_path: logs, slurm_integration: true, resource_tracking: true, interval_seconds: 0.5}
restart: {max_restarts: 3, grace_period: 500ms, backoff: 1.5, on: {network: {budget: 4, window: 2 per 6h, delay: 10s, backoff: 2}, gpu: {action: requeue}}}
logging: {console: stderr, local_ranks_filter: [0, 3], fold: false, quiet: true}
)");
    REQUIRE(lines_of(result) == std::vector<std::string>{});
    const JobSpec& spec = result.spec;
    CHECK(spec.trainer.command == std::vector<std::string>{"python", "train.py", "--steps", "100"});
    CHECK(spec.trainer.workdir == "/data");
    CHECK(spec.trainer.env ==
          std::map<std::string, std::string>{{"DEBUG", "true"}, {"EMPTY", ""}, {"N", "3"}});
    CHECK(spec.distributed.sharding_strategy == "full_shard");
    CHECK(spec.distributed.mixed_precision == "no");
    CHECK(spec.resources.nodes == 2);
    CHECK(spec.resources.gpus_per_node == 8);
    CHECK(spec.resources.ranks_mode == RanksPerNode::gpu);
    CHECK(spec.resources.memory_per_gpu_bytes == 80'000'000'000);
    CHECK(spec.resources.binding == "core-complex");
    CHECK_FALSE(spec.nccl.manage);
    CHECK(spec.nccl.env.at("NCCL_DEBUG") == "INFO");
    CHECK(spec.rendezvous.timeout == 2min);
    CHECK(spec.rendezvous.lost_after == 3s);
    CHECK(spec.rendezvous.preflight == Preflight::stop);
    CHECK(spec.rendezvous.port == 29500);
    CHECK(spec.slurm.time_limit == "1:30:00");
    CHECK(spec.slurm.account == "0123");
    CHECK(spec.slurm.requeue == true);
    CHECK_FALSE(spec.slurm.exclusive.has_value());
    CHECK(spec.slurm.extra_args == std::vector<std::string>{"--exclusive", "--comment=a b"});
    CHECK(spec.checkpoint.enabled);
    CHECK(spec.checkpoint.every_steps == 100);
    CHECK(spec.checkpoint.save_consolidated == false);
    CHECK(spec.monitoring.interval_seconds == 0.5);
    CHECK(spec.restart.max_restarts == 3);
    CHECK(spec.restart.on ==
          RestartRules{
              {Cause::network,
               {4, WindowLimit{2, std::chrono::hours(6)}, std::chrono::seconds(10), 2.0, {}}},
              {Cause::gpu, {{}, {}, {}, {}, RestartAction::requeue}}});
    CHECK(spec.restart.grace_period == 500ms);
    CHECK(spec.restart.backoff == 1500ms);
    CHECK(spec.logging.console_default == StdStreams::err);
    CHECK(spec.logging.local_ranks_filter == std::vector<int>{0, 3});
    CHECK_FALSE(spec.logging.fold);
    CHECK(spec.logging.prefix);
}

TEST_CASE("what restart.on cannot mean is said, each with its place") {
    const auto line = [](const std::string& rules) {
        return only_line(load_text("restart: {on: {" + rules + "}}\n"));
    };
    CHECK(contains(line("netwrok: {budget: 1}"),
                   "t.yaml:1:16: restart.on.netwrok: is no cause; did you mean \"network\"?"));
    CHECK(contains(line("gpu: {budgt: 1}"), "unknown key; did you mean \"budget\"?"));
    CHECK(contains(line("gpu: {budget: -1}"), "expected a whole number >= 0"));
    CHECK(contains(line("gpu: {window: 3}"), "such as 3 per 6h"));
    CHECK(contains(line("gpu: {delay: soon}"), "expected a duration"));
    CHECK(contains(line("gpu: {backoff: 0.5}"), "expected a number from 1 to 100"));
    CHECK(contains(line("gpu: {action: hope}"),
                   "expected restart, restart_elsewhere, requeue or stop"));
    CHECK(contains(line("node_lost: {action: restart}"), "requeue or stop"));
    CHECK(contains(line("cancelled: {action: requeue}"), "wants it stopped"));
    CHECK(contains(line("gpu: 3"), "expected a mapping"));
}

TEST_CASE("a shell line, a module and a number of ranks") {
    const auto line = load_text(
        "trainer: {command: 'python train.py | tee x'}\nresource_management: {ranks_per_node: 4}");
    REQUIRE(line.errors.empty());
    CHECK(line.spec.trainer.command ==
          std::vector<std::string>{"/bin/sh", "-c", "python train.py | tee x"});
    CHECK(line.spec.resources.ranks_mode == RanksPerNode::fixed);
    CHECK(line.spec.resources.ranks_per_node == 4);
    const auto module = load_text("trainer: {module: pkg.train, command: [--lr, 1e-4]}");
    REQUIRE(module.errors.empty());
    CHECK(module.spec.trainer.module == "pkg.train");
    CHECK(module.spec.trainer.command == std::vector<std::string>{"--lr", "1e-4"});
    CHECK(contains(only_line(load_text("trainer: {module: a, command: --lr 1}")),
                   "arguments of trainer.module"));
}

TEST_CASE("the defaults of the table are those of JobSpec") {
    std::string text;
    for (const auto& section : sections()) {
        text += std::string(section.name) + ":\n";
        for (const auto& key : section.keys)
            if (!key.default_value.empty())
                text += "  " + std::string(key.name) + ": " + std::string(key.default_value) + "\n";
    }
    const auto result = load_text(text);
    REQUIRE(lines_of(result) == std::vector<std::string>{});
    const JobSpec& read = result.spec;
    const JobSpec fresh;
    CHECK(read.resources.nodes == fresh.resources.nodes);
    CHECK(read.resources.ranks_mode == fresh.resources.ranks_mode);
    CHECK(read.resources.binding == fresh.resources.binding);
    CHECK(read.nccl.manage == fresh.nccl.manage);
    CHECK(read.nccl.profile == fresh.nccl.profile);
    CHECK(read.rendezvous.timeout == fresh.rendezvous.timeout);
    CHECK(read.rendezvous.lost_after == fresh.rendezvous.lost_after);
    CHECK(read.rendezvous.preflight == fresh.rendezvous.preflight);
    CHECK(read.rendezvous.port == fresh.rendezvous.port);
    CHECK(read.checkpoint.enabled == fresh.checkpoint.enabled);
    CHECK(read.monitoring.slurm_integration == fresh.monitoring.slurm_integration);
    CHECK(read.restart.max_restarts == fresh.restart.max_restarts);
    CHECK(read.restart.grace_period == fresh.restart.grace_period);
    CHECK(read.restart.backoff == fresh.restart.backoff);
    CHECK(read.logging.console_default == fresh.logging.console_default);
    CHECK(read.logging.fold == fresh.logging.fold);
    CHECK(read.logging.prefix == fresh.logging.prefix);
    CHECK(read.logging.progress == fresh.logging.progress);
    CHECK(read.logging.quiet == fresh.logging.quiet);
}

TEST_CASE(
    "unknown and mistyped keys are all reported, with position, nearest key and expectation") {
    const auto result = load_text(
        "restart:\n"
        "  max_restart: 3\n"
        "  grace_period: soon\n"
        "resource_management:\n"
        "  nodes: 0\n"
        "  ranks_per_node: \"4\"\n"
        "  colour: red\n"
        "resource_managment: {}\n"
        "nccl: [1]\n"
        "trainer:\n"
        "  command: []\n");
    CHECK(lines_of(result) ==
          std::vector<std::string>{
              "t.yaml:2:3: restart.max_restart: unknown key; did you mean \"max_restarts\"? "
              "(expects a whole number >= 0)",
              "t.yaml:3:17: restart.grace_period: expected a duration such as 15s, 500ms, 2m, 1h, "
              "or a number of "
              "seconds; found \"soon\"",
              "t.yaml:5:10: resource_management.nodes: expected a whole number >= 1, or {min: M, "
              "max: N, spares: S, group: G}; found \"0\"",
              "t.yaml:6:19: resource_management.ranks_per_node: expected auto, cpu, gpu or a whole "
              "number >= 1; found "
              "\"4\" in quotes",
              "t.yaml:7:3: resource_management.colour: unknown key; resource_management has nodes, "
              "grow, "
              "gpus_per_node, "
              "ranks_per_node, memory_per_gpu, cpu_cores_per_gpu, binding, gpu_scheduling, "
              "memory_management, storage_management",
              "t.yaml:8:1: resource_managment: unknown section; did you mean "
              "\"resource_management\"? (the trainer's own "
              "settings belong in trainer.config, or in a section with a _target_)",
              "t.yaml:9:7: nccl: expected a mapping with manage, profile, env; found a list",
              "t.yaml:11:12: trainer.command: names no program; expected a list of strings, or one "
              "shell line"});
}

TEST_CASE("preflight is a boolean, or warn") {
    const auto read = [](const std::string& value) {
        return load_text("rendezvous: {preflight: " + value + "}").spec.rendezvous.preflight;
    };
    CHECK(read("warn") == Preflight::warn);
    CHECK(read("'warn'") == Preflight::warn);
    CHECK(read("false") == Preflight::off);
    CHECK(read("true") == Preflight::stop);
    CHECK(load_text("rendezvous: {preflight: true}", {"rendezvous.preflight=warn"})
              .spec.rendezvous.preflight == Preflight::warn);
    CHECK(contains(only_line(load_text("rendezvous: {preflight: warm}")),
                   "expected true, false or warn; found"));
}

TEST_CASE("the size of a model") {
    const auto sized = load_text(
        "model_size: {parameters: 124M, layers: 12, hidden: 768, vocabulary: 50_257, optimizer: "
        "Lion,\n"
        "  offload_optimizer: true, deterministic: yes, micro_batches: 8}\n"
        "model: {layers: [a, b]}\n");
    REQUIRE(lines_of(sized) == std::vector<std::string>{});
    CHECK(sized.spec.model_size.parameters == 124'000'000);
    CHECK(sized.spec.model_size.layers == 12);
    CHECK(sized.spec.model_size.hidden == 768);
    CHECK(sized.spec.model_size.vocabulary == 50'257);
    CHECK(sized.spec.model_size.optimizer == "lion");
    CHECK(sized.spec.model_size.offload_optimizer);
    CHECK(sized.spec.model_size.deterministic);
    CHECK(sized.spec.model_size.micro_batches == 8);
    CHECK(contains(only_line(load_text("model_size: {parameters: 1M, micro_batches: 0}")),
                   "model_size.micro_batches"));
    CHECK(contains(only_line(load_text("model_size: {parameters: 1M, offload: true}")),
                   "offload_optimizer"));
    CHECK_FALSE(config_of(sized).contains("model_size"));
    CHECK(lines_of(load_text("model_size:\n")) == std::vector<std::string>{});
    CHECK(only_line(load_text("model_size: {layers: 2}")) ==
          "t.yaml:1:1: model_size: needs parameters, the number of them in the whole model");
    CHECK(only_line(load_text("model_size: {parameters: 124Q}")) ==
          "t.yaml:1:26: model_size.parameters: expected a number such as 124M, 7B or "
          "6_738_415_616; found \"124Q\"");
    CHECK(only_line(load_text("model_size: {parameters: 1M, hidden: 2000, vocabulary: 1000}")) ==
          "t.yaml:1:26: model_size.parameters: is less than vocabulary x hidden, the embedding's "
          "2000000");
    CHECK(contains(only_line(load_text("model_size: {parameters: 1M, optimizer: adam}")),
                   "adamw, lion, sgd or none"));
}

TEST_CASE("binding is a word, or a list with an entry a local rank") {
    const auto list = [](const std::string& value) {
        return load_text("resource_management: {binding: " + value + "}")
            .spec.resources.binding_list;
    };
    CHECK(list("node").empty());
    CHECK(list("[\"0-7,64-71\", numa:1, core:0-3, 5]") ==
          std::vector<std::string>{"0-7,64-71", "numa:1", "core:0-3", "5"});
    const auto result =
        load_text("resource_management:\n  binding: [0-3, near, 'numa:', 7-, {a: 1}]\n");
    REQUIRE(result.errors.size() == 4);
    CHECK(lines_of(result)[0] ==
          "t.yaml:2:18: resource_management.binding[1]: expected CPUs (\"0-7,64-71\"), NUMA nodes "
          "(numa:1) or cores "
          "(core:0-3); found \"near\"");
    CHECK(
        contains(only_line(load_text("resource_management: {binding: []}")), "or a list such as"));
    const auto overridden = load_text("resource_management: {binding: [numa:0]}",
                                      {"resource_management.binding=exclusive"})
                                .spec.resources;
    CHECK(overridden.binding == "exclusive");
    CHECK(overridden.binding_list.empty());
}

TEST_CASE("a duration has its least value") {
    CHECK(load_text("rendezvous: {lost_after: 1s}").errors.empty());
    CHECK(contains(only_line(load_text("rendezvous: {lost_after: 999ms}")), "at least 1s; found"));
}

// 0 would be taken for nothing said, which is the contrary of what was meant.
TEST_CASE("what staging keeps and moves is more than nothing") {
    CHECK(load_text("storage: {keep: 1s, limit: 1, throttle: 1B, scratch: x}").errors.empty());
    CHECK(contains(only_line(load_text("storage: {keep: 0}")), "at least 1s; found \"0\""));
    CHECK(contains(only_line(load_text("storage: {limit: 0}")), "at least 1; found \"0\""));
    CHECK(contains(only_line(load_text("storage: {throttle: 0GB}")), "at least 1; found"));
    CHECK(contains(only_line(load_text("storage: {scratch: ''}")), "1:20: storage.scratch: is "));
}

TEST_CASE("paths are read as they are written, and said where a shell would not") {
    CHECK(load_text("storage: {scratch: ./~, stage_in: [{from: a$b, as: x}]}").errors.empty());
    CHECK(load_text("monitoring: {log_path: ~}\ntrainer: {workdir: ~}").errors.empty());
    const auto says = [](const std::string& text, const std::string& what) {
        CHECK_MESSAGE(contains(only_line(load_text(text)), what), text);
    };
    says("trainer: {workdir: ~/x}",
         "trainer.workdir: ~/x is no path: no shell reads it; write ${HOME}/x, or ./~/x for");
    says("storage: {scratch: $TMP}",
         "storage.scratch: $TMP is no path: no shell reads it; write "
         "${TMP}");
    says("storage: {scratch: 's3://b/'}", "storage.scratch: s3://b/ is no folder or file of this");
    says("storage: {stage_in: [{from: ~/d, as: x}]}", "1:29: storage.stage_in[0].from: ~/d is no");
    says("storage: {stage_out: [{from: r, to: $W_1/x}]}",
         "stage_out[0].to: $W_1/x is no path: no "
         "shell reads it; write ${W_1}/x");
    says("checkpoint: {tiers: [{place: ~/t}]}", "checkpoint.tiers[0].place: ~/t is no path");
    says("checkpoint: {restore_from: $OLD/c}", "checkpoint.restore_from: $OLD/c is no path");
}

TEST_CASE("sections of later versions are named as not yet supported") {
    const auto lines = lines_of(load_text("monitor: {tier: x}\nsubmit: {}\n"));
    REQUIRE(lines.size() == 2);
    CHECK(contains(lines[0], "t.yaml:1:1: monitor: this section is not yet supported"));
    CHECK(contains(lines[1], "t.yaml:2:1: submit: this section is not yet supported"));
}

TEST_CASE("what is the trainer's reaches it untouched, with its types") {
    const auto result = load_text(R"(
model:
  _target_: pkg.GPT
  layers: 12
  lr: 1e-4
  beta: .5
  one: 1.0
  big: 18446744073709551615
  grouped: 1_000_000
  hex: 0x1F
  octal: 0o17
  version: 1.2.3
  time: 12:30:00
  yes_word: yes
  quoted: "12"
  tagged: !!str 12
  as_float: !!float 3
  nothing: ~
  word: null_hypothesis
  dashed: 1-2
  nested: [1, [true, Off], {a: null}]
optimizer: {}
trainer: {command: [x], config: {epochs: 3}}
distributed: {backend: nccl, mixed_precision: no}
checkpoint: {enabled: true}
callbacks: [{_target_: a.B, every: 2}]
restart: {max_restarts: 1}
)");
    REQUIRE(lines_of(result) == std::vector<std::string>{});
    const json expected = json::parse(R"({
        "model": {"_target_": "pkg.GPT", "layers": 12, "lr": 1e-4, "beta": 0.5, "one": 1.0, "big": 18446744073709551615,
                  "grouped": 1000000, "hex": 31, "octal": 15, "version": "1.2.3", "time": "12:30:00", "yes_word": true,
                  "quoted": "12", "tagged": "12", "as_float": 3.0, "nothing": null, "word": "null_hypothesis",
                  "dashed": "1-2", "nested": [1, [true, false], {"a": null}]},
        "optimizer": {}, "trainer": {"config": {"epochs": 3}},
        "distributed": {"backend": "nccl", "mixed_precision": "no"}, "checkpoint": {"enabled": true},
        "callbacks": [{"_target_": "a.B", "every": 2}]})");
    CHECK(config_of(result) == expected);
    CHECK(config_of(result)["model"]["one"].is_number_float());
    CHECK(config_of(result)["model"]["lr"].is_number_float());
    CHECK(config_of(result)["model"]["layers"].is_number_integer());
}

TEST_CASE("a _target_ frees its mapping from our table, and known keys are still read") {
    const auto result = load_text(
        "distributed: {_target_: pkg.FSDP, backend: gloo, tp_size: 2}\n"
        "restart: {max_restarts: 2, policy: {_target_: pkg.Policy}}\n");
    REQUIRE(lines_of(result) == std::vector<std::string>{});
    CHECK(result.spec.distributed.backend == "gloo");
    CHECK(result.spec.restart.max_restarts == 2);
    CHECK(config_of(result) ==
          json::parse(R"({"distributed": {"_target_": "pkg.FSDP", "backend": "gloo", "tp_size": 2},
                                               "restart": {"policy": {"_target_": "pkg.Policy"}}})"));
    CHECK(contains(only_line(load_text("distributed: {_target_: x, backend: [a]}")),
                   "distributed.backend: expected text"));
    CHECK(contains(only_line(load_text("trainer: {comand: [a], config: {_target_: x}}")),
                   "did you mean \"command\"?"));
}

TEST_CASE("a text key's value reaches the trainer with its type, and its words as written") {
    const auto distributed = [](const std::string& word) {
        const auto result = load_text("distributed: {mixed_precision: " + word + "}");
        REQUIRE(lines_of(result) == std::vector<std::string>{});
        return config_of(result)["distributed"]["mixed_precision"];
    };
    CHECK(distributed("true") == true);
    CHECK(distributed("False") == false);
    CHECK(distributed("8") == 8);
    CHECK(distributed("1.5") == 1.5);
    CHECK(distributed("1e-4") == 1e-4);
    for (const char* word : {"bf16", "no", "yes", "on", "off", "Off", "007", "1_000", "0x1F", "+1",
                             ".5", "1.", "1.2.3", "2026-01-31"})
        CHECK_MESSAGE(distributed(word) == word, word);
    for (const char* word : {"true", "no", "8", "null", ""})
        CHECK_MESSAGE(distributed('"' + std::string(word) + '"') == word, word);
    CHECK(distributed("~").is_null());
    CHECK(distributed("!!str true") == "true");
    CHECK(distributed("!!bool 'true'") == true);

    const auto target = load_text(
        "distributed: {_target_: x, mixed_precision: true, flag: no, list: [true, \"true\", {a: "
        "~}]}\ncheckpoint: {restore_from: false, checkpoint_dir: 2024_01}\n",
        {"distributed.backend=false", "distributed.other=yes", "distributed.word=\"yes\""});
    REQUIRE(lines_of(target) == std::vector<std::string>{});
    CHECK(config_of(target)["distributed"] ==
          json::parse(R"({"_target_": "x", "mixed_precision": true, "flag": false,
                          "list": [true, "true", {"a": null}], "backend": false, "other": true,
                          "word": "yes"})"));
    CHECK(config_of(target)["checkpoint"] ==
          json::parse(R"({"restore_from": false, "checkpoint_dir": "2024_01"})"));
}

TEST_CASE("a variable in quotes has the type of its key, for the trainer too") {
    const auto result = load_text(
        "checkpoint: {enabled: \"${ON}\", every_steps: \"${N}\", checkpoint_dir: \"${N}\"}\n"
        "distributed: {mixed_precision: \"${ON}\"}\nmodel: {flag: \"${ON}\"}\n",
        {}, {{"ON", "false"}, {"N", "20"}});
    REQUIRE(lines_of(result) == std::vector<std::string>{});
    CHECK(config_of(result) == json::parse(R"({"checkpoint": {"enabled": false, "every_steps": 20,
                          "checkpoint_dir": "20"}, "distributed": {"mixed_precision": "false"},
                          "model": {"flag": "false"}})"));
}

TEST_CASE("the environment and the arguments of ranks are text as written") {
    const auto result = load_text(
        "trainer:\n  env: {A: true, B: 1_000, C: no, D: 1e-4, E: ~, F: 0x1F}\n"
        "  command: [x, true, 1_000, 1e-4, no]\n");
    REQUIRE(lines_of(result) == std::vector<std::string>{});
    CHECK(result.spec.trainer.env ==
          std::map<std::string, std::string>{
              {"A", "true"}, {"B", "1_000"}, {"C", "no"}, {"D", "1e-4"}, {"E", ""}, {"F", "0x1F"}});
    CHECK(result.spec.trainer.command ==
          std::vector<std::string>{"x", "true", "1_000", "1e-4", "no"});
}

TEST_CASE("escapes that the parser writes as one byte arrive as UTF-8") {
    const auto result = load_text(R"(trainer: {config: {"a\_b": "x\_y\Nz\L\e[31m\xe9"}})");
    REQUIRE(lines_of(result) == std::vector<std::string>{});
    CHECK(config_of(result)["trainer"]["config"]["a\u00a0b"] ==
          "x\u00a0y\u0085z\u2028\x1b[31m\u00e9");
}

TEST_CASE("errors do not quote secrets") {
    const std::map<std::string, std::string> environment = {
        {"HF_TOKEN", "hf_SECRET123"}, {"DB_PASSWORD", "swordfish"}, {"N", "hf_SECRET123"}};
    const std::string text =
        "resource_management: {nodes: \"${HF_TOKEN}\", gpus_per_node: \"${DB_PASSWORD}\"}\n"
        "restart: {max_restarts: \"${N}\", backoff: x7}\n"
        "trainer: {command: [x], env: {API_KEY: {a: b}}}\n";
    for (const auto& line : lines_of(load_text(text, {"trainer.env.API_KEY.a.b=1"}, environment))) {
        CHECK_MESSAGE(!contains(line, "SECRET"), line);
        CHECK_MESSAGE(!contains(line, "swordfish"), line);
    }
    const auto lines = lines_of(load_text(text, {}, environment));
    REQUIRE(lines.size() == 5);
    CHECK(contains(lines[0], "group: G}; found ***"));
    CHECK(contains(lines[3], "found \"x7\""));
}

TEST_CASE("numbers and tags that JSON cannot hold are errors") {
    CHECK(contains(only_line(load_text("model: {x: .inf}")),
                   "t.yaml:1:12: model.x: the trainer reads this as JSON"));
    CHECK(
        contains(only_line(load_text("model: {x: 99999999999999999999999}")), "put it in quotes"));
    CHECK(contains(only_line(load_text("model: {x: 1e400}")), "put it in quotes"));
    CHECK(config_of(load_text("model: {x: 1e-400}"))["model"]["x"] == 0.0);
    CHECK(contains(only_line(load_text("model: {null: 3}")), "a key must be text, found nothing"));
    CHECK(contains(only_line(load_text("model: {x: !custom 3}")), "the tag !custom"));
    CHECK(contains(only_line(load_text("model: !custom {x: 3}")), "the tag !custom"));
}

TEST_CASE("anchors, aliases and merge keys") {
    const auto result = load_text(
        "base: &base {_target_: x, a: 1, b: 2}\n"
        "model:\n"
        "  <<: *base\n"
        "  b: 3\n"
        "optimizer: {<<: [{a: 7}, {a: 8, c: 9}], copy: *base}\n");
    REQUIRE(lines_of(result) == std::vector<std::string>{});
    CHECK(config_of(result)["model"] == json::parse(R"({"_target_": "x", "a": 1, "b": 3})"));
    CHECK(config_of(result)["optimizer"] ==
          json::parse(R"({"a": 7, "c": 9, "copy": {"_target_": "x", "a": 1, "b": 2}})"));
    CHECK(contains(only_line(load_text("model: &a [1, *a]")), "contains it"));
    CHECK(contains(only_line(load_text("model: *nowhere")), "t.yaml:1:8: not valid YAML"));
    CHECK(contains(only_line(load_text("model: {<<: 3}")), "expected a mapping to merge"));
}

TEST_CASE("duplicate keys are errors with both positions") {
    CHECK(only_line(load_text("restart:\n  max_restarts: 1\n  backoff: 0\n  max_restarts: 2\n")) ==
          "t.yaml:4:3: max_restarts: this key was given before, on line 2; remove one of the two");
    CHECK(contains(only_line(load_text("model: {a: 1, a: 2}")),
                   "t.yaml:1:15: a: this key was given before"));
}

TEST_CASE("${VAR} in values") {
    const std::map<std::string, std::string> environment = {
        {"N", "4"}, {"EMPTY", ""}, {"DIR", "/data"}, {"T", "yes"}};
    const auto result = load_text(R"(
resource_management: {nodes: "${N}", gpus_per_node: '${GPUS:-8}'}
restart: {grace_period: "${N}s"}
trainer:
  command: "cd ${DIR} && echo $HOME $$ $${HOME} ${UNSET:-${DIR}/x} ${EMPTY:-none} ${EMPTY}."
slurm_config: {account: "${EMPTY}"}
model:
  n: ${N}
  quoted: "${N}"
  mixed: ${N}0
  flag: ${T}
  none: ${EMPTY}
  width: ${model.n}
  other: ${oc.env:X}
)",
                                  {}, environment);
    REQUIRE(lines_of(result) == std::vector<std::string>{});
    CHECK(result.spec.resources.nodes == 4);
    CHECK(result.spec.resources.gpus_per_node == 8);
    CHECK(result.spec.restart.grace_period == 4s);
    CHECK(result.spec.trainer.command[2] == "cd /data && echo $HOME $$ ${HOME} /data/x none .");
    CHECK(
        config_of(result)["model"] ==
        json::parse(
            R"({"n": 4, "quoted": "4", "mixed": "40", "flag": true, "none": null, "width": "${model.n}",
                          "other": "${oc.env:X}"})"));
}

TEST_CASE("nodes are a number, or how many at least, at most and besides") {
    const auto nodes = [](const std::string& value) {
        return load_text("trainer: {command: [x]}\nresource_management: {nodes: " + value + "}\n");
    };
    const ResourceSpec some = nodes("{min: 6, max: 8, spares: 1}").spec.resources;
    CHECK(some.nodes == 6);
    CHECK(some.most_nodes == 8);
    CHECK(some.spare_nodes == 1);
    CHECK(nodes("{max: 3}").spec.resources.nodes == 3);
    CHECK(nodes("{min: 3}").spec.resources.most_nodes == 3);
    CHECK(some.node_group == 1);
    CHECK(nodes("{min: 2, max: 6, group: 2}").spec.resources.node_group == 2);
    CHECK(nodes("5").spec.resources.nodes == 5);
    for (const auto& [value, words] : std::initializer_list<std::pair<const char*, const char*>>{
             {"{min: 0}", "nodes.min: expected a whole number >= 1; found"},
             {"{min: 8, max: 6}", "nodes: max is smaller than min"},
             {"{spares: 1}", "says neither min nor max"},
             {"{min: 1, most: 2}", "nodes.most: unknown key; there are min, max, spares, group"},
             {"{min: 2, max: 5, group: 2}", "min and max are no multiples of group"},
             {"{min: 1, spares: -1}", "nodes.spares: expected a whole number >= 0; found"},
             {"[1]", "expected a whole number >= 1, or {min: M, max: N, spares: S, group: G}"}})
        CHECK_MESSAGE(contains(only_line(nodes(value)), words), only_line(nodes(value)));
}

TEST_CASE("errors of ${VAR} have a position and a remedy") {
    CHECK(only_line(load_text("trainer:\n  workdir: ${NOWHERE}/x\n")) ==
          "t.yaml:2:12: trainer.workdir: the variable NOWHERE is not set; set it, or write "
          "${NOWHERE:-default}; "
          "$${NOWHERE} stays a plain ${NOWHERE}");
    CHECK(contains(only_line(load_text("trainer: {workdir: \"${A\"}")), "without a closing }"));
    CHECK(contains(only_line(load_text("trainer: {workdir: \"${a.b}\"}")), "names no variable"));
    CHECK(contains(only_line(load_text("trainer: {workdir: \"${}\"}")), "names no variable"));
    CHECK(
        contains(only_line(load_text("model: {x: '${V}'}", {}, {{"V", "\xff"}})), "is not UTF-8"));
    CHECK(contains(only_line(load_text("model: {x: ${V}}")), "must be in quotes: \"${VAR}\""));
    std::string deep = "x";
    for (int i = 0; i < 2000; ++i)
        deep = "${UNSET:-" + deep + "}";
    CHECK(contains(only_line(load_text("model: {x: '" + deep + "'}")), "nested too deeply"));
}

TEST_CASE("includes: the including file wins, and errors name the right file") {
    const SpecFiles files;
    files.write("sub/base.yaml",
                "include: ../common.yaml\nrestart: {max_restarts: 1, backoff: 5}\nmodel: {a: 1, "
                "sub: {x: 1, y: 2}}\n");
    files.write("common.yaml",
                "restart: {max_restarts: 9, grace_period: 7}\nmodel: {list: [1, 2, 3]}\n");
    files.write("late.yaml", "model: {a: 5}\n");
    files.write("t.yaml",
                "include: [sub/base.yaml, '${LATE}']\nrestart: {backoff: 2}\nmodel: {list: [4], "
                "sub: {y: 3}}\n");
    const auto result = files.load("t.yaml", {}, {{"LATE", "late.yaml"}});
    REQUIRE(lines_of(result) == std::vector<std::string>{});
    CHECK(result.spec.restart.max_restarts == 1);
    CHECK(result.spec.restart.backoff == 2s);
    CHECK(result.spec.restart.grace_period == 7s);
    CHECK(config_of(result)["model"] ==
          json::parse(R"({"list": [4], "a": 5, "sub": {"x": 1, "y": 3}})"));

    files.write("common.yaml", "restart: {max_restart: 9}\n");
    files.write("t.yaml", "include: sub/base.yaml\nrestart: {backof: 2}\n");
    const auto lines = lines_of(files.load("t.yaml"));
    REQUIRE(lines.size() == 2);
    CHECK(contains(lines[0], "common.yaml:1:11: restart.max_restart: unknown key"));
    CHECK(contains(lines[1], "t.yaml:2:11: restart.backof: unknown key"));
}

TEST_CASE("trainer.preload is a word or a list of modules") {
    const auto preload = [](const std::string& value) {
        return load_text("trainer: {command: [python, a.py], preload: " + value + "}");
    };
    CHECK(preload("auto").spec.trainer.preload.how == PreloadSpec::How::automatic);
    CHECK(preload("off").spec.trainer.preload.how == PreloadSpec::How::off);
    CHECK(load_text("trainer: {command: a}").spec.trainer.preload == PreloadSpec{});
    const auto listed = preload("[torch, numpy.linalg]");
    CHECK(listed.spec.trainer.preload.how == PreloadSpec::How::listed);
    CHECK(listed.spec.trainer.preload.modules == std::vector<std::string>{"torch", "numpy.linalg"});
    for (const char* wrong : {"torch", "[]", "true", "3", "[a b]", "[[torch]]", "{torch: }"})
        CHECK_MESSAGE(lines_of(preload(wrong)).size() == 1, wrong);
}

TEST_CASE("restart.hang_after is a word or a duration") {
    const auto hang = [](const std::string& value) {
        return load_text("trainer: {command: [a]}\nrestart: {hang_after: " + value + "}");
    };
    CHECK(hang("auto").spec.restart.hang_after == HangAfter{});
    CHECK(hang("off").spec.restart.hang_after == HangAfter{.automatic = false, .after = {}});
    CHECK(hang("90s").spec.restart.hang_after == HangAfter{.automatic = false, .after = 90s});
    for (const char* wrong : {"soon", "0", "500ms", "[1]", "-3"})
        CHECK_MESSAGE(contains(only_line(hang(wrong)), "expected auto, off, or a duration"), wrong);
}

TEST_CASE("includes that cannot work are errors, not hangs") {
    const SpecFiles files;
    files.write("a.yaml", "include: b.yaml\n");
    files.write("b.yaml", "\ninclude: [a.yaml]\n");
    CHECK(contains(only_line(files.load("a.yaml")), "b.yaml:2:11: include: "));
    CHECK(contains(only_line(files.load("a.yaml")), "includes itself"));
    files.write("missing.yaml", "include: nowhere.yaml\n");
    const auto missing = files.load("missing.yaml");
    CHECK(contains(only_line(missing), "missing.yaml:1:10: include: cannot open"));
    CHECK(missing.errors[0].unreadable);
    CHECK(contains(only_line(load_text("include: {a: b}")),
                   "expected a file name or a list of them"));
    for (int i = 0; i < 10; ++i) {
        const std::string next = "n" + std::to_string(i + 1) + ".yaml";
        files.write("n" + std::to_string(i) + ".yaml", "include: [" + next + ", " + next + "]\n");
    }
    files.write("n10.yaml", "model: {}\n");
    CHECK(contains(only_line(files.load("n0.yaml")), "more than 32 files"));
}

TEST_CASE("overrides of the command line") {
    const std::string text =
        "restart: {max_restarts: 1}\nmodel: {layers: [{dim: 1}, {dim: 2}]}\ntrainer: {command: "
        "[a]}\n";
    const auto result =
        load_text(text,
                  {"restart.max_restarts=3", "model.layers.1.dim=7", "model.new.deep=1e-3",
                   "trainer.command=[python, x.py]", "slurm_config.job_name=${JOB}",
                   "slurm_config.time_limit=2-00:00:00", "restart.max_restarts=4"},
                  {{"JOB", "gpt"}});
    REQUIRE(lines_of(result) == std::vector<std::string>{});
    CHECK(result.spec.restart.max_restarts == 4);
    CHECK(result.spec.trainer.command == std::vector<std::string>{"python", "x.py"});
    CHECK(result.spec.slurm.job_name == "gpt");
    CHECK(result.spec.slurm.time_limit == "2-00:00:00");
    CHECK(config_of(result)["model"] ==
          json::parse(R"({"layers": [{"dim": 1}, {"dim": 7}], "new": {"deep": 0.001}})"));

    CHECK(only_line(load_text(text, {"restart.max_restart=3"})) ==
          "override restart.max_restart=3: restart.max_restart: unknown key; did you mean "
          "\"max_restarts\"? "
          "(expects a whole number >= 0)");
    CHECK(contains(only_line(load_text(text, {"restart.max_restarts=x"})),
                   "override restart.max_restarts=x: "));
    CHECK(contains(only_line(load_text(text, {"model.layers.2.dim=x"})),
                   "\"2\" is no item of model.layers, a list of 2"));
    CHECK(contains(only_line(load_text(text, {"restart.max_restarts.x=1"})),
                   "is \"1\", so nothing can be set in it"));
    CHECK(contains(only_line(load_text(text, {"model.x=[1"})),
                   "override model.x=[1: not valid YAML"));
    CHECK(contains(only_line(load_text(text, {"include=x.yaml"})), "give overrides instead"));
    CHECK(contains(only_line(load_text(text, {"restrat.x=1"})),
                   "override restrat.x=1: restrat: unknown section"));
}

TEST_CASE("what looks like an override") {
    CHECK(is_override("restart.max_restarts=3"));
    CHECK(is_override("model.layers.0.dim="));
    CHECK(is_override("model=x"));
    CHECK_FALSE(is_override("train.py"));
    CHECK_FALSE(is_override("/path/a=b"));
    CHECK_FALSE(is_override("--lr=3"));
    CHECK_FALSE(is_override("=3"));
    CHECK_FALSE(is_override("a..b=3"));
}

TEST_CASE("files that are no spec get one clear error each") {
    CHECK(load_text("").errors.empty());
    CHECK(load_text("# only a comment\n").errors.empty());
    CHECK(load_text("---\n").errors.empty());
    CHECK(load_text("\xEF\xBB\xBFrestart:\r\n  max_restarts: 2\r\n").spec.restart.max_restarts ==
          2);
    CHECK(only_line(load_text("\xEF\xBB\xBFrestart:\r\n  x: 2\r\n"))
              .starts_with("t.yaml:2:3: restart.x: unknown key"));
    CHECK(load_text("trainer:\r\n  workdir: /a\r\n").spec.trainer.workdir == "/a");
    CHECK(only_line(load_text("restart:\n\tmax_restarts: 2\n")) ==
          "t.yaml:2:1: the line is indented with a tab; YAML wants spaces");
    CHECK(only_line(load_text("- a\n")) ==
          "t.yaml:1:1: a spec is a mapping of sections; found a list");
    CHECK(contains(only_line(load_text("just text")), "found \"just text\""));
    CHECK(contains(only_line(load_text("restart: {}\n---\nmodel: {}\n")),
                   "t.yaml:3:1: a second YAML document"));
    CHECK(contains(only_line(load_text("restart: {max_restarts: 1\n")), "not valid YAML"));
    CHECK(contains(only_line(load_text("model: 1\na\x01: 2\n")), "t.yaml:2:2: not text"));
    CHECK(contains(only_line(load_text("model: 1\nb: \x04 2\n")), "t.yaml:2:4: not text"));
    CHECK(contains(only_line(load_text(std::string_view("\x7f"
                                                        "ELF\0\0\xff",
                                                        7))),
                   "t.yaml:1:1: not text"));
    CHECK(contains(only_line(load_text("? [a, b]\n: c\n")), "a key must be text"));
    CHECK(contains(only_line(load_text("trainer: {workdir: \"a\\0b\"}")), "has a NUL character"));
}

TEST_CASE("files that are too large, too deep or too many values are refused in bounded time") {
    CHECK(contains(only_line(load_text("model: [" + std::string(10 << 20, 'x') + "]")),
                   "larger than 4 MiB"));
    CHECK(contains(only_line(load_text("model: " + std::string(100'000, '['))), "levels deep"));
    std::string nested;
    for (int i = 0; i < 200; ++i)
        nested += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
    CHECK(contains(only_line(load_text(nested)), "levels deep"));
    std::string bomb = "model:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 12; ++i) {
        const std::string before = "*a" + std::to_string(i - 1);
        bomb += "  a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
        for (int j = 0; j < 10; ++j)
            bomb += before + ", ";
        bomb += "]\n";
    }
    CHECK(contains(only_line(load_text(bomb)), "more than 200000 values"));
    std::string ladder = "model:\n  a0: &a0 [x]\n";
    for (int i = 1; i < 200; ++i) {
        ladder += "  a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" +
                  std::to_string(i - 1) + "]\n";
    }
    CHECK(contains(only_line(load_text(ladder)), "levels deep"));
}

TEST_CASE("short texts that become long ones are refused before they take the memory") {
    std::string variables = "model:\n";
    for (int i = 0; i < 1000; ++i)
        variables += "  a" + std::to_string(i) + ": ${LONG}\n";
    CHECK(contains(only_line(load_text(variables, {}, {{"LONG", std::string(100'000, 'x')}})),
                   "with its variables replaced the spec becomes larger than 4 MiB"));
    std::string aliases = "model:\n  long: &long " + std::string(100'000, 'x') + "\n  list: [";
    for (int i = 0; i < 1000; ++i)
        aliases += "*long, ";
    CHECK(contains(only_line(load_text(aliases + "]\n")), "more than 16 MiB of text"));
    CHECK(contains(only_line(load_text("? " + std::string(2000, 'k') + "\n: 1\n")),
                   "a key has more than 1024 bytes"));
    std::string mistakes = "model:\n";
    for (int i = 0; i < 1100; ++i)
        mistakes += "- ${UNSET}\n";
    const auto lines = lines_of(load_text(mistakes));
    REQUIRE(lines.size() == 1001);
    CHECK(contains(lines.back(), "and 100 more errors"));
    const SpecFiles files;
    files.write("base.yaml", "model: {a: " + std::string(3 << 20, 'x') + "}\n");
    files.write("t.yaml", "include: [base.yaml, base.yaml]\n");
    CHECK(contains(only_line(files.load("t.yaml")), "with this file the spec becomes larger"));
}

TEST_CASE("a file that cannot be read says why") {
    const SpecFiles files;
    const auto missing = files.load("nowhere.yaml");
    CHECK(contains(only_line(missing), "No such file or directory"));
    CHECK(missing.errors[0].unreadable);
    std::filesystem::create_directory(files.path("folder"));
    const auto folder = files.load("folder");
    CHECK(contains(only_line(folder), "Is a directory"));
    CHECK(folder.errors[0].unreadable);
    const auto endless = load_spec({"/dev/zero", {}, {}});
    CHECK(contains(only_line(endless), "larger than 4 MiB"));
}

TEST_CASE("units") {
    CHECK(duration_from("15s") == 15s);
    CHECK(duration_from("500ms") == 500ms);
    CHECK(duration_from("2m") == 2min);
    CHECK(duration_from("1h30m") == 90min);
    CHECK(duration_from("1d") == 24h);
    CHECK(duration_from("0.25") == 250ms);
    for (const char* bad : {"", "s", "-1s", "1x", "1e3", "5 5", "99999999d", "1..2s", "inf"})
        CHECK_MESSAGE(!duration_from(bad).has_value(), bad);
    CHECK(bytes_from("80GB") == 80'000'000'000);
    CHECK(bytes_from("80GiB") == 80LL << 30);
    CHECK(bytes_from("80G") == 80LL << 30);
    CHECK(bytes_from("1.5 kB") == 1500);
    CHECK(bytes_from("123") == 123);
    for (const char* bad : {"", "GB", "-1GB", "1XB", "9999999999999GB", "80 Gigabytes"})
        CHECK_MESSAGE(!bytes_from(bad).has_value(), bad);
    CHECK(count_from("124M") == 124'000'000);
    CHECK(count_from("7B") == 7'000'000'000);
    CHECK(count_from("1.5 T") == 1'500'000'000'000);
    CHECK(count_from("350k") == 350'000);
    CHECK(count_from("6_738_415_616") == 6'738'415'616);
    for (const char* bad : {"", "M", "-1", "0", "0.4", "1MB", "1e9", "9999999999T", "seven"})
        CHECK_MESSAGE(!count_from(bad).has_value(), bad);
    for (const char* good :
         {"30", "30:00", "4:00:00", "2-12", "2-12:30", "2-12:30:15", "UNLIMITED"})
        CHECK_MESSAGE(is_slurm_time_limit(good), good);
    for (const char* bad : {"", "soon", "1:2:3:4", "1-", "-1", "1:", "1h"})
        CHECK_MESSAGE(!is_slurm_time_limit(bad), bad);
}

}  // namespace spec_test

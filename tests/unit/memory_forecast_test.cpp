// What `autolaunch plan` says of memory, for specs with a model_size.

#include "plan/job_shape.hpp"
#include "plan/launch_plan.hpp"
#include "synthetic_topology.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace memory_forecast_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using testing::make_machine;
using Lines = std::vector<std::string>;

namespace {

constexpr std::uint64_t kGi = std::uint64_t{1} << 30;

NodeTopology gpu_machine(std::uint64_t gpu_bytes) {
    NodeTopology topology = make_machine({.cores_per_l3 = 32, .gpus = 8});
    for (Gpu& gpu : topology.gpus) {
        gpu.memory_bytes = gpu_bytes;
        gpu.model = "NVIDIA H100 80GB HBM3";
    }
    return topology;
}

NodeTopology cpu_machine() {
    NodeTopology topology = make_machine({.packages = 1, .cores_per_l3 = 4, .threads = 2});
    for (NumaNode& node : topology.numa_nodes)
        node.memory_bytes = 64 * kGi;
    return topology;
}

// GPT-2's smallest, in f32.
JobSpec small_model() {
    JobSpec spec;
    spec.trainer.command = {"train"};
    spec.model_size = {124'439'808, 12, 768, 50'257, "adamw"};
    spec.distributed.sharding_strategy = "full_shard";
    spec.distributed.mixed_precision = "no";
    spec.resources.ranks_mode = RanksPerNode::fixed;
    spec.resources.ranks_per_node = 2;
    return spec;
}

// Llama's 8B, in bf16.
JobSpec large_model(const std::string& strategy) {
    JobSpec spec;
    spec.trainer.command = {"train"};
    spec.model_size = {8'030'261'248, 32, 4096, 128'256, ""};
    spec.distributed.sharding_strategy = strategy;
    spec.distributed.mixed_precision = "bf16";
    return spec;
}

LaunchPlan plan_of(const JobSpec& spec, const NodeTopology& topology, int nodes = 1) {
    Allocation allocation;
    for (int i = 0; i < nodes; ++i)
        allocation.node_names.push_back("node" + std::to_string(i + 1));
    const JobShape shape = decide_shape(spec, allocation, topology);
    return make_plan(spec, allocation, topology, assume_alike(allocation, shape.ranks_here, "run"),
                     {}, "/home/me");
}

std::string memory_part(const LaunchPlan& plan) {
    const std::string table = plan_table(plan);
    const std::size_t begin = table.find("memory of a rank");
    if (begin == std::string::npos)
        return "none";
    return table.substr(begin, table.find("\n\n", begin) + 1 - begin);
}

}  // namespace

TEST_CASE("a plan without a model's size says nothing of memory") {
    JobSpec spec = small_model();
    spec.model_size = {};
    const LaunchPlan plan = plan_of(spec, cpu_machine());
    CHECK_FALSE(plan.memory);
    CHECK(memory_part(plan) == "none");
    CHECK(nlohmann::json::parse(plan_json(plan))["memory"].is_null());
}

TEST_CASE("a small model on CPUs") {
    const LaunchPlan plan = plan_of(small_model(), cpu_machine());
    CHECK(memory_part(plan) == R"(memory of a rank before activations, full_shard on 2 ranks
  parameters    311.0 MiB  what ranks compute with, between uses
  gradients     311.0 MiB
  optimizer     474.7 MiB  AdamW
  gather slots  54.6 MiB   buckets, about a layer each, that are whole for their turn
  reduce slots  54.6 MiB   whole gradients of a bucket, until they are summed
  in all        1.2 GiB    of 32.0 GiB (2 ranks in this node's 64.0 GiB)
  mostly  optimizer, 474.7 MiB of 1.18 GiB (39%): more ranks divide it
)");
    CHECK(plan.memory->warning.empty());
    CHECK(plan.memory->assumptions.empty());
    const auto json = nlohmann::json::parse(plan_json(plan))["memory"];
    CHECK(json["total"] == plan.memory->plan.total());
    CHECK(json["strategy"] == "full_shard");
    CHECK(json["masters"] == 0);
    CHECK(json["mostly"] == "optimizer, 474.7 MiB of 1.18 GiB (39%): more ranks divide it");
    CHECK(json["bytes_each"]["optimizer"] == 8);
    CHECK(json["limit"]["bytes"] == 32 * kGi);
}

TEST_CASE("the cgroup's limit counts where it is less than the node's memory") {
    NodeTopology topology = cpu_machine();
    topology.memory_limit_bytes = 2 * kGi;
    const LaunchPlan plan = plan_of(small_model(), topology);
    CHECK(plan.memory->limit.bytes == kGi);
    CHECK(plan.warnings.back() ==
          "the model takes 1.2 GiB a rank before any activation, and there are 1.0 GiB (2 ranks in "
          "the cgroup's 2.0 "
          "GiB): full_shard on 4 ranks would fit");
    topology.memory_limit_bytes = 100 * kGi;
    CHECK(plan_of(small_model(), topology).memory->limit.bytes == 32 * kGi);
}

TEST_CASE("a large model on GPUs: what does not fit is said, with what would") {
    const NodeTopology topology = gpu_machine(80 * kGi);
    const LaunchPlan whole = plan_of(large_model("no_shard"), topology);
    REQUIRE(whole.memory);
    CHECK(whole.memory->limit.of == "GPU 0, NVIDIA H100 80GB HBM3");
    CHECK(whole.warnings.back() ==
          "the model takes 149.6 GiB a rank before any activation, and there are 80.0 GiB (GPU 0, "
          "NVIDIA H100 80GB "
          "HBM3): shard_optimizer would fit");
    CHECK(whole.memory->assumptions == Lines{"no model_size.optimizer: AdamW's two f32 moments"});
    const LaunchPlan sharded = plan_of(large_model("full_shard"), topology);
    CHECK(plan_table(sharded).find(
              "\n  assumed  no model_size.optimizer: AdamW's two f32 moments\n") !=
          std::string::npos);
    CHECK(sharded.memory->warning.empty());
    CHECK(sharded.memory->plan.masters == sharded.memory->plan.optimizer / 2);
    // A machine whose GPUs nobody knows the memory of.
    CHECK(plan_of(large_model("no_shard"), gpu_machine(0)).memory->warning.empty());
    JobSpec told = large_model("no_shard");
    told.resources.memory_per_gpu_bytes = 40'000'000'000;
    const LaunchPlan told_plan = plan_of(told, gpu_machine(0));
    CHECK(told_plan.memory->limit.of == "resource_management.memory_per_gpu");
    CHECK(told_plan.warnings.back().find("no effect") == std::string::npos);
}

TEST_CASE("a unit that is too large for any number of ranks") {
    JobSpec spec = large_model("full_shard");
    spec.model_size.layers.reset();
    spec.model_size.hidden.reset();
    const LaunchPlan plan = plan_of(spec, gpu_machine(24 * kGi));
    CHECK(plan.warnings.back().ends_with("cut the model into smaller layers, or use bf16"));
    CHECK(plan.memory->assumptions.front() ==
          "no model_size.layers: the whole model is gathered at once");
}

TEST_CASE("hybrid_shard cuts over a node's ranks") {
    const LaunchPlan plan = plan_of(large_model("hybrid_shard"), gpu_machine(80 * kGi), 4);
    CHECK(plan.world_size == 32);
    CHECK(plan.memory->options.shard_group == 8);
    const LaunchPlan node = plan_of(large_model("full_shard"), gpu_machine(80 * kGi));
    CHECK(plan.memory->plan == node.memory->plan);
}

TEST_CASE("an optimizer in the CPU's memory is counted beside the sum, and against the node's") {
    JobSpec spec = large_model("full_shard");
    spec.model_size.offload_optimizer = true;
    NodeTopology topology = gpu_machine(80 * kGi);
    const auto kept = *plan_of(large_model("full_shard"), topology).memory;
    const LaunchPlan plan = plan_of(spec, topology);
    CHECK(plan.memory->plan.masters == 0);
    CHECK(plan.memory->plan.optimizer == 0);
    CHECK(plan.memory->plan.total() == kept.plan.total() - kept.plan.masters - kept.plan.optimizer);
    // A gradient in f32 and a parameter in bf16 travel, 6 bytes for the masters' 4.
    CHECK(plan.memory->plan.on_host ==
          kept.plan.masters + kept.plan.optimizer + kept.plan.masters / 4 * 6);
    CHECK(memory_part(plan).find(
              "\n  on the host   16.8 GiB   masters, the optimizer's state and copies") !=
          std::string::npos);
    CHECK(nlohmann::json::parse(plan_json(plan))["memory"]["on_host"] == plan.memory->plan.on_host);
    topology.memory_limit_bytes = 64 * kGi;
    CHECK(plan_of(spec, topology).warnings.back() ==
          "offload_optimizer takes 16.8 GiB of the CPU's memory a rank, and there are 8.0 GiB (8 "
          "ranks in the cgroup's "
          "64.0 GiB): more nodes would share it");
    JobSpec on_cpus = small_model();
    on_cpus.model_size.offload_optimizer = true;
    CHECK(plan_of(on_cpus, cpu_machine()).memory->plan ==
          plan_of(small_model(), cpu_machine()).memory->plan);
    CHECK(plan_of(on_cpus, cpu_machine()).memory->assumptions ==
          Lines{"ranks have no GPU: offload_optimizer changes nothing"});
}

TEST_CASE(
    "deterministic sums keep one more shard of gradients for each doubling of the micro-batches") {
    JobSpec spec = small_model();
    const auto plain = plan_of(spec, cpu_machine()).memory->plan;
    const std::int64_t shard = plain.optimizer / 2;  // in f32
    spec.model_size.deterministic = true;
    const auto once = plan_of(spec, cpu_machine()).memory->plan;
    // The embedding's shard no longer lies in its whole gradient.
    CHECK(once.total() == plain.total() + 768 * 50'257 * 4 / 2);
    spec.model_size.micro_batches = 8;
    const LaunchPlan plan = plan_of(spec, cpu_machine());
    CHECK(plan.memory->plan.gradient_trees == 3 * shard);
    CHECK(plan.memory->plan.total() == once.total() + 3 * shard);
    CHECK(memory_part(plan).find(
              "\n  gradient trees  712.1 MiB  sums of micro-batches in one order\n") !=
          std::string::npos);
    CHECK(nlohmann::json::parse(plan_json(plan))["memory"]["gradient_trees"] == 3 * shard);
    JobSpec on_gpus = large_model("full_shard");
    on_gpus.model_size.deterministic = true;
    const LaunchPlan exchanging = plan_of(on_gpus, gpu_machine(80 * kGi));
    CHECK(exchanging.memory->plan.gradient_exchange > std::int64_t{63} << 20);
    CHECK(memory_part(exchanging).find("\n  gradient parts  64.0 MiB") != std::string::npos);
}

TEST_CASE("words for precision that trainers use") {
    const auto bytes = [](const std::string& word) {
        JobSpec spec = small_model();
        spec.distributed.mixed_precision = word;
        return size_of(plan_of(spec, cpu_machine()).memory->options.precision.param);
    };
    for (const char* word : {"bf16", "BF16", "bfloat16", "fp16", "float16", "fp8"})
        CHECK(bytes(word) == 2);
    for (const char* word : {"", "no", "fp32", "int4"})
        CHECK(bytes(word) == 4);
    JobSpec spec = small_model();
    spec.distributed.mixed_precision = "int4";
    CHECK(plan_of(spec, cpu_machine()).memory->assumptions ==
          Lines{"mixed_precision 'int4' is the trainer's own; f32 is counted"});
}

}  // namespace memory_forecast_test

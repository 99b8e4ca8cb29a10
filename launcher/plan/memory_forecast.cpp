#include "plan/memory_forecast.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

namespace autolaunch::launcher {
namespace {

using fsdp::MemoryPlanOptions;
using fsdp::OptimizerKind;
using fsdp::ShardingStrategy;

std::uint64_t total_of(const MemoryForecast& forecast) {
    return static_cast<std::uint64_t>(forecast.plan.total());
}

fsdp::ModelSize size_of_model(const ModelSizeSpec& given, std::vector<std::string>& assumptions) {
    fsdp::ModelSize model;
    model.parameters = *given.parameters;
    model.layers = given.layers.value_or(1);
    if (given.hidden && given.vocabulary)
        model.largest_unit = *given.hidden * *given.vocabulary;
    if (!given.layers)
        assumptions.emplace_back("no model_size.layers: the whole model is gathered at once");
    return model;
}

void take_strategy(const JobSpec& spec, const RankPlaces& places, MemoryForecast& forecast) {
    const std::string& name = spec.distributed.sharding_strategy;
    const auto strategy = fsdp::sharding_strategy_from(name);
    forecast.options.strategy = strategy.value_or(ShardingStrategy::full_shard);
    forecast.options.ranks = places.world_size;
    if (name.empty())
        forecast.assumptions.emplace_back("no distributed.sharding_strategy: full_shard");
    if (forecast.options.strategy != ShardingStrategy::hybrid_shard)
        return;
    const bool divides = places.world_size % places.local_ranks == 0;
    forecast.options.shard_group = divides ? places.local_ranks : places.world_size;
    forecast.assumptions.push_back(
        divides ? fmt::format("hybrid_shard cuts over the {} ranks of a node", places.local_ranks)
                : "the nodes differ in their ranks: hybrid_shard cuts over all of them");
}

// The words that trainers use. Whole gradients travel in the parameters' type, sums and masters are
// f32.
void take_precision(const std::string& word, MemoryForecast& forecast) {
    std::string lower = word;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    const bool bf16_word = lower == "bf16" || lower == "bfloat16" || lower == "bf16-mixed";
    const bool f16_word =
        lower == "fp16" || lower == "f16" || lower == "float16" || lower == "fp16-mixed";
    const bool f32_word =
        lower.empty() || lower == "no" || lower == "f32" || lower == "fp32" || lower == "float32";
    if (bf16_word || lower == "fp8")
        forecast.options.precision = {.param = bf16, .reduce = bf16};
    if (f16_word)
        forecast.options.precision = {.param = f16, .reduce = f16};
    if (lower == "fp8")
        forecast.assumptions.emplace_back("fp8 is taken for the arithmetic's; parameters are bf16");
    if (lower.empty())
        forecast.assumptions.emplace_back("no distributed.mixed_precision: f32");
    if (!bf16_word && !f16_word && !f32_word && lower != "fp8")
        forecast.assumptions.push_back(
            fmt::format("mixed_precision '{}' is the trainer's own; f32 is counted", word));
}

void take_optimizer(const std::string& word, MemoryForecast& forecast) {
    static const std::map<std::string, OptimizerKind> kKinds = {
        {"adamw", OptimizerKind::adamw},
        {"lion", OptimizerKind::lion},
        {"sgd", OptimizerKind::sgd_momentum},
        {"none", OptimizerKind::none}};
    if (const auto found = kKinds.find(word); found != kKinds.end())
        forecast.options.optimizer = found->second;
    if (word.empty())
        forecast.assumptions.emplace_back("no model_size.optimizer: AdamW's two f32 moments");
}

void take_training(const ModelSizeSpec& given, const RankPlaces& places, MemoryForecast& forecast) {
    forecast.options.deterministic = given.deterministic;
    forecast.options.on_gpus = !places.gpus.empty();
    forecast.options.reductions = static_cast<int>(given.micro_batches.value_or(1));
    forecast.options.offload_optimizer = given.offload_optimizer && !places.gpus.empty();
    if (given.offload_optimizer && places.gpus.empty())
        forecast.assumptions.emplace_back("ranks have no GPU: offload_optimizer changes nothing");
}

// The GPU with the least memory a rank; ranks that share one share its memory.
MemoryLimit gpu_limit(const RankPlaces& places) {
    std::map<const Gpu*, std::uint64_t> ranks;
    for (const Gpu* gpu : places.gpus)
        ++ranks[gpu];
    MemoryLimit least;
    for (const auto& [gpu, count] : ranks) {
        if (gpu->memory_bytes == 0)
            continue;
        const std::uint64_t share = gpu->memory_bytes / count;
        if (least.bytes != 0 && share >= least.bytes)
            continue;
        least.bytes = share;
        least.of = count == 1 ? fmt::format("GPU {}, {}", gpu->index,
                                            gpu->model.empty() ? gpu->bdf : gpu->model)
                              : fmt::format("{} ranks on GPU {}", count, gpu->index);
    }
    return least;
}

MemoryLimit host_limit(const RankPlaces& places, const NodeTopology& topology) {
    std::uint64_t bytes = 0;
    for (const NumaNode& node : topology.numa_nodes)
        bytes += node.memory_bytes;
    std::string of = "this node's";
    if (topology.memory_limit_bytes && (bytes == 0 || *topology.memory_limit_bytes < bytes)) {
        bytes = *topology.memory_limit_bytes;
        of = "the cgroup's";
    }
    if (bytes == 0)
        return {};
    return {bytes / static_cast<std::uint64_t>(places.local_ranks),
            fmt::format("{} rank{} in {} {}", places.local_ranks,
                        places.local_ranks == 1 ? "" : "s", of, format_binary(bytes))};
}

MemoryLimit limit_of(const JobSpec& spec, const RankPlaces& places, const NodeTopology& topology) {
    if (places.gpus.empty())
        return host_limit(places, topology);
    MemoryLimit limit = gpu_limit(places);
    if (limit.bytes == 0 && spec.resources.memory_per_gpu_bytes)
        limit = {static_cast<std::uint64_t>(*spec.resources.memory_per_gpu_bytes),
                 "resource_management.memory_per_gpu"};
    return limit;
}

// The next strategy that fits on these ranks, else the ranks that full_shard needs.
std::string remedy(const MemoryForecast& forecast) {
    const auto fits = [&](const MemoryPlanOptions& options) {
        return static_cast<std::uint64_t>(fsdp::plan_memory(forecast.model, options).total()) <=
               forecast.limit.bytes;
    };
    MemoryPlanOptions options = forecast.options;
    if (options.ranks > 1)
        for (const auto strategy :
             {ShardingStrategy::shard_optimizer, ShardingStrategy::shard_grad_op,
              ShardingStrategy::full_shard}) {
            options.strategy = strategy;
            if (fits(options))
                return fmt::format("{} would fit", fsdp::name_of(strategy));
        }
    options.strategy = ShardingStrategy::full_shard;
    constexpr int kMostRanks = 1 << 16;
    for (options.ranks *= 2; options.ranks <= kMostRanks; options.ranks *= 2)
        if (fits(options))
            return fmt::format("full_shard on {} ranks would fit", options.ranks);
    return "its largest bucket alone is too large: cut the model into smaller layers, or use bf16";
}

}  // namespace

std::string format_binary(std::uint64_t bytes) {
    constexpr double kMi = 1 << 20;
    const double mebibytes = static_cast<double>(bytes) / kMi;
    return mebibytes < 1000 ? fmt::format("{:.1f} MiB", mebibytes)
                            : fmt::format("{:.1f} GiB", mebibytes / 1024);
}

std::optional<MemoryForecast> forecast_memory(const JobSpec& spec, const RankPlaces& places,
                                              const NodeTopology& topology) {
    if (!spec.model_size.parameters)
        return std::nullopt;
    MemoryForecast forecast;
    forecast.model = size_of_model(spec.model_size, forecast.assumptions);
    take_strategy(spec, places, forecast);
    take_precision(spec.distributed.mixed_precision, forecast);
    take_optimizer(spec.model_size.optimizer, forecast);
    take_training(spec.model_size, places, forecast);
    forecast.plan = fsdp::plan_memory(forecast.model, forecast.options);
    forecast.limit = limit_of(spec, places, topology);
    if (forecast.limit.bytes > 0 && total_of(forecast) > forecast.limit.bytes)
        forecast.warning = fmt::format(
            "the model takes {} a rank before any activation, and there are {} ({}): {}",
            format_binary(total_of(forecast)), format_binary(forecast.limit.bytes),
            forecast.limit.of, remedy(forecast));
    const MemoryLimit host = host_limit(places, topology);
    const auto on_host = static_cast<std::uint64_t>(forecast.plan.on_host);
    if (forecast.warning.empty() && host.bytes > 0 && on_host > host.bytes)
        forecast.warning = fmt::format(
            "offload_optimizer takes {} of the CPU's memory a rank, and there are {} ({}): more "
            "nodes would share it",
            format_binary(on_host), format_binary(host.bytes), host.of);
    return forecast;
}

}  // namespace autolaunch::launcher

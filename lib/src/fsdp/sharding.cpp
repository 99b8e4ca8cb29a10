#include <autolaunch/fsdp/sharding.hpp>

#include <array>
#include <utility>

namespace autolaunch::fsdp {

namespace {

constexpr std::array<std::pair<std::string_view, ShardingStrategy>, 5> kNames = {
    {{"full_shard", ShardingStrategy::full_shard},
     {"shard_grad_op", ShardingStrategy::shard_grad_op},
     {"shard_optimizer", ShardingStrategy::shard_optimizer},
     {"no_shard", ShardingStrategy::no_shard},
     {"hybrid_shard", ShardingStrategy::hybrid_shard}}};

}  // namespace

std::string_view name_of(ShardingStrategy strategy) noexcept {
    for (const auto& [name, named] : kNames)
        if (named == strategy)
            return name;
    return "unknown";
}

std::optional<ShardingStrategy> sharding_strategy_from(std::string_view name) noexcept {
    for (const auto& [known, named] : kNames)
        if (known == name)
            return named;
    return std::nullopt;
}

}  // namespace autolaunch::fsdp

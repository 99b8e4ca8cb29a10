#include "base/refuse.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <algorithm>
#include <unordered_set>

namespace autolaunch::fsdp {

namespace {

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum))
        refuse("the unit's parameters have more elements than 63 bits can count");
    return sum;
}

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
    return checked_add(value, multiple - 1) / multiple * multiple;
}

}  // namespace

std::int64_t ParameterSpec::element_count() const {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) {
        if (extent <= 0)
            refuse("parameter " + name + " has an extent of " + std::to_string(extent));
        if (__builtin_mul_overflow(count, extent, &count))
            refuse("parameter " + name + " has more elements than 63 bits can count");
    }
    return count;
}

ShardLayout::ShardLayout(std::span<const ParameterSpec> parameters, int world_size,
                         std::int64_t alignment_elements, std::int64_t quantum_elements)
    : world_size_(world_size) {
    if (world_size < 1)
        refuse("world size " + std::to_string(world_size) + " is not positive");
    if (alignment_elements < 1 || quantum_elements < 1)
        refuse("alignment and quantum must be positive");
    std::unordered_set<std::string_view> names;
    std::int64_t end = 0;
    placements_.reserve(parameters.size());
    for (const ParameterSpec& parameter : parameters) {
        if (parameter.name.empty())
            refuse("a parameter has no name");
        if (!names.insert(parameter.name).second)
            refuse("two parameters have the name " + parameter.name);
        const std::int64_t offset = round_up(end, alignment_elements);
        end = checked_add(offset, parameter.element_count());
        placements_.push_back({parameter, offset});
    }
    shard_elements_ = round_up(round_up(end, world_size) / world_size, quantum_elements);
    std::int64_t arena = 0;
    if (__builtin_mul_overflow(shard_elements_, std::int64_t{world_size}, &arena))
        checked_add(INT64_MAX, 1);
}

const ShardLayout::Placement& ShardLayout::placement(std::string_view name) const& {
    std::vector<std::string> names;
    for (const Placement& candidate : placements_) {
        if (candidate.parameter.name == name)
            return candidate;
        names.push_back(candidate.parameter.name);
    }
    refuse("no parameter is named " + std::string(name) + nearest_asked(name, names),
           "the parameters are " + join(names, ", "));
}

std::vector<ShardLayout::Interval> ShardLayout::intervals(int rank) const {
    if (rank < 0 || rank >= world_size_)
        refuse("rank " + std::to_string(rank) + " is not in a world of " +
               std::to_string(world_size_));
    const std::int64_t shard_begin = rank * shard_elements_;
    const std::int64_t shard_end = shard_begin + shard_elements_;
    std::vector<Interval> found;
    for (std::size_t i = 0; i < placements_.size(); ++i) {
        const std::int64_t offset = placements_[i].offset;
        const std::int64_t begin = std::max(offset, shard_begin);
        const std::int64_t end =
            std::min(offset + placements_[i].parameter.element_count(), shard_end);
        if (begin < end)
            found.push_back({i, begin - offset, begin - shard_begin, end - begin});
    }
    return found;
}

}  // namespace autolaunch::fsdp

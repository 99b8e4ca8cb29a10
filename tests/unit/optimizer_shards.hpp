#pragma once
// Shards as an engine would describe them, without one: any types, any cut.
#include "fsdp/optimizer_shard.hpp"

#include <autolaunch/comm/types.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::fsdp::testing {

struct ShardTypes {
    DataType gradient = DataType::f32;
    DataType master = DataType::f32;
    bool has_param = false;
    DataType param = DataType::f32;
};

inline void write_as(DataType type, std::vector<std::byte>& memory, std::size_t index,
                     float value) {
    if (type == DataType::f32)
        reinterpret_cast<float*>(memory.data())[index] = value;
    if (type == DataType::bf16)
        reinterpret_cast<bfloat16*>(memory.data())[index] = bfloat16(value);
    if (type == DataType::f16)
        reinterpret_cast<float16*>(memory.data())[index] = float16(value);
}

inline float read_as(DataType type, const std::vector<std::byte>& memory, std::size_t index) {
    if (type == DataType::bf16)
        return static_cast<float>(reinterpret_cast<const bfloat16*>(memory.data())[index]);
    if (type == DataType::f16)
        return static_cast<float>(reinterpret_cast<const float16*>(memory.data())[index]);
    return reinterpret_cast<const float*>(memory.data())[index];
}

/// Rank `rank`'s shard of a unit of one parameter u.w and another u.b, with memory of its own.
class TestShard {
public:
    TestShard(std::vector<ParameterSpec> parameters, int rank, int ranks, const ShardTypes& types)
        : layout_(parameters, ranks), types_(types) {
        const auto elements = static_cast<std::size_t>(layout_.shard_elements());
        shard.name = "u";
        shard.elements = elements;
        gradient_.resize(elements * size_of(types.gradient));
        master_.resize(elements * size_of(types.master));
        param_.resize(elements * size_of(types.param));
        shard.master_type = types.master;
        shard.master = master_.data();
        shard.param_type = types.param;
        if (types.has_param)
            shard.param = param_.data();
        shard.gradient_type = types.gradient;
        shard.gradient = gradient_.data();
        for (const auto& placement : layout_.placements())
            shard.tensors.push_back({"u." + placement.parameter.name,
                                     DataType::f32,
                                     placement.parameter.shape,
                                     {},
                                     false});
        for (const auto& interval : layout_.intervals(rank)) {
            const ParameterSpec& parameter =
                layout_.placements()[interval.parameter_index].parameter;
            shard.runs.push_back({&parameter, "u." + parameter.name, interval.parameter_offset,
                                  interval.shard_offset, interval.count});
        }
    }
    TestShard(const TestShard&) = delete;

    /// A function of parameter and element alone, so that every cut gets the same values.
    template <class Value>
    void fill_master(const Value& value) {
        fill(types_.master, master_, value);
    }
    template <class Value>
    void fill_gradient(const Value& value) {
        fill(types_.gradient, gradient_, value);
        shard.has_gradient = true;
    }

    /// Appends what this rank holds of a parameter, in order: as every cut's shards hold a
    /// parameter from its start to its end, the ranks' vectors joined are the parameter.
    void append_master(const std::string& full_name, std::vector<float>& to) const {
        append(types_.master, master_, full_name, to);
    }
    void append_param(const std::string& full_name, std::vector<float>& to) const {
        append(types_.param, param_, full_name, to);
    }

    OptimizerShard shard;

private:
    template <class Value>
    void fill(DataType type, std::vector<std::byte>& memory, const Value& value) {
        for (const auto& run : shard.runs) {
            for (std::int64_t i = 0; i < run.count; ++i)
                write_as(type, memory, static_cast<std::size_t>(run.shard_offset + i),
                         value(run.full_name, run.parameter_offset + i));
        }
    }
    void append(DataType type, const std::vector<std::byte>& memory, const std::string& full_name,
                std::vector<float>& to) const {
        for (const auto& run : shard.runs) {
            if (run.full_name != full_name)
                continue;
            for (std::int64_t i = 0; i < run.count; ++i)
                to.push_back(read_as(type, memory, static_cast<std::size_t>(run.shard_offset + i)));
        }
    }

    ShardLayout layout_;
    ShardTypes types_;
    std::vector<std::byte> gradient_, master_, param_;
};

}  // namespace autolaunch::fsdp::testing

#include "fsdp/optimizer_shard.hpp"

#include <map>

namespace autolaunch::fsdp {

void OptimizerShard::append_state(State& state, void* memory, DataType type,
                                  std::string_view suffix,
                                  const std::shared_ptr<const StateArrival>& arrival) const {
    std::map<std::string_view, std::size_t> index_of;
    for (const StateTensor& known : tensors) {
        index_of[known.name] = state.size();
        StateTensor& tensor = state.emplace_back(known);
        tensor.name += suffix;
        tensor.type = type;
        tensor.arrival = arrival;
    }
    auto* bytes = static_cast<std::byte*>(memory);
    for (const Run& run : runs) {
        std::byte* data = bytes + static_cast<std::size_t>(run.shard_offset) * size_of(type);
        state[index_of.at(run.full_name)].pieces.push_back({run.parameter_offset, run.count, data});
    }
}

}  // namespace autolaunch::fsdp

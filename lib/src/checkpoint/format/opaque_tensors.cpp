#include "checkpoint/format/opaque_tensors.hpp"

#include "checkpoint/format/tensor_index.hpp"

#include <cstdio>

namespace autolaunch {

std::string opaque_tensor_name(const std::string& name, bool per_rank, int rank) {
    if (!per_rank)
        return "opaque." + name;
    char suffix[32];
    std::snprintf(suffix, sizeof suffix, ".rank-%05d", rank);
    return "opaque." + name + suffix;
}

fsdp::State opaque_tensors(std::span<const OpaqueState> opaque, int rank) {
    fsdp::State state;
    for (const OpaqueState& one : opaque) {
        if (!one.per_rank && rank != 0)
            continue;
        const auto bytes = static_cast<std::int64_t>(one.bytes.size());
        fsdp::StateTensor tensor{
            opaque_tensor_name(one.name, one.per_rank, rank), DataType::u8, {bytes}, {}, false};
        // Nobody writes through it: a plan of writing only reads.
        auto* memory = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(one.bytes.data()));
        if (bytes > 0)
            tensor.pieces = {{0, bytes, memory}};
        state.push_back(std::move(tensor));
    }
    return state;
}

std::vector<const Manifest::Tensor*> find_opaque(const Manifest& manifest,
                                                 const std::string& name) {
    const TensorIndex tensors(manifest);
    if (const auto* tensor = tensors.find(opaque_tensor_name(name, false, 0)))
        return {tensor};
    std::vector<const Manifest::Tensor*> found;
    // As many ranks as saved it: a checkpoint that was resharded has another world size.
    for (int rank = 0; const auto* tensor = tensors.find(opaque_tensor_name(name, true, rank));
         ++rank)
        found.push_back(tensor);
    return found;
}

}  // namespace autolaunch

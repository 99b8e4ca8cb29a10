#include "checkpoints/tensor_stream.hpp"

#include "checkpoint/format/element_cast.hpp"
#include "checkpoint/load/part_reader.hpp"

namespace autolaunch::launcher {

namespace {

constexpr std::uint64_t kBatchBytes = std::uint64_t{256} << 20;

void read_batch(const OpenCheckpoint& checkpoint, std::span<const WantedTensor> tensors,
                std::vector<std::byte>& memory, const UseTensor& use) {
    std::uint64_t bytes = 0;
    for (const WantedTensor& tensor : tensors)
        bytes += tensor.bytes();
    memory.resize(bytes);
    fsdp::State state;
    std::byte* next = memory.data();
    for (const WantedTensor& tensor : tensors) {
        state.push_back({tensor.stored->name, tensor.type, tensor.stored->shape, {}, false});
        const std::int64_t elements = tensor.stored->element_count();
        if (elements > 0)
            state.back().pieces = {{0, elements, next}};
        next += tensor.bytes();
    }
    const ReadPlan plan =
        plan_loading(checkpoint.manifest, state, {.cast = true, .allow_missing = false});
    read_parts(*checkpoint.storage, checkpoint.path, checkpoint.manifest, plan.parts,
               checkpoint.keys());
    const std::byte* content = memory.data();
    for (const WantedTensor& tensor : tensors) {
        use(tensor, {content, tensor.bytes()});
        content += tensor.bytes();
    }
}

}  // namespace

void stream_tensors(const OpenCheckpoint& checkpoint, std::span<const WantedTensor> tensors,
                    const UseTensor& use) {
    std::vector<std::byte> memory;
    while (!tensors.empty()) {
        std::size_t count = 1;
        std::uint64_t bytes = tensors[0].bytes();
        while (count < tensors.size() && bytes + tensors[count].bytes() <= kBatchBytes)
            bytes += tensors[count++].bytes();
        read_batch(checkpoint, tensors.first(count), memory, use);
        tensors = tensors.subspan(count);
    }
}

DataType wanted_type(DataType stored, const std::string& dtype) {
    for (const DataType type : {DataType::f32, DataType::bf16, DataType::f16})
        if (dtype == name_of(type) && can_cast(stored, type))
            return type;
    return stored;
}

}  // namespace autolaunch::launcher

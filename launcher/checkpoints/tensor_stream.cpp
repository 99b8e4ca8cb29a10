#include "checkpoints/tensor_stream.hpp"

#include "checkpoint/format/element_cast.hpp"
#include "checkpoint/load/part_reader.hpp"

namespace autolaunch::launcher {

namespace {

constexpr std::uint64_t kBatchBytes = std::uint64_t{256} << 20;

// As many of the next ones as are read at once.
std::span<const WantedTensor> next_batch(std::span<const WantedTensor> tensors) {
    std::size_t count = 1;
    std::uint64_t bytes = tensors[0].bytes();
    while (count < tensors.size() && bytes + tensors[count].bytes() <= kBatchBytes)
        bytes += tensors[count++].bytes();
    return tensors.first(count);
}

class BatchReader {
public:
    explicit BatchReader(const OpenCheckpoint& checkpoint)
        : checkpoint_(checkpoint), tensors_(checkpoint.manifest) {}

    // One behind the other; until the next call.
    const std::byte* read(std::span<const WantedTensor> tensors) {
        std::uint64_t bytes = 0;
        for (const WantedTensor& tensor : tensors)
            bytes += tensor.bytes();
        memory_.resize(bytes);
        fsdp::State state;
        std::byte* next = memory_.data();
        for (const WantedTensor& tensor : tensors) {
            state.push_back({tensor.stored->name, tensor.type, tensor.stored->shape, {}, false});
            const std::int64_t elements = tensor.stored->element_count();
            if (elements > 0)
                state.back().pieces = {{0, elements, next}};
            next += tensor.bytes();
        }
        const ReadPlan plan = plan_loading(tensors_, state, {.cast = true, .allow_missing = false});
        read_parts(*checkpoint_.storage, checkpoint_.path, checkpoint_.manifest, plan.parts,
                   checkpoint_.keys());
        return memory_.data();
    }

private:
    const OpenCheckpoint& checkpoint_;
    TensorIndex tensors_;
    std::vector<std::byte> memory_;
};

}  // namespace

void stream_tensors(const OpenCheckpoint& checkpoint, std::span<const WantedTensor> tensors,
                    const UseTensor& use) {
    BatchReader reader(checkpoint);
    while (!tensors.empty()) {
        const auto batch = next_batch(tensors);
        const std::byte* content = reader.read(batch);
        for (const WantedTensor& tensor : batch) {
            use(tensor, {content, tensor.bytes()});
            content += tensor.bytes();
        }
        tensors = tensors.subspan(batch.size());
    }
}

void stream_both(const OpenCheckpoint& first, std::span<const WantedTensor> of_first,
                 const OpenCheckpoint& second, std::span<const WantedTensor> of_second,
                 const UseBoth& use) {
    BatchReader first_reader(first), second_reader(second);
    while (!of_first.empty()) {
        const auto batch = next_batch(of_first);
        const std::byte* content = first_reader.read(batch);
        const std::byte* second_content = second_reader.read(of_second.first(batch.size()));
        for (const WantedTensor& tensor : batch) {
            use(tensor, {content, tensor.bytes()}, {second_content, tensor.bytes()});
            content += tensor.bytes();
            second_content += tensor.bytes();
        }
        of_first = of_first.subspan(batch.size());
        of_second = of_second.subspan(batch.size());
    }
}

DataType wanted_type(DataType stored, const std::string& dtype) {
    for (const DataType type : {DataType::f32, DataType::bf16, DataType::f16})
        if (dtype == name_of(type) && can_cast(stored, type))
            return type;
    return stored;
}

}  // namespace autolaunch::launcher

#include "base/text.hpp"
#include "checkpoint/block_reader.hpp"
#include "checkpoint/shard_file.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>

namespace autolaunch {

namespace {

std::string format_shape(std::span<const std::int64_t> shape) {
    std::vector<std::string> extents;
    for (const std::int64_t extent : shape) extents.push_back(std::to_string(extent));
    return "[" + join(extents, ", ") + "]";
}

using TensorsByName = std::unordered_map<std::string_view, const Manifest::Tensor*>;

const Manifest::Tensor& require_tensor(const TensorsByName& tensors, const fsdp::StateTensor& wanted) {
    const auto found = tensors.find(wanted.name);
    if (found == tensors.end()) {
        std::vector<std::string> names;
        for (const auto& [name, tensor] : tensors) names.emplace_back(name);
        const std::string close = nearest(wanted.name, names);
        throw Error(ErrorCode::mismatch, "the checkpoint has no tensor named " + wanted.name,
                    close.empty() ? "" : "it has " + close);
    }
    const Manifest::Tensor* stored = found->second;
    if (stored->shape != wanted.shape || stored->type != wanted.type)
        throw Error(ErrorCode::mismatch, "tensor " + wanted.name + " is " + format_shape(stored->shape) + " " +
                                             std::string(name_of(stored->type)) + " in the checkpoint, " +
                                             format_shape(wanted.shape) + " " + std::string(name_of(wanted.type)) +
                                             " in the model");
    return *stored;
}

// The part of an operation that lies in a block.
void copy_part(const ReadOperation& operation, std::uint64_t block_begin, std::span<const std::byte> block) {
    const std::uint64_t begin = std::max(operation.file_offset, block_begin);
    const std::uint64_t end = std::min(operation.file_offset + operation.bytes, block_begin + block.size());
    if (begin < end)
        std::memcpy(operation.to + (begin - operation.file_offset), block.data() + (begin - block_begin), end - begin);
}

// The blocks that the operations touch, each once. `operations` are of one file, by offset.
std::vector<std::size_t> blocks_of(std::span<const ReadOperation> operations) {
    std::vector<std::size_t> blocks;
    for (const ReadOperation& operation : operations) {
        std::size_t block = operation.file_offset / Manifest::kBlockBytes;
        if (!blocks.empty()) block = std::max(block, blocks.back() + 1);
        for (; block * Manifest::kBlockBytes < operation.file_offset + operation.bytes; ++block)
            blocks.push_back(block);
    }
    return blocks;
}

void read_file_parts(BlockReader& reader, std::span<const ReadOperation> operations) {
    std::size_t first_active = 0;  // operations before it end before the block
    reader.read(blocks_of(operations), [&](std::size_t index, std::span<const std::byte> block) {
        const std::uint64_t begin = index * Manifest::kBlockBytes;
        while (operations[first_active].file_offset + operations[first_active].bytes <= begin) ++first_active;
        for (std::size_t i = first_active; i < operations.size(); ++i) {
            if (operations[i].file_offset >= begin + block.size()) break;
            copy_part(operations[i], begin, block);
        }
    });
}

}  // namespace

void verify_file(Storage& storage, const std::filesystem::path& directory, const Manifest::File& expected,
                 SaveVerification verification) {
    BlockReader reader(storage, directory, expected);
    const auto use = [](std::size_t, std::span<const std::byte>) {};
    if (verification == SaveVerification::every_block) return reader.read_all(use);
    std::vector<std::size_t> ends = {0, expected.block_digests.size() - 1};
    if (ends[1] == 0) ends.pop_back();
    if (!expected.block_digests.empty()) reader.read(ends, use);
}

std::vector<ReadOperation> plan_reads(const Manifest& manifest, const fsdp::State& state) {
    TensorsByName tensors;
    for (const auto& tensor : manifest.tensors) tensors[tensor.name] = &tensor;
    std::vector<ReadOperation> operations;
    for (const auto& wanted : state) {
        const Manifest::Tensor& stored = require_tensor(tensors, wanted);
        const std::uint64_t element_bytes = size_of(wanted.type);
        for (const auto& piece : wanted.pieces) {
            for (const auto& source : stored.pieces) {
                const std::int64_t begin = std::max(piece.offset, source.offset);
                const std::int64_t end = std::min(piece.offset + piece.count, source.offset + source.count);
                if (begin >= end) continue;
                operations.push_back(
                    {source.file_index,
                     source.file_offset + static_cast<std::uint64_t>(begin - source.offset) * element_bytes,
                     static_cast<std::uint64_t>(end - begin) * element_bytes,
                     piece.data + static_cast<std::uint64_t>(begin - piece.offset) * element_bytes});
            }
        }
    }
    std::sort(operations.begin(), operations.end(), [](const ReadOperation& a, const ReadOperation& b) {
        return std::pair(a.file_index, a.file_offset) < std::pair(b.file_index, b.file_offset);
    });
    return operations;
}

void read_shards(Storage& storage, const std::filesystem::path& directory, const Manifest& manifest,
                 std::span<const ReadOperation> operations) {
    while (!operations.empty()) {
        const std::size_t file_index = operations.front().file_index;
        std::size_t count = 0;
        while (count < operations.size() && operations[count].file_index == file_index) ++count;
        BlockReader reader(storage, directory, manifest.files[file_index]);
        read_file_parts(reader, operations.first(count));
        operations = operations.subspan(count);
    }
}

}  // namespace autolaunch

#include "base/hash.hpp"
#include "base/text.hpp"
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

// Reads blocks of one file, each verified against the manifest.
class BlockReader {
public:
    BlockReader(Storage& storage, const std::filesystem::path& directory, const Manifest::File& expected)
        : file_(storage.open(directory / expected.name)), path_(directory / expected.name), expected_(expected) {
        const std::uint64_t bytes = file_->size();
        if (bytes != expected.bytes)
            throw Error(ErrorCode::corrupt, path_.string() + " has " + std::to_string(bytes) + " bytes, not " +
                                                std::to_string(expected.bytes));
    }

    std::span<const std::byte> block(std::size_t index, std::vector<std::byte>& buffer) {
        const std::uint64_t begin = index * Manifest::kBlockBytes;
        const auto bytes = static_cast<std::size_t>(std::min(Manifest::kBlockBytes, expected_.bytes - begin));
        buffer.resize(Manifest::kBlockBytes);
        const auto content = std::span(buffer).first(bytes);
        const std::size_t got = file_->read_at(begin, content);
        if (got != bytes || hash128(content.data(), bytes) != expected_.block_digests[index])
            throw Error(ErrorCode::corrupt,
                        path_.string() + " does not hold what was saved: bytes " + std::to_string(begin) + " to " +
                            std::to_string(begin + bytes) + " have another digest",
                        "the file was damaged after it was saved; load an older checkpoint");
        return content;
    }

private:
    std::unique_ptr<StorageFile> file_;
    std::filesystem::path path_;
    const Manifest::File& expected_;
};

// The part of an operation that lies in a block.
void copy_part(const ReadOperation& operation, std::uint64_t block_begin, std::span<const std::byte> block) {
    const std::uint64_t begin = std::max(operation.file_offset, block_begin);
    const std::uint64_t end = std::min(operation.file_offset + operation.bytes, block_begin + block.size());
    if (begin < end)
        std::memcpy(operation.to + (begin - operation.file_offset), block.data() + (begin - block_begin), end - begin);
}

// `operations` are of one file, by offset.
void read_file_parts(BlockReader& reader, std::span<const ReadOperation> operations, std::vector<std::byte>& buffer) {
    std::size_t next_block = 0;    // blocks before it are done
    std::size_t first_active = 0;  // operations before it end before next_block
    for (const ReadOperation& operation : operations) {
        const std::uint64_t last = (operation.file_offset + operation.bytes - 1) / Manifest::kBlockBytes;
        next_block = std::max<std::size_t>(next_block, operation.file_offset / Manifest::kBlockBytes);
        for (; next_block <= last; ++next_block) {
            const std::uint64_t begin = next_block * Manifest::kBlockBytes;
            const auto block = reader.block(next_block, buffer);
            while (operations[first_active].file_offset + operations[first_active].bytes <= begin) ++first_active;
            for (std::size_t i = first_active; i < operations.size(); ++i) {
                if (operations[i].file_offset >= begin + block.size()) break;
                copy_part(operations[i], begin, block);
            }
        }
    }
}

}  // namespace

void verify_file(Storage& storage, const std::filesystem::path& directory, const Manifest::File& expected) {
    BlockReader reader(storage, directory, expected);
    std::vector<std::byte> buffer;
    for (std::size_t index = 0; index < expected.block_digests.size(); ++index) reader.block(index, buffer);
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
    std::vector<std::byte> buffer;
    while (!operations.empty()) {
        const std::size_t file_index = operations.front().file_index;
        std::size_t count = 0;
        while (count < operations.size() && operations[count].file_index == file_index) ++count;
        BlockReader reader(storage, directory, manifest.files[file_index]);
        read_file_parts(reader, operations.first(count), buffer);
        operations = operations.subspan(count);
    }
}

}  // namespace autolaunch

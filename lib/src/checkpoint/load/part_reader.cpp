#include "checkpoint/load/part_reader.hpp"

#include "checkpoint/load/block_reader.hpp"
#include "checkpoint/load/decrypting_reader.hpp"

namespace autolaunch {

namespace {

// `needs` are of one file.
void read_file_blocks(Storage& storage, const std::filesystem::path& directory,
                      const Manifest& manifest, std::span<const BlockNeed> needs,
                      const UseBlock& use, const ReadKeys& keys) {
    const std::size_t file_index = needs.front().file_index;
    std::vector<std::size_t> indices;
    for (const BlockNeed& need : needs)
        indices.push_back(need.block);
    std::size_t next = 0;
    const auto use_next = [&](std::size_t, std::span<const std::byte> content) {
        use(needs[next++], content);
    };
    if (manifest.files.at(file_index).plain_bytes)
        return DecryptingReader(storage, directory, manifest.files[file_index], keys)
            .read(indices, use_next);
    const auto describe = [&](std::uint64_t begin, std::uint64_t end) {
        return content_at(manifest, file_index, begin, end);
    };
    BlockReader(storage, directory, manifest.files[file_index], describe, keys.check)
        .read(indices, use_next);
}

}  // namespace

void read_blocks(Storage& storage, const std::filesystem::path& directory, const Manifest& manifest,
                 std::span<const BlockNeed> needs, const UseBlock& use, const ReadKeys& keys) {
    while (!needs.empty()) {
        std::size_t count = 0;
        while (count < needs.size() && needs[count].file_index == needs.front().file_index)
            ++count;
        read_file_blocks(storage, directory, manifest, needs.first(count), use, keys);
        needs = needs.subspan(count);
    }
}

void read_parts(Storage& storage, const std::filesystem::path& directory, const Manifest& manifest,
                std::span<const ReadPart> parts, const ReadKeys& keys) {
    read_blocks(
        storage, directory, manifest, blocks_needed(parts),
        [&](const BlockNeed& need, std::span<const std::byte> content) {
            for (const std::size_t part : need.parts)
                copy_part(parts[part], need.block * Manifest::kBlockBytes, content);
        },
        keys);
}

void verify_file(Storage& storage, const std::filesystem::path& directory,
                 const Manifest::File& expected, SaveVerification verification) {
    BlockReader reader(storage, directory, expected);
    const auto use = [](std::size_t, std::span<const std::byte>) {};
    if (verification == SaveVerification::every_block)
        return reader.read_all(use);
    std::vector<std::size_t> ends = {0, expected.block_digests.size() - 1};
    if (ends[1] == 0)
        ends.pop_back();
    if (!expected.block_digests.empty())
        reader.read(ends, use);
}

}  // namespace autolaunch

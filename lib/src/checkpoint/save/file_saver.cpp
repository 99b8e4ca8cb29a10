#include "checkpoint/save/file_saver.hpp"

#include "base/hash.hpp"
#include "checkpoint/age/encryption_keys.hpp"
#include "checkpoint/load/block_reader.hpp"
#include "checkpoint/load/part_reader.hpp"
#include "checkpoint/storage/aligned_memory.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kTurns = 16;

/// The chunks of some of the files, as if there were no others.
class ChosenSource final : public ChunkSource {
public:
    ChosenSource(StateSource& all, std::span<const FileChunk> chunks,
                 const std::vector<bool>& chosen_files)
        : all_(all), chunks_(chunks), chosen_files_(chosen_files) {}

    std::byte* take(std::size_t) override {
        skip_others();
        std::byte* const memory = all_.take(next_);
        if (memory)
            ++next_;
        return memory;
    }
    void give_back(std::byte* memory) override { all_.give_back(memory); }
    // Who copies waits for every chunk to be taken, also the last ones.
    void skip_others() {
        for (; next_ < chunks_.size() && !chosen_files_[chunks_[next_].file_index]; ++next_)
            all_.skip(next_);
    }

private:
    StateSource& all_;
    std::span<const FileChunk> chunks_;
    const std::vector<bool>& chosen_files_;
    std::size_t next_ = 0;
};

/// The digests of a planned file's blocks; `chunks` are its own, the first is number `first` of the
/// source's.
std::vector<Digest128> content_digests(std::span<const FileChunk> chunks, std::size_t first,
                                       StateSource& source, std::byte* scratch) {
    std::vector<Digest128> digests;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        const std::byte* content = source.peek(first + i, scratch);
        for (std::uint64_t at = 0; at < chunks[i].bytes; at += Manifest::kBlockBytes)
            digests.push_back(
                hash128(content + at, std::min(Manifest::kBlockBytes, chunks[i].bytes - at)));
    }
    return digests;
}

}  // namespace

std::vector<std::size_t> blocks_to_verify(std::size_t blocks, std::uint64_t turn) {
    std::vector<std::size_t> chosen;
    for (std::size_t block = 0; block < blocks; ++block)
        if (block == 0 || block == blocks - 1 || block % kTurns == turn % kTurns)
            chosen.push_back(block);
    return chosen;
}

void FileSaver::offer_parent(const fs::path& directory, std::vector<Manifest::File> files) {
    has_parent_ = true;
    parents_.clear();
    for (Manifest::File& file : files) {
        const bool has_sha256 = !file.block_sha256.empty();
        if (file.plain_bytes || has_sha256 != (hashes_ == BlockHashes::xxh3_and_sha256))
            continue;
        auto content = file.block_digests;
        parents_.push_back({directory, std::move(file), std::move(content), false});
    }
}

void FileSaver::published(const fs::path& directory) {
    has_parent_ = true;
    parents_ = std::exchange(saved_, {});
    for (LinkSource& parent : parents_)
        parent.directory = directory;
}

// Whether the bytes on the disk are still those of the manifest.
bool FileSaver::is_sound(LinkSource& parent) {
    try {
        if (!parent.is_own || options_.verify == SaveVerification::every_block) {
            verify_file(storage_, parent.directory, parent.file, SaveVerification::every_block);
        } else {
            BlockReader reader(storage_, parent.directory, parent.file);
            reader.read(blocks_to_verify(parent.file.block_digests.size(), turn_),
                        [](std::size_t, auto) {});
        }
        return true;
    } catch (const Error& error) {
        remarks_.push_back(std::string(error.what()) + ": it is written anew, not linked");
        return false;
    }
}

bool FileSaver::link_one(LinkSource& parent, const fs::path& to) {
    if (!is_sound(parent))
        return false;
    try {
        storage_.link_file(parent.directory / parent.file.name, to);
        return true;
    } catch (const Error& error) {
        if (!std::exchange(said_refused_, true))
            remarks_.push_back(std::string(error.what()) +
                               ": files that did not change are written anew");
    }
    // It may be there all the same, and what is written to it would be written to the parent's
    // file.
    storage_.remove_all(to);
    return false;
}

// For each file what it was linked to. Without a link the file's name there is empty, and of a
// frozen file the digests of its content are known where they were needed.
std::vector<LinkSource> FileSaver::link_unchanged(const fs::path& directory,
                                                  std::span<const PlannedFile> files,
                                                  StateSource& source) {
    std::vector<LinkSource> linked(files.size());
    if (!options_.link_unchanged)
        return linked;
    const auto chunks = chunks_of(files);
    AlignedMemory scratch;
    std::size_t first = 0;
    for (std::size_t i = 0; i < files.size(); ++i) {
        const std::size_t begin = first;
        while (first < chunks.size() && chunks[first].file_index == i)
            ++first;
        const auto has_size = [&](const LinkSource& parent) {
            return parent.file.content_bytes() == files[i].bytes;
        };
        if (!files[i].frozen)
            continue;
        if (recipients_.empty() && std::none_of(parents_.begin(), parents_.end(), has_size))
            continue;
        if (scratch.bytes() == 0)
            scratch = AlignedMemory(kChunkBytes);
        linked[i].content = content_digests(std::span(chunks).subspan(begin, first - begin), begin,
                                            source, scratch.data());
        const auto parent =
            std::find_if(parents_.begin(), parents_.end(), [&](const LinkSource& candidate) {
                return has_size(candidate) && candidate.content == linked[i].content;
            });
        const std::string name = files[i].name + (recipients_.empty() ? "" : kEncryptedSuffix);
        if (parent == parents_.end() || !link_one(*parent, directory / name))
            continue;
        linked[i].file = parent->file;
        linked[i].file.name = name;
    }
    return linked;
}

Manifest FileSaver::save(const fs::path& directory, const WritePlan& plan, StateSource& source,
                         const WriteProgress& progress) {
    auto files = link_unchanged(directory, plan.files, source);
    ++turn_;
    std::vector<bool> is_written(files.size());
    WritePlan rest;
    std::uint64_t linked_bytes = 0;
    for (std::size_t i = 0; i < files.size(); ++i) {
        is_written[i] = files[i].file.name.empty();
        if (!is_written[i]) {
            linked_bytes += plan.files[i].bytes;
            continue;
        }
        rest.files.push_back(plan.files[i]);
        rest.fragment.files.push_back(plan.fragment.files[i]);
    }
    const auto chunks = chunks_of(plan.files);
    ChosenSource chosen(source, chunks, is_written);
    const auto whole_progress = [&](std::uint64_t bytes) {
        if (progress)
            progress(linked_bytes + bytes);
    };
    if (rest.files.empty())
        whole_progress(0);
    Manifest written =
        write_shards(storage_, directory, rest, chosen, recipients_, hashes_, whole_progress);
    chosen.skip_others();

    Manifest fragment = plan.fragment;
    saved_.clear();
    for (std::size_t i = 0, next = 0; i < files.size(); ++i) {
        if (is_written[i])
            files[i].file = std::move(written.files[next++]);
        files[i].file.rank = fragment.files[i].rank;
        fragment.files[i] = files[i].file;
        if (!plan.files[i].frozen)
            continue;
        files[i].is_own = true;
        if (recipients_.empty())
            files[i].content = files[i].file.block_digests;
        saved_.push_back(std::move(files[i]));
    }
    return fragment;
}

}  // namespace autolaunch

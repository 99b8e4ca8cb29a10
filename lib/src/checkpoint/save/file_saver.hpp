#pragma once
#include "checkpoint/age/age_keys.hpp"
#include "checkpoint/save/encrypting_source.hpp"
#include "checkpoint/save/file_writer.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/checkpoint/manifest.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch {

/// A file of the checkpoint before, which a save may link instead of writing its bytes again.
struct LinkSource {
    std::filesystem::path directory;
    Manifest::File file;             ///< as it is stored
    std::vector<Digest128> content;  ///< of its blocks before they were encrypted
    bool is_own = false;             ///< this process wrote it, or has verified all of it
};

/// Which blocks of an own file are read before it is linked once more: the ends and a sixteenth,
/// another one at each turn, so that all are read every 16 saves. Ascending. Pure.
std::vector<std::size_t> blocks_to_verify(std::size_t blocks, std::uint64_t turn);

/// One rank's files of a checkpoint on their way to the storage: frozen ones that did not change
/// are linked from the checkpoint before, others are written, encrypted where there are recipients.
///
/// A file is linked where the memory has the digests of the parent's file (header and all), and the
/// parent's file still has them too: a file of another process is read whole before its first link,
/// own ones as blocks_to_verify() says, or whole with SaveVerification::every_block. A damaged one,
/// or a link that is refused, is no failure: the file is written. What was stored encrypted is
/// linked only by the process that wrote it, which knows the content's digests; the manifest does
/// not have them, as they would tell something about the content.
///
/// Owner: the engine. Threads: one at a time. Blocks: save(), in storage and for its source.
class FileSaver {
public:
    /// All must outlive it.
    FileSaver(Storage& storage, const CheckpointOptions& options,
              const std::vector<age::Recipient>& recipients)
        : storage_(storage),
          options_(options),
          recipients_(recipients),
          hashes_(hashes_for(options.encryption)) {}

    /// Links or writes the files of the plan, and syncs them and the directory. Returns the
    /// fragment of the manifest.
    Manifest save(const std::filesystem::path& directory, const WritePlan& plan,
                  StateSource& source, const WriteProgress& progress);
    /// What was saved last is the next one's parent, and is there. The same on all ranks.
    void published(const std::filesystem::path& directory);

    /// Whether there is nothing to link yet and nobody offered a parent, of which files could be
    /// linked.
    bool needs_parent() const noexcept {
        return options_.link_unchanged && recipients_.empty() && !has_parent_;
    }
    /// The newest checkpoint, of another process: this rank's files of it. Left out are encrypted
    /// ones, and those without the SHA-256 that this process needs.
    void offer_parent(const std::filesystem::path& directory, std::vector<Manifest::File> files);

    /// What the job should hear of, such as a damaged file that was written anew; each once.
    std::vector<std::string> take_remarks() { return std::exchange(remarks_, {}); }

private:
    std::vector<LinkSource> link_unchanged(const std::filesystem::path& directory,
                                           std::span<const PlannedFile> files, StateSource& source);
    bool link_one(LinkSource& parent, const std::filesystem::path& to);
    bool is_sound(LinkSource& parent);

    Storage& storage_;
    const CheckpointOptions& options_;
    const std::vector<age::Recipient>& recipients_;
    BlockHashes hashes_;
    std::vector<LinkSource> parents_, saved_;
    bool has_parent_ = false;
    bool said_refused_ = false;
    std::uint64_t turn_ = 0;
    std::vector<std::string> remarks_;
};

}  // namespace autolaunch

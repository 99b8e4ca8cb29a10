#pragma once
#include "archives/archive_kind.hpp"
#include "base/environment.hpp"
#include "remote_data/remote_source.hpp"
#include "stage_cache/stage_tree.hpp"
#include "staging/stager_words.hpp"
#include "staging/stream_view.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// An entry of storage.stage_in as this node itself reads it: a path, or what lies on a server; of
/// either an archive that is unpacked.
///
/// Owner: one. Threads: one. Blocks: as the file system or the server does.
class ItemSource {
public:
    /// `signs` grows while it answers; may be null. Throws ExitError, see open_remote().
    ItemSource(StagerItem item, const Environment& environment, std::atomic<std::int64_t>* signs);

    const StagerItem& item() const { return item_; }
    /// How it is printed.
    std::string shown() const { return shown_source(item_.from); }
    /// What its versions' keys are made of, see key_words().
    std::string words() const;
    bool is_remote() const { return launcher::is_remote(item_.from); }
    bool is_unpacked() const { return kind_.has_value(); }
    bool streams() const { return item_.streams; }

    /// What is there now.
    SourceTree look();
    /// After look(): has a request copy it, or fetch it, and unpack it.
    void read_for(StagingRequest& request, StageCache& cache) const;
    /// The same of what ranks use while it comes: file after file, each shown once it is whole.
    void stream_for(StagingRequest& request, StreamView& view) const;
    /// Has a request compare what is there then with the spec's digests. An archive's own is
    /// compared where it is read, before it is unpacked.
    void verify_for(StagingRequest& request) const;

private:
    void bring(int into, const StagePart& part, SourceTree& source, const CopyOptions& options,
               CopyProgress& progress) const;
    void bring_unpacked(StageCache& cache, StagePart& part, SourceTree& source,
                        const CopyOptions& options, CopyProgress& progress) const;

    const StagerItem item_;
    const std::optional<ArchiveKind> kind_;
    std::atomic<std::int64_t>* signs_;
    std::unique_ptr<RemoteSource> remote_;
};

}  // namespace autolaunch::launcher

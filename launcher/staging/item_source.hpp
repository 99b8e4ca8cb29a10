#pragma once
#include "base/environment.hpp"
#include "remote_data/remote_source.hpp"
#include "stage_cache/stage_tree.hpp"
#include "staging/stager_words.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace autolaunch::launcher {

/// An entry of storage.stage_in as this node itself reads it: a path, or what lies on a server.
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

    /// What is there now.
    SourceTree look();
    /// After look(): has a request copy it, or fetch it.
    void prepare(StagingRequest& request) const;

private:
    const StagerItem item_;
    std::atomic<std::int64_t>* signs_;
    std::unique_ptr<RemoteSource> remote_;
};

}  // namespace autolaunch::launcher

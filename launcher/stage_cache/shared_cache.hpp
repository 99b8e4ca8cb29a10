#pragma once
#include "stage_cache/held_tree.hpp"
#include "stage_cache/shared_place.hpp"

#include <optional>
#include <string>

namespace autolaunch::launcher {

/// What a site keeps on this node's disk for the jobs of all users, as a job's user sees it: read
/// only, and believed as far as nobody but its owner can have put it there. It is looked at anew
/// with each call, for it may come, go and be filled while a job runs. StageCache, opened by its
/// owner, fills it.
///
/// Whoever looks has to know KEY, which he has from a source that he can read: the folders let
/// nobody list what they hold.
///
/// Owner: one. Threads: one. Blocks: while the disk does, and 2 s where somebody keeps a tree's
/// lock to himself.
class SharedCache {
public:
    explicit SharedCache(SharedPlace place) : place_(std::move(place)) {}

    const SharedPlace& place() const { return place_; }

    /// What is there of that version of a source, as it was published, held. `note`: why something
    /// that is there was not used.
    std::optional<HeldTree> find(const std::string& key, std::string& note) const;
    /// One that find() has given, once more.
    std::optional<HeldTree> hold(const std::string& name, std::string& note) const;

private:
    std::optional<HeldTree> hold_in(const SharedFolder& folder, const std::string& name) const;
    std::optional<HeldTree> find_in(const std::string& key) const;

    SharedPlace place_;
};

}  // namespace autolaunch::launcher

#pragma once
#include "base/locked_folder.hpp"
#include "base/owned_folder.hpp"
#include "base/unique_fd.hpp"
#include "base/workspace.hpp"
#include "stage_cache/held_tree.hpp"
#include "stage_cache/shared_place.hpp"
#include "stage_cache/tree.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A tree that is being written; nobody else writes it meanwhile. What is there when its process
/// dies stays, and is gone on with by the next one on this boot of the machine.
class StagePart {
public:
    int folder() const { return tree_.get(); }
    /// The folder that nobody looks into, for the one who fills it: 0700, removed with it.
    int own_folder() const { return lock_.get(); }
    const std::string& key() const { return key_; }
    std::filesystem::path path() const { return path_; }

private:
    friend class StageCache;
    UniqueFd lock_, tree_;
    std::string key_, name_;
    std::filesystem::path path_;
};

/// What of jobs' data is on this node's disk (docs/stage-cache.md has the folder byte by byte).
/// Every file that counts is in its place by one rename(2) behind an fsync, and every owner is a
/// lock of the kernel's: so a process may be killed, the disk be full and the machine lose power at
/// any moment, and what is found is whole or not there.
///
/// Owner: one. Threads: one. Blocks: while the disk does, and up to kLockTime for another process.
class StageCache {
public:
    static constexpr std::chrono::seconds kLockTime{30};

    struct Found {
        std::string name;
        std::int64_t bytes = 0, files = 0;
        std::int64_t used_s = 0;  ///< when it was used last, seconds since 1970
        bool is_held = false;
        bool is_part = false;  ///< not whole: nobody writes it, or somebody does (is_held)
        std::string why_unreadable = {};
        std::int64_t keep_s = 0;           ///< the longest that a job wanted; 0: none has said
        std::vector<std::string> of = {};  ///< sources that it is a version of
    };
    /// What a job says of what it has staged.
    struct Wish {
        std::string from;         ///< as errors name it
        std::int64_t keep_s = 0;  ///< after its last use
    };

    /// `scratch` is made where it is missing; `most_bytes` of all trees together, 0: half of the
    /// file system. Throws ExitError 73, with the remedy, where it is another user's, lets others
    /// in, or is on a network's file system.
    StageCache(const std::filesystem::path& scratch, std::int64_t most_bytes);
    /// That of a site (SharedCache), for its owner: what comes in there is for all users to read.
    /// Made where its parent is there. Throws ExitError 77 for anybody else, and 73 as above, also
    /// where others can write to it.
    StageCache(const SharedPlace& place, std::int64_t most_bytes);

    bool is_shared() const { return is_shared_; }
    const std::filesystem::path& path() const { return folder_.path(); }
    std::int64_t most_bytes() const { return most_bytes_; }

    /// What was staged of that version of a source, held; it looks as it did when it was published.
    /// `note`: what was found and could not be used.
    std::optional<HeldTree> find(const std::string& key, std::string& note);
    /// A whole tree by its name; nothing where there is none, or somebody removes it just now.
    std::optional<HeldTree> hold(const std::string& name);
    /// Of a held one. Throws Error{corrupt} where the text is damaged.
    static Tree tree_of(const HeldTree& held);
    /// The same with the times that its files have.
    static Tree listed_tree_of(const HeldTree& held);
    /// Empty, or which file has another content. Reads all of it.
    std::string why_damaged(const HeldTree& held) const;

    /// To write that version of a source; nothing while another process does.
    std::optional<StagePart> begin(const std::string& key);
    /// Removes what nobody holds, what was not used for longest first, until `bytes` more fit.
    /// Throws ExitError 73 where they cannot.
    void make_room(std::int64_t bytes, const StagePart& for_part) { make_room(bytes, for_part, 0); }
    /// `there`: what the part has already, which counts for the limit.
    void make_room(std::int64_t bytes, const StagePart& for_part, std::int64_t there);
    void make_room(std::int64_t bytes) { make_room(bytes, StagePart{}); }
    /// A folder on the same file system for copies that come otherwise, this process's as long as
    /// the returned one lives; what killed processes have left of such is removed with the cache's
    /// next use.
    LockedFolder make_folder_for_copies() const;
    /// It is whole, with all digests: synced, renamed, held. Where the same content is here
    /// already, that one is.
    HeldTree publish(StagePart& part, const Tree& tree);
    /// Before publish(): in a site's cache all users can read every file, whatever an archive says.
    void let_all_read(const StagePart& part, Tree& tree) const;
    /// Nothing of it stays, unless it was published.
    void drop(StagePart part);
    /// On the disk, since an attempt that was ended.
    std::int64_t bytes_in(const StagePart& part) const;
    /// That this version of a source has that content.
    void remember(const std::string& key, const HeldTree& held, const Wish& wish);

    std::vector<Found> list();
    /// False: somebody holds it.
    bool remove(const std::string& name);

private:
    StageCache(OwnedFolder folder, bool is_shared, std::int64_t most_bytes);
    UniqueFd lock_all();
    std::optional<StagedSource> source_of(const std::string& key) const;
    bool move_away(const OwnedFolder& from, const std::string& name);
    void remove_gone();
    void remove_abandoned_copies();
    void forget_sources();
    Found look_at_entry(const std::string& name) const;
    Found look_at_part(const std::string& name) const;
    std::vector<Found> list_kind(bool parts) const;
    std::string free_name(const std::string& address) const;
    HeldTree as_held(UniqueFd lock, const std::string& name) const;
    /// What a user may see of his own; of a site's cache everybody may pass and nobody list it.
    OwnedFolder inner_folder(const char* name) const;

    bool is_shared_;
    OwnedFolder folder_, data_, parts_, sources_, gone_, copies_;
    std::int64_t most_bytes_;
};

/// Below `scratch`: this user's folder there.
std::filesystem::path stage_folder(const std::filesystem::path& scratch);
/// Refuses one below a folder where everybody could put another in its place (exit code 73).
void refuse_open_scratch(const std::filesystem::path& scratch, const Workspace& workspace);

}  // namespace autolaunch::launcher

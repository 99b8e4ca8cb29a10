#pragma once
#include "base/environment.hpp"
#include "base/locked_folder.hpp"
#include "exit_codes/exit_error.hpp"
#include "hand_over/node_cache.hpp"
#include "stage_cache/shared_cache.hpp"
#include "stage_cache/stage_tree.hpp"
#include "staging/item_source.hpp"
#include "staging/stager/agent_line.hpp"
#include "staging/stager/watch.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Brings all that a job wants to this node's disk, one after the other, as its role says. What the
/// head reads of a file system, its mover reads, and gives it to all at once; what comes from a
/// server, or is unpacked, it has first itself, and hands on then from its own disk.
///
/// Owner: main(). Threads: one. Blocks: until the agent ends this process.
class Stager {
public:
    Stager(AgentLine& agent, StagerOrder order, const Environment& environment);
    void run();

private:
    const StagerItem& item_of(int item) const { return source_of(item).item(); }
    ItemSource& source_of(int item) const { return *sources_.at(static_cast<std::size_t>(item)); }
    StageCache::Wish wish_of(int item) const {
        return {.from = source_of(item).shown(), .keep_s = order_.keep_s};
    }
    /// On the head: before others can have it, it has to be here.
    bool is_made_here(int item) const {
        return source_of(item).is_remote() || source_of(item).is_unpacked() || streams(item);
    }
    bool streams(int item) const { return source_of(item).streams(); }
    /// What this node has of a version: for all its users, or for this one.
    std::optional<HeldTree> find(const std::string& key);
    /// As far as it is this user's to write there.
    void remember(int item, const std::string& key, const HeldTree& held);
    void open_shared_cache();
    void open_own_cache();
    /// Throws ExitError 73 where there is none.
    StageCache& own_cache();
    std::int64_t shared_owner() const;
    void say_once(std::string note);
    void watch(int item, const CopyProgress* progress, std::int64_t of);

    void stage(int item);
    void tell_staged(int item, const StagedTree& staged, const CopyProgress& progress,
                     std::chrono::milliseconds took) const;
    StagedTree read_alone(int item, CopyProgress& progress);
    StagedTree have_handed(int item, CopyProgress& progress);
    bool await_source(int item);
    void hear_agent();
    std::map<std::string, std::string> await_handed(int item);
    /// What has come of an item from others.
    struct Came {
        SourceTree source = {};
        std::map<std::string, std::string> copies = {};  ///< path there, path here
        bool is_whole = false;                           ///< nothing is to be read of its source
    };
    std::optional<Tree> listed_tree(int item, const SeenSource& seen,
                                    const std::map<std::string, std::string>& copies) const;
    SourceTree look_as_seen(int item, const SeenSource& seen) const;
    Came tree_that_came(int item, const SeenSource& seen,
                        std::map<std::string, std::string> copies);
    StagedTree copy(int item, SourceTree& source, const std::string& key, const Came& came,
                    CopyProgress& progress);

    // Of what ranks use while it comes (stager_streams.cpp).
    void begin_streams();
    void begin_stream(int item);
    void look_alone(int item);
    bool have_listing(int item);
    void show_stream(int item);
    StagedTree stream(int item, CopyProgress& progress);
    void stream_by(int item, StreamView& view, const Came& came, StagingRequest& request);
    void show_what_comes(int item, const SeenSource& seen);
    void show_published(int item, const StagedTree& staged);

    // Of the head, for the other nodes (stager_head.cpp).
    void look_for_others();
    SeenSource see(int item);
    void list_for_others(SeenSource& seen) const;
    void take_unpacked(int item, const HeldTree& held);
    void see_own_copy(SeenSource& seen);
    void set_own_place(SeenSource& seen, const HeldTree& held) const;
    WantedFiles offer_of(const SeenSource& seen, const Tree& tree) const;
    static void add_facts(WantedFiles& offer, const std::vector<const TreeEntry*>& files);
    void offer_own(int item, const HeldTree& held);
    void prepare(const AgentWord& word);
    void link_for_others(const SeenSource& seen, const HeldTree& held);
    std::string place_for(int item) const;

    AgentLine& agent_;
    const StagerOrder order_;
    Watch watch_;
    std::optional<StageCache> cache_;    ///< none where all is to be in the site's
    std::optional<ExitError> no_cache_;  ///< why there is none
    std::optional<SharedCache> shared_;  ///< in which this node looks first
    std::set<std::string> said_;
    std::optional<LockedFolder> copies_;
    std::vector<std::unique_ptr<ItemSource>> sources_;
    std::map<int, SourceTree> trees_;  ///< on the head
    std::map<int, SeenSource> seen_;
    std::map<int, HandedFiles> handed_;  ///< that nobody has asked for yet
    std::map<int, HandedFiles> came_;    ///< of those that come one by one
    std::map<int, std::unique_ptr<StreamView>> views_;
    bool is_deserted_ = false;  ///< a node, whose head is gone
    std::map<int, HeldTree> held_;
    std::map<int, StagedTree> kept_;  ///< until the agent holds them, too
};

/// Where a file is there.
std::string path_there(const SeenSource& seen, const TreeEntry& entry);

}  // namespace autolaunch::launcher

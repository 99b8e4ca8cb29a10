#pragma once
#include "quorum/peer_links.hpp"
#include "quorum/witness.hpp"
#include "rendezvous/join.hpp"
#include "succession/succession.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// One agent's part in the rule of docs/adr/0017, with sockets, a clock and the witness's file:
/// gives the rule what it hears, carries out what it says, and connects this node to whoever is
/// head.
///
/// Owner: an agent. Threads: the one that runs the context. Blocks: on the file system, where two
/// nodes are left. Handlers are called from the event loop, in the order of what has happened.
class Quorum {
public:
    struct Options {
        int node = 0;  ///< ours
        std::chrono::milliseconds lost_after{10'000};
        std::string folder;  ///< for the witness: the run directory
    };
    struct Handlers {
        /// It was committed: its ranks may be started.
        std::function<void(const RecordPointer& record)> begin;
        /// By SIGKILL, now.
        std::function<void(std::string_view why)> end_ranks;
        std::function<void()> hold_ranks, go_on;
        /// This agent is head, after the generation of `newest`. Who says nothing of its ranks has
        /// none any more in `fence`.
        std::function<void(const RecordPointer& newest, std::chrono::milliseconds fence)> lead;
        std::function<void(std::string_view why)> stand_down;
        std::function<void(const RecordPointer& last)> leave;
        std::function<void(std::string_view why, bool is_stranded)> give_up;
        /// Another node has this one as its head. The receiver owns the connection.
        std::function<void(int node, const PeerDoor::Visitor& visitor)> take_follower;
        /// That node is this one's head, over that connection.
        std::function<void(int head, const std::shared_ptr<ControlConnection>& connection)> follow;
        /// Of a node that has come to the running job: that node was head when it came.
        std::function<void(int head)> came_to;
    };

    /// `peers` outlives it.
    Quorum(asio::io_context& io, Peers& peers, const Options& options, Handlers handlers);
    Quorum(const Quorum&) = delete;
    Quorum& operator=(const Quorum&) = delete;
    ~Quorum();

    /// All have met, and node 0 is head: of these nodes, as the Welcome has named them.
    void start(std::vector<RecordedNode> nodes);
    /// This node has come to the running job, and is taken in by a record.
    void start_late();
    /// The job is over here: nothing more is said.
    void stop();

    /// The connection to the head is gone.
    void head_link_lost(int head);
    /// The head's: see Succession. The voters' incarnations are filled in, and whether there is a
    /// witness; a node that has come since must be known by admit().
    bool propose(GenerationRecord next, const std::vector<int>& voters);
    void admit(int node, std::uint64_t incarnation);
    /// The head's: that node is given up. In so long no rank lives there.
    std::chrono::milliseconds dismiss(int node);
    void ask_if_gone(int node, std::function<void(bool gone)> answered) {
        links_.ask_if_gone(node, std::move(answered));
    }

    bool is_member() const { return rule_ && rule_->accepted().record; }  ///< has a vote
    bool is_head() const { return rule_ && rule_->is_head(); }
    /// The newest that this agent has accepted; null: none.
    RecordPointer newest() const { return rule_ ? rule_->accepted().record : nullptr; }
    /// That has begun here; null: none.
    RecordPointer begun() const { return rule_ ? rule_->begun() : nullptr; }
    int term() const { return rule_ ? rule_->term().number : 0; }
    /// Of the last head that this agent has followed, or was.
    Term followed() const { return rule_ ? rule_->followed() : Term(); }
    /// A majority has answered this head in time: what it says and writes counts.
    bool is_backed() const;
    bool has_begun(int generation) const;
    /// For this node's keeper: how long ranks may live if nothing more is heard.
    std::chrono::milliseconds ranks_may_live() const;
    /// The node whose word counts here.
    int obeyed() const { return rule_ ? rule_->term().node : 0; }

private:
    void hear(const succession::Message& word);
    void carry_out(succession::Effects&& effects);
    void carry_out(const succession::Effect& effect);
    void learn_doors();
    void follow(Term term);
    void set_timer();
    void tick();
    SuccessionOptions rule_options() const;

    asio::io_context& io_;
    Peers& peers_;
    const Options options_;
    Handlers handlers_;
    PeerLinks links_;
    Witness witness_;
    asio::steady_timer timer_;
    std::optional<Succession> rule_;
    std::vector<succession::Message> early_;  ///< before start()
    RecordPointer known_;
    std::map<int, std::uint64_t> admitted_;  ///< since the newest record was made
    Term followed_;
    bool stopped_ = false, is_late_ = false;  ///< came late, and has heard of no head yet
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace autolaunch::launcher

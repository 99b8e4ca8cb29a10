#pragma once
#include "control/control_connection.hpp"
#include "control/control_security.hpp"
#include "rendezvous/peer_door.hpp"
#include "succession/succession_message.hpp"

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Connections to the job's other agents, made when there is something to say. A word that finds no
/// way is lost, as the rule of succession allows; one to a node that cannot be reached is not
/// waited for.
///
/// Owner: Quorum. Threads: the one that runs the context. Blocks: never.
class PeerLinks {
public:
    struct Options {
        JobIdentity identity;
        JobKey key;
        ControlConnectionOptions connection;
    };
    struct Handlers {
        std::function<void(const succession::Message& word)> on_word;
        /// The receiver owns the connection.
        std::function<void(const control::Follow& follow, const PeerDoor::Visitor& visitor)>
            on_follower;
    };
    using Connected = std::function<void(std::shared_ptr<ControlConnection>)>;

    PeerLinks(asio::io_context& io, const Options& options, PeerDoor& door, Handlers handlers);
    PeerLinks(const PeerLinks&) = delete;
    PeerLinks& operator=(const PeerLinks&) = delete;
    ~PeerLinks();

    /// Where that node is heard ("address:port"), by the newest record.
    void know(int node, const std::string& door);
    void say(const succession::Message& word);
    /// A connection of its own, whose other end is `door` of that node; null: there is none in
    /// time.
    void connect(int node, Connected connected);
    /// Whether its machine answers, and says that the agent is not there any more.
    void ask_if_gone(int node, std::function<void(bool gone)> answered);
    void stop();

private:
    struct Link {
        std::string door;
        std::shared_ptr<ControlConnection> connection;
        bool is_dialled = false;
        std::deque<std::string> waiting;  ///< words, while it is
    };
    using Dialled = std::function<void(std::shared_ptr<asio::ip::tcp::socket>, bool refused)>;

    void dial(int node, Dialled dialled);
    void on_visitor(const PeerDoor::Visitor& visitor);
    void on_message(const std::weak_ptr<ControlConnection>& from, control::Message&& message);
    void on_end(const std::weak_ptr<ControlConnection>& whose);
    void hear(const std::shared_ptr<ControlConnection>& connection);
    std::shared_ptr<ControlConnection> open(const std::shared_ptr<asio::ip::tcp::socket>& socket);

    asio::io_context& io_;
    Options options_;
    std::shared_ptr<ControlSecurity> security_;
    Handlers handlers_;
    std::map<int, Link> links_;
    std::vector<std::shared_ptr<ControlConnection>> heard_;  ///< all that may speak to us
    bool stopped_ = false;
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace autolaunch::launcher

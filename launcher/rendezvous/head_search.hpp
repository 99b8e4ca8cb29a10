#pragma once
#include "control/control_connection.hpp"
#include "rendezvous/diagnosis.hpp"
#include "rendezvous/host_lookup.hpp"

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Finds the head: dials every port of the job on every address the head may have, side by side and
/// a little apart, again and again with growing pauses, until one end proves the job's key. That
/// one is kept. The head may start later than we; another job may listen on the same ports; names
/// may not resolve yet.
///
/// Owner: MemberJoin. Threads: the one that runs the context. Blocks: never. Ends only by success
/// or stop(): the deadline is its owner's.
class HeadSearch : public std::enable_shared_from_this<HeadSearch> {
public:
    struct Options {
        std::vector<HostName> hosts;  ///< likeliest first
        std::vector<std::uint16_t> ports;
        ControlConnectionOptions connection;
        std::optional<asio::ip::address>
            own_address;  ///< to dial from; nothing: the kernel chooses
        /// Where else it may be by now; asked at each look-up.
        std::function<std::vector<HostName>()> moved = {};
    };
    using Found = std::function<void(std::shared_ptr<ControlConnection>)>;

    HeadSearch(asio::io_context& io, std::shared_ptr<ControlSecurity> security, Options options);

    /// Calls `found` from the event loop; its handlers are then the receiver's to set.
    void start(Found found);
    void stop();
    /// What was tried so far.
    void describe(SearchRecord& record) const;
    /// An end refused our key, or we its.
    bool key_was_refused() const { return key_was_refused_; }

private:
    using Clock = std::chrono::steady_clock;
    enum class DialState { waiting, connecting, connected, proving };
    struct Dial {
        asio::ip::tcp::endpoint endpoint;
        int rarer = 1;  // the pauses of the n-th port are n times as long: thousands of nodes must
                        // not flood the head
        DialState state = DialState::waiting;
        Clock::time_point at;  // waiting: when it is dialled; connecting: when that is given up
        std::chrono::milliseconds pause{0};
        std::optional<asio::ip::tcp::socket> socket;
        std::shared_ptr<ControlConnection> connection;
        std::string last_error;
    };

    void look_up();
    void on_lookups(std::vector<NameLookup>&& lookups);
    void add_dials(const std::vector<asio::ip::address>& addresses);
    void advance();
    void prove_next();
    void sleep();
    bool may_dial() const;
    void connect(Dial& dial);
    void on_connected(Dial& dial, const asio::error_code& error);
    void prove(Dial& dial);
    void on_proof_failed(Dial& dial, const ConnectionEnd& end);
    void fail(Dial& dial, const std::string& error);
    void win(Dial& dial);
    std::chrono::milliseconds jittered(std::chrono::milliseconds pause);

    asio::io_context& io_;
    std::shared_ptr<ControlSecurity> security_;
    Options options_;
    Found found_;
    HostLookup lookup_;
    asio::steady_timer lookup_timer_, timer_;
    std::chrono::milliseconds lookup_pause_{0};
    std::vector<NameLookup> lookups_;
    std::deque<Dial> dials_;  // likeliest first; their addresses do not change
    Dial* proving_ = nullptr;
    Clock::time_point proof_until_, next_dial_;
    int connecting_ = 0;
    bool stopped_ = false, key_was_refused_ = false;
    std::minstd_rand random_;
};

}  // namespace autolaunch::launcher

#pragma once
#include "control/control_connection.hpp"
#include "rendezvous/diagnosis.hpp"

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

namespace autolaunch::launcher {

/// Lets in who proves the job's key, a bounded number of them at a time, in the order they came. A
/// peer that is slow or silent keeps its place until others wait for it; then the one that has been
/// there longest makes way.
///
/// Owner: HeadJoin. Threads: the one that runs the context. Blocks: never.
class Reception {
public:
    struct Options {
        ControlConnectionOptions connection;
        std::size_t handshakes_at_once = 256;
        std::size_t most_waiting =
            1024;  ///< sockets whose handshake has not begun; the oldest goes first
        std::chrono::milliseconds patience{
            2000};  ///< before a handshake makes way for those who wait
    };
    /// `address` is the peer's, numeric. The handlers of the connection are then the receiver's to
    /// set.
    using Handler =
        std::function<void(std::shared_ptr<ControlConnection>, const std::string& address)>;

    Reception(asio::io_context& io, std::shared_ptr<ControlSecurity> security,
              const Options& options, Handler on_proven);
    Reception(const Reception&) = delete;
    Reception& operator=(const Reception&) = delete;
    ~Reception();

    void take(asio::ip::tcp::socket socket);
    /// Who was turned away, by address.
    const std::map<std::string, Stranger>& strangers() const { return strangers_; }

private:
    struct Handshake {
        std::shared_ptr<ControlConnection> connection;
        std::string address;
        std::chrono::steady_clock::time_point began;
    };
    using Place = std::list<Handshake>::iterator;

    void begin_waiting();
    void begin(asio::ip::tcp::socket socket);
    void on_proven(Place place);
    void on_end(Place place, const ConnectionEnd& end);
    bool make_way();
    void turn_away(const std::string& address, const std::string& reason,
                   Stranger::Told told = Stranger::Told::nothing);

    Options options_;
    std::shared_ptr<ControlSecurity> security_;
    Handler on_proven_;
    std::deque<asio::ip::tcp::socket> waiting_;
    std::list<Handshake> handshakes_;  // in the order they began
    asio::steady_timer way_timer_;
    bool way_timer_runs_ = false;
    std::map<std::string, Stranger> strangers_;
};

}  // namespace autolaunch::launcher

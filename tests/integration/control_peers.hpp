#pragma once
#include "base/deadline.hpp"
#include "rendezvous/control_connection.hpp"
#include "rendezvous/control_security.hpp"

#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// Two ends of control connections in one event loop, over real sockets.
namespace autolaunch::launcher {

inline JobIdentity test_identity(const std::string& name = "slurm/4711.0") { return {name, {}}; }

inline JobKey test_key(char fill = 'k', JobKey::Source source = JobKey::Source::munge) {
    JobKey::Bytes bytes{};
    bytes.fill(static_cast<std::uint8_t>(fill));
    return {source, bytes};
}

/// The same given key at both ends.
inline KeyPlan given_plan(char fill = 'k') {
    KeyPlan plan;
    plan.given = test_key(fill, JobKey::Source::given);
    plan.given_by = "AUTOLAUNCH_JOB_KEY";
    return plan;
}

inline HeadKey given_head_key(char fill = 'k') {
    return {test_key(fill, JobKey::Source::given), {}, {}, "AUTOLAUNCH_JOB_KEY"};
}

/// One end, and all that its handlers saw.
struct Peer {
    std::shared_ptr<ControlConnection> connection;
    bool ready = false;
    std::vector<control::Message> received;
    std::optional<ConnectionEnd> end;

    ControlConnection::Handlers handlers() {
        return {[this] { ready = true; },
                [this](control::Message&& message) { received.push_back(std::move(message)); },
                [this](const ConnectionEnd& how) { end = how; }};
    }
};

/// Runs the loop until the condition holds; false after the deadline.
inline bool run_until(asio::io_context& io, const std::function<bool()>& done,
                      std::chrono::milliseconds within = std::chrono::seconds(20)) {
    const Deadline deadline = Deadline::after(within);
    while (!done()) {
        if (deadline.passed()) return false;
        io.restart();
        io.run_one_for(std::chrono::milliseconds(10));
    }
    return true;
}

/// A head that accepts on a port of its own.
class Listener {
public:
    Listener(asio::io_context& io, const std::string& address)
        : acceptor(io, asio::ip::tcp::endpoint(asio::ip::make_address(address), 0)) {}

    asio::ip::tcp::socket accept() { return acceptor.accept(); }
    asio::ip::tcp::endpoint endpoint() const { return acceptor.local_endpoint(); }

    asio::ip::tcp::acceptor acceptor;
};

}  // namespace autolaunch::launcher

#pragma once
#include "base/deadline.hpp"
#include "control/control_connection.hpp"
#include "control/control_security.hpp"

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// Both ends of control connections in one event loop, over real sockets.
namespace autolaunch::launcher {

inline JobIdentity test_identity(const std::string& name = "slurm/4711.0") { return {name, {}}; }

/// A given key, the same at all ends that give the same letter.
inline JobKey test_key(char letter = 'k', JobKey::Source source = JobKey::Source::given) {
    JobKey::Bytes bytes{};
    bytes.fill(static_cast<std::uint8_t>(letter));
    return {source, bytes};
}

inline std::shared_ptr<ControlSecurity> head_security(char letter = 'k',
                                                      const std::string& job = "slurm/4711.0") {
    return ControlSecurity::for_head(test_identity(job),
                                     {test_key(letter), {}, {}, "AUTOLAUNCH_JOB_KEY"});
}

inline std::shared_ptr<ControlSecurity> node_security(asio::io_context& io, char letter = 'k',
                                                      const std::string& job = "slurm/4711.0") {
    KeyPlan plan;
    plan.given = test_key(letter);
    plan.given_by = "AUTOLAUNCH_JOB_KEY";
    return ControlSecurity::for_node(io, test_identity(job), plan);
}

inline control::Message note(const std::string& text) {
    return control::Report(control::NodeWarning{text});
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
    bool ended_as(ConnectionEnd::Kind kind, const std::string& words) const {
        return end && end->kind == kind && end->reason.find(words) != std::string::npos;
    }
    std::string how() const {
        return end ? "kind " + std::to_string(static_cast<int>(end->kind)) + ": " + end->reason
                   : "no end";
    }
};

/// A listening head and whoever connects to it.
struct Meeting {
    explicit Meeting(const std::string& address = "127.0.0.1")
        : acceptor(io, asio::ip::tcp::endpoint(asio::ip::make_address(address), 0)) {}

    asio::ip::tcp::socket dial() {
        asio::ip::tcp::socket socket(io);
        socket.connect(acceptor.local_endpoint());
        return socket;
    }
    void accept(std::shared_ptr<ControlSecurity> security,
                const ControlConnectionOptions& options = {}) {
        head.connection = ControlConnection::accept(acceptor.accept(), std::move(security), options,
                                                    head.handlers());
    }
    void connect(std::shared_ptr<ControlSecurity> security,
                 const ControlConnectionOptions& options = {}) {
        node.connection =
            ControlConnection::connect(dial(), std::move(security), options, node.handlers());
    }
    /// Head and node, both ready.
    bool join(const ControlConnectionOptions& head_options = {},
              const ControlConnectionOptions& node_options = {}) {
        connect(node_security(io), node_options);
        accept(head_security(), head_options);
        return run([this] { return head.ready && node.ready; });
    }
    /// Runs the loop until the condition holds; false when it does not within the time.
    bool run(const std::function<bool()>& done,
             std::chrono::milliseconds within = std::chrono::seconds(20)) {
        const Deadline deadline = Deadline::after(within);
        while (!done()) {
            if (deadline.passed())
                return false;
            io.restart();
            io.run_one_for(std::chrono::milliseconds(10));
        }
        return true;
    }
    void run_for(std::chrono::milliseconds duration) {
        run([] { return false; }, duration);
    }

    asio::io_context io;
    asio::ip::tcp::acceptor acceptor;
    Peer head, node;
};

}  // namespace autolaunch::launcher

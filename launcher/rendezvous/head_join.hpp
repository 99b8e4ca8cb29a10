#pragma once
#include "control/control_connection.hpp"
#include "control/head.hpp"
#include "control/node_member.hpp"
#include "rendezvous/environment_comparison.hpp"
#include "rendezvous/head_listener.hpp"
#include "rendezvous/reception.hpp"
#include "rendezvous/roll_call.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace autolaunch::launcher {

/// The head's wait for the other nodes: listens, lets in who proves the key, calls the roll, and
/// welcomes all of them or tells all of them why not.
///
/// Owner: join_job. Threads: the one that runs the context. Blocks: never.
class HeadJoin : public std::enable_shared_from_this<HeadJoin> {
public:
    struct Options {
        std::vector<std::uint16_t> ports;
        ControlConnectionOptions connection;
        Expectation expectation;
        control::EnvironmentTable environment;
        std::chrono::milliseconds timeout{300'000};
        std::chrono::milliseconds last_call{30'000};  ///< for more, once there are enough
    };
    struct Outcome {
        std::exception_ptr error;  ///< RendezvousError; null: all went well
        Roster roster;
        std::unique_ptr<Head> head;
        std::unique_ptr<NodeMember> member;   ///< this node's own
        std::string head_address;             ///< ours, as another node reaches it
        std::vector<std::string> warnings;    ///< environments that differ
        std::vector<std::string> doors = {};  ///< as the Welcome has them
        std::vector<std::uint64_t> incarnations = {};
    };
    using Handler = std::function<void(Outcome&&)>;

    HeadJoin(asio::io_context& io, std::shared_ptr<ControlSecurity> security, Options options);

    /// Listens when it returns; throws RendezvousError when it cannot. Calls `on_done` once, from
    /// the event loop: by the deadline, and a second after it where the job is refused, so that the
    /// nodes hear why.
    void start(Handler on_done);
    /// Gives up: the nodes that are there lose their connection. `on_done` is not called.
    void stop();
    std::uint16_t port() const { return listener_->port(); }

private:
    struct Guest {
        std::shared_ptr<ControlConnection> connection;
        std::string address;
        std::optional<std::uint64_t> environment_digest;  // once it has said who it is
        std::uint16_t door = 0;
        std::uint64_t incarnation = 0;
    };
    using Guests = std::unordered_map<RollCall::Visitor, Guest>;

    void on_proven(std::shared_ptr<ControlConnection> connection, const std::string& address);
    void on_message(RollCall::Visitor visitor, control::Message&& message);
    void on_join(RollCall::Visitor visitor, const control::Join& join);
    void on_end(RollCall::Visitor visitor);
    void proceed();
    void welcome_all();
    void add_doors(const RollCall::Start& start, control::Welcome& welcome) const;
    void on_deadline();
    void call_last();
    void refuse_job(const std::vector<Objection>& objections);
    void on_all_heard();
    void refuse_all(const std::string& reason, const std::string& hint, std::exception_ptr error);
    void finish(Outcome&& outcome);
    void after(asio::steady_timer& timer, std::chrono::milliseconds pause,
               void (HeadJoin::*then)());
    WaitRecord wait_record() const;

    asio::io_context& io_;
    std::shared_ptr<ControlSecurity> security_;
    Options options_;
    Handler on_done_;
    RollCall roll_;
    EnvironmentComparison environments_;
    std::optional<Reception> reception_;
    std::unique_ptr<HeadListener> listener_;
    Guests guests_;
    RollCall::Visitor next_visitor_ = 1;
    asio::steady_timer deadline_, grace_, last_call_;
    bool grace_runs_ = false, grace_over_ = false;
    bool last_call_runs_ = false, last_call_over_ = false;
    std::exception_ptr refusal_;  // the job was refused: waits for the guests to hear it
};

}  // namespace autolaunch::launcher

#pragma once
#include "control/control_connection.hpp"
#include "control/node_member.hpp"
#include "rendezvous/head_search.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>

namespace autolaunch::launcher {

/// A node's way into the job: finds the head, says who it is, and waits for the Welcome. A
/// connection that breaks before that is sought anew.
///
/// Owner: join_job. Threads: the one that runs the context. Blocks: never.
class MemberJoin : public std::enable_shared_from_this<MemberJoin> {
public:
    struct Options {
        HeadSearch::Options search;
        std::string head_name;
        int node_count = 1;
        control::Join join;
        control::EnvironmentTable environment;
        std::chrono::milliseconds timeout{300'000};
    };
    struct Outcome {
        std::exception_ptr error;  ///< RendezvousError; null: all went well
        control::Welcome welcome;
        std::string head_address;
        std::unique_ptr<NodeMember> member;
        std::string local_address = {};  ///< ours, on the way to the head
    };
    using Handler = std::function<void(Outcome&&)>;

    MemberJoin(asio::io_context& io, std::shared_ptr<ControlSecurity> security, Options options);

    /// Calls `on_done` once, from the event loop, by the deadline.
    void start(Handler on_done);
    /// Gives up; `on_done` is not called.
    void stop();

private:
    void search();
    void on_found(std::shared_ptr<ControlConnection> connection);
    void on_message(control::Message&& message);
    void on_welcome(control::Welcome&& welcome);
    void on_end(const ConnectionEnd& end);
    void on_deadline();
    void fail(int exit_code, const std::string& what, const std::string& hint);
    void finish(Outcome&& outcome);

    asio::io_context& io_;
    std::shared_ptr<ControlSecurity> security_;
    Options options_;
    Handler on_done_;
    asio::steady_timer deadline_, again_;
    std::shared_ptr<HeadSearch> search_;
    std::shared_ptr<ControlConnection> connection_;
    bool met_head_ = false;
    std::string broken_off_;
};

}  // namespace autolaunch::launcher

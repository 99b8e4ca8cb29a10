#pragma once
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <vector>

namespace autolaunch::launcher {

/// The agent's signals, as calls from the event loop.
///
/// A scheduler or timeout(1) that signals both autolaunch's process group and its processes makes
/// the same signal arrive twice within milliseconds: a repetition within kRepetition counts as one.
/// A signal that was ignored when autolaunch started (nohup) stays ignored.
///
/// Owner: NodeSupervisor. Threads: the agent's one. Blocks: never.
class SignalInbox {
public:
    static constexpr std::chrono::milliseconds kRepetition{200};

    SignalInbox(asio::io_context& io, const std::vector<int>& signals,
                std::function<void(int signal)> on_signal);

private:
    void wait();

    asio::signal_set signals_;
    std::function<void(int)> on_signal_;
    std::map<int, std::chrono::steady_clock::time_point> last_;
};

}  // namespace autolaunch::launcher

#pragma once
#include "base/unique_fd.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// The agent's side of a process beside it that touches files, and may hang with their file system:
/// autolaunch-mover, or another one of autolaunch's. Lines of JSON both ways.
///
/// Owner: HandOver, or who has work of that kind. Threads: the agent's one, the main one. Blocks:
/// the constructor, until it runs; the destructor, some seconds at most.
class MoverProcess {
public:
    struct Handlers {
        std::function<void(const std::string& line)> on_line;
        /// It ended, or said nothing for `silence` while it was to: it is killed. Once.
        std::function<void(const std::string& why)> on_end;
    };
    struct Program {
        std::string name = "autolaunch-mover";
        std::vector<std::string> environment = {"PATH=/usr/bin:/bin"};
    };
    /// Throws SpawnError, SystemError, and Error where the program is not beside autolaunch.
    MoverProcess(asio::io_context& io, std::chrono::milliseconds silence, Handlers handlers,
                 const Program& program);
    MoverProcess(asio::io_context& io, std::chrono::milliseconds silence, Handlers handlers)
        : MoverProcess(io, silence, std::move(handlers), Program{}) {}
    MoverProcess(const MoverProcess&) = delete;
    MoverProcess& operator=(const MoverProcess&) = delete;
    ~MoverProcess();

    void send(std::string line);
    /// It may be silent, and end, from now on.
    void expect_nothing();
    pid_t pid() const { return pid_; }
    /// Of a MountDoor: to be handed to who mounts.
    int door() const { return door_.get(); }

private:
    void read();
    void write();
    void watch();
    void take_lines();
    void end(const std::string& why);
    void kill();

    asio::posix::stream_descriptor socket_;
    asio::steady_timer timer_;
    const std::chrono::milliseconds silence_;
    const std::string name_;
    Handlers handlers_;
    pid_t pid_ = -1;
    UniqueFd pidfd_, door_;
    std::string heard_, unsent_;
    char bytes_[65536];
    bool is_awaited_ = true, writing_ = false;
};

}  // namespace autolaunch::launcher

#pragma once
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "tasks/stand_in_message.hpp"

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What a message may take to be sent.
inline constexpr std::chrono::seconds kTaskSendTimeout{30};

/// Messages, and descriptors beside them, between two tasks of one node.
///
/// Owner: a stand-in, or the agent's StandIns. Threads: one. Blocks: send() and wait(), until their
/// deadline.
class TaskSocket {
public:
    explicit TaskSocket(UniqueFd socket) : socket_(std::move(socket)) {}

    int fd() const { return socket_.get(); }
    /// Throws TimeoutError, or Error{closed} when the peer is gone.
    void send(const stand_in::Message& message, Deadline deadline,
              std::span<const int> descriptors = {});
    /// Takes what has come, without waiting. False once the peer has hung up; what it said before
    /// is still there.
    bool receive();
    /// The next whole message that was received. Throws Error{corrupt}.
    std::optional<stand_in::Message> next() { return stand_in::take_message(bytes_); }
    bool has_received() const { return !bytes_.empty(); }
    /// Waits for a message. Throws TimeoutError, or Error{closed}.
    stand_in::Message wait(Deadline deadline);
    /// The next `count` descriptors that came. Throws Error{corrupt} when there are fewer.
    std::vector<UniqueFd> take_descriptors(std::size_t count);

private:
    UniqueFd socket_;
    std::string bytes_;
    std::deque<UniqueFd> descriptors_;
};

/// Where the tasks of one job step on one node meet: the name of a socket in Linux' abstract
/// namespace, which needs no folder and is gone with its owner. `step` tells jobs and steps that
/// run at once apart. Pure.
std::string task_address(uid_t uid, const std::string& step, const std::string& node_name);

/// The agent's end. Throws Error{unsupported} naming who has the address already, or SystemError.
UniqueFd listen_for_tasks(const std::string& address, int backlog);
/// The next connection of a process of ours; empty when there is none. Others' are closed.
UniqueFd accept_task(int listener);
/// A stand-in's end; empty when nobody listens yet. Throws Error{unsupported} when another user's
/// process does, or SystemError.
UniqueFd connect_to_agent(const std::string& address);

/// poll(2) for reading. False at the deadline.
bool wait_readable(int fd, Deadline deadline);

}  // namespace autolaunch::launcher

#pragma once
#include "base/unique_fd.hpp"
#include "session/session_protocol.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace autolaunch::session {

/// A rank's connection to its node's agent. Needs no thread: whoever calls pushes what is pending
/// and takes what came.
///
/// Owner: Session. Threads: one at a time. Blocks: only the constructor, and only while the agent's
/// queue of new connections is full. Never throws for a peer that is slow, wrong or gone: reports
/// are then dropped, and a line that was begun is always finished.
class AgentLine {
public:
    AgentLine(const std::filesystem::path& socket, const Hello& hello,
              std::chrono::milliseconds timeout);

    /// Whole or not at all: dropped while more than a few hundred lines are pending.
    void report(const RankMessage& message);
    /// Never dropped while the agent lives: for what is sent once.
    void announce(const RankMessage& message);
    /// The same, with a descriptor beside it. Once.
    void announce(const RankMessage& message, UniqueFd file);
    /// The next thing the agent asked for.
    std::optional<AgentMessage> poll();
    bool connected() const { return static_cast<bool>(socket_); }
    int socket() const { return socket_.get(); }  ///< -1: not connected

private:
    void flush();
    void receive();
    void hang_up();

    long send_some(std::size_t sent);

    UniqueFd socket_;
    std::string output_;
    UniqueFd file_;  // goes with the byte at file_at_ of output_
    std::size_t file_at_ = 0;
    std::string input_;
};

}  // namespace autolaunch::session

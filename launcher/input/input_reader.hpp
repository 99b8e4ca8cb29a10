#pragma once
#include "base/unique_fd.hpp"
#include "input/input_plan.hpp"
#include "input/input_supply.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <sys/types.h>

#include <memory>

namespace autolaunch::launcher {

/// Reads a descriptor that other processes share, without a call that waits and without a change
/// that they would notice: neither O_NONBLOCK nor, of a file, the position.
///
/// Owner: whoever needs the bytes. Threads: the agent's one. Blocks: never, but as long as a file
/// system takes for a piece.
class InputReader final : public InputSupply {
public:
    /// `fd` stays the caller's. Throws SystemError.
    InputReader(asio::io_context& io, int fd);

    InputState read(std::string& into, std::size_t most) override;
    void wait(std::function<void()> on_ready) override;
    void leave() override { ready_.cancel(); }
    /// Of a file: from where it stood when this was made.
    void rewind() { offset_ = start_; }
    /// Why it has ended before its end; empty: it has not.
    const std::string& failure() const { return failure_; }

private:
    ssize_t read_once(char* bytes, std::size_t most);

    const int fd_;
    const InputKind kind_;
    const bool is_socket_;
    UniqueFd own_;  ///< a pipe or a terminal, opened once more: O_NONBLOCK is ours alone
    const off_t start_;
    off_t offset_;
    bool always_ready_ = false;
    asio::posix::stream_descriptor ready_;  ///< an epoll set that holds the descriptor
    std::string failure_;
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace autolaunch::launcher

#pragma once
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// A queue of bytes in front of one of our output descriptors, written without ever blocking.
///
/// O_NONBLOCK belongs to the open file description, which we share with our parent and its other
/// children; setting it would break them. So pipes and terminals are opened a second time through
/// /proc/self/fd, sockets are written with MSG_DONTWAIT, and where neither can be done the
/// descriptor is polled and written in small pieces. When the reader has gone (EPIPE, EIO) the
/// channel is closed: it takes everything and drops it; no SIGPIPE is raised.
///
/// Owner: Console. Threads: one. Blocks: only flush(), until its deadline. Does not close the
/// descriptor it was given.
class OutputChannel {
public:
    explicit OutputChannel(int fd);

    bool is_terminal() const { return is_terminal_; }
    /// Columns and rows of the terminal, or 80 and 24 when it does not say.
    int columns() const;
    int rows() const;
    std::size_t queued_bytes() const { return queue_.size() - written_; }
    /// Why bytes were dropped, as errno has it: of the first write that failed. 0: none was.
    int dropped_for() const { return dropped_for_; }
    /// They were dropped because nobody reads here any more.
    bool is_unread() const { return dropped_for_ != 0 && closed_; }

    void append(std::string_view bytes);
    /// Writes what can be written now.
    void pump();
    /// pump() until all is written (true) or the deadline passes.
    bool flush(Deadline deadline);

private:
    enum class Kind { nonblocking, socket, file, polled };

    long write_some(const char* data, std::size_t bytes);
    void give_up_queue();

    int fd_;        // the given one
    UniqueFd own_;  // the second opening of it, if any
    Kind kind_;
    bool is_terminal_;
    bool closed_ = false;
    int dropped_for_ = 0;
    std::string queue_;
    std::size_t written_ = 0;     // of queue_
    std::size_t missing_ = 0;     // bytes for which there was no room, and no line has said so
    std::size_t note_bytes_ = 0;  // of that line, at the queue's beginning
};

}  // namespace autolaunch::launcher

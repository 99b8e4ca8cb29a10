#include "forked_ranks.hpp"

#include "base/deadline.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <thread>

namespace autolaunch::conformance {
namespace {

constexpr std::size_t kRecordBytes = 256;  // below PIPE_BUF: written and read whole

[[noreturn]] void run_child(int rank, const std::function<void(int)>& body) {
    int code = 0;
    try {
        body(rank);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        code = 1;
    }
    std::_Exit(code);
}

/// Reaps the children that have ended; true when none is left.
bool reap(const std::vector<pid_t>& children, std::vector<int>& statuses) {
    bool all = true;
    for (std::size_t i = 0; i < children.size(); ++i) {
        if (statuses[i] != -1)
            continue;
        int status = 0;
        if (::waitpid(children[i], &status, WNOHANG) == children[i]) {
            statuses[i] = status;
        } else {
            all = false;
        }
    }
    return all;
}

}  // namespace

std::vector<int> run_forked_ranks(int size, const std::function<void(int)>& body,
                                  std::chrono::seconds limit) {
    std::vector<pid_t> children;
    for (int rank = 0; rank < size; ++rank) {
        const pid_t child = ::fork();
        if (child < 0)
            throw SystemError(errno, "fork a rank");
        if (child == 0)
            run_child(rank, body);
        children.push_back(child);
    }
    std::vector<int> statuses(children.size(), -1);
    const Deadline deadline = Deadline::after(limit);
    while (!reap(children, statuses)) {
        if (deadline.passed()) {
            for (std::size_t i = 0; i < children.size(); ++i) {
                if (statuses[i] == -1)
                    ::kill(children[i], SIGKILL);
            }
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return statuses;
}

Broadcast::Broadcast(int readers) : readers_(readers) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        throw SystemError(errno, "make a pipe");
    read_end_.reset(ends[0]);
    write_end_.reset(ends[1]);
}

void Broadcast::publish(const std::string& text) {
    char record[kRecordBytes] = {};
    std::memcpy(record, text.data(), std::min(text.size(), sizeof record - 1));
    for (int i = 0; i < readers_; ++i) {
        if (::write(write_end_.get(), record, sizeof record) != sizeof record)
            throw SystemError(errno, "publish");
    }
}

std::string Broadcast::fetch(std::chrono::milliseconds timeout) {
    const Deadline deadline = Deadline::after(timeout);
    char record[kRecordBytes] = {};
    while (::read(read_end_.get(), record, sizeof record) != sizeof record) {
        if (deadline.passed())
            throw std::runtime_error("nothing was published in time");
        pollfd readable{read_end_.get(), POLLIN, 0};
        ::poll(&readable, 1, deadline.poll_timeout_ms());
    }
    return record;
}

}  // namespace autolaunch::conformance

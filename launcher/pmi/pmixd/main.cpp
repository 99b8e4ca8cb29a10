// autolaunch-pmixd: serves PMIx to the ranks of one node and one generation, so that MPI programs
// need no mpirun.
//
// A process of its own, because a rank that is killed while it connects can leave the PMIx
// library's server in a state in which it hangs: here that ends with the generation
// (docs/adr/0010-mpi-without-mpirun.md). The agent starts it, talks to it over descriptor 0
// (docs/pmi-protocol.md) and kills it.
#include "base/file_io.hpp"
#include "base/unique_fd.hpp"
#include "pmi/pmixd/mailbox.hpp"
#include "pmi/pmixd/pmix_server.hpp"
#include "pmi/pmixd_message.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace {

using namespace autolaunch;
using namespace autolaunch::launcher;

/// What the agent has not read yet. It reads slowly while it starts ranks; more than this means
/// that it hangs.
constexpr std::size_t kUnreadLimit = 4 * pmixd::kFrameLimit;

/// The socket to the agent. Blocks: never, but for run()'s poll.
class Agent {
public:
    explicit Agent(int fd) : fd_(fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

    int fd() const { return fd_; }
    bool has_unsent() const { return !unsent_.empty(); }
    void send(const pmixd::Message& message) {
        unsent_ += pmixd::encode(message);
        if (unsent_.size() > kUnreadLimit)
            throw Error(ErrorCode::closed, "the agent does not read");
        flush();
    }
    void flush() {
        while (!unsent_.empty()) {
            const ssize_t sent = ::send(fd_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
            if (sent < 0 && errno == EINTR)
                continue;
            if (sent < 0 && errno == EAGAIN)
                return;
            if (sent < 0)
                throw SystemError(errno, "write to the agent");
            unsent_.erase(0, static_cast<std::size_t>(sent));
        }
    }
    /// False when the agent is gone.
    template <typename Handler>
    bool receive(Handler handle) {
        std::array<char, 65536> bytes;
        const ssize_t count = ::recv(fd_, bytes.data(), bytes.size(), 0);
        if (count < 0 && (errno == EINTR || errno == EAGAIN))
            return true;
        if (count <= 0)
            return false;
        reader_.feed({bytes.data(), static_cast<std::size_t>(count)});
        while (auto message = reader_.next())
            handle(*message);
        return true;
    }

private:
    int fd_;
    std::string unsent_;
    pmixd::MessageReader reader_;
};

class Daemon {
public:
    Daemon(int agent_fd, UniqueFd listener)
        : agent_(agent_fd), server_(mailbox_, [this](auto&& message) { tell(message); }) {
        server_.give_listener(std::move(listener));
    }

    /// Until the agent is gone.
    void run() {
        for (;;) {
            std::array<pollfd, 2> waited = {{{mailbox_.fd(), POLLIN, 0}, {agent_.fd(), POLLIN, 0}}};
            if (agent_.has_unsent())
                waited[1].events |= POLLOUT;
            if (::poll(waited.data(), waited.size(), poll_timeout_ms()) < 0 && errno != EINTR)
                throw SystemError(errno, "poll");
            server_.give_up_late();
            if (waited[0].revents != 0)
                mailbox_.work_off();
            if ((waited[1].revents & POLLOUT) != 0)
                agent_.flush();
            if ((waited[1].revents & ~POLLOUT) != 0 &&
                !agent_.receive([this](auto& message) { on(message); }))
                break;
        }
        server_.answer_all();
    }
    void tell_failure(const std::string& what) {
        try {
            agent_.send(pmixd::Failed{what});
        } catch (const Error&) {  // it is gone; stderr has it
        }
    }

private:
    int poll_timeout_ms() const {
        const auto next = server_.next_deadline();
        if (!next)
            return -1;
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(*next - NameTable::Clock::now());
        return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
    }
    // A fence that no frame can hold fails, and its ranks with it; the others are far below.
    void tell(const pmixd::Message& message) {
        try {
            agent_.send(message);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::invalid_argument)
                throw;
            agent_.send(pmixd::Log{error.what()});
            if (const auto* fence = std::get_if<pmixd::Fence>(&message))
                server_.on(pmixd::FenceDone{fence->call, false, {}});
            if (const auto* modex = std::get_if<pmixd::ModexAnswer>(&message))
                agent_.send(pmixd::ModexAnswer{modex->call, false, {}});
        }
    }
    void on(const pmixd::Message& message) {
        if (const auto* start = std::get_if<pmixd::Start>(&message))
            agent_.send(server_.start(*start));
        else if (const auto* fence = std::get_if<pmixd::FenceDone>(&message))
            server_.on(*fence);
        else if (const auto* modex = std::get_if<pmixd::ModexDone>(&message))
            server_.on(*modex);
        else if (const auto* query = std::get_if<pmixd::ModexQuery>(&message))
            server_.on(*query);
        else
            throw Error(ErrorCode::corrupt, "the agent sent what only autolaunch-pmixd says");
    }

    Mailbox mailbox_;
    Agent agent_;
    PmixServer server_;
};

// PMIx's thread inherits the mask: no signal ever interrupts it, and no end of a child is its
// business.
void settle_signals() {
    sigset_t child_ends;
    ::sigemptyset(&child_ends);
    ::sigaddset(&child_ends, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &child_ends, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
}

// PMIx looks at the machine through hwloc, whose plugin for displays tries ten X servers: each may
// ask DNS for "localhost", and then wait. What plugins find (displays, OpenCL, CUDA) is of no use
// to PMIx.
void leave_out_plugins() { ::setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 0); }

// Descriptor 0 is the agent's socket, and nothing else may read or inherit it.
int take_socket() {
    int type = 0;
    socklen_t size = sizeof type;
    if (::getsockopt(0, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM)
        return -1;
    const int fd = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
    const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (nothing)
        ::dup2(nothing.get(), 0);
    return fd;
}

// Nothing where ranks are told where to connect only once PMIx listens.
UniqueFd take_listener() {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(pmixd::kListenerFd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 ||
        listens == 0)
        return {};
    ::fcntl(pmixd::kListenerFd, F_SETFD, FD_CLOEXEC);
    return UniqueFd(pmixd::kListenerFd);
}

}  // namespace

int main() {
    settle_signals();
    leave_out_plugins();
    UniqueFd listener = take_listener();
    const int agent_fd = take_socket();
    if (agent_fd < 0) {
        std::fputs(
            "autolaunch-pmixd is started by autolaunch, for MPI ranks; it is of no use by itself\n",
            stderr);
        return 64;
    }
    Daemon daemon(agent_fd, std::move(listener));
    int exit_code = 0;
    try {
        daemon.run();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "autolaunch-pmixd: %s\n", error.what());
        daemon.tell_failure(error.what());
        exit_code = 70;
    }
    std::fflush(nullptr);
    ::_exit(exit_code);  // PMIx's own end may hang, see pmix_server.hpp
}

#include "session/next_generation.hpp"

#include <autolaunch/error.hpp>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace autolaunch::session {

WordOfNext make_word_of_next() {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        throw SystemError(errno, "make a socket to hear of the next generation");
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

NextGeneration wait_for_next(const UniqueFd& ours, const Deadline& deadline) {
    std::string input, line;
    std::array<char, 4096> bytes{};
    while (!take_line(input, line)) {
        pollfd wait{ours.get(), POLLIN, 0};
        if (::poll(&wait, 1, deadline.poll_timeout_ms()) == 0 && deadline.passed())
            throw TimeoutError("the agent began no other generation in time");
        const ssize_t count = ::recv(ours.get(), bytes.data(), bytes.size(), 0);
        if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
            throw Error(ErrorCode::closed, "the agent takes this process into no other generation");
        if (count > 0)
            input.append(bytes.data(), static_cast<std::size_t>(count));
    }
    const auto message = parse_agent_line(line);
    if (!message || !std::holds_alternative<NextGeneration>(*message))
        throw Error(ErrorCode::corrupt, "the agent said something else than where to go on");
    return std::get<NextGeneration>(*message);
}

AgentListener::AgentListener(int socket, std::function<bool()> hear)
    : end_(::eventfd(0, EFD_CLOEXEC)), hear_(std::move(hear)) {
    if (!end_)
        throw SystemError(errno, "listen to the agent");
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this, socket] { listen(socket); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

AgentListener::~AgentListener() {
    const std::uint64_t one = 1;
    const ssize_t written = ::write(end_.get(), &one, sizeof one);
    static_cast<void>(written);  // an eventfd takes it
    thread_.join();
}

void AgentListener::listen(int socket) const {
    while (true) {
        std::array<pollfd, 2> waits{{{socket, POLLIN, 0}, {end_.get(), POLLIN, 0}}};
        const int ready = ::poll(waits.data(), waits.size(), -1);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready < 0 || waits[1].revents != 0 || !hear_())
            return;
    }
}

}  // namespace autolaunch::session

#include "stopping/knock.hpp"

#include "base/unique_fd.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

namespace autolaunch::launcher {

namespace {

constexpr int kKnockTime_ms = 1000;  // a machine that is there answers at once

}  // namespace

Knock knock(const std::string& host, const std::string& port) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0)
        return Knock::no_answer;
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
    const UniqueFd socket(
        ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket)
        return Knock::no_answer;
    if (::connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0)
        return Knock::open;
    if (errno != EINPROGRESS)
        return errno == ECONNREFUSED ? Knock::refused : Knock::no_answer;
    pollfd wait{socket.get(), POLLOUT, 0};
    int error = 0;
    socklen_t size = sizeof error;
    if (::poll(&wait, 1, kKnockTime_ms) != 1 ||
        ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        return Knock::no_answer;
    return error == 0 ? Knock::open : error == ECONNREFUSED ? Knock::refused : Knock::no_answer;
}

}  // namespace autolaunch::launcher

#include "stopping/knock.hpp"

#include "base/text.hpp"
#include "base/unique_fd.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

namespace autolaunch::launcher {

namespace {

constexpr int kTime_ms = 1000;  // a machine that is there answers at once

Knock knock_at(const addrinfo& address) {
    const UniqueFd socket(
        ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket)
        return Knock::silent;
    if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0)
        return Knock::open;
    int error = errno;
    if (error == EINPROGRESS) {
        pollfd wait{socket.get(), POLLOUT, 0};
        socklen_t size = sizeof error;
        if (::poll(&wait, 1, kTime_ms) != 1 ||
            ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            return Knock::silent;
    }
    return error == 0 ? Knock::open : error == ECONNREFUSED ? Knock::refused : Knock::silent;
}

}  // namespace

Knock knock(const std::string& host, std::uint16_t port) {
    if (port == 0)
        return Knock::silent;
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
        return Knock::silent;
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
    Knock heard = Knock::silent;
    for (const addrinfo* at = found; at != nullptr && heard != Knock::open; at = at->ai_next)
        if (const Knock here = knock_at(*at); here != Knock::silent)
            heard = here;
    return heard;
}

std::uint16_t port_from(std::string_view text) {
    long long number = 0;
    const bool is_port = parse_integer(text, number) && number > 0 && number <= 65535;
    return is_port ? static_cast<std::uint16_t>(number) : 0;
}

}  // namespace autolaunch::launcher

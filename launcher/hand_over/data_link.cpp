#include "hand_over/data_link.hpp"

#include <autolaunch/error.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr const char* kKeyName = "hand-over";
constexpr int kWaiting = 64;  // connections that nobody has accepted yet

[[noreturn]] void too_late(const char* doing) {
    throw Error(ErrorCode::timeout, std::string("the other node took too long to ") + doing);
}

short poll_until(int socket, short events, Deadline deadline) {
    pollfd waited{socket, events, 0};
    int ready = 0;
    while ((ready = ::poll(&waited, 1, deadline.poll_timeout_ms())) < 0 && errno == EINTR) {
    }
    return ready > 0 ? waited.revents : short{0};
}

UniqueFd connected_socket(const addrinfo& address, Deadline deadline) {
    UniqueFd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket)
        throw SystemError(errno, "make a socket");
    if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS)
        throw SystemError(errno, "connect to another node");
    if (poll_until(socket.get(), POLLOUT, deadline) == 0)
        too_late("answer");
    int error = 0;
    socklen_t bytes = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0)
        throw SystemError(error, "connect to another node");
    return socket;
}

void set_options(int socket) {
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::fcntl(socket, F_SETFL, O_NONBLOCK);
}

}  // namespace

LinkKey::LinkKey(const JobKey::Bytes& bytes)
    : secret_(
          std::make_shared<TlsSecret>(TlsSecret{JobKey(JobKey::Source::given, bytes), kKeyName})),
      client_(TlsEnd::client, TlsKeyExchange::psk),
      server_(TlsEnd::server, TlsKeyExchange::psk) {}

DataLink::DataLink(LinkKey& key, UniqueFd socket, const TlsContext& context, Deadline deadline)
    : socket_(std::move(socket)) {
    set_options(socket_.get());
    {
        const std::lock_guard lock(key.mutex_);
        session_ = std::make_unique<TlsSession>(context, socket_.get(), key.secret_);
    }
    for (TlsStep step; (step = session_->handshake()) != TlsStep::done;)
        wait_for(step, deadline);
    for (TlsStep step; (step = session_->flush()) != TlsStep::done;)
        wait_for(step, deadline);
}

DataLink DataLink::connect(LinkKey& key, const MoverAddress& to, Deadline deadline) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(to.host.c_str(), std::to_string(to.port).c_str(), &hints, &found) != 0)
        throw Error(ErrorCode::invalid_argument, "no address: " + to.host);
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
    return {key, connected_socket(*addresses, deadline), key.client_, deadline};
}

DataLink DataLink::accept(LinkKey& key, UniqueFd socket, Deadline deadline) {
    return {key, std::move(socket), key.server_, deadline};
}

void DataLink::wait_for(TlsStep step, Deadline deadline) {
    if (step == TlsStep::closed)
        throw Error(ErrorCode::closed, "the other node has hung up");
    if (step == TlsStep::failed)
        throw Error(ErrorCode::closed, session_->keys_differ()
                                           ? "the other node has another key"
                                           : "the other node: " + session_->failure());
    if (poll_until(socket_.get(), step == TlsStep::want_read ? POLLIN : POLLOUT, deadline) == 0)
        too_late(step == TlsStep::want_read ? "send" : "receive");
}

void DataLink::send(std::string_view bytes, Deadline deadline) {
    while (!bytes.empty()) {
        std::size_t written = 0;
        const TlsStep step = session_->write(bytes, written);
        bytes.remove_prefix(written);
        if (step != TlsStep::done)
            wait_for(step, deadline);
    }
}

void DataLink::receive(std::span<char> into, Deadline deadline) {
    while (!into.empty()) {
        std::size_t got = 0;
        const TlsStep step = session_->read(into, got);
        into = into.subspan(got);
        if (step != TlsStep::done)
            wait_for(step, deadline);
    }
}

UniqueFd listen_anywhere(std::uint16_t& port) {
    int off = 0;
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_addr = in6addr_any;
    UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket)
        ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (!socket || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0) {
        sockaddr_in any4{};  // a machine without IPv6
        any4.sin_family = AF_INET;
        socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (!socket || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&any4), sizeof any4) != 0)
            throw SystemError(errno, "bind a socket");
    }
    sockaddr_storage bound{};
    socklen_t bytes = sizeof bound;
    if (::listen(socket.get(), kWaiting) != 0 ||
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &bytes) != 0)
        throw SystemError(errno, "listen on a socket");
    port =
        ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                          : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
    return socket;
}

}  // namespace autolaunch::launcher

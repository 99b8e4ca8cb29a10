#include "pmi/pmi1_port.hpp"

#include "base/socket_owner.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <asio/buffer.hpp>
#include <asio/steady_timer.hpp>

#include <fcntl.h>

#include <array>
#include <chrono>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr auto kGreetingTimeout = std::chrono::seconds(10);
constexpr auto kPause = std::chrono::milliseconds(200);
constexpr std::size_t kLongestGreeting = 256;
constexpr std::string_view kInitack = "cmd=initack pmiid=";

}  // namespace

struct Pmi1Port::Caller {
    asio::ip::tcp::socket socket;
    asio::steady_timer timer;
    std::string received = {};
    std::array<char, 1024> buffer = {};
};

Pmi1Port::Pmi1Port(asio::io_context& io, Handlers handlers)
    : io_(io), handlers_(std::move(handlers)), acceptor_(io), pause_(io) {
    try {
        const asio::ip::tcp::endpoint loopback(asio::ip::address_v4::loopback(), 0);
        acceptor_.open(loopback.protocol());
        ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
        acceptor_.bind(loopback);
        acceptor_.listen();
        number_ = acceptor_.local_endpoint().port();
    } catch (const std::system_error& error) {
        throw SystemError(error.code().value(), "listen on the loopback for PMI-1");
    }
    accept_next();
}

Pmi1Port::~Pmi1Port() {
    for (const auto& caller : callers_)
        caller->socket.close();
}

void Pmi1Port::accept_next() {
    acceptor_.async_accept([this, alive = std::weak_ptr(alive_)](const std::error_code& error,
                                                                 asio::ip::tcp::socket socket) {
        if (alive.expired() || error == asio::error::operation_aborted)
            return;
        if (!error) {
            greet(std::move(socket));
            return accept_next();
        }
        pause_.expires_after(kPause);  // too many open files, and the like
        pause_.async_wait([this, alive](const std::error_code& canceled) {
            if (!canceled && !alive.expired())
                accept_next();
        });
    });
}

void Pmi1Port::greet(asio::ip::tcp::socket socket) {
    ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
    if (!is_peer_of_own_user(socket.native_handle())) {
        if (!std::exchange(told_of_stranger_, true))
            handlers_.on_warning(
                "MPI: a process that is not this user's tried to connect to the ranks' PMI-1, and "
                "was refused");
        return;
    }
    const auto caller =
        std::make_shared<Caller>(Caller{std::move(socket), asio::steady_timer(io_)});
    callers_.insert(caller);
    caller->timer.expires_after(kGreetingTimeout);
    caller->timer.async_wait([caller = std::weak_ptr(caller)](const std::error_code& error) {
        if (const auto late = caller.lock(); late && !error)
            late->socket.close();  // the read ends, and forgets it
    });
    read(caller);
}

void Pmi1Port::read(const std::shared_ptr<Caller>& caller) {
    caller->socket.async_read_some(asio::buffer(caller->buffer),
                                   [this, caller, alive = std::weak_ptr(alive_)](
                                       const std::error_code& error, std::size_t count) {
                                       if (alive.expired())
                                           return;
                                       caller->received.append(caller->buffer.data(), count);
                                       const std::size_t end = caller->received.find('\n');
                                       if (!error && end != std::string::npos)
                                           return hand_over(caller, end);
                                       if (error || caller->received.size() > kLongestGreeting)
                                           callers_.erase(caller);
                                       else
                                           read(caller);
                                   });
}

void Pmi1Port::hand_over(const std::shared_ptr<Caller>& caller, std::size_t line_end) {
    const auto rank = parse_initack(std::string_view(caller->received).substr(0, line_end));
    caller->timer.cancel();
    callers_.erase(caller);
    if (!rank)
        return;
    UniqueFd socket(::fcntl(caller->socket.native_handle(), F_DUPFD_CLOEXEC, 0));
    caller->socket.close();
    if (socket)
        handlers_.on_rank(*rank, std::move(socket), caller->received.substr(line_end + 1));
}

std::optional<int> parse_initack(std::string_view line) {
    long long rank = 0;
    if (!line.starts_with(kInitack) || !parse_integer(trim(line.substr(kInitack.size())), rank) ||
        rank < 0 || rank > 0x7FFFFFFF)
        return std::nullopt;
    return static_cast<int>(rank);
}

}  // namespace autolaunch::launcher

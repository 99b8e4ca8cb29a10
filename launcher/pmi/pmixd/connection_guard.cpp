#include "pmi/pmixd/connection_guard.hpp"

#include "base/socket_owner.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

#include <autolaunch/error.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace {

// accept() is a C function and finds the guard here. Set before PMIx starts; none: nobody is let
// in.
std::atomic<ConnectionGuard*> the_guard{nullptr};

constexpr std::string_view kScheme = "tcp4://";
constexpr std::chrono::seconds kStartPatience{30};

bool is_same_end(const sockaddr_storage& one, const sockaddr_storage& other) {
    const auto& a = reinterpret_cast<const sockaddr_in&>(one);
    const auto& b = reinterpret_cast<const sockaddr_in&>(other);
    return one.ss_family == AF_INET && other.ss_family == AF_INET && a.sin_port == b.sin_port &&
           a.sin_addr.s_addr == b.sin_addr.s_addr;
}

// Bound before it connects: its name is known before PMIx can ask about it.
UniqueFd bound_socket(sockaddr_storage& own) {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval longest{ConnectionGuard::kPatience.count(), 0};
    socklen_t bytes = sizeof own;
    if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest) ||
        ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &bytes) != 0)
        throw SystemError(errno, "make a TCP socket on the loopback");
    return socket;
}

}  // namespace

ConnectionGuard::ConnectionGuard(std::function<void(const std::string& text)> on_refusal)
    : on_refusal_(std::move(on_refusal)) {
    the_guard = this;
}

ConnectionGuard::~ConnectionGuard() { the_guard = nullptr; }

// A connection whose owner is nobody has been closed already.
ConnectionGuard::Judgement ConnectionGuard::judge(int socket) {
    const auto ends = tcp_ends(socket);
    if (!ends)
        return {Verdict::unknown, "it is no TCP connection"};
    try {
        const auto owner = tcp_owner(ends->seen_from_far());
        if (owner == ::geteuid())
            return {Verdict::own, {}};
        if (!owner)
            return {Verdict::unknown, "no process of this machine has its other end"};
        return {Verdict::stranger, "a process of user " + std::to_string(*owner) +
                                       " tried to connect to the ranks' PMIx server, and was "
                                       "refused"};
    } catch (const Error& error) {
        return {Verdict::unknown, error.what()};
    }
}

bool ConnectionGuard::is_proof(int socket) const {
    sockaddr_storage peer{};
    socklen_t bytes = sizeof peer;
    return proof_ && ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0 &&
           is_same_end(peer, *proof_);
}

void ConnectionGuard::give_listener(UniqueFd listener) { listener_ = std::move(listener); }

bool ConnectionGuard::take_listener_as(int socket) {
    const UniqueFd listener = std::move(listener_);
    return listener && ::dup3(listener.get(), socket, O_CLOEXEC) == socket;
}

void ConnectionGuard::open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
}

// PMIx would turn away whom it does not know yet. Only its listening thread waits here; when the
// patience is at an end, the start has failed.
void ConnectionGuard::await_open() {
    std::unique_lock lock(mutex_);
    opened_.wait_for(lock, kStartPatience, [this] { return is_open_; });
}

bool ConnectionGuard::admits(int socket) {
    const Judgement judgement = judge(socket);
    {
        const std::lock_guard lock(mutex_);
        if (is_proof(socket)) {
            answer_ = judgement;
            answered_.notify_all();
            return false;  // PMIx has no business with it
        }
    }
    if (judgement.verdict == Verdict::stranger && !told_.exchange(true))
        on_refusal_(judgement.text);
    return judgement.verdict == Verdict::own && is_only_client(socket);
}

bool ConnectionGuard::is_only_client(int socket) {
    const std::string why_not = gate_.refuse(socket);
    if (why_not.empty())
        return true;
    on_refusal_(why_not);
    return false;
}

void ConnectionGuard::prove(const sockaddr_storage& listener) {
    sockaddr_storage own{};
    const UniqueFd socket = bound_socket(own);
    std::unique_lock lock(mutex_);
    proof_ = own;
    lock.unlock();
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&listener),
                  sizeof(sockaddr_in)) != 0)
        throw SystemError(errno, "connect to PMIx's own server");
    lock.lock();
    const bool asked = answered_.wait_for(lock, kPatience, [this] { return answer_.has_value(); });
    proof_.reset();
    if (!asked)
        throw Error(ErrorCode::unsupported,
                    "this PMIx library takes connections without asking whose they are, so every "
                    "user of the machine could end the job: build autolaunch with OpenPMIx as a "
                    "shared library, or set trainer.mpi to none");
    if (answer_->verdict != Verdict::own)
        throw Error(ErrorCode::unsupported,
                    "the kernel does not say that our own connection is ours, so no rank could "
                    "connect: " +
                        answer_->text);
}

sockaddr_storage pmix_listener(const std::vector<std::string>& environment) {
    for (const std::string& variable : environment) {
        const std::size_t scheme = variable.find(kScheme);
        const std::size_t colon = variable.rfind(':');
        if (scheme == std::string::npos || colon < scheme + kScheme.size())
            continue;
        const std::size_t begin = scheme + kScheme.size();
        sockaddr_storage listener{};
        auto& address = reinterpret_cast<sockaddr_in&>(listener);
        long long port = 0;
        address.sin_family = AF_INET;
        if (::inet_pton(AF_INET, variable.substr(begin, colon - begin).c_str(),
                        &address.sin_addr) != 1 ||
            !parse_integer(variable.substr(colon + 1), port) || port <= 0 || port > 0xFFFF)
            continue;
        address.sin_port = htons(static_cast<std::uint16_t>(port));
        return listener;
    }
    throw Error(ErrorCode::unsupported,
                "this PMIx library listens neither where nor how autolaunch-pmixd can tell whose a "
                "connection is: an IPv4 port of this machine was expected");
}

// A refusal is EAGAIN, "nothing is waiting": after other errors some of PMIx's listeners give up
// for good.
int accept_guarded(int listener, sockaddr* address, socklen_t* bytes) {
    ConnectionGuard* const guard = the_guard;
    if (guard != nullptr)
        guard->await_open();
    UniqueFd incoming(::accept4(listener, address, bytes, SOCK_CLOEXEC));
    if (!incoming) {
        if (errno == ECONNABORTED)
            errno = EAGAIN;
        return -1;
    }
    if (guard != nullptr && guard->admits(incoming.get()))
        return incoming.release();
    incoming.reset();
    errno = EAGAIN;
    return -1;
}

// Of all sockets of this process only PMIx's listener is one of IPv4 that somebody binds, but for
// prove()'s, which comes later.
int bind_guarded(int socket, const sockaddr* address, socklen_t bytes) {
    ConnectionGuard* const guard = the_guard;
    if (guard != nullptr && address->sa_family == AF_INET && guard->take_listener_as(socket))
        return 0;
    return static_cast<int>(::syscall(SYS_bind, socket, address, bytes));
}

}  // namespace autolaunch::launcher

// The PMIx library's calls of accept() and bind() come here: a program's own function goes before
// one of a shared library.
extern "C" [[gnu::visibility("default")]] int accept(int listener, sockaddr* address,
                                                     socklen_t* bytes) {
    return autolaunch::launcher::accept_guarded(listener, address, bytes);
}

extern "C" [[gnu::visibility("default")]] int bind(int socket, const sockaddr* address,
                                                   socklen_t bytes) noexcept {
    return autolaunch::launcher::bind_guarded(socket, address, bytes);
}

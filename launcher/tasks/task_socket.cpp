#include "tasks/task_socket.hpp"

#include "base/hash.hpp"

#include <autolaunch/error.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostDescriptors = 4;  // in one message

struct Address {
    sockaddr_un name{};
    socklen_t length = 0;
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

// A first byte of 0 means the abstract namespace; the length ends the name.
Address abstract_address(const std::string& name) {
    Address address;
    address.name.sun_family = AF_UNIX;
    if (name.size() >= sizeof address.name.sun_path)
        throw Error(ErrorCode::invalid_argument, name + " is too long for a socket");
    std::copy(name.begin(), name.end(), address.name.sun_path + 1);
    address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    return address;
}

UniqueFd open_socket(int flags) {
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
    if (!socket)
        throw SystemError(errno, "open a socket for the tasks of this node");
    return socket;
}

std::optional<ucred> peer_of(int socket) {
    ucred peer{};
    socklen_t length = sizeof peer;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return std::nullopt;
    return peer;
}

bool is_ours(int socket) {
    const auto peer = peer_of(socket);
    return peer && peer->uid == ::geteuid();
}

std::string owner_of(const Address& address) {
    const UniqueFd socket = open_socket(SOCK_NONBLOCK);
    if (::connect(socket.get(), address.get(), address.length) != 0)
        return "another process";
    const auto peer = peer_of(socket.get());
    if (!peer)
        return "another process";
    return "process " + std::to_string(peer->pid) + " of user " + std::to_string(peer->uid);
}

[[noreturn]] void throw_taken(const std::string& address, const std::string& owner) {
    throw Error(
        ErrorCode::unsupported,
        "the address where the tasks of this node meet, @" + address + ", is taken by " + owner,
        "it names this user, job step and node, so nobody else should: look at that process, and "
        "end it");
}

bool wait_for(int fd, short events, Deadline deadline) {
    pollfd poll{.fd = fd, .events = events, .revents = 0};
    for (;;) {
        const int ready = ::poll(&poll, 1, deadline.poll_timeout_ms());
        if (ready > 0)
            return true;
        if (ready == 0 && deadline.passed())
            return false;
        if (ready < 0 && errno != EINTR)
            throw SystemError(errno, "wait for another task of this node");
    }
}

[[noreturn]] void throw_closed() {
    throw Error(ErrorCode::closed, "another task of this node has closed its connection");
}

/// Room for descriptors beside a message.
struct alignas(cmsghdr) ControlBuffer {
    std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> bytes{};
};

void attach(msghdr& message, ControlBuffer& control, std::span<const int> descriptors) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
}

void detach(msghdr& message, std::deque<UniqueFd>& descriptors) {
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
            descriptors.emplace_back(fd);
        }
    }
}

}  // namespace

void TaskSocket::send(const stand_in::Message& message, Deadline deadline,
                      std::span<const int> descriptors) {
    if (descriptors.size() > kMostDescriptors)
        throw Error(ErrorCode::invalid_argument, "too many descriptors");
    const std::string frame = stand_in::encode(message);
    std::string_view rest = frame;
    while (!rest.empty()) {
        iovec part{const_cast<char*>(rest.data()), rest.size()};
        msghdr header{};
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        ControlBuffer control;
        // They go with the first byte, and arrive with it.
        if (!descriptors.empty())
            attach(header, control, descriptors);
        const ssize_t sent = ::sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            rest.remove_prefix(static_cast<std::size_t>(sent));
            descriptors = {};
        } else if (errno == EPIPE || errno == ECONNRESET) {
            throw_closed();
        } else if (errno != EAGAIN && errno != EINTR) {
            throw SystemError(errno, "write to another task of this node");
        } else if (!wait_for(socket_.get(), POLLOUT, deadline)) {
            throw TimeoutError("another task of this node does not read what it is told");
        }
    }
}

bool TaskSocket::receive() {
    std::array<char, 65536> buffer;
    for (;;) {
        iovec part{buffer.data(), buffer.size()};
        ControlBuffer control;
        msghdr header{};
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        header.msg_control = control.bytes.data();
        header.msg_controllen = control.bytes.size();
        const ssize_t count = ::recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (count > 0) {
            detach(header, descriptors_);
            bytes_.append(buffer.data(), static_cast<std::size_t>(count));
            if (bytes_.size() > stand_in::kFrameLimit + buffer.size())
                return true;  // enough for now
        } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
            return false;
        } else if (errno == EAGAIN) {
            return true;
        }
    }
}

stand_in::Message TaskSocket::wait(Deadline deadline) {
    for (;;) {
        if (auto message = next())
            return std::move(*message);
        if (!wait_readable(socket_.get(), deadline))
            throw TimeoutError("another task of this node does not answer");
        const bool open = receive();
        if (auto message = next())
            return std::move(*message);
        if (!open)
            throw_closed();
    }
}

std::vector<UniqueFd> TaskSocket::take_descriptors(std::size_t count) {
    if (count > descriptors_.size())
        throw Error(ErrorCode::corrupt,
                    "a task of this node got fewer descriptors than it was told of",
                    "it may have reached its limit on open files: see ulimit -n");
    std::vector<UniqueFd> taken;
    for (; count > 0; --count) {
        taken.push_back(std::move(descriptors_.front()));
        descriptors_.pop_front();
    }
    return taken;
}

std::string task_address(uid_t uid, const std::string& step, const std::string& node_name) {
    const std::string name = "autolaunch/" + std::to_string(uid) + "/" + step + "/" + node_name;
    if (name.size() < sizeof(sockaddr_un::sun_path))
        return name;
    return "autolaunch/" + std::to_string(uid) + "/" + hex64(hash64(name.data(), name.size()));
}

UniqueFd listen_for_tasks(const std::string& address, int backlog) {
    const Address name = abstract_address(address);
    UniqueFd socket = open_socket(SOCK_NONBLOCK);
    if (::bind(socket.get(), name.get(), name.length) != 0) {
        if (errno == EADDRINUSE)
            throw_taken(address, owner_of(name));
        throw SystemError(errno, "listen for the tasks of this node at @" + address);
    }
    if (::listen(socket.get(), backlog) != 0)
        throw SystemError(errno, "listen for the tasks of this node");
    return socket;
}

UniqueFd accept_task(int listener) {
    for (;;) {
        UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket && errno == EINTR)
            continue;
        if (!socket || is_ours(socket.get()))
            return socket;
    }
}

UniqueFd connect_to_agent(const std::string& address) {
    const Address name = abstract_address(address);
    UniqueFd socket = open_socket(SOCK_NONBLOCK);
    while (::connect(socket.get(), name.get(), name.length) != 0) {
        if (errno == EINTR)
            continue;
        if (errno == ECONNREFUSED || errno == EAGAIN)
            return UniqueFd();  // not there; or there, and its queue is full
        throw SystemError(errno, "connect to the agent of this node at @" + address);
    }
    if (!is_ours(socket.get()))
        throw_taken(address, owner_of(name));
    return socket;
}

bool wait_readable(int fd, Deadline deadline) { return wait_for(fd, POLLIN, deadline); }

}  // namespace autolaunch::launcher

#include "hang_evidence/nccl_ras.hpp"

#include "base/file_system.hpp"
#include "base/socket_owner.hpp"
#include "hang_evidence/rank_environ.hpp"

#include <autolaunch/error.hpp>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kLongestAnswer = 256 * 1024;
constexpr std::size_t kLongestLine = 1024;
constexpr int kConnectTime_ms = 50;
// NCCL waits for ranks that do not answer for so many seconds, and tells which they are.
constexpr std::array<std::string_view, 3> kQuestions{"CLIENT PROTOCOL 2\n", "TIMEOUT 2\n",
                                                     "VERBOSE STATUS\n"};
constexpr std::array<std::string_view, 2> kReplies{"SERVER PROTOCOL ", "OK"};

bool is_loopback(std::string_view host) {
    return host.empty() || host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

UniqueFd connect_to(const RasAddress& address, int family) {
    UniqueFd made(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(address.port);
    six.sin6_addr = in6addr_loopback;
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(address.port);
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool is_six = family == AF_INET6;
    const auto* where =
        is_six ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
    if (!made)
        return {};
    if (::connect(made.get(), where, is_six ? sizeof six : sizeof four) == 0)
        return made;
    // On the loopback it is connected, or refused, at once.
    pollfd connected{made.get(), POLLOUT, 0};
    int error = errno;
    socklen_t size = sizeof error;
    if (error != EINPROGRESS || ::poll(&connected, 1, kConnectTime_ms) != 1 ||
        ::getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
        return {};
    return made;
}

}  // namespace

std::optional<RasAddress> ras_address(std::string_view variables) {
    if (environ_variable(variables, "NCCL_RAS_ENABLE") == "0")
        return std::nullopt;
    RasAddress address;
    const std::string_view given = environ_variable(variables, "NCCL_RAS_ADDR");
    if (given.empty())
        return address;
    const std::size_t colon = given.rfind(':');
    if (colon == given.npos || !is_loopback(given.substr(0, colon)))
        return std::nullopt;
    if (colon > 0)
        address.host = given.substr(0, colon);
    const std::string_view port = given.substr(colon + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
    if (error != std::errc() || end != port.data() + port.size() || address.port == 0)
        return std::nullopt;
    return address;
}

bool has_socket(const std::vector<pid_t>& processes, std::uint64_t inode) {
    const std::string wanted = "socket:[" + std::to_string(inode) + "]";
    for (const pid_t pid : processes) {
        std::error_code error;
        for (const auto& file : list_folder("/proc/" + std::to_string(pid) + "/fd", error)) {
            std::error_code gone;
            if (std::filesystem::read_symlink(file, gone) == wanted)
                return true;
        }
    }
    return false;
}

RasQuestion::RasQuestion(const RasAddress& address, std::function<bool(std::uint64_t)> is_ours)
    : is_ours_(std::move(is_ours)) {
    for (const int family : {AF_INET, AF_INET6}) {
        socket_ = connect_to(address, family);
        if (!socket_)
            continue;
        send(kQuestions[0]);
        return;
    }
}

// Once it has answered: before, the kernel may have taken the connection that nobody has open yet.
bool RasQuestion::is_known() {
    const auto ends = tcp_ends(socket_.get());
    if (!ends || !is_peer_of_own_user(socket_.get()))
        return !end("it is not known who listens there");
    const auto inode = tcp_inode(ends->seen_from_far());
    return (inode && is_ours_(*inode)) || !end("no rank of this job listens there");
}

bool RasQuestion::send(std::string_view line) {
    if (::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL) ==
        static_cast<ssize_t>(line.size()))
        return true;
    end("it takes no question");
    return false;
}

bool RasQuestion::end(const std::string& problem) {
    socket_.reset();
    problem_ = problem;
    return true;
}

// The replies to the first two questions are a line each; the rest is the answer.
bool RasQuestion::take_lines() {
    while (step_ < static_cast<int>(kReplies.size())) {
        const std::size_t newline = received_.find('\n');
        if (newline == received_.npos) {
            if (received_.size() > kLongestLine)
                end("it does not speak NCCL's RAS protocol");
            return static_cast<bool>(socket_);
        }
        if (!received_.starts_with(kReplies[static_cast<std::size_t>(step_)])) {
            end("it does not speak NCCL's RAS protocol");
            return false;
        }
        received_.erase(0, newline + 1);
        ++step_;
        if (!send(kQuestions[static_cast<std::size_t>(step_)]))
            return false;
    }
    answer_ += received_;
    received_.clear();
    return true;
}

bool RasQuestion::advance() {
    std::array<char, 4096> bytes;
    while (socket_) {
        const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return false;
        if (got <= 0)
            return end(answer_.empty() ? "it hung up" : "");
        if (step_ == 0 && received_.empty() && !is_known())
            return true;
        received_.append(bytes.data(), static_cast<std::size_t>(got));
        if (!take_lines())
            return true;
        if (answer_.size() > kLongestAnswer) {
            answer_.resize(answer_.rfind('\n', kLongestAnswer - 1) + 1);
            return end("the rest of NCCL's answer was left out");
        }
    }
    return true;
}

}  // namespace autolaunch::launcher

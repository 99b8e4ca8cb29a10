#include "standstill/socket_traffic.hpp"

#include "base/file_system.hpp"
#include "base/unique_fd.hpp"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostSockets = 65536;
constexpr std::size_t kMostAnswers = 4096;  // each of some kB: a kernel that never ends

// "socket:[4711]"
std::set<std::uint64_t> sockets_of(const std::vector<pid_t>& processes) {
    constexpr std::string_view kBegin = "socket:[";
    std::set<std::uint64_t> sockets;
    std::error_code gone;
    for (const pid_t process : processes)
        for (const auto& file : list_folder("/proc/" + std::to_string(process) + "/fd", gone)) {
            const std::string target = std::filesystem::read_symlink(file, gone).string();
            std::uint64_t inode = 0;
            if (target.starts_with(kBegin) && sockets.size() < kMostSockets &&
                std::from_chars(target.data() + kBegin.size(), target.data() + target.size(), inode)
                        .ec == std::errc())
                sockets.insert(inode);
        }
    return sockets;
}

bool ask(int netlink, std::uint8_t family) {
    struct {
        nlmsghdr header;
        inet_diag_req_v2 request;
    } message{};
    message.header.nlmsg_len = sizeof message;
    message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    message.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    message.request.sdiag_family = family;
    message.request.sdiag_protocol = IPPROTO_TCP;
    message.request.idiag_ext = 1U << (INET_DIAG_INFO - 1);
    message.request.idiag_states = ~0U;
    sockaddr_nl kernel{};
    kernel.nl_family = AF_NETLINK;
    return ::sendto(netlink, &message, sizeof message, 0, reinterpret_cast<sockaddr*>(&kernel),
                    sizeof kernel) == static_cast<ssize_t>(sizeof message);
}

// Of one connection's message, which begins with inet_diag_msg and goes on with attributes.
std::uint64_t bytes_in(const nlmsghdr* header) {
    const auto* message = reinterpret_cast<const char*>(NLMSG_DATA(header));
    std::size_t at = NLMSG_ALIGN(sizeof(inet_diag_msg));
    const std::size_t size = header->nlmsg_len - NLMSG_HDRLEN;
    while (at + sizeof(rtattr) <= size) {
        rtattr attribute{};
        std::memcpy(&attribute, message + at, sizeof attribute);
        if (attribute.rta_len < sizeof attribute || at + attribute.rta_len > size)
            break;
        if (attribute.rta_type == INET_DIAG_INFO) {
            tcp_info info{};  // an older kernel's is shorter
            std::memcpy(&info, message + at + sizeof attribute,
                        std::min(sizeof info, attribute.rta_len - sizeof attribute));
            return info.tcpi_bytes_acked + info.tcpi_bytes_received;
        }
        at += RTA_ALIGN(attribute.rta_len);
    }
    return 0;
}

// False: no more will come.
bool take(const char* text, std::size_t size, const std::set<std::uint64_t>& wanted,
          std::map<std::uint64_t, std::uint64_t>& traffic) {
    for (std::size_t at = 0; at + sizeof(nlmsghdr) <= size;) {
        const auto* header = reinterpret_cast<const nlmsghdr*>(text + at);
        if (header->nlmsg_len < sizeof(nlmsghdr) || at + header->nlmsg_len > size)
            return false;
        if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR)
            return false;
        if (header->nlmsg_len >= NLMSG_LENGTH(sizeof(inet_diag_msg))) {
            inet_diag_msg message{};
            std::memcpy(&message, NLMSG_DATA(header), sizeof message);
            if (wanted.contains(message.idiag_inode))
                traffic[message.idiag_inode] = bytes_in(header);
        }
        at += NLMSG_ALIGN(header->nlmsg_len);
    }
    return true;
}

}  // namespace

std::map<std::uint64_t, std::uint64_t> tcp_traffic_of(const std::vector<pid_t>& processes) {
    std::map<std::uint64_t, std::uint64_t> traffic;
    const std::set<std::uint64_t> wanted = sockets_of(processes);
    if (wanted.empty())
        return traffic;
    for (const std::uint8_t family : {AF_INET, AF_INET6}) {
        const UniqueFd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
        const timeval limit{0, 100'000};  // the kernel answers at once, or a sandbox does not
        if (!netlink ||
            ::setsockopt(netlink.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
            !ask(netlink.get(), family))
            continue;
        alignas(nlmsghdr) std::array<char, 32768> answer{};
        for (std::size_t answers = 0; answers < kMostAnswers; ++answers) {
            const ssize_t size = ::recv(netlink.get(), answer.data(), answer.size(), 0);
            if (size <= 0 || !take(answer.data(), static_cast<std::size_t>(size), wanted, traffic))
                break;
        }
    }
    return traffic;
}

std::uint64_t traffic_between(const std::map<std::uint64_t, std::uint64_t>& before,
                              const std::map<std::uint64_t, std::uint64_t>& now) {
    std::uint64_t sum = 0;
    for (const auto& [inode, bytes] : now) {
        const auto known = before.find(inode);
        const std::uint64_t then = known == before.end() ? 0 : known->second;
        sum += bytes > then ? bytes - then : 0;
    }
    return sum;
}

}  // namespace autolaunch::launcher

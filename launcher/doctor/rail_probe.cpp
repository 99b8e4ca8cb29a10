#include "doctor/rail_probe.hpp"

#include <arpa/inet.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 1000ms;
constexpr auto kAgain = 300ms;  // the first may be lost while the neighbour's address is looked up
constexpr std::uint16_t kClosed = 33434;  // where traceroute looks for nobody

struct Address {
    sockaddr_storage bytes{};
    socklen_t size = 0;
    bool is_ipv6 = false;
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
};

Address address_from(const std::string& text, std::uint16_t port) {
    Address address;
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
        v4.sin_family = AF_INET;
        v4.sin_port = htons(port);
        address.size = sizeof v4;
        std::memcpy(&address.bytes, &v4, sizeof v4);
    } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(port);
        address.size = sizeof v6;
        address.is_ipv6 = true;
        std::memcpy(&address.bytes, &v6, sizeof v6);
    }
    return address;
}

int open_socket(bool is_ipv6, bool is_icmp) {
    const int protocol = !is_icmp  ? 0
                         : is_ipv6 ? static_cast<int>(IPPROTO_ICMPV6)
                                   : static_cast<int>(IPPROTO_ICMP);
    return ::socket(is_ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    protocol);
}

}  // namespace

RailProbe::RailProbe(const std::vector<RailTarget>& targets)
    : deadline_(Deadline::after(kPatience)), ask_again_(Deadline::after(kAgain)) {
    for (const RailTarget& target : targets) {
        questions_.push_back(open(target));
        ask(questions_.back());
    }
}

// By the interface, where the kernel lets everybody choose one (Linux 5.7), and else by our address
// on it.
RailProbe::Question RailProbe::open(const RailTarget& target) {
    Question question;
    const Address theirs = address_from(target.address, kClosed),
                  ours = address_from(target.source, 0);
    question.is_ipv6 = theirs.is_ipv6;
    for (const bool is_icmp : {true, false}) {
        question.is_icmp = is_icmp;
        question.socket.reset(open_socket(theirs.is_ipv6, is_icmp));
        if (question.socket)
            break;
    }
    const int fd = question.socket.get();
    const bool is_bound = ::setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, target.netdev.c_str(),
                                       static_cast<socklen_t>(target.netdev.size())) == 0 ||
                          ::bind(fd, ours.get(), ours.size) == 0;
    if (theirs.size == 0 || !is_bound)
        question.answer = Reach::cannot_ask;
    if (question.answer != Reach::cannot_ask && ::connect(fd, theirs.get(), theirs.size) != 0 &&
        errno != ENETUNREACH && errno != EHOSTUNREACH)
        question.answer = Reach::cannot_ask;
    return question;
}

// The kernel fills in identifier and checksum.
void RailProbe::ask(Question& question) {
    if (question.answer != Reach::silent)
        return;
    std::array<unsigned char, 8> echo = {};
    echo[0] = question.is_ipv6 ? ICMP6_ECHO_REQUEST : ICMP_ECHO;
    if (::send(question.socket.get(), echo.data(), echo.size(), MSG_NOSIGNAL) < 0 &&
        errno == ECONNREFUSED)
        question.answer = Reach::reached;
}

void RailProbe::listen(Question& question) {
    std::array<unsigned char, 256> bytes;
    if (question.answer != Reach::silent)
        return;
    const ssize_t got = ::recv(question.socket.get(), bytes.data(), bytes.size(), 0);
    if (got >= 0 || errno == ECONNREFUSED)
        question.answer = Reach::reached;
}

bool RailProbe::step() {
    for (Question& question : questions_)
        listen(question);
    if (ask_again_.passed()) {
        for (Question& question : questions_)
            ask(question);
        ask_again_ = Deadline::after(kAgain);
    }
    return deadline_.passed() ||
           std::none_of(questions_.begin(), questions_.end(),
                        [](const Question& q) { return q.answer == Reach::silent; });
}

std::vector<Reach> RailProbe::answers() const {
    std::vector<Reach> answers;
    for (const Question& question : questions_)
        answers.push_back(question.answer);
    return answers;
}

}  // namespace autolaunch::launcher

#include "rendezvous/host_lookup.hpp"

#include "base/ask_in_time.hpp"
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "rendezvous/slurm_lookup.hpp"

#include <autolaunch/error.hpp>

#include <asio/ip/address.hpp>
#include <asio/post.hpp>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;
using InterfaceList = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

bool is_numeric(const std::string& name) {
    asio::error_code error;
    asio::ip::make_address(name, error);
    return !error;
}

std::string numeric(const sockaddr* address, socklen_t bytes) {
    char text[NI_MAXHOST] = {};
    if (::getnameinfo(address, bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
        return {};
    return text;
}

socklen_t size_of(const sockaddr* address) {
    return address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

void resolve(const std::string& name, NameLookup& lookup) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int status = ::getaddrinfo(name.c_str(), nullptr, &hints, &found);
    const AddressList addresses(status == 0 ? found : nullptr, &::freeaddrinfo);
    if (status != 0)
        lookup.error = status == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(status);
    for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
        const std::string address = numeric(entry->ai_addr, entry->ai_addrlen);
        const auto& known = lookup.addresses;
        if (!address.empty() && std::find(known.begin(), known.end(), address) == known.end())
            lookup.addresses.push_back(address);
    }
}

NameLookup look_up(const HostName& host) {
    NameLookup lookup{host, {}, {}};
    if (is_numeric(host.name)) {
        lookup.addresses.push_back(host.name);
        return lookup;
    }
    resolve(host.name, lookup);
    if (!lookup.addresses.empty() || !host.ask_slurm)
        return lookup;
    const std::string known_as = slurm_node_address(host.name, Deadline::after(kSlurmLookupTime));
    if (!known_as.empty() && known_as != host.name)
        resolve(known_as, lookup);
    return lookup;
}

std::string interface_of(const std::string& own_address) {
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0)
        return {};
    const InterfaceList interfaces(first, &::freeifaddrs);
    for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
        const sockaddr* address = entry->ifa_addr;
        if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
            continue;
        if (numeric(address, size_of(address)) == own_address)
            return entry->ifa_name;
    }
    return {};
}

}  // namespace

void HostLookup::start(std::vector<HostName> hosts, Handler on_done) {
    cancel();
    wanted_ = std::make_shared<bool>(true);
    const auto hand_over = [wanted = wanted_,
                            on_done = std::move(on_done)](std::vector<NameLookup>&& found) {
        if (std::exchange(*wanted, false))
            on_done(std::move(found));
    };
    const auto found = std::make_shared<std::vector<NameLookup>>();
    if (std::all_of(hosts.begin(), hosts.end(),
                    [](const HostName& host) { return is_numeric(host.name); })) {
        for (const auto& host : hosts)
            found->push_back(look_up(host));
        asio::post(io_, [hand_over, found] { hand_over(std::move(*found)); });
        return;
    }
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        throw SystemError(errno, "make a pipe");
    ended_.assign(ends[0]);
    start_detached([found, hosts = std::move(hosts), end = std::make_shared<UniqueFd>(ends[1])] {
        for (const auto& host : hosts)
            found->push_back(look_up(host));
        const char over = 0;
        while (::write(end->get(), &over, 1) < 0 && errno == EINTR) {
        }
    });
    const auto over = std::make_shared<char>();
    ended_.async_read_some(asio::buffer(over.get(), 1),
                           [hand_over, found, over](const asio::error_code& error, std::size_t) {
                               if (error != asio::error::operation_aborted)
                                   hand_over(std::move(*found));
                           });
}

void HostLookup::cancel() {
    if (wanted_)
        *wanted_ = false;
    asio::error_code ignored;
    if (ended_.is_open())
        ended_.close(ignored);
}

std::vector<std::string> own_addresses() {
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0)
        return {};
    const InterfaceList interfaces(first, &::freeifaddrs);
    std::vector<std::string> addresses;
    for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
        const sockaddr* address = entry->ifa_addr;
        if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
            continue;
        if ((entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        addresses.push_back(numeric(address, size_of(address)) + " (" + entry->ifa_name + ")");
    }
    return addresses;
}

bool is_own_address(const std::string& address) {
    if (address.starts_with("127.") || address == "::1")
        return true;
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0)
        return false;
    const InterfaceList interfaces(first, &::freeifaddrs);
    for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
        const sockaddr* own = entry->ifa_addr;
        if (own == nullptr || (own->sa_family != AF_INET && own->sa_family != AF_INET6))
            continue;
        if (numeric(own, size_of(own)) == address)
            return true;
    }
    return false;
}

// Connecting a datagram socket sends nothing: the kernel only chooses the way.
std::string route_to(const std::string& address) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_DGRAM;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (::getaddrinfo(address.c_str(), "9", &hints, &found) != 0)
        return {};
    const AddressList target(found, &::freeaddrinfo);
    const UniqueFd socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket || ::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0)
        return {};
    sockaddr_storage own{};
    socklen_t bytes = sizeof own;
    if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &bytes) != 0)
        return {};
    const std::string from = numeric(reinterpret_cast<const sockaddr*>(&own), bytes);
    const std::string interface = interface_of(from);
    return interface.empty() ? from : interface + ", " + from;
}

}  // namespace autolaunch::launcher

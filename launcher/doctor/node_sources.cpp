#include "doctor/node_sources.hpp"

#include "base/hostname.hpp"
#include "base/user_database.hpp"
#include "nccl_env/nccl_conf.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <memory>
#include <thread>

namespace autolaunch::launcher {

namespace {

// Counters of a bad link rise many times a second.
constexpr auto kCounterInterval = std::chrono::milliseconds(1000);
constexpr std::size_t kMostPeers = 16;

std::optional<rlimit> read_limit(int resource) {
    rlimit limit{};
    if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0)
        return std::nullopt;
    return limit;
}

void note_address(const sockaddr* address, ResolvedName& into) {
    if (address->sa_family == AF_INET) {
        into.ipv4 = true;
        const auto* v4 = reinterpret_cast<const sockaddr_in*>(static_cast<const void*>(address));
        if ((ntohl(v4->sin_addr.s_addr) >> 24) == 127)
            into.loopback = true;
    } else if (address->sa_family == AF_INET6) {
        into.ipv6 = true;
        const auto* v6 = reinterpret_cast<const sockaddr_in6*>(static_cast<const void*>(address));
        if (IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr))
            into.loopback = true;
    }
}

// Without AI_ADDRCONFIG: what the resolver knows counts, not what this host has.
ResolvedName resolve(const std::string& name) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    ResolvedName resolved;
    if (const int error = ::getaddrinfo(name.c_str(), nullptr, &hints, &list); error != 0) {
        resolved.error = ::gai_strerror(error);
        return resolved;
    }
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, &::freeaddrinfo);
    for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next)
        note_address(entry->ai_addr, resolved);
    return resolved;
}

}  // namespace

NodeSources local_sources(const EnvironmentMap& environment) {
    NodeSources sources;
    sources.environment = environment;
    sources.hostname = hostname();
    sources.home = own_user_record().home;
    sources.limit = read_limit;
    sources.resolve = resolve;
    sources.pause = [] { std::this_thread::sleep_for(kCounterInterval); };
    return sources;
}

std::vector<std::string> peers_to_resolve(const std::vector<std::string>& nodes, int self) {
    std::vector<std::string> peers;
    const std::size_t own = static_cast<std::size_t>(self);
    for (std::size_t step = 1; step < nodes.size() && peers.size() < kMostPeers; ++step)
        peers.push_back(nodes[(own + step) % nodes.size()]);
    if (nodes.size() > kMostPeers + 1 && self != 0 && own + kMostPeers < nodes.size())
        peers.push_back(nodes.front());
    return peers;
}

}  // namespace autolaunch::launcher

#include "rendezvous/head_claim.hpp"

#include "base/deadline.hpp"
#include "base/hash.hpp"
#include "control/rendezvous_error.hpp"
#include "exit_codes/exit_codes.hpp"
#include "rendezvous/host_lookup.hpp"

#include <autolaunch/error.hpp>

#include <asio/io_context.hpp>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

constexpr std::chrono::seconds kLookupTime{10};
constexpr std::chrono::seconds kListenTime{1};
constexpr std::chrono::milliseconds kPause{1};
constexpr int kNames = 16;

std::string without_domain(const std::string& name) { return name.substr(0, name.find('.')); }

bool is_same_host(const std::string& name, const std::string& hostname) {
    const bool either_is_short =
        name.find('.') == std::string::npos || hostname.find('.') == std::string::npos;
    return name == "localhost" || name == hostname ||
           (either_is_short && without_domain(name) == without_domain(hostname));
}

bool is_here(const std::string& host, const std::string& hostname) {
    if (is_same_host(host, hostname))
        return true;
    bool here = false;
    asio::io_context io{1};
    HostLookup lookup(io);
    lookup.start({{host, "where the nodes meet", false}}, [&](std::vector<NameLookup>&& found) {
        for (const NameLookup& name : found)
            here = here || std::any_of(name.addresses.begin(), name.addresses.end(),
                                       [](const auto& a) { return is_own_address(a); });
        io.stop();
    });
    io.run_for(kLookupTime);
    lookup.cancel();
    return here;
}

struct AbstractName {
    explicit AbstractName(const std::string& name)
        : bytes(static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) {
        value.sun_family = AF_UNIX;
        std::copy(name.begin(), name.end(), value.sun_path + 1);
    }
    const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&value); }

    sockaddr_un value{};
    socklen_t bytes;
};

UniqueFd open_socket(int flags = 0) {
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
    if (!socket)
        throw SystemError(errno, "open a socket");
    return socket;
}

// In the abstract namespace, where a name is gone with its owner. Empty: another has it. It
// listens, so that the kernel tells others whose it is; nobody is ever accepted.
UniqueFd hold_name(const std::string& name) {
    UniqueFd socket = open_socket();
    const AbstractName at(name);
    if (::bind(socket.get(), at.address(), at.bytes) == 0) {
        if (::listen(socket.get(), SOMAXCONN) != 0)
            throw SystemError(errno, "listen at @" + name);
        return socket;
    }
    if (errno != EADDRINUSE)
        throw SystemError(errno, "claim @" + name);
    return {};
}

enum class Holder { our_user, another_user, nobody_listens, unknown };

Holder holder_of(const std::string& name) {
    const UniqueFd socket = open_socket(SOCK_NONBLOCK);
    const AbstractName at(name);
    if (::connect(socket.get(), at.address(), at.bytes) != 0)
        return errno == ECONNREFUSED ? Holder::nobody_listens : Holder::unknown;
    ucred peer{};
    socklen_t bytes = sizeof peer;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
        throw SystemError(errno, "ask who holds @" + name);
    return peer.uid == ::geteuid() ? Holder::our_user : Holder::another_user;
}

/// Held by us, or empty: by another agent of our user. nullopt: another user has it, as anybody
/// may.
std::optional<UniqueFd> claim_name(const std::string& name) {
    const Deadline listens = Deadline::after(kListenTime);
    for (;;) {
        UniqueFd held = hold_name(name);
        if (held)
            return held;
        const Holder holder = holder_of(name);
        if (holder == Holder::our_user)
            return UniqueFd();
        // Ours listen as soon as they have it; it may also have ended meanwhile.
        if (holder == Holder::another_user || listens.passed())
            return std::nullopt;
        if (holder == Holder::unknown)
            throw RendezvousError(exit_code::kUnavailable,
                                  "the kernel does not tell whose the name @" + name +
                                      " is, by which the agents of this machine agree on the head",
                                  "too many have connected to it; `ss -xp | grep " + name +
                                      "` shows who; --node-rank numbers nodes without it");
        std::this_thread::sleep_for(kPause);
    }
}

/// The first of the names that no other user has.
UniqueFd claim_one_of(const std::string& name) {
    for (int i = 0; i < kNames; ++i) {
        if (auto claimed = claim_name(i == 0 ? name : name + "/" + std::to_string(i)))
            return std::move(*claimed);
    }
    throw RendezvousError(exit_code::kUnavailable,
                          "other users of this machine hold the names by which its agents agree on "
                          "the head: @" +
                              name + " and so on",
                          "`ss -xp | grep " + name + "` shows who; another --rdzv-id has others");
}

}  // namespace

HeadClaim claim_head(const std::string& meeting_place, std::optional<bool> is_host,
                     const std::string& hostname, const JobIdentity& identity) {
    if (!(is_host ? *is_host : is_here(meeting_place, hostname)))
        return {};
    UniqueFd held = claim_one_of("autolaunch/" + std::to_string(::geteuid()) + "/head/" +
                                 hex64(hash64(identity.name.data(), identity.name.size())));
    const bool first = static_cast<bool>(held);
    return {first, std::move(held)};
}

}  // namespace autolaunch::launcher

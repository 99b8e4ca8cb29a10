#pragma once
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A name under which a host may be found.
struct HostName {
    std::string name;        ///< or a numeric address
    std::string meaning;     ///< "the first node of the job": for people
    bool ask_slurm = false;  ///< where the resolver does not know it
    bool operator==(const HostName&) const = default;
};

/// What it resolved to.
struct NameLookup {
    HostName host;
    std::vector<std::string> addresses;  ///< numeric, in the resolver's order
    std::string error;                   ///< where there are none
};

/// Looks names up without holding up the event loop. The resolver keeps its own time, which may be
/// minutes, and cannot be interrupted: it runs on a thread that is left behind when nobody waits
/// for it any more, and which shares nothing with us but the result. Numeric addresses need no
/// thread.
///
/// Owner: one search. Threads: the one that runs the context. Blocks: never.
class HostLookup {
public:
    using Handler = std::function<void(std::vector<NameLookup>&&)>;

    explicit HostLookup(asio::io_context& io) : io_(io), ended_(io) {}

    /// Calls `on_done` from the event loop. A look-up before it that has not ended is forgotten.
    void start(std::vector<HostName> hosts, Handler on_done);
    /// `on_done` will not be called.
    void cancel();

private:
    asio::io_context& io_;
    asio::posix::stream_descriptor ended_;
    std::shared_ptr<bool> wanted_;
};

/// "10.0.0.1 (eth0)" of every address of this machine that others may reach, loopback left out.
std::vector<std::string> own_addresses();
/// `address` is one of this machine's, loopback too. Numeric.
bool is_own_address(const std::string& address);
/// "eth0, 10.0.0.5": the interface and address from which `address` is reached; empty when there is
/// no route.
std::string route_to(const std::string& address);

}  // namespace autolaunch::launcher

#pragma once
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace autolaunch::launcher {

/// Where the head waits for the nodes: the first free one of the job's ports, on every address of
/// this machine.
///
/// Owner: HeadJoin. Threads: the one that runs the context. Blocks: never. Takes all who wait at
/// once, since the kernel's queue is short beside a large job.
class HeadListener {
public:
    using Handler = std::function<void(asio::ip::tcp::socket)>;

    /// Listens when it returns. Throws RendezvousError when no port is free.
    HeadListener(asio::io_context& io, const std::vector<std::uint16_t>& ports, Handler on_accept);
    HeadListener(const HeadListener&) = delete;
    HeadListener& operator=(const HeadListener&) = delete;
    ~HeadListener();

    std::uint16_t port() const;
    bool ipv4_only() const;  ///< this machine has no IPv6

private:
    class Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace autolaunch::launcher

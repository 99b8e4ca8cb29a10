#pragma once
#include "store/protocol.hpp"

#include <autolaunch/export.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <asio/io_context.hpp>

namespace autolaunch {

struct StoreServerOptions {
    std::string address = "127.0.0.1";  ///< numeric: 127.0.0.1, 0.0.0.0, ::1, or :: for IPv4 and IPv6
    std::uint16_t port = 0;             ///< 0: the kernel picks one
    store::Limits limits;
};

/// A key-value store that PyTorch's and our own clients talk to (docs/store-protocol.md). It listens when the
/// constructor returns, so the port can be published at once.
///
/// Owner: the launcher's agent, or HostedStore. Threads: only the one that runs `context`. Blocks: never; a waiting
/// client costs a table entry. A client that sends garbage, asks for too much or breaks off loses its connection and
/// nobody else notices; one that does not read its replies is not read from either.
class AUTOLAUNCH_API StoreServer {
public:
    /// Throws SystemError when the address cannot be bound.
    StoreServer(asio::io_context& context, const StoreServerOptions& options);
    StoreServer(const StoreServer&) = delete;
    StoreServer& operator=(const StoreServer&) = delete;
    /// Closes every connection. The context may go on.
    ~StoreServer();

    std::uint16_t port() const;
    std::size_t connection_count() const;
    std::size_t key_count() const;

private:
    class Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace autolaunch

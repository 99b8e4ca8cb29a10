#pragma once
#include "store/backend.hpp"
#include "store/protocol.hpp"
#include "store/table_service.hpp"

#include <autolaunch/export.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <asio/io_context.hpp>

namespace autolaunch {

struct StoreServerOptions {
    std::string address =
        "127.0.0.1";         ///< numeric: 127.0.0.1, 0.0.0.0, ::1, or :: for IPv4 and IPv6
    std::uint16_t port = 0;  ///< 0: the kernel picks one
    store::Limits limits;
};

/// A key-value store that PyTorch's and our own clients talk to (docs/store-protocol.md). It
/// listens when the constructor returns, so the port can be published at once.
///
/// Owner: the launcher's agent, or HostedStore. Threads: only the one that runs `context`. Blocks:
/// never; a waiting client costs a table entry. A client that sends garbage, asks for too much or
/// breaks off loses its connection and nobody else notices; one that does not read its replies is
/// not read from either.
class AUTOLAUNCH_API StoreServer {
public:
    /// With a table of its own. Throws SystemError when the address cannot be bound.
    StoreServer(asio::io_context& context, const StoreServerOptions& options);
    /// For a backend that no other server has.
    StoreServer(asio::io_context& context, const StoreServerOptions& options,
                std::shared_ptr<store::Backend> backend);
    StoreServer(const StoreServer&) = delete;
    StoreServer& operator=(const StoreServer&) = delete;
    /// Closes every connection. The context may go on.
    ~StoreServer();

    std::uint16_t port() const;
    std::size_t connection_count() const;
    /// Nothing where another backend answers.
    const std::shared_ptr<store::TableService>& table() const { return table_; }

private:
    class Impl;
    std::shared_ptr<store::TableService> table_;
    std::shared_ptr<Impl> impl_;
};

/// The address to listen on for every way into this machine: "::", or "0.0.0.0" where there is no
/// IPv6.
AUTOLAUNCH_API std::string every_address();

}  // namespace autolaunch

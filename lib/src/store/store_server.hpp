#pragma once
#include "base/socket_owner.hpp"
#include "store/backend.hpp"
#include "store/budget.hpp"
#include "store/protocol.hpp"
#include "store/table_service.hpp"

#include <autolaunch/export.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <asio/io_context.hpp>

namespace autolaunch {

struct StoreServerOptions {
    std::string address =
        "127.0.0.1";         ///< numeric: 127.0.0.1, 0.0.0.0, ::1, or :: for IPv4 and IPv6
    std::uint16_t port = 0;  ///< 0: the kernel picks one
    store::Limits limits;
    /// Clients at a time; further ones are disconnected.
    std::size_t most_connections = 65536;
    std::size_t most_connections_of_address = 65536;  ///< of one that is not this machine's
    /// Keys below "/autolaunch/" belong to who knows it (TableService). Empty: to everybody.
    std::string token = {};

    /// From this machine only processes of our own user may connect: the kernel says whose they are
    /// (base/socket_owner.hpp), and PyTorch's clients need to know nothing of it. A connection from
    /// elsewhere is for this function to decide, at once or later, as seen from here; until then
    /// nothing is read of it. Without it nobody may come from elsewhere.
    using Verdict = std::function<void(bool admitted)>;
    std::function<void(const TcpEnds& ends, Verdict verdict)> admit_from_elsewhere = {};
    /// Hears why clients are turned away or disconnected, once for each reason.
    std::function<void(const std::string& what, const std::string& hint)> on_refusal = {};
    /// Gives memory back to the system (malloc_trim(3)) when much is free again. For a process
    /// whose own business is small.
    bool trims_memory = false;
};

/// A key-value store that PyTorch's and our own clients talk to (docs/store-protocol.md). It
/// listens when the constructor returns, so the port can be published at once.
///
/// Owner: the launcher's agent, or HostedStore. Threads: only the one that runs `context`. Blocks:
/// never; a waiting client costs a table entry. A client that sends garbage, asks for too much or
/// breaks off loses its connection and nobody else notices; one that does not read its replies is
/// not read from either. An idle client costs about a kilobyte, and all of them together no more
/// than limits.table_bytes.
class AUTOLAUNCH_API StoreServer {
public:
    /// With a table of its own. Throws SystemError when the address cannot be bound.
    StoreServer(asio::io_context& context, const StoreServerOptions& options);
    /// For a backend that no other server has, and the budget that it takes from, too.
    StoreServer(asio::io_context& context, const StoreServerOptions& options,
                std::shared_ptr<store::Backend> backend, std::shared_ptr<store::Budget> budget);
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

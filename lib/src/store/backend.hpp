#pragma once
#include "store/protocol.hpp"

#include <autolaunch/export.hpp>

#include <cstdint>
#include <string_view>

namespace autolaunch::store {

/// Who answers the requests that a StoreServer's clients send: the table itself, or a relay to the
/// node that has it.
///
/// Owner: shared by the server and who made it. Threads: the server's one. Blocks: never.
class AUTOLAUNCH_API Backend {
public:
    using Client = std::uint64_t;

    /// The server, as its backend sees it. All may be called at any time, also from within
    /// request().
    class Server {
    public:
        /// Also of no bytes, where that is the reply.
        virtual void reply(Client client, std::string_view bytes) = 0;
        /// Disconnects the client: the protocol has no reply for a bad request. leave() is called
        /// for it.
        virtual void drop(Client client) = 0;
        virtual void drop_all() = 0;
        /// takes_request_of() may have become true for any client.
        virtual void go_on() = 0;

    protected:
        ~Server() = default;
    };

    virtual ~Backend() = default;
    /// Before everything else; nullptr when the server goes.
    virtual void attach(Server* server) = 0;
    virtual Client join() = 0;
    virtual void leave(Client client) = 0;
    /// False while the client must wait: its next request is not read then. A reply to it makes the
    /// server ask again.
    virtual bool takes_request_of(Client client) const = 0;
    /// Throws Error{corrupt} for what no reply exists for: the client is disconnected.
    virtual void request(Client client, Request&& request) = 0;
};

}  // namespace autolaunch::store

#pragma once
#include <autolaunch/session.hpp>

#include <cstdint>
#include <map>
#include <string>

namespace autolaunch::session {

/// Where the job's store is, and who serves it.
struct StorePlace {
    enum class Server {
        self,         ///< one rank: its own
        agent,        ///< the launcher, at host and port
        rank0,        ///< rank 0, at host and port
        rank0_here,   ///< rank 0, on a free port of this node
        unreachable,  ///< nobody could say where it is
    };
    Server server = Server::unreachable;
    std::string host;
    std::uint16_t port = 0;
};

/// Pure. AUTOLAUNCH_STORE comes first, where autolaunch started us. Throws Error{invalid_argument}
/// naming the variable that is no address.
StorePlace store_place(const RankInfo& info, const std::map<std::string, std::string>& environment);

}  // namespace autolaunch::session

#pragma once
#include "plan/launch_plan.hpp"
#include "session/agent_socket.hpp"
#include "store/store_server.hpp"

#include <asio/io_context.hpp>

#include <filesystem>
#include <memory>

namespace autolaunch::launcher {

/// What the ranks of one generation connect to, listening already.
struct GenerationSockets {
    std::unique_ptr<StoreServer> store;
    std::unique_ptr<SessionServer> session;
    GenerationFacts facts;
};

/// Where the nodes of a job meet: opens what each generation needs, on fresh sockets, so that nothing of an earlier one
/// can answer. Bind first, publish after: ports and paths are known only once they listen.
///
/// Owner: the agent of each node. Threads: the agent's one. Blocks: open(), on looking up a host name that the user
/// gave as the master address.
class Coordinator {
public:
    /// `socket_directory`: a folder that only this user may enter, with a short path.
    Coordinator(const LaunchPlan& plan, std::filesystem::path socket_directory);

    /// Throws Error with a hint: an address that is not ours, a port that is taken.
    GenerationSockets open(asio::io_context& io, int generation, SessionServer::Callback on_message);

private:
    const LaunchPlan& plan_;
    std::filesystem::path socket_directory_;
};

/// The address that ranks are told: --master-addr, --local-addr, or the loopback.
std::string master_address(const JobSpec& spec);
/// The numeric address to listen on for it. Throws Error{invalid_argument} when it has none.
std::string listening_address(const std::string& address);

}  // namespace autolaunch::launcher

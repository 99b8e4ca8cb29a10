#include "session/store_place.hpp"

#include "base/environment.hpp"
#include "base/text.hpp"
#include "session/environment.hpp"

#include <autolaunch/error.hpp>

namespace autolaunch::session {
namespace {

using Server = StorePlace::Server;

bool parse_port(const std::string& text, std::uint16_t& port) {
    long long number = 0;
    if (!parse_integer(text, number) || number <= 0 || number > 65535)
        return false;
    port = static_cast<std::uint16_t>(number);
    return true;
}

/// "host:port", "[::1]:port".
StorePlace agent_at(const std::string& address) {
    StorePlace place{Server::agent, {}, 0};
    const std::size_t colon = address.rfind(':');
    if (colon != std::string::npos)
        place.host = address.substr(0, colon);
    if (place.host.size() > 2 && place.host.front() == '[' && place.host.back() == ']')
        place.host = place.host.substr(1, place.host.size() - 2);
    if (!place.host.empty() && parse_port(address.substr(colon + 1), place.port))
        return place;
    throw Error(ErrorCode::invalid_argument,
                std::string(env::kStore) + "=" + address + " is not host:port",
                "the launcher sets it; without it the store at MASTER_ADDR is used");
}

}  // namespace

StorePlace store_place(const RankInfo& info, const Environment& environment) {
    const std::string of_this_node = value_of(environment, env::kStore);
    if (info.launched_by == LaunchedBy::autolaunch && !of_this_node.empty())
        return agent_at(of_this_node);

    const std::string host = value_of(environment, env::kMasterAddr);
    const std::string port = value_of(environment, env::kMasterPort);
    const std::string agent_store = value_of(environment, env::kUseAgentStore);
    const bool has_address = !host.empty() && !port.empty();
    const bool of_agent = has_address && (agent_store == "True" || agent_store == "1");
    if (!of_agent && info.world_size == 1)
        return {Server::self, {}, 0};
    if (!has_address)
        return {info.node_count == 1 ? Server::rank0_here : Server::unreachable, {}, 0};
    StorePlace place{of_agent ? Server::agent : Server::rank0, host, 0};
    if (parse_port(port, place.port))
        return place;
    throw Error(ErrorCode::invalid_argument, "MASTER_PORT=" + port + " is not a port",
                "the launcher sets MASTER_ADDR and MASTER_PORT together");
}

}  // namespace autolaunch::session

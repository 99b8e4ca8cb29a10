#include "rank_services/coordinator.hpp"

#include "base/deadline.hpp"
#include "store/connection.hpp"

#include <autolaunch/error.hpp>

#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr char kLoopback[] = "127.0.0.1";

// The other nodes hear nothing from the head meanwhile, and believe it lost after 10 s.
constexpr auto kLookUpTime = std::chrono::seconds(5);

// The numeric form of a name or an address.
std::string resolve(const std::string& address) {
    try {
        return store::numeric_address(address, Deadline::after(kLookUpTime));
    } catch (const Error& error) {
        throw Error(ErrorCode::invalid_argument,
                    "the master address cannot be resolved: " + std::string(error.what()),
                    "leave --master-addr and --rdzv-endpoint out: inside one machine or one Slurm "
                    "job nothing needs them");
    }
}

bool is_loopback(const std::string& numeric) {
    return numeric.starts_with("127.") || numeric == "::1";
}

std::unique_ptr<StoreServer> open_store(asio::io_context& io, const StoreServerOptions& options) {
    try {
        return std::make_unique<StoreServer>(io, options);
    } catch (const SystemError& error) {
        std::string hint = error.hint();
        if (error.error_number() == EADDRINUSE)
            hint = "leave --master-port out, and a free port is taken";
        if (error.error_number() == EADDRNOTAVAIL)
            hint = "the master address must be one of this machine's";
        throw SystemError(error.error_number(),
                          "listen on " + options.address + " port " + std::to_string(options.port),
                          hint);
    }
}

}  // namespace

Coordinator::Coordinator(const LaunchPlan& plan, SocketDirectory& sockets, std::string head_address)
    : plan_(plan), sockets_(sockets), head_address_(std::move(head_address)) {}

MasterStore Coordinator::open_store(asio::io_context& io, Member& member, int generation) const {
    const MasterAddress address = master_address(plan_.spec, head_address_);
    StoreServerOptions options;
    options.address = address.listen;
    options.port = static_cast<std::uint16_t>(plan_.spec.rendezvous.port);
    MasterStore store{launcher::open_store(io, options), nullptr, address.told};
    if (member.node_count() > 1)
        store.relays =
            std::make_unique<StoreRelayHead>(io, member, generation, store.server->table());
    return store;
}

GenerationSockets Coordinator::open(asio::io_context& io, Member& member,
                                    const control::StartGeneration& start,
                                    SessionServer::Callback on_message) const {
    GenerationSockets sockets;
    const std::filesystem::path before = sockets_.path();
    if (sockets_.restore())
        sockets.warning = "the folder for sockets, " + before.string() +
                          ", was removed while the job ran; it is now " + sockets_.path().string();
    const auto path = sockets_.path() / ("agent-" + std::to_string(start.generation));
    sockets.session = std::make_unique<SessionServer>(io, path, std::move(on_message));
    sockets.facts.generation = start.generation;
    sockets.facts.master_addr = start.master_address;
    sockets.facts.master_port = start.master_port;
    if (member.node_rank() > 0) {
        sockets.store_relay =
            std::make_unique<StoreRelay>(io, member, start.generation, StoreServerOptions{});
        sockets.facts.store_address = store::join_host_port(kLoopback, sockets.store_relay->port());
    } else {
        sockets.facts.store_address =
            store::join_host_port(start.master_address, start.master_port);
    }
    if (plan_.spec.rendezvous.store == "node" && sockets.store_relay) {
        sockets.facts.master_addr = kLoopback;
        sockets.facts.master_port = sockets.store_relay->port();
    }
    sockets.facts.socket_path = path;
    sockets.facts.run_dir = plan_.run_dir;
    return sockets;
}

MasterAddress master_address(const JobSpec& spec, const std::string& head_address) {
    const std::string& given = spec.rendezvous.address;
    if (given.empty() && !head_address.empty())
        return {head_address, head_address};
    const std::string told = !given.empty()            ? given
                             : spec.local_addr.empty() ? "127.0.0.1"
                                                       : spec.local_addr;
    const std::string listen = resolve(told);
    if (!head_address.empty() && is_loopback(listen) && !is_loopback(head_address))
        return {head_address, head_address};
    return {told, listen};
}

}  // namespace autolaunch::launcher

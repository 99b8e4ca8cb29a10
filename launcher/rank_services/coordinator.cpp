#include "rank_services/coordinator.hpp"

#include "base/deadline.hpp"
#include "base/file_limit.hpp"
#include "base/hash.hpp"
#include "store/connection.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
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

store::Limits store_limits(const RendezvousSpec& spec) {
    store::Limits limits;
    if (spec.store_limit_bytes)
        limits.table_bytes = static_cast<std::size_t>(*spec.store_limit_bytes);
    // What one client asks or is answered leaves room for the others.
    limits.request_bytes = std::min(limits.request_bytes, limits.table_bytes / 3);
    limits.reply_bytes = std::min(limits.reply_bytes, limits.table_bytes / 3);
    limits.value_bytes = std::min(limits.value_bytes, limits.request_bytes);
    return limits;
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

StoreServerOptions Coordinator::store_options(Member& member, int ranks) const {
    constexpr std::size_t kOfRank = 128, kAlways = 256;
    const RendezvousSpec& spec = plan_.spec.rendezvous;
    StoreServerOptions options;
    options.limits = store_limits(spec);
    options.most_connections = static_cast<std::size_t>(spec.store_connections.value_or(
        static_cast<int>(kOfRank * static_cast<std::size_t>(ranks) + kAlways)));
    options.most_connections = std::min(options.most_connections, spare_files());
    options.trims_memory = true;
    options.on_refusal = [&member](const std::string& what, const std::string& hint) {
        member.report(control::NodeWarning{hint.empty() ? what : what + ". " + hint});
    };
    return options;
}

SessionServer::Options Coordinator::session_options(Member& member) const {
    constexpr std::size_t kMiB = std::size_t{1} << 20;
    const std::size_t ranks = plan_.ranks.size();
    SessionServer::Options options;
    options.connections = std::min(64 + 16 * ranks, spare_files());
    options.bytes = (8 + ranks) * kMiB;
    options.on_refusal = [&member](const std::string& what) {
        member.report(control::NodeWarning{what + ": look for what connects to it so often"});
    };
    return options;
}

MasterStore Coordinator::open_store(asio::io_context& io, Member& member, int generation) const {
    const bool is_given = !has_moved_ || plan_.spec.rendezvous.store == "node";
    const MasterAddress address = is_given ? master_address(plan_.spec, head_address_)
                                           : MasterAddress{head_address_, head_address_};
    const std::string& given = plan_.spec.rendezvous.address;
    if (generation == 0 && address.told == kLoopback && !given.empty() && given != kLoopback)
        member.report(control::NodeWarning{"the store is on " + std::string(kLoopback) +
                                           " alone, and not at " + given +
                                           ": nobody from another machine has to reach it"});
    StoreServerOptions options = store_options(member, plan_.world_size);
    options.address = address.listen;
    options.port = static_cast<std::uint16_t>(plan_.spec.rendezvous.port);
    options.token = random_hex(16);
    options.most_connections_of_address = (options.most_connections + 1) / 2;
    std::unique_ptr<ConnectionVouching> vouching;
    if (member.node_count() > 1 && plan_.spec.rendezvous.store != "node") {
        vouching = std::make_unique<ConnectionVouching>(io, member, generation);
        options.admit_from_elsewhere = [&asked = *vouching](const TcpEnds& ends, auto verdict) {
            asked.ask(ends, std::move(verdict));
        };
    }
    MasterStore store{std::move(vouching), launcher::open_store(io, options), nullptr, address.told,
                      options.token};
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
    sockets.session =
        std::make_unique<SessionServer>(io, path, std::move(on_message), session_options(member));
    sockets.facts.generation = start.generation;
    sockets.facts.master_addr = start.master_address;
    sockets.facts.master_port = start.master_port;
    sockets.facts.store_token = start.store_token;
    if (member.node_rank() != member.head_node()) {
        sockets.voucher = std::make_unique<ConnectionVoucher>(member, start.generation);
        sockets.store_relay = std::make_unique<StoreRelay>(
            io, member, start.generation,
            store_options(member, static_cast<int>(plan_.ranks.size())));
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
    if (given.empty() && spec.rendezvous.store == "node")
        return {kLoopback, kLoopback};
    if (given.empty() && !head_address.empty())
        return {head_address, head_address};
    const std::string told = !given.empty()            ? given
                             : spec.local_addr.empty() ? "127.0.0.1"
                                                       : spec.local_addr;
    const std::string listen = resolve(told);
    const bool only_here = head_address.empty() || spec.rendezvous.store == "node";
    if (only_here && !is_loopback(listen))
        return {kLoopback, kLoopback};
    if (!head_address.empty() && is_loopback(listen) && !is_loopback(head_address))
        return {head_address, head_address};
    return {told, listen};
}

}  // namespace autolaunch::launcher
